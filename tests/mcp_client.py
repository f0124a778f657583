"""Driving `longwatch mcp` as agents do: by the official client, or by lines of our own where a client would not."""

import asyncio
import contextlib
import itertools
import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import helpers

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


class Served:
    """A server with an official client connected to it."""

    def __init__(self, client: Client, pid: int, errors: Path) -> None:
        self.client = client
        self.pid = pid
        self._errors = errors

    @property
    def err(self) -> str:
        """What the server has written on stderr."""
        return self._errors.read_text()

    async def run(self, *argv: str, **given: Any) -> dict[str, Any]:
        """Have a command run; return its result, which came as an object and as the same in text."""
        result = await self.call({"argv": list(argv), **given})
        assert not result.is_error, result.content
        return found(result)

    async def call(self, arguments: dict[str, Any] | None, **options: Any) -> Any:
        """Call the tool with any arguments."""
        return await self.client.call_tool("run_command", arguments, **options)

    async def refusal(self, arguments: dict[str, Any] | None) -> str:
        """Call the tool with arguments that are refused; return what it says."""
        result = await self.call(arguments)
        assert result.is_error
        assert result.structured_content is None
        (block,) = result.content
        return str(block.text)


def found(result: Any) -> dict[str, Any]:
    """Return the object of a result, having compared it with its text."""
    (block,) = result.content
    assert json.loads(block.text) == result.structured_content
    return dict(result.structured_content)


@contextlib.asynccontextmanager
async def served(
    *flags: str | Path, mode: str = "auto", argv: Sequence[str | Path] = (), **options: Any
) -> AsyncIterator[Served]:
    """Start a server and connect to it. `argv` replaces the command, `env` changes its environment."""
    program, *words = [*(argv or (helpers.LONGWATCH, "mcp")), *flags]
    environ = helpers.environment(options.pop("env", None))
    started = StdioServerParameters(command=str(program), args=list(map(str, words)), env=environ, **options)
    errors = Path(os.environ["HOME"]) / "mcp.err"
    before = set(helpers.children(os.getpid()))
    with errors.open("w") as errlog:
        async with Client(stdio_client(started, errlog), mode=mode) as client:
            (pid,) = set(helpers.children(os.getpid())) - before
            yield Served(client, pid, errors)


def through(story: Callable[[Served], Awaitable[None]], *flags: str | Path, **options: Any) -> None:
    """Play a story with a server that was started for it. What it raises is raised bare, not in the client's groups."""

    async def play() -> BaseException | None:
        async with served(*flags, **options) as server:
            try:
                await story(server)
            except Exception as error:  # noqa: BLE001 - raised below
                return error
        return None

    failed = asyncio.run(play())
    if failed is not None:
        raise failed


async def until(predicate: Callable[[], Any], what: str = "", deadline: float = 10.0) -> Any:
    """Wait in the event loop for a predicate's first true value."""
    return await asyncio.to_thread(helpers.wait_until, predicate, deadline, what)


class Raw:
    """A server spoken to in lines, without any client's good manners."""

    def __init__(self, process: "subprocess.Popen[bytes]", errors: Path) -> None:
        self.process = process
        self._errors = errors
        self._numbers = itertools.count(1)

    @property
    def err(self) -> str:
        """What the server has written on stderr."""
        return self._errors.read_text()

    def send(self, line: bytes) -> None:
        """Write bytes as they are."""
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request; return its id."""
        number = next(self._numbers)
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}}
        self.send(json.dumps(request).encode() + b"\n")
        return number

    def run(self, *argv: str, **given: Any) -> int:
        """Ask for a command to be run; return the request's id."""
        return self.ask("tools/call", {"name": "run_command", "arguments": {"argv": list(argv), **given}})

    def read(self) -> dict[str, Any]:
        """Return the next message; every line that comes is one."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the server hung up: {self.err}"
        message: dict[str, Any] = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        return message

    def answer(self, number: int | None) -> dict[str, Any]:
        """Return the answer to a request; what else comes before it is read over."""
        while (message := self.read()).get("id") != number or "method" in message:
            pass
        return message

    def hang_up(self) -> None:
        """End our side, as a client does that is done or dead."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    def finish(self, deadline: float = 10.0) -> int:
        """Wait for the server's end; return its status, negative for a signal."""
        return self.process.wait(deadline)


@contextlib.contextmanager
def raw(
    *flags: str | Path, greet: bool = True, argv: Sequence[str | Path] = (), **options: Any
) -> Iterator[Raw]:
    """Start a server and shake hands with it; at the end of the block it is hung up on, if it still runs."""
    command = [*(argv or (helpers.LONGWATCH, "mcp")), *flags]
    errors = Path(os.environ["HOME"]) / "mcp.err"
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE} | options
    with errors.open("wb") as stderr:
        process = subprocess.Popen(command, stderr=stderr, env=helpers.environment(), **options)
    with helpers.ending(process):
        server = Raw(process, errors)
        if greet:
            server.answer(server.ask("initialize", HELLO))
            server.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        yield server
        with contextlib.suppress(OSError):
            server.hang_up()
        server.finish()


def pids_in(path: Path, count: int = 1) -> list[int]:
    """Wait until a command has written so many process ids to a file; return them."""

    def written() -> list[int]:
        words = path.read_text().split() if path.exists() else []
        return [int(word) for word in words] if len(words) >= count else []

    return helpers.wait_until(written, what=f"{count} pids in {path}")
