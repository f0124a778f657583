"""What a model may say to the tool, and what it is told: pure functions, and the real server through a client."""

import asyncio
import errno
import json
import os
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from mcp import Client

import helpers
from longwatch.tool.command import MAX_BYTES
from longwatch.tool.result import ToolResult
from longwatch.tool.roots import Refusal, Roots
from longwatch.tool.schema import FIELDS, INPUT, OUTPUT, Rules, clean, describe, read
from longwatch.tool.server import CommandServer
from mcp_client import Served, found, raw, through, until

EVERY_MODE = pytest.mark.parametrize("mode", ["auto", "legacy"])
THREE_MINUTES = Rules(timeout=180_000, idle=0, grace=1000, max_bytes=MAX_BYTES)


# What the model reads


@pytest.mark.capability("CAP-70")
@EVERY_MODE
def test_one_tool_without_a_field_for_a_limit(tmp_path: Path, mode: str) -> None:
    """What is listed is one tool with three fields and no room for others, and it names the limits and the roots."""

    async def story(server: Served) -> None:
        (tool,) = (await server.client.list_tools()).tools
        assert tool.name == "run_command"
        assert sorted(tool.input_schema["properties"]) == ["argv", "cwd", "stdin"]
        assert tool.input_schema["additionalProperties"] is False
        assert tool.input_schema["required"] == ["argv"]
        assert "takes longer than 7s in all or when it prints nothing for 3s" in str(tool.description)
        assert "set by the human who runs this server; no field changes them" in str(tool.description)
        assert str(tmp_path) in str(tool.description)

    through(story, "--timeout", "7s", "--idle", "3s", "--root", tmp_path, mode=mode)


def test_no_limits_are_said_too(tmp_path: Path) -> None:
    """A server without limits of time does not promise any."""
    assert "No limit of time is set." in describe(Rules(0, 0, 1000, 5), Roots([str(tmp_path)]))


def test_schemas_are_what_is_checked_and_returned() -> None:
    """The fields that are listed are those that are read, and the result's are those that every result has."""
    assert tuple(INPUT["properties"]) == FIELDS
    result = ToolResult(0, "exited", 5, False, "", "", [], None, None, "subreaper")
    assert list(result.as_dict()) == OUTPUT["required"] == list(OUTPUT["properties"])


# What the model says


@pytest.mark.capability("CAP-70")
@pytest.mark.parametrize("name", ["timeout", "timeout_ms", "idle", "max_bytes", "env", "Argv", "\n"])
def test_unknown_fields_are_refused(name: str) -> None:
    """A field that there is not is refused by name, and whose the limits are is said."""
    with pytest.raises(Refusal) as refusal:
        read({"argv": ["true"], name: 9999})
    shown = repr(name) if name == "\n" else name
    assert str(refusal.value) == (
        f"unknown field {shown}: run_command takes argv, cwd and stdin; "
        "limits are set by the human who runs this server"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, 'argv has to be a list of texts such as ["git", "status"], not nothing'),
        ({}, 'argv has to be a list of texts such as ["git", "status"], not nothing'),
        ({"argv": "ls -l"}, 'argv has to be a list of texts such as ["git", "status"], not a text: "ls -l"'),
        ({"argv": []}, 'argv has to be a list of texts such as ["git", "status"], not a list: []'),
        (
            {"argv": ["a", 1]},
            'argv has to be a list of texts such as ["git", "status"], not a list: ["a", 1]',
        ),
        (
            {"argv": {"0": "a"}},
            'argv has to be a list of texts such as ["git", "status"], not an object: {"0": "a"}',
        ),
        ({"argv": 5}, 'argv has to be a list of texts such as ["git", "status"], not a number: 5'),
        ({"argv": ["a"], "cwd": 5}, "cwd has to be a text, not a number"),
        ({"argv": ["a"], "cwd": ["/"]}, "cwd has to be a text, not a list"),
        ({"argv": ["a"], "stdin": {"a": 1}}, "stdin has to be a text, not an object"),
        ({"argv": ["a"], "stdin": True}, "stdin has to be a text, not true or false"),
    ],
)
def test_wrong_types_are_refused(given: dict[str, Any] | None, message: str) -> None:
    """What has the wrong type is refused with what to write."""
    with pytest.raises(Refusal) as refusal:
        read(given)
    assert str(refusal.value) == message


