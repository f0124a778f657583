"""Bad input to `longwatch run`: one clear line that names the thing and the next step, and never a traceback."""

import os
from pathlib import Path

import pytest

import helpers
from supervised import python, shell, supervise

WORDS: dict[str, tuple[list[str], int, list[str]]] = {
    "nothing": ([], 125, ["no command to run", "longwatch run"]),
    "only-dashes": (["--"], 125, ["no command to run", "longwatch run"]),
    "unknown-flag": (["--idel", "5s", "true"], 125, ["unknown option --idel", "did you mean --idle?"]),
    "unlike-any": (["--zzzzzz", "true"], 125, ["unknown option --zzzzzz", "longwatch run --help"]),
    "short-flag": (["-q", "true"], 125, ["unknown option -q", "longwatch run --help"]),
    "bare-number": (["--idle", "5", "true"], 125, ["--idle 5", "bare number", "5s", "5m"]),
    "long-unit": (
        ["--idle", "5minutes", "true"],
        125,
        ["--idle 5minutes", "unknown unit minutes", "write 5m"],
    ),
    "negative": (["--idle", "-5s", "true"], 125, ["--idle -5s", "negative", "off"]),
    "infinite": (["--idle", "inf", "true"], 125, ["--idle inf", "off"]),
    "no-value": (["--idle"], 125, ["--idle needs a value"]),
    "flag-with-value": (["--pty=3", "true"], 125, ["--pty takes no value"]),
    "signal": (["-s", "TRM", "true"], 125, ["TRM", "did you mean TERM?"]),
    "size": (["--log-max", "5", "--log", "x", "true"], 125, ["--log-max 5", "bare number", "KiB"]),
    "choice": (["--idle-action", "kill", "true"], 125, ["--idle-action kill"]),
    "source": (["--progress", "stdou", "true"], 125, ["--progress stdou", "did you mean stdout?"]),
    "status": (["--exit-code", "idel=3", "true"], 125, ["--exit-code idel=3", "did you mean idle?"]),
    "status-range": (["--exit-code", "idle=300", "true"], 125, ["--exit-code idle=300", "0 to 255"]),
    "name": (["--name", "a/b", "true"], 125, ["--name a/b"]),
    "regex": (["--not-progress", "(", "true"], 125, ["--not-progress", "'('", "regular expression", "quote"]),
    "nudge": (["--nudge", "go on", "true"], 125, ["--nudge", "add --pty"]),
    "nudge-action": (["--idle-action", "nudge", "true"], 125, ["--idle-action nudge", "add --nudge TEXT"]),
    "screen": (
        ["--progress", "screen", "--no-pty", "true"],
        125,
        ["--progress screen", "leave --no-pty out"],
    ),
    "missing": (["no-such-program-here"], 127, ["no-such-program-here", "not found on PATH"]),
    "missing-path": (["./no/such"], 127, ["./no/such", "not found"]),
    "directory": (["/"], 126, ["/: is a directory"]),
    "empty": ([""], 127, ["no command to run"]),
    "report-folder": (["--report", "/", "true"], 125, ["--report /", "is a directory"]),
    "report-nowhere": (
        ["--report", "/no/such/folder/r", "true"],
        125,
        ["--report /no/such/folder/r", "no such file"],
    ),
    "log-folder": (["--log", "/", "true"], 125, ["--log /", "is a directory"]),
    "log-nowhere": (["--log", "/no/such/folder/l", "true"], 125, ["--log /no/such/folder/l", "no such file"]),
}


@pytest.mark.parametrize("case", WORDS)
def test_wrong_words_are_one_line(case: str, tmp_path: Path) -> None:
    """Each mistake is refused before anything is started, in one line with what is wrong and what to write."""
    words, status, expected = WORDS[case]
    done = helpers.run_cli("run", *words, cwd=tmp_path)
    assert (done.code, done.out) == (status, "")
    (line,) = done.err.splitlines()
    assert line.startswith("longwatch: ")
    for part in expected:
        assert part in line
    assert os.listdir(tmp_path) == []


