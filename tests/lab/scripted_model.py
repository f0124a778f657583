"""A scripted model for coding-agent CLIs: it plays a named scenario on loopback.

Four vendor APIs are spoken: Anthropic messages (also without streaming), OpenAI
responses, OpenAI chat completions, Gemini generateContent. Each request that offers
tools takes the next step of the scenario, whatever the conversation holds, so an agent
started again goes on where the script stands. Other requests get a short text.

    python scripted_model.py --list
    python scripted_model.py loop:100 --port 0 --log requests.jsonl
"""

import argparse
import json
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TextIO

# One scenario a line: its name, N's value unless given as "name:N", and its steps. What
# comes after the last step is answered with "say Done." The steps:
#   say TEXT          a text alone, which ends the turn
#   run COMMAND       a shell call, several in parallel when joined by " & "
#   mcp COMMAND       a call of an MCP server's tool run_command, with a shell's argv
#   delegate PROMPT   a call of a sub-agent, whose requests take the steps after it
#   error STATUS [S]  an HTTP error, with a retry-after of S seconds
#   limit S           a usage limit, which ends S seconds after it was first met
#   drip S            a text with S seconds before each event of the stream
#   mute              no answer at all
#   stall, pings, cut half a text, then silence, only comment lines, or a hang-up
#   K times STEP      the same step for K requests
SCENARIOS = """
basic                   run echo one | run echo two & exit 3 | error 529 | run cat /none
textonly                say Just talking.
hang:1                  run echo one | N times run tail -f /dev/null
silent-tool:60          run echo one | run python3 -c 'import time; time.sleep(N)'
loop:40                 N times run cat /dev/null
loop-failing:40         N times run cat /none
slow-drip:2             run echo one | drip N
stall-before-first-byte run echo one | mute | run echo two
stall-mid-stream        run echo one | stall | run echo two
stall-with-pings        run echo one | pings | run echo two
disconnect-mid-stream   run echo one | cut | run echo two
subagent                delegate count files | run echo inside | say Counted.
permission              run touch new_file
mcp-hang:600            mcp echo begun; sleep N
ratelimit:1             run echo one | 999 times error 429 N
ratelimit2:1            run echo one | 2 times error 429 N | run echo two
usage:7200              run echo one | limit N | run echo two
usage-reset:30          run echo one | limit N | run echo two
overloaded              run echo one | 999 times error 529
err500                  run echo one | 999 times error 500
badauth                 999 times error 401
"""
LONG_TEXT = "Now I am going to do the next step, as the script says."
SHELL_TOOLS = ("Bash", "bash", "exec_command", "run_shell_command")
AGENT_TOOLS = ("Agent", "task", "agent", "invoke_agent")
KINDS = {"agent_type": "task", "agent_name": "generalist", "subagent_type": "general"}
ERRORS = {  # kind, Gemini's name for it, message
    401: ("authentication_error", "UNAUTHENTICATED", "Invalid API key"),
    429: ("rate_limit_error", "RESOURCE_EXHAUSTED", "Rate limit exceeded"),
    500: ("api_error", "INTERNAL", "Internal server error"),
    529: ("overloaded_error", "UNAVAILABLE", "Overloaded"),
}
Json = dict[str, Any]
Calls = list[tuple[str, str, Json]]  # each an id, a tool's name, its arguments


def load(scenario: str) -> list[str]:
    """Return the steps of the scenario "name" or "name:N"."""
    name, _, number = scenario.partition(":")
    row = re.search(rf"^{re.escape(name)}(:\d+)? +(.*)", SCENARIOS, re.MULTILINE)
    if not row:
        raise SystemExit(f"unknown scenario {name!r}, see --list")
    steps = []
    for step in re.sub(r"\bN\b", number or (row[1] or "")[1:], row[2]).split(" | "):
        times, repeated, again = step.partition(" times ")
        steps += [again] * int(times) if repeated else [step]
    return [*steps, "say Done."]


def offered_tools(query: Json) -> dict[str, Json]:
    """Return the tools in a request, each with the schema of its arguments."""
    found: dict[str, Json] = {}
    for entry in query.get("tools") or []:
        # A namespace holds the tools of one MCP server.
        space = f"{entry['name']}/" if entry.get("type") == "namespace" else ""
        inner = entry.get("functionDeclarations") or (
            entry["tools"] if space else [entry.get("function", entry)]
        )
        for tool in inner:
            keys = ("input_schema", "parametersJsonSchema", "parameters")
            found[f"{space}{tool.get('name')}"] = next((tool[k] for k in keys if tool.get(k)), {})
    return found