def test_null_says_nothing() -> None:
    """A null for a field that may be left out means that it was left out."""
    assert read({"argv": ["a", ""], "cwd": None, "stdin": None}) == (["a", ""], None, None)


@pytest.mark.capability("CAP-70")
@EVERY_MODE
def test_refusals_reach_the_model(mode: str) -> None:
    """A refusal is an error of the tool that the model reads, not one of the protocol; the next call works."""

    async def story(server: Served) -> None:
        assert (await server.refusal({"argv": ["true"], "timeout": 1})).startswith("unknown field timeout: ")
        assert (await server.refusal({"argv": "true"})).endswith('not a text: "true"')
        assert "holds a NUL" in await server.refusal({"argv": ["a\0b"]})
        assert (await server.refusal(None)).endswith("not nothing")
        assert (await server.run("true"))["exit_code"] == 0

    through(story, mode=mode)


def test_a_failure_of_ours_reaches_the_model(tmp_path: Path) -> None:
    """What the system refuses us, such as one more open file, is an error of the tool and no traceback."""

    class Full:
        async def run_async(self, *_: object, **__: object) -> None:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async def call() -> Any:
        server = CommandServer(cast("Any", Full()), Roots([str(tmp_path)]), THREE_MINUTES).server()
        async with Client(server) as client:
            return await client.call_tool("run_command", {"argv": ["true"]})

    result = asyncio.run(call())
    assert (result.is_error, result.content[0].text) == (
        True,
        "the command could not be run: too many open files",
    )


def test_another_tool_is_not_there() -> None:
    """A tool of another name is an error of the protocol that says which there is."""

    async def story(server: Served) -> None:
        with pytest.raises(Exception, match="there is no tool run here, only run_command"):
            await server.client.call_tool("run", {})

    through(story)


# What the model gets


@EVERY_MODE
@pytest.mark.capability("CAP-63", "CAP-68")
def test_a_bad_exit_is_a_result(mode: str) -> None:
    """A command that fails is a result like any other: its fields in their order, and no error."""

    async def story(server: Served) -> None:
        result = await server.run("sh", "-c", "cat; echo no >&2; exit 3", stdin="ünï")
        assert list(result) == OUTPUT["required"]
        result["duration_ms"] = 0
        assert list(result.values()) == [3, "exited", 0, False, "ünï", "no\n"]
        died = await server.run("sh", "-c", "kill -9 $$")
        assert (died["exit_code"], died["termination_reason"]) == (None, "signaled")

    through(story, mode=mode)


@EVERY_MODE
@pytest.mark.capability("CAP-68")
def test_a_program_that_cannot_be_started_is_an_error(mode: str) -> None:
    """A missing program is an error of the tool, with the object that says so."""

    async def story(server: Served) -> None:
        result = await server.call({"argv": ["no-such-program"]})
        assert result.is_error
        assert found(result)["termination_reason"] == "spawn_failed"
        assert found(result)["message"].startswith("no-such-program: not found")

    through(story, mode=mode)


@pytest.mark.capability("CAP-68", "CAP-71")
@EVERY_MODE
def test_a_command_that_hangs(mode: str) -> None:
    """A command that hangs is stopped at the limit; what it printed and why comes as a result, and the next call works."""

    async def story(server: Served) -> None:
        result = await server.run("sh", "-c", "echo begun; sleep 60")
        assert (result["exit_code"], result["termination_reason"]) == (None, "timeout")
        assert result["stdout"] == "begun\n"
        assert result["message"] == "sh: took longer than 400ms"
        assert (result["survivors"], result["proof"]) == ([], "subreaper")
        assert "sleep" in result["post_mortem"]["diagnosis"]
        assert (await server.run("echo", "next"))["stdout"] == "next\n"

    through(story, "--timeout", "400ms", mode=mode)


