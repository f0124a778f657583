"""`--config FILE` of `run`, `watch`, `tool` and `mcp`: what it does to real programs, and how a wrong file ends each."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import helpers
from longwatch.testing import children
from mcp_client import raw

WRONG = '[defaults]\nidel = "5m"\nkill_after = 3\n'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the place of a file in an empty folder that is ours."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "longwatch.toml"


def test_a_limit_of_the_file_stops(file: Path) -> None:
    """It is as good as a flag, and the line that says why the program was stopped says where it stands."""
    file.write_text('[defaults]\nidle = "300ms"\n')
    done = helpers.run_cli("run", "--config", "longwatch.toml", "--", *children.ticks_then_silent())
    assert done.code == 124
    assert "no output for 300ms (file longwatch.toml:2)" in done.err


def test_the_record_says_who_set_it(file: Path) -> None:
    """Whoever looks at a run sees that a file has set the limit, and which steps it may take."""
    file.write_text('[defaults]\nfirst = "50m"\nfirst_action = "notify"\n')
    ready = file.with_name("ready")
    words = ["sh", "-c", f"while ! [ -e {ready} ]; do sleep .02; done"]
    with subprocess.Popen(
        [helpers.LONGWATCH, "run", "--config", ".", "--name", "seen", "--", *words]
    ) as process:
        runs = Path(os.environ["XDG_STATE_HOME"]) / "longwatch" / "runs"
        (meta,) = helpers.wait_until(lambda: list(runs.glob("seen-*/meta.json")))
        ready.touch()
    assert process.returncode == 0
    assert json.loads(meta.read_text())["limits"]["first"] == {
        "window_ms": 3_000_000, "action": "notify", "source": "file",
    }  # fmt: skip


def test_a_file_that_nobody_names_is_not_read(file: Path) -> None:
    """A file that lies here and the variable for daemons leave a run alone; the program still gets the variable."""
    file.write_text(WRONG)
    told = {"LONGWATCH_CONFIG": str(file)}
    done = helpers.run_cli("run", "--", "printenv", "LONGWATCH_CONFIG", env=told)
    assert (done.code, done.out, done.err) == (0, f"{file}\n", "")
    assert helpers.run_cli("tool", "--", "true", env=told).code == 0


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["run", "--config", "longwatch.toml", "--", "touch", "started"], 125),
        (["tool", "--config", "longwatch.toml", "--", "touch", "started"], 2),
        (["mcp", "--config", "longwatch.toml"], 2),
        (["watch", "--config", "longwatch.toml", "--pid", "0"], 2),
        (["config", "explain", "--config", "longwatch.toml"], 2),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else "",
)
def test_a_wrong_file_is_refused_whole(words: list[str], status: int, file: Path) -> None:
    """Each thing that is wrong has a line with its place, nothing is started, and the status is the verb's own."""
    file.write_text(WRONG)
    done = helpers.run_cli(*words)
    assert (done.code, done.out) == (status, "")
    first, second = done.err.splitlines()
    assert first == 'longwatch: longwatch.toml:2:1: unknown key "idel" in [defaults]; did you mean "idle"?'
    assert second.startswith("longwatch: longwatch.toml:3:1: [defaults] kill_after = 3: a bare number")
    assert not Path("started").exists()


@pytest.mark.parametrize(("verb", "status"), [("run", 125), ("tool", 2)])
def test_a_missing_file_is_one_line(verb: str, status: int, file: Path) -> None:
    """A file that was named and is not there is a mistake."""
    done = helpers.run_cli(verb, "--config", "nope.toml", "--", "true")
    assert (done.code, done.out) == (status, "")
    assert done.err == "longwatch: --config nope.toml: no such file; longwatch init writes a first one\n"


def test_help_does_not_need_the_file(file: Path) -> None:
    """Who asks for help gets it."""
    assert "--config FILE" in helpers.run_cli("run", "--config", "nope.toml", "--help").out


