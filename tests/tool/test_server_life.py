"""The server as a process: calls side by side, cancelled calls, floods, and clients that vanish."""

import asyncio
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import helpers
from longwatch.tool import stdio
from mcp_client import HELLO, Raw, Served, pids_in, raw, through, until
from supervised import gone

pytestmark = pytest.mark.long

EVERY_MODE = pytest.mark.parametrize("mode", ["auto", "legacy"])
MIB = 1 << 20
GIB = 1 << 30
#: A tree in which one child ignores TERM and another one has left the session; all write their pid.
TREE = """
echo $$ >>{pids}; trap '' TERM
sh -c 'trap "" TERM; echo $$ >>{pids}; while :; do sleep .1; done' &
setsid sh -c 'echo $$ >>{pids}; exec sleep 60' &
wait
"""


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    """Return the file to which commands write their process ids."""
    return tmp_path / "pids"


def tree(pids: Path) -> list[str]:
    """Return a command that starts three processes which are hard to stop."""
    return ["sh", "-c", TREE.format(pids=pids)]


# Calls side by side


@EVERY_MODE
def test_calls_run_side_by_side(tmp_path: Path, mode: str) -> None:
    """Two calls that wait for each other both end; only together can they."""
    os.mkfifo(tmp_path / "there")
    os.mkfifo(tmp_path / "back")

    async def story(server: Served) -> None:
        one = server.run("sh", "-c", "echo a >there; cat back", cwd=str(tmp_path))
        other = server.run("sh", "-c", "cat there; echo b >back", cwd=str(tmp_path))
        results = await asyncio.gather(one, other)
        assert [result["stdout"] for result in results] == ["b\n", "a\n"]

    through(story, "--timeout", "10s", "--root", tmp_path, mode=mode)


@pytest.mark.capability("CAP-65")
@EVERY_MODE
@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.filterwarnings("ignore:ping is removed")
def test_a_flood_of_a_gigabyte(mode: str) -> None:
    """A command that prints a gigabyte ends by itself; meanwhile the server answers, and its memory stays bounded."""

    async def story(server: Served) -> None:
        await server.run("true")
        before = peak(server.pid)
        script = f"head -c {GIB} /dev/zero; head -c {16 * MIB} /dev/zero >&2; echo end"
        flood = asyncio.create_task(server.run("sh", "-c", script))
        answers = 0
        while not flood.done():
            async with asyncio.timeout(5):
                await (
                    server.client.send_ping()
                    if mode == "legacy"
                    else server.client.list_tools(cache_mode="bypass")
                )
            answers += 1
            await asyncio.sleep(0.01)
        result = await flood
        assert (result["exit_code"], result["truncated"]) == (0, True)
        assert len(result["stdout"]) == len(result["stderr"]) == 256 << 10
        assert answers > 3
        assert peak(server.pid) - before < 64 * MIB

    through(story, "--timeout", "100s", mode=mode)


def peak(pid: int) -> int:
    """Return the most memory that a process has had, in bytes."""
    (line,) = [
        line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM")
    ]
    return int(line.split()[1]) * 1024


# Cancelled


@EVERY_MODE
@pytest.mark.slow
def test_a_cancelled_call_stops_its_tree(pids: Path, mode: str) -> None:
    """A call that the client cancels is stopped with all it started, however hard; another call is left alone."""

    async def story(server: Served) -> None:
        bystander = asyncio.create_task(
            server.run("sh", "-c", "while [ ! -e go ]; do sleep .02; done", cwd=str(pids.parent))
        )
        call = asyncio.create_task(server.run(*tree(pids)))
        below = await asyncio.to_thread(pids_in, pids, 3)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await until(lambda: not [pid for pid in below if helpers.alive(pid)], "the end of the tree", 5)
        (pids.parent / "go").touch()
        assert (await bystander)["exit_code"] == 0

    through(story, "--root", pids.parent, mode=mode)


def test_a_cancelled_call_has_its_grace(pids: Path) -> None:
    """A command whose call is cancelled may clean up: cancellation is passed on once, not on every turn of the loop."""
    script = f"trap 'sleep .3; echo 99999 >>{pids}; exit' TERM; echo $$ >>{pids}; while :; do sleep .05; done"

    async def story(server: Served) -> None:
        call = asyncio.create_task(server.run("sh", "-c", script))
        await asyncio.to_thread(pids_in, pids)
        call.cancel()
        assert 99999 in await asyncio.to_thread(pids_in, pids, 2)

    through(story)