def test_silence_is_a_limit_where_it_was_named() -> None:
    """With --idle a command that goes on printing lives, and one that falls silent is stopped."""

    async def story(server: Served) -> None:
        assert (await server.run("sh", "-c", "for i in 1 2 3 4; do echo $i; sleep .2; done"))[
            "exit_code"
        ] == 0
        result = await server.run("sh", "-c", "echo one; sleep 60")
        assert (result["termination_reason"], result["stdout"]) == ("idle", "one\n")

    through(story, "--idle", "700ms")


def test_text_is_text_whatever_bytes_come() -> None:
    """Bytes that are no text, and names that are none, arrive as valid JSON."""

    async def story(server: Served) -> None:
        result = await server.run("sh", "-c", r"printf '\377\0\355\240\200ok\303'; exec sleep 60")
        assert result["stdout"] == "\ufffd\0\ufffd\ufffd\ufffdok\ufffd"

    through(story, "--timeout", "300ms")


def test_clean_leaves_nothing_that_utf_8_cannot_say() -> None:
    """Half characters in any text of a result, keys included, are replaced; all else stays."""
    dirty = {"a\udcff": ["x\ud800y", 1, None, ("\udc80",)], "ok": "ü😀"}
    assert clean(dirty) == {"a?": ["x?y", 1, None, ["?"]], "ok": "ü😀"}
    json.dumps(clean(dirty), ensure_ascii=False).encode()


# Where it runs


@pytest.mark.capability("CAP-70")
def test_roots(tmp_path: Path) -> None:
    """Commands start in the first root, below any of them, and nowhere else."""
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "sub").mkdir(parents=True)
    two.mkdir()
    (one / "out").symlink_to("/etc")

    async def story(server: Served) -> None:
        for cwd, expected in {None: one, "sub": one / "sub", str(two): two}.items():
            assert (await server.run("pwd", "-P", cwd=cwd))["stdout"] == f"{expected}\n"
        for cwd in ("/etc", "..", "out", "/", "../three"):
            said = await server.refusal({"argv": ["pwd"], "cwd": cwd})
            assert (
                said == f"cwd {cwd} is outside of what this server may use; name a folder in {one} or {two}"
            )
        assert "no such file or directory" in await server.refusal({"argv": ["pwd"], "cwd": "three"})

    through(story, "--root", one, "--root", two)