def test_what_needs_a_terminal_is_left_out_without_one(file: Path) -> None:
    """A nudge that cannot be typed and records that nobody can read are passed over; a screen that is none is refused."""
    file.write_text('[defaults]\nnudge = "go on"\nprogress = ["transcript"]\nresume_on_limit = true\n')
    done = helpers.run_cli("run", "--config", ".", "--", "echo", "hi")
    assert (done.code, done.out, done.err) == (0, "hi\n", "")
    done = helpers.run_cli("run", "--config", ".", "--idle", "300ms", "--", *children.ticks_then_silent())
    assert (done.code, "no output for 300ms" in done.err) == (124, True)
    file.write_text('[defaults]\nprogress = "screen"\n')
    done = helpers.run_cli("run", "--config", ".", "--", "true")
    assert (done.code, done.err) == (
        125, "longwatch: longwatch.toml:2: progress screen needs a terminal for the program; add --pty\n",
    )  # fmt: skip


def test_the_program_of_a_harness_is_as_the_file_says(file: Path) -> None:
    """The run that has a harness's name gets the flags that its preset adds, as the harness does."""
    (file.parent / "agent").write_text('#!/bin/sh\necho "$@"\n')
    (file.parent / "agent").chmod(0o755)
    file.write_text('[harness.review]\nharness = "claude"\nargs = ["-p", "x"]\n')
    words = ["--config", ".", "--", "./agent", "-p", "hello"]
    assert helpers.run_cli("run", *words).out == "-p hello\n"
    assert "stream-json" in helpers.run_cli("run", "--name", "review", *words).out


def test_a_process_that_runs_is_watched_by_the_file(file: Path) -> None:
    """A bound of the file ends it, and its line is named."""
    file.write_text('[defaults]\ntimeout = "300ms"\nkill_after = "5s"\n')
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        try:
            done = helpers.run_cli("watch", "--config", ".", "--pid", str(process.pid))
            assert process.wait(10) == -15
        finally:
            process.kill()
    assert done.code == 124
    assert "(file longwatch.toml:2)" in done.err


def test_a_watched_process_shows_what_can_be_seen(file: Path) -> None:
    """Of the sources in the file those count that are no stream of the process and no record of an agent's."""
    sources = '["output", "transcript"]', f'["output", "transcript", "file:{file}"]'
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        words = ["watch", "--config", ".", "--pid", str(process.pid), "--report", "report.json"]
        try:
            file.write_text(f'[defaults]\nidle = "1m"\nprogress = {sources[0]}\n')
            done = helpers.run_cli(*words)
            assert (done.code, "name a file that it writes" in done.err) == (2, True)
            file.write_text(f'[defaults]\ntimeout = "300ms"\nprogress = {sources[1]}\n')
            assert helpers.run_cli(*words).code == 124
        finally:
            process.kill()
    assert list(json.loads(Path("report.json").read_text())["progress"]) == [f"file:{file}"]


def test_a_command_of_a_model_is_bounded_by_the_file(file: Path) -> None:
    """What the human has written there holds where no flag says otherwise."""
    file.write_text('[defaults]\nidle = "300ms"\n')
    words = [*children.ticks_then_silent()]
    done = helpers.run_cli("tool", "--config", ".", "--", *words)
    assert json.loads(done.out)["termination_reason"] == "idle"
    assert json.loads(helpers.run_cli("tool", "--config", ".", "--idle", "0", "true").out)["exit_code"] == 0


def test_a_server_tells_the_limits_of_the_file(file: Path) -> None:
    """The model reads whose limits hold, and finds no field for them."""
    file.write_text('[defaults]\ntimeout = "7m"\nidle = "77s"\n')
    with raw("--config", file) as server:
        (tool,) = server.answer(server.ask("tools/list"))["result"]["tools"]
    assert "longer than 7m in all or when it prints nothing for 1m17s" in tool["description"]
    assert set(tool["inputSchema"]["properties"]) == {"argv", "cwd", "stdin"}


def test_explain_names_the_file(file: Path) -> None:
    """Every value of a run that is given the file says the line that has set it; a variable still wins."""
    file.write_text('[defaults]\nidle = "8m"\nfirst = "2m"\n')
    environ = {"LONGWATCH_FIRST": "7m"}
    out = helpers.run_cli("config", "explain", "--config", "longwatch.toml", env=environ).out
    assert "--idle DURATION: 8m (longwatch.toml:2); built-in 5m" in out
    assert "--first DURATION: 7m (set by LONGWATCH_FIRST)" in out
    told = json.loads(helpers.run_cli("config", "explain", "--config", ".", "--json", env=environ).out)
    options = {option["name"]: option for option in told["options"]}
    assert (options["idle"]["source"], options["idle"]["place"]) == ("file", "longwatch.toml:2")
    assert "place" not in options["first"]