def test_a_cancelled_call_is_not_answered(pids: Path) -> None:
    """Nothing more is said of a call that was cancelled, and its id is free."""
    with raw() as server:
        number = server.run(*tree(pids))
        below = pids_in(pids, 3)
        server.send(json.dumps(cancel(number)).encode() + b"\n")
        gone(*below)
        assert server.answer(server.run("echo", "next"))["result"]["structuredContent"]["stdout"] == "next\n"


def cancel(number: int) -> dict[str, object]:
    """Return the note that a client sends when it has lost interest in a request."""
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}}


# Clients that vanish


CLIENT = """
import asyncio, sys
from mcp import Client
from mcp.client.stdio import StdioServerParameters

async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["mcp"], env=dict(__import__("os").environ))
    async with Client(server) as client:
        await asyncio.gather(*(client.call_tool("run_command", {"argv": ["sh", "-c", sys.argv[2]]}) for _ in range(2)))

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_client_that_is_killed(pids: Path) -> None:
    """When the client dies without a word, every tree is stopped and the server ends."""
    argv = [sys.executable, "-c", CLIENT, helpers.LONGWATCH, tree(pids)[2]]
    with helpers.ending(subprocess.Popen(argv, stdin=subprocess.DEVNULL)) as client:
        below = pids_in(pids, 6)
        (server,) = helpers.children(client.pid)
        client.kill()
        gone(server, *below)


def hang_up(server: Raw) -> None:
    server.hang_up()


def stop_reading(server: Raw) -> None:
    """Close the side that we read; the server finds out when it answers."""
    assert server.process.stdout is not None
    server.process.stdout.close()
    server.ask("ping")


def send(signum: int) -> Callable[[Raw], None]:
    return lambda server: server.process.send_signal(signum)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("vanish", "status"),
    [
        (hang_up, 0),
        (stop_reading, 0),
        (send(signal.SIGTERM), -signal.SIGTERM),
        (send(signal.SIGHUP), -signal.SIGHUP),
        (send(signal.SIGINT), -signal.SIGINT),
    ],
    ids=["end of input", "nobody reads", "TERM", "HUP", "INT"],
)
def test_the_end_of_the_server_is_the_end_of_its_trees(
    pids: Path, vanish: Callable[[Raw], None], status: int
) -> None:
    """However the server is told to end, it ends soon, and what it ran is gone first."""
    with raw("--timeout", "0") as server:
        server.run(*tree(pids))
        server.run("sleep", "60")
        below = pids_in(pids, 3)
        vanish(server)
        assert server.finish(5) == status
        assert [pid for pid in below if helpers.alive(pid)] == []
        assert server.err == ""


def test_commands_have_their_grace_when_the_server_is_told_to_end(pids: Path) -> None:
    """A command may clean up before the server ends."""
    script = f"trap 'sleep .3; echo 99999 >>{pids}; exit' TERM; echo $$ >>{pids}; while :; do sleep .05; done"
    with raw() as server:
        server.run("sh", "-c", script)
        pids_in(pids)
        server.process.send_signal(signal.SIGTERM)
        assert server.finish(5) == -signal.SIGTERM
        assert 99999 in pids_in(pids)


@pytest.mark.slow
def test_told_twice_is_told_once(pids: Path) -> None:
    """A second signal changes nothing about how it ends."""
    with raw() as server:
        server.run(*tree(pids))
        below = pids_in(pids, 3)
        server.process.send_signal(signal.SIGINT)
        server.process.send_signal(signal.SIGTERM)
        assert server.finish(5) in (-signal.SIGINT, -signal.SIGTERM)
        assert [pid for pid in below if helpers.alive(pid)] == []


def test_an_ignored_hangup_stays_ignored() -> None:
    """Under nohup the server outlives its terminal, and answers."""
    ignoring = ["sh", "-c", 'trap "" HUP; exec "$0" "$@"', helpers.LONGWATCH]
    with raw(argv=[*ignoring, "mcp"]) as server:
        server.process.send_signal(signal.SIGHUP)
        assert server.answer(server.run("echo", "here"))["result"]["structuredContent"]["stdout"] == "here\n"


@pytest.mark.slow
def test_a_server_that_is_killed_hard(pids: Path) -> None:
    """When the server itself is killed, nothing that it ran is left, and the client sees the end at once."""
    with raw("--timeout", "0") as server:
        server.run(*tree(pids))
        below = pids_in(pids, 3)
        server.process.kill()
        assert server.process.stdout is not None
        started = time.monotonic()
        assert server.process.stdout.read() == b""
        assert time.monotonic() - started < 3
        gone(*below)


@pytest.mark.slow
def test_a_client_that_does_not_read(pids: Path) -> None:
    """Answers that nobody reads hold up neither other commands nor the end."""
    with raw() as server:
        assert server.process.stdout is not None
        fcntl.fcntl(server.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        for _ in range(3):
            server.run("head", "-c", "200000", "/dev/zero")
        server.run("sh", "-c", f"echo 1 >>{pids}")
        pids_in(pids)
        server.process.send_signal(signal.SIGTERM)
        assert server.finish(6) == -signal.SIGTERM


# What is said on the wire


def test_a_message_that_cannot_be_read_is_answered() -> None:
    """Half a surrogate pair, broken JSON and what is no message are errors with the request's id, not silence."""
    with raw() as server:
        server.send(b'{"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": {"name": "\\ud83d"}}\n')
        error = server.answer(77)["error"]
        assert error["code"] == -32700
        assert error["message"].startswith("this message cannot be read: Invalid JSON: ")
        server.send(b'\n{"jsonrpc": "2.0", "id": "x", "method": 5}\n')
        assert server.answer("x")["error"]["code"] == -32700  # type: ignore[arg-type]
        for line in (b"not json\n", b"[1]\n", b'{"id": [1]}\n', b"\xff\xfe\n"):
            server.send(line)
            assert server.answer(None)["error"]["code"] == -32700
        assert server.answer(server.run("echo", "next"))["result"]["structuredContent"]["stdout"] == "next\n"