def test_the_default_root_is_where_it_was_started(tmp_path: Path) -> None:
    """Without --root the folder that the agent started us in is the root; a relative program is found in cwd."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "hello"
    script.write_text("#!/bin/sh\npwd -P\n")
    script.chmod(0o755)

    async def story(server: Served) -> None:
        assert (await server.run("./hello", cwd="bin"))["stdout"] == f"{tmp_path}/bin\n"
        assert "outside" in await server.refusal({"argv": ["pwd"], "cwd": ".."})

    through(story, cwd=tmp_path)


# While it runs


def slower(seconds: float) -> list[str]:
    """Return the command of a server that tells progress every so often."""
    lines = [
        "import sys",
        "from longwatch.tool import server",
        f"server.NOTE_EVERY = {seconds}",
        "from longwatch.cli.main import main",
        "main(sys.argv)",
    ]
    return [sys.executable, "-c", "\n".join(lines), "mcp"]


@EVERY_MODE
def test_progress_for_a_client_that_asks(mode: str) -> None:
    """A client that asks hears how long it runs, how much it printed and how long it has been silent; then no more."""
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async def story(server: Served) -> None:
        script = "while [ ! -e go ]; do sleep .02; done; echo 12345; while [ -e go ]; do sleep .02; done"
        call = asyncio.create_task(server.call({"argv": ["sh", "-c", script]}, progress_callback=hear))
        await until(lambda: heard and "no output yet" in str(heard[-1][2]))
        go = home / "go"
        go.touch()
        await until(lambda: "6B" in str(heard[-1][2]))
        go.unlink()
        assert found(await call)["stdout"] == "12345\n"
        count = len(heard)
        assert (await server.run("sleep", "0.3"))["exit_code"] == 0
        assert len(heard) == count

    home = Path(os.environ["HOME"])
    through(story, "--timeout", "20s", "--root", home, argv=slower(0.05), mode=mode)
    assert all(total == 20 for _, total, _ in heard)
    assert [elapsed for elapsed, _, _ in heard] == sorted({elapsed for elapsed, _, _ in heard})


def test_notes_end_with_their_call() -> None:
    """Nothing is told of a call that has been answered, and nothing of one whose client did not ask."""
    with raw(argv=slower(0.02)) as server:
        arguments = {"name": "run_command", "arguments": {"argv": ["sleep", "0.2"]}}
        asked = server.ask("tools/call", {**arguments, "_meta": {"progressToken": 0}})
        assert server.read()["method"] == "notifications/progress"
        server.answer(asked)
        silent = server.ask("tools/call", arguments)
        assert server.read()["id"] == silent


def test_no_progress_before_its_time() -> None:
    """A command that is over before the first note is told of by its result alone."""
    heard: list[float] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(progress)

    async def story(server: Served) -> None:
        assert not (await server.call({"argv": ["true"]}, progress_callback=hear)).is_error
        refused = await server.call({"argv": ["a\0b"]}, progress_callback=hear)
        assert "holds a NUL" in refused.content[0].text

    through(story)
    assert heard == []


# Who set it


@pytest.mark.capability("CAP-69")
@pytest.mark.parametrize(
    ("flags", "variable", "said"),
    [
        (["--timeout", "5s"], "9s", "longer than 5s"),
        ([], "9s", "longer than 9s"),
        ([], None, "longer than 3m"),
        (["--timeout", "0"], "9s", "No limit of time"),
        ([], "0", "No limit of time"),
    ],
)
def test_who_sets_the_timeout(flags: list[str], variable: str | None, said: str) -> None:
    """A flag wins over the variable, the variable over the built-in, and 0 is none."""

    async def story(server: Served) -> None:
        (tool,) = (await server.client.list_tools()).tools
        assert said in str(tool.description)

    through(story, *flags, env={"LONGWATCH_TOOL_TIMEOUT": variable})


@pytest.mark.capability("CAP-69")
@pytest.mark.parametrize("word", ["abc", "5", "-1s", "inf"])
@pytest.mark.parametrize("way", ["flag", "variable"])
def test_a_wrong_limit_is_a_usage_error(word: str, way: str) -> None:
    """A limit that makes no sense is refused before anything is served, from a flag and from the variable."""
    flags = [f"--timeout={word}"] if way == "flag" else []
    done = helpers.run_cli("mcp", *flags, env={"LONGWATCH_TOOL_TIMEOUT": word if way == "variable" else None})
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert ("--timeout" if way == "flag" else "LONGWATCH_TOOL_TIMEOUT=") in done.err


def test_a_root_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    """A root that does not exist is refused before anything is served."""
    done = helpers.run_cli("mcp", "--root", tmp_path / "nope")
    assert (done.code, done.out) == (2, "")
    assert "no such folder" in done.err


@pytest.mark.parametrize("missing", ["mcp", "mcp_types"])
def test_a_missing_package_is_named(tmp_path: Path, missing: str) -> None:
    """Without the package one line says how to get it, whether there is none or one that is too old."""
    (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError(name={missing!r})\n")
    done = helpers.run_cli("mcp", env={"PYTHONPATH": str(tmp_path)})
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("longwatch: mcp needs the package mcp, version 2; install it with: ")
    assert "longwatch[all]" in done.err


def test_the_package_is_loaded_in_this_verb_only() -> None:
    """Listing the verbs, and this verb's help, load no MCP package."""
    for words in (["--help"], ["mcp", "--help"], ["config", "explain"]):
        done = helpers.run_command(
            [sys.executable, "-X", "importtime", helpers.LONGWATCH, *words], measured=False
        )
        assert done.code == 0
        names = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.err.splitlines()}
        assert "click" in names
        assert not names & {"mcp", "mcp_types", "anyio"}