def make_calls(verb: str, rest: str, tools: dict[str, Json]) -> Calls:
    """Call the shell or sub-agent tool with the arguments that it requires."""
    if verb == "mcp":
        # Each agent puts its own prefix before the tool's name.
        found = next((name for name in tools if name.endswith("run_command")), None)
        argv = {"argv": ["sh", "-c", rest]}
        return [(f"call_{time.time_ns()}", found, argv)] if found else []
    wanted = AGENT_TOOLS + SHELL_TOOLS if verb == "delegate" else SHELL_TOOLS
    name = next((name for name in wanted if name in tools), "")
    schema, calls = tools.get(name, {}), []
    for text in rest.split(" & ") if name and verb in ("run", "delegate") else []:
        values: Json = dict.fromkeys(schema.get("required", []), text)
        values |= {key: KINDS[key] for key in KINDS if key in values}
        if "run_in_background" in schema.get("properties", {}):
            values["run_in_background"] = False
        calls.append((f"call_{time.time_ns()}", name, values))
    return calls


def message(model: str, words: list[str], calls: Calls) -> Json:
    """Return a whole reply in Anthropic's messages API."""
    content: list[Json] = [{"type": "text", "text": "".join(words)}]
    for key, name, values in calls:
        content.append({"type": "tool_use", "id": key, "name": name, "input": values})
    reply: Json = {"id": f"msg_{time.time_ns()}", "type": "message", "model": model}
    reply |= {"role": "assistant", "usage": {"input_tokens": 10, "output_tokens": 5}}
    reply |= {"content": content, "stop_reason": "tool_use" if calls else "end_turn"}
    return reply


def anthropic(model: str, words: list[str], calls: Calls) -> Iterator[Json]:
    """Yield the same in pieces."""
    whole = message(model, words, calls)
    empty: Json = {"content": [], "stop_reason": None}
    yield {"type": "message_start", "message": whole | empty}
    deltas = [[{"type": "text_delta", "text": word} for word in words]]
    for *_, values in calls:
        text = json.dumps(values)
        deltas.append([{"type": "input_json_delta", "partial_json": text}])
    for index, block in enumerate(whole["content"]):
        block["input" if index else "text"] = {} if index else ""
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas[index]:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": whole["stop_reason"]}
    yield {"type": "message_delta", "delta": stop, "usage": whole["usage"]}
    yield {"type": "message_stop"}


def responses(model: str, words: list[str], calls: Calls) -> Iterator[Json]:
    """Yield a reply in OpenAI's responses API."""
    reply: Json = {"id": f"resp_{time.time_ns()}", "model": model, "output": []}
    yield {"type": "response.created", "response": reply}
    text = {"type": "output_text", "text": "".join(words), "annotations": []}
    items: list[Json] = [{"type": "message", "role": "assistant", "content": [text]}]
    for key, name, values in calls:
        call = {"type": "function_call", "id": f"fc_{key}", "call_id": key}
        space, _, bare = name.rpartition("/")
        call |= {"namespace": space} if space else {}
        items.append(call | {"name": bare, "arguments": json.dumps(values)})
    for item in items:
        yield {"type": "response.output_item.added", "item": item}
        for word in words if item is items[0] else []:
            yield {"type": "response.output_text.delta", "delta": word}
        yield {"type": "response.output_item.done", "item": item}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    reply |= {"status": "completed", "output": items, "usage": usage}
    yield {"type": "response.completed", "response": reply}


def chat(model: str, words: list[str], calls: Calls) -> Iterator[Json]:
    """Yield a reply in OpenAI's chat completions API."""
    base: Json = {"id": f"chat_{time.time_ns()}", "object": "chat.completion.chunk"}
    base |= {"created": int(time.time()), "model": model}
    deltas: list[Json] = [{"role": "assistant", "content": word} for word in words]
    for index, (key, name, values) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(values)}
        call = {"index": index, "id": key, "type": "function", "function": function}
        deltas.append({"tool_calls": [call]})
    for delta in deltas:
        yield base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    reason = "tool_calls" if calls else "stop"
    yield base | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    yield base | {"choices": [], "usage": usage}


def gemini(model: str, words: list[str], calls: Calls) -> Iterator[Json]:
    """Yield a reply in Gemini's generateContent API."""
    parts: list[Json] = [{"text": word} for word in words]
    for key, name, values in calls:
        parts.append({"functionCall": {"id": key, "name": name, "args": values}})
    for part in parts:
        answer: Json = {"content": {"role": "model", "parts": [part]}, "index": 0}
        answer |= {"finishReason": "STOP"} if part is parts[-1] else {}
        yield {"candidates": [answer], "modelVersion": model}


APIS = {  # by what is in the path of a request
    "/messages": anthropic,
    "/responses": responses,
    "/chat/completions": chat,
    "GenerateContent": gemini,
}


