"""Agents of our own that do as they are told: programs with the names of known ones, and their ways of writing.

A fake agent is a Python program that is found by a name such as `claude`. It plays a part: writes records to where the
real one keeps them, prints, is silent, draws a spinner, starts a tool, ends. Nothing of it comes from a vendor.
"""

import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

Step = tuple[Any, ...]
Fields = dict[str, Any]

PLAYER = r"""
import json, os, subprocess, sys, time
from datetime import datetime, timezone

with open(os.environ["FAKE_PART"]) as file:
    steps = json.load(file)
held, children = {}, []

def stamped(record, place):
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.loads(json.dumps({"timestamp": now, **record}).replace("$CWD", os.getcwd()))

def append(path, text, keep):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    file = held.get(path) or open(path, "a")
    file.write(text)
    file.flush()
    if keep:
        held[path] = file
    else:
        file.close()

for what, *words in steps:
    if what == "record":
        path, record, keep = words
        append(path, json.dumps(stamped(record, path), separators=(",", ":")) + "\n", keep)
    elif what == "print":
        print(json.dumps(words[0]) if isinstance(words[0], dict) else words[0], flush=True)
    elif what == "say":
        print(words[0], file=sys.stderr, flush=True)
    elif what == "sleep":
        time.sleep(words[0])
    elif what == "draw":
        end, count = time.monotonic() + words[0], 0
        while time.monotonic() < end:
            count += 1
            sys.stdout.write("\r%s %s (%ds)" % ("|/-\\"[count % 4], words[1], count // 10))
            sys.stdout.flush()
            time.sleep(0.1)
    elif what == "register":
        path = words[0].replace("$PID", str(os.getpid()))
        start = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
        append(path, json.dumps({"pid": os.getpid(), "sessionId": words[1], "procStart": start}, separators=(",", ":")), False)
    elif what == "forget":
        os.unlink(words[0])
    elif what == "touch":
        open(words[0], "w").close()
    elif what == "await":
        while not os.path.exists(words[0]):
            time.sleep(0.02)
    elif what == "tool":
        children.append(subprocess.Popen(words[0], start_new_session=True))
    elif what == "wait":
        children.pop().wait()
    elif what == "exit":
        sys.exit(words[0])
"""


class Fake:
    """One agent to be: its program, its conversation, and the records that it will write, in the real layout."""

    def __init__(self, name: str, home: Path, work: Path | None = None) -> None:
        self.name = name
        self.home = home
        self.work = work or home / "work"
        self.work.mkdir(exist_ok=True)
        self.session = str(uuid.uuid4())
        self.program = home / "bin" / name
        self.program.parent.mkdir(exist_ok=True)
        self.program.write_text(f"#!{sys.executable}\n{PLAYER}")
        self.program.chmod(0o755)
        self._part = home / f"{self.session}.part"

    def part(self, *steps: Step | list[Step]) -> dict[str, str | None]:
        """Write down what it does; return the environment that tells it so."""
        flat = [step for item in steps for step in (item if isinstance(item, list) else [item])]
        self._part.write_text(json.dumps(flat))
        return {"FAKE_PART": str(self._part), "PATH": f"{self.program.parent}:{os.environ['PATH']}"}

    @property
    def file(self) -> Path:
        """Where it keeps its conversation."""
        slug = "".join(c if c.isalnum() else "-" for c in str(self.work))
        places = {
            "claude": f".claude/projects/{slug}/{self.session}.jsonl",
            "codex": f".codex/sessions/2030/01/02/rollout-2030-01-02T03-04-05-{self.session}.jsonl",
        }
        return self.home / places[self.name]

    def record(self, _path: Path | None = None, **fields: Any) -> Step:
        """Return the step of writing a record, stamped when it is written."""
        return ("record", str(_path or self.file), fields, self.name == "codex")