def test_messages_in_pieces_and_several_at_once() -> None:
    """How a message is cut on its way makes no difference; half a message at the end is none."""
    with raw() as server:
        line = b'{"jsonrpc": "2.0", "id": 5, "method": "ping"}\n'
        for piece in (line[:9], line[9:-1], line[-1:] + line.replace(b"5", b"6") + line[:7]):
            server.send(piece)
        assert [server.read()["id"] for _ in range(2)] == [5, 6]
        server.hang_up()
        assert server.finish() == 0


def test_a_message_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that never ends its line does not fill our memory: it is no longer listened to."""
    with raw(greet=False, stdin=subprocess.PIPE) as server:
        with pytest.raises(BrokenPipeError):
            server.send(b"x" * (stdio.LONGEST + 64 * MIB))
        assert server.finish() == 0
        assert (
            server.err == "longwatch: mcp: a message of more than 64MiB: no longer listening to this client\n"
        )


def test_nothing_else_can_be_said_on_the_wire() -> None:
    """The wire's descriptors are no longer 0 and 1, and a command has none of ours."""
    with raw() as server:
        listed = server.answer(server.run("ls", "-l", "/proc/self/fd"))["result"]["structuredContent"][
            "stdout"
        ]
        places = Path(f"/proc/{server.process.pid}/fd")
        assert os.readlink(places / "0") == os.devnull
        assert os.readlink(places / "1") == os.readlink(places / "2")
        assert server.process.stdin is not None
        wires = [
            os.readlink(f"/proc/self/fd/{pipe.fileno()}")
            for pipe in (server.process.stdin, server.process.stdout)
        ]
        assert [name for name in wires if name in listed] == []
        # The fourth is the folder that is being listed.
        assert len([line for line in listed.splitlines() if "->" in line]) == 4


@pytest.mark.parametrize("way", ["file", "socket"])
def test_other_wires(way: str, tmp_path: Path) -> None:
    """A file of requests and a socket, as some clients have it, serve as well as pipes."""
    ping = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": %s}\n'
    line = ping % json.dumps(HELLO).encode()
    if way == "file":
        (tmp_path / "in").write_bytes(line)
        with (tmp_path / "in").open("rb") as stdin, (tmp_path / "out").open("wb") as stdout:
            done = helpers.run_cli("mcp", stdin=stdin, stdout=stdout)
        assert done.code == 0
        answer = (tmp_path / "out").read_bytes()
    else:
        ours, theirs = socket.socketpair()
        with ours, theirs, raw(greet=False, stdin=theirs, stdout=theirs) as server:
            theirs.close()
            ours.sendall(line)
            answer = ours.makefile("rb").readline()
            ours.shutdown(socket.SHUT_WR)
            assert server.finish() == 0
    assert json.loads(answer)["result"]["serverInfo"]["name"] == "longwatch"


def test_on_a_terminal_it_says_what_it_is() -> None:
    """Typed by a person, the server says what it waits for, and ends at the end of input."""
    with helpers.Screen([helpers.LONGWATCH, "mcp"]) as screen:
        screen.wait_for("longwatch: mcp: speaks MCP on stdin and stdout, for agents; Ctrl-D ends it")
        screen.send(b"\x04")
        assert screen.wait() == 0


def test_closed_descriptors(tmp_path: Path) -> None:
    """Started without a stdin there is no client, and it ends."""
    done = helpers.run_command(["sh", "-c", f"exec {helpers.LONGWATCH} mcp <&- >&- 2>&-"])
    assert done.code == 0