def failure(api: str, status: int, wait: int, reset: int = 0) -> tuple[Json, Json]:
    """Return the headers and body of an error, or of a usage limit until `reset`."""
    kind, label, text = ERRORS[status]
    wait = max(wait, reset + 1 - int(time.time()))
    headers: Json = {"retry-after": wait} if wait else {}
    error: Json = {"type": kind, "code": kind, "message": text}
    if api == "GenerateContent":
        error |= {"code": status, "status": label}
    if reset and api == "/messages":
        window = {"status": "rejected", "reset": reset, "5h-status": "rejected"}
        window |= {"5h-reset": reset, "representative-claim": "five_hour"}
        headers |= {f"anthropic-ratelimit-unified-{key}": window[key] for key in window}
    elif reset and api == "/responses":
        error |= {"type": "usage_limit_reached", "plan_type": "plus"}
        error |= {"resets_at": reset, "resets_in_seconds": wait}
    elif reset and api == "/chat/completions":
        error |= {"type": "insufficient_quota", "code": "insufficient_quota"}
    elif reset:
        rpc = "type.googleapis.com/google.rpc."
        quota = {"@type": f"{rpc}QuotaFailure", "violations": [{"quotaId": "PerDay"}]}
        retry = {"@type": f"{rpc}RetryInfo", "retryDelay": f"{wait}s"}
        error["details"] = [quota, retry]
    return headers, {"type": "error", "error": error}


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    server: "ScriptedModel"

    def log_message(self, *_: object) -> None:
        """Leave stderr alone."""

    def do_POST(self) -> None:
        """Answer a request with the scenario's next step."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)) or "{}")
        tools = offered_tools(body)
        api = next((part for part in APIS if part in self.path), "")
        counts = bool(api and tools)
        verb, _, rest = self.server.take(self.path, counts).partition(" ")
        if counts:
            self.server.asked.append(body)
        if not api:
            self.send_error(404)
        elif verb == "limit":
            self.send_json(429, *failure(api, 429, 0, int(self.server.reset_at)))
        elif verb == "error":
            status, wait = map(int, f"{rest} 0".split()[:2])
            unknown = status == 529 and api != "/messages"
            self.send_json(503 if unknown else status, *failure(api, status, wait))
        elif verb == "mute":
            self.hold(verb)
        else:
            words = re.findall(r"\S+\s*", rest if verb == "say" else LONG_TEXT)
            reply = body.get("model", ""), words, make_calls(verb, rest, tools)
            if api == "/messages" and not body.get("stream"):
                self.send_json(200, {}, message(*reply))
            else:
                self.stream([*APIS[api](*reply)], verb, rest)

    def send_json(self, status: int, headers: Json, body: Json) -> None:
        """Send a whole answer."""
        data = json.dumps(body).encode()
        headers |= {"content-type": "application/json", "content-length": len(data)}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(data)

    def send_chunk(self, data: bytes = b"") -> None:
        """Send a piece of a stream, or its end."""
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def stream(self, events: list[Json], verb: str, rest: str) -> None:
        """Send the events, or break off half-way."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for index, event in enumerate(events):
            if verb in ("stall", "pings", "cut") and index == len(events) // 2:
                self.hold(verb)
                return
            time.sleep(float(rest) if verb == "drip" else 0)
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.send_chunk(f"{name}data: {json.dumps(event)}\n\n".encode())
        if "choices" in events[-1]:
            self.send_chunk(b"data: [DONE]\n\n")
        self.send_chunk()

    def hold(self, verb: str) -> None:
        """Send nothing more until the client hangs up, or hang up at once."""
        self.close_connection = True
        while verb != "cut" and not select.select([self.connection], [], [], 1)[0]:
            if verb == "pings":
                self.send_chunk(b": ping\n\n")


class ScriptedModel(ThreadingHTTPServer):
    """The server, and where its scenario stands."""

    daemon_threads = True

    def __init__(self, scenario: str, port: int = 0, log: TextIO | None = None) -> None:
        """Bind a port (0: any free one) without serving yet."""
        super().__init__(("127.0.0.1", port), Handler)
        self.steps = load(scenario)
        self.reset_at = 0.0
        #: The requests that took a step.
        self.asked: list[Json] = []
        self._log = log
        self._lock = threading.Lock()

    def take(self, path: str, counts: bool) -> str:
        """Return the step for a request, and log it."""
        with self._lock:
            if counts and self.steps[0].startswith("limit "):
                self.reset_at = self.reset_at or time.time() + float(self.steps[0][6:])
                if time.time() >= self.reset_at:
                    del self.steps[0]
            step = self.steps[0] if counts else "say A title"
            if counts and not step.startswith("limit ") and len(self.steps) > 1:
                del self.steps[0]
            if self._log:
                fields = {"time": time.time(), "path": path, "step": step}
                print(json.dumps(fields), file=self._log, flush=True)
            return step

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing when a client has hung up."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


def main() -> None:
    """Serve a scenario until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenario", nargs="?", default="basic", help="NAME[:N]")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--log", type=argparse.FileType("w"), help="log of requests")
    parser.add_argument("--list", action="store_true", help="print the scenarios")
    options = parser.parse_args()
    if options.list:
        print(SCENARIOS.strip())
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit())
    with ScriptedModel(options.scenario, options.port, options.log) as model:
        print(model.server_port, flush=True)
        model.serve_forever()


if __name__ == "__main__":
    main()
