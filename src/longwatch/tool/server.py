"""The MCP server: one tool, `run_command`, under limits that only a human can set. Needs the package `mcp`."""

import asyncio
import json
import signal
from collections.abc import Awaitable
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from longwatch import __version__
from longwatch.errors import UsageError
from longwatch.runtime import hosts_async  # noqa: F401 - a server loads nothing after its start
from longwatch.tool.command import MAX_BYTES, CommandTool, Live
from longwatch.tool.result import ToolResult
from longwatch.tool.roots import Refusal, Roots
from longwatch.tool.schema import INPUT, NAME, OUTPUT, Rules, Words, clean, describe, read
from longwatch.tool.stdio import Stdio
from longwatch.units import format_duration, format_size, shown

#: How often a client that asked for it hears how a command is doing, in seconds.
NOTE_EVERY = 5.0
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MAY_BE_IGNORED = (signal.SIGINT, signal.SIGHUP)

Context = ServerRequestContext[Any, Any]


def tool(rules: Rules, roots: Roots) -> types.Tool:
    """Return the tool as clients list it."""
    return types.Tool(
        name=NAME,
        title="Run a command",
        description=clean(describe(rules, roots)),
        input_schema=INPUT,
        output_schema=OUTPUT,
        annotations=types.ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=True),
    )


def answer(result: ToolResult) -> types.CallToolResult:
    """Return a result, as an object and as the same in text.

    A command that failed or that a limit stopped is a result like any other: the model is to read it. Only one that
    could not be started is an error.
    """
    found = clean(result.as_dict())
    text = json.dumps(found, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(text=text)],
        structured_content=found,
        is_error=result.termination_reason == "spawn_failed",
    )


def refused(problem: str) -> types.CallToolResult:
    """Return a refusal: an error of the tool, which the model sees, not one of the protocol."""
    return types.CallToolResult(content=[types.TextContent(text=clean(problem))], is_error=True)


class CommandServer:
    """The handlers of one connection."""

    def __init__(self, command: CommandTool, roots: Roots, rules: Rules) -> None:
        self._command = command
        self._roots = roots
        self._rules = rules
        self._tool = tool(rules, roots)

    def server(self) -> Server[Any]:
        """Return the package's server with our handlers."""
        return Server(
            "longwatch", version=__version__, on_list_tools=self._list_tools, on_call_tool=self._call_tool
        )

    async def _list_tools(self, ctx: Context, params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[self._tool])

    async def _call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name != NAME:
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {shown(params.name)} here, only {NAME}")
        try:
            words = read(params.arguments)
            with self._roots.open(words.cwd) as folder:
                return answer(await self._run(ctx, words, folder.path))
        except (Refusal, UsageError) as error:
            return refused(str(error))
        except OSError as error:
            # Such as too many open files: the model may try again later, so it is told.
            return refused(f"the command could not be run: {(error.strerror or str(error)).lower()}")

    async def _run(self, ctx: Context, words: Words, folder: str) -> ToolResult:
        notes = Notes(ctx, self._rules.timeout)
        running = self._command.run_async(words.argv, input=words.stdin, cwd=folder, began=notes.began)
        wanted = (ctx.meta or {}).get("progress_token") is not None
        telling = asyncio.ensure_future(notes.tell()) if wanted else None
        try:
            return await kept(running)
        finally:
            if telling is not None:
                telling.cancel()


async def kept(running: Awaitable[ToolResult]) -> ToolResult:
    """Await a run; when cancelled, cancel it once and see it stopped.

    The package cancels as anyio does, again on every turn of the loop, and a second cancellation would end the grace.
    """
    task = asyncio.ensure_future(running)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait({task})
        raise
    return task.result()


class Notes:
    """Says now and then how a command is doing, to a client that asked for it."""

    def __init__(self, ctx: Context, timeout: int) -> None:
        self._ctx = ctx
        self._total = timeout / 1000 or None
        self._live: Live | None = None

    def began(self, live: Live) -> None:
        """Take what there is to tell of."""
        self._live = live

    async def tell(self) -> None:
        """Tell until cancelled."""
        while True:
            await anyio.sleep(NOTE_EVERY)
            if self._live is not None:
                await self._ctx.session.report_progress(
                    self._live.elapsed_ms / 1000, self._total, progress(self._live)
                )


def progress(live: Live) -> str:
    """Return one line of progress."""
    silent = f"last output {format_duration(live.idle_ms)} ago" if live.bytes else "no output yet"
    return f"{format_duration(live.elapsed_ms)}, {format_size(live.bytes)}, {silent}"


def run(roots: Roots, rules: Rules) -> int | None:
    """Serve the client at our stdin and stdout until it hangs up or a signal ends us; return the signal.

    Every command is over then, with its whole tree. Whatever else is said in this process goes to stderr.
    """
    wire = Stdio()
    spans = {name: getattr(rules, name) / 1000 for name in ("timeout", "idle", "grace")}
    try:
        with CommandTool(**spans, max_bytes=rules.max_bytes) as command:
            return asyncio.run(serve(wire, CommandServer(command, roots, rules).server()))
    finally:
        wire.close()


async def serve(wire: Stdio, server: Server[Any]) -> int | None:
    """Serve one client; return the signal that ended it, if one did."""
    told: list[int] = []
    with anyio.CancelScope() as serving:

        def end(signum: int) -> None:
            told.append(signum)
            serving.cancel()

        for signum in _ENDING:
            if not _ignored(signum):
                asyncio.get_running_loop().add_signal_handler(signum, end, signum)
        async with wire.streams() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
    return told[0] if told else None


def _ignored(signum: int) -> bool:
    """What was ignored when we were started stays so, as under `nohup`."""
    return signum in _MAY_BE_IGNORED and signal.getsignal(signum) is signal.SIG_IGN


__all__ = ["MAX_BYTES", "CommandServer", "Rules", "answer", "refused", "run", "serve", "tool"]