def test_a_programs_own_flags_are_its_own(tmp_path: Path) -> None:
    """Options end at the program's name: `longwatch run claude -p x` leaves -p and x to claude."""
    claude = tmp_path / "claude"
    claude.write_text('#!/bin/sh\necho "$#" "$@"\n')
    claude.chmod(0o755)
    done = helpers.run_cli(
        "run", "claude", "-p", "x", "--idle", "5", env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    )
    assert (done.code, done.out, done.err) == (0, "4 -p x --idle 5\n", "")


def test_a_program_in_this_folder_is_offered(tmp_path: Path) -> None:
    """A program that is here but not on PATH is named as it has to be written."""
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    done = helpers.run_cli("run", "tool", cwd=tmp_path)
    assert done.code == 127
    assert "./tool" in done.err


def test_a_missing_interpreter_is_named(tmp_path: Path) -> None:
    """A script whose first line names nobody says whom it names."""
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    done = helpers.run_cli("run", tmp_path / "script")
    assert done.code == 127
    assert "/no/such/interpreter" in done.err
    assert len(done.err.splitlines()) == 1


def test_a_fifo_without_a_reader_is_refused_as_a_report(tmp_path: Path) -> None:
    """A report that would wait for a reader for ever is refused before the run."""
    os.mkfifo(tmp_path / "fifo")
    done = helpers.run_cli("run", "--report", tmp_path / "fifo", "true", deadline=10)
    assert done.code == 125
    assert "--report" in done.err


@pytest.mark.parametrize("pause", ["", "sleep 0.1; "], ids=["fast", "slow"])
def test_a_full_disk_under_the_report_is_told_and_spoils_nothing(pause: str) -> None:
    """A report that cannot be written is one line; status and output are the program's."""
    done = helpers.run_cli("run", "--report", "/dev/full", "sh", "-c", f"{pause}echo on; exit 3")
    assert (done.code, done.out) == (3, "on\n")
    assert done.err == "longwatch: --report /dev/full: not written: no space left on device\n"


@pytest.mark.parametrize("words", [["sleep", "0.2"], ["true"], ["--timeout", "300ms", "sleep", "60"]])
def test_a_state_folder_that_cannot_be_made_is_one_line(words: list[str], tmp_path: Path) -> None:
    """Where nothing can be kept the run goes on after one line; nothing is promised about `why`."""
    (tmp_path / "file").write_text("")
    done = helpers.run_cli("run", *words, env={"XDG_STATE_HOME": str(tmp_path / "file" / "state")})
    assert done.code == (124 if "--timeout" in words else 0)
    lines = [line for line in done.err.splitlines() if str(tmp_path / "file") in line]
    assert len(lines) == 1
    assert "longwatch why" not in done.err


def test_a_full_stderr_costs_no_output() -> None:
    """Where our own lines cannot be written the run is as it would be."""
    with open("/dev/full", "wb") as full:
        run = supervise("--idle", "300ms", "-v", program=shell("echo on; sleep 60"), stderr=full)
    assert (run.code, run.out, run.reason) == (124, "on\n", "idle")


def test_a_usage_error_does_not_touch_the_report(tmp_path: Path) -> None:
    """What is refused leaves the report of an earlier run as it was."""
    report = tmp_path / "report"
    report.write_text("precious")
    done = helpers.run_cli("run", "--report", report, "--not-progress", "(", "true")
    assert done.code == 125
    assert report.read_text() == "precious"


def test_too_long_a_command_line_is_one_line() -> None:
    """A command line that the kernel refuses is a result with one line."""
    code = (
        f"import os; os.execv({str(helpers.LONGWATCH)!r}, ['longwatch', 'run', 'true', *['x' * 100000] * 10])"
    )
    env = {f"PAD{i}": "y" * 100_000 for i in range(9)}
    done = helpers.run_command(python(code), env=env)
    assert "Traceback" not in done.err or "execv" in done.err


def test_help_and_version_answer() -> None:
    """--help and --version print on stdout and end well, whatever follows."""
    for flag, word in (("--help", "--idle"), ("-h", "--before-stop"), ("--version", "longwatch ")):
        done = helpers.run_cli("run", flag, "--nonsense")
        assert (done.code, done.err) == (0, "")
        assert word in done.out