class Claude(Fake):
    """Claude Code: opens its file for each record, and notes in a registry which conversation a process has."""

    def __init__(self, home: Path, work: Path | None = None) -> None:
        super().__init__("claude", home, work)
        self._count = 0

    def begins(self) -> list[Step]:
        """Take up the conversation, and be spoken to."""
        registry = self.home / ".claude/sessions/$PID.json"
        return [("register", str(registry), self.session), self.told("Do the steps.")]

    def line(self, kind: str, _path: Path | None = None, **fields: Any) -> Step:
        """Write a record of a type."""
        self._count += 1
        common = {
            "type": kind,
            "sessionId": self.session,
            "cwd": "$CWD",
            "uuid": f"{self.session}-{self._count}",
        }
        return self.record(_path, **common, **fields)

    def told(self, text: str) -> Step:
        """Be spoken to."""
        return self.line("user", message={"role": "user", "content": text})

    def says(self, text: str = "On it.", stop: str | None = None, **more: Any) -> Step:
        """Let the model speak; `stop` is why it stops."""
        content = [{"type": "text", "text": text}]
        return self.line("assistant", message={"id": text, "content": content, "stop_reason": stop}, **more)

    def over(self) -> Step:
        """End the turn."""
        return self.says("Done.", "end_turn")

    def calls(self, call: str, tool: str = "Bash", **given: Any) -> Step:
        """Call a tool."""
        block = {"type": "tool_use", "id": call, "name": tool, "input": given}
        return self.line("assistant", message={"id": call, "content": [block], "stop_reason": None})

    def gets(self, call: str, text: str = "ok", *, ok: bool = True) -> Step:
        """Have the result of a call."""
        block = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": not ok}
        return self.line("user", message={"role": "user", "content": [block]})

    def helper(self, name: str, kind: str, **fields: Any) -> Step:
        """Write a record of a helper, into its own file."""
        path = self.file.with_suffix("") / "subagents" / f"agent-{name}.jsonl"
        return self.line(kind, path, isSidechain=True, agentId=name, **fields)

    def helper_says(self, name: str) -> Step:
        """Let a helper speak."""
        message = {
            "id": f"{name} {self._count}",
            "content": [{"type": "text", "text": "word"}],
            "stop_reason": None,
        }
        return self.helper(name, "assistant", message=message)


class Codex(Fake):
    """Codex CLI: keeps its rollout open."""

    def __init__(self, home: Path, work: Path | None = None) -> None:
        super().__init__("codex", home, work)

    def begins(self) -> list[Step]:
        """Begin a conversation and a turn."""
        meta = {"id": self.session, "cwd": "$CWD"}
        return [self.record(type="session_meta", payload=meta), self.message("task_started")]

    def message(self, kind: str, **fields: Any) -> Step:
        """Write a message."""
        return self.record(type="event_msg", payload={"type": kind, **fields})

    def says(self, text: str = "On it.") -> Step:
        """Let the model speak."""
        content = [{"type": "output_text", "text": text}]
        return self.record(
            type="response_item", payload={"type": "message", "role": "assistant", "content": content}
        )

    def calls(self, call: str, tool: str = "exec_command") -> Step:
        """Call a tool."""
        given = {"type": "function_call", "call_id": call, "name": tool, "arguments": '{"cmd":"make"}'}
        return self.record(type="response_item", payload=given)

    def gets(self, call: str, code: int = 0) -> Step:
        """Have the result of a call."""
        output = f"Process exited with code {code}\nOutput:\n"
        return self.record(
            type="response_item", payload={"type": "function_call_output", "call_id": call, "output": output}
        )

    def over(self) -> Step:
        """End the turn."""
        return self.message("task_complete")

    def streams(self, kind: str, **item: Any) -> Step:
        """Print a line of its stream."""
        return ("print", {"type": kind, **({"item": item} if item else {})})


def sleep(seconds: float) -> Step:
    """Be silent."""
    return ("sleep", seconds)


def hang() -> Step:
    """Be silent for ever."""
    return ("sleep", 60)
