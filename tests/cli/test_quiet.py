"""`longwatch quiet`: leave to be silent, asked for from inside a run."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import folders
import helpers
from longwatch.cli import quiet
from longwatch.errors import UsageError
from longwatch.paths import new_run_id

CODE = "import sys; from longwatch.cli.quiet import main; sys.exit(main(sys.argv[1:]))"


def ask(*words: str, run: str | None = None, **options: Any) -> helpers.Finished:
    return helpers.run_command([sys.executable, "-c", CODE, *words], env={"LONGWATCH_RUN_ID": run}, **options)


@pytest.mark.capability("NEW-7")
def test_a_wish_is_left_in_the_run_folder(state: Path) -> None:
    """Inside a run the wish stands in its channel while the command runs, and is taken back when it ends."""
    run = folders.make(state)
    script = 'until grep -qs span_ms "$1"; do :; done; echo out; echo err >&2; exit 7'
    done = ask("40m", "--", "sh", "-c", script, "sh", run.channel_path, run="outer-abcdef/" + run.run)
    assert (done.code, done.out, done.err) == (7, "out\n", "err\n")
    begun, over = run.channel()
    assert begun == {"op": "quiet", "span_ms": 2_400_000, "token": begun["token"], "at_ms": begun["at_ms"]}
    assert over == {"op": "quiet_end", "token": begun["token"], "at_ms": over["at_ms"]}


@pytest.mark.capability("NEW-7")
def test_the_folder_may_come_later(state: Path) -> None:
    """The command starts at once; the wish is told as soon as the run has its folder."""
    run = new_run_id("build")
    argv = [sys.executable, "-c", CODE, "1s", "cat"]
    with helpers.ending(
        subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "LONGWATCH_RUN_ID": run}
        )
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"started\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"started\n"
        folder = folders.make(state, run=run)
        helpers.wait_until(lambda: os.path.exists(folder.channel_path))
        process.stdin.close()
        assert process.wait(10) == 0
    assert [message["op"] for message in folder.channel()] == ["quiet", "quiet_end"]


@pytest.mark.capability("NEW-7")
def test_outside_a_run_the_command_just_runs(state: Path) -> None:
    """Without a run to be quiet in, that is said and the command runs."""
    done = ask("5m", "--", "echo", "hello")
    assert (done.code, done.out) == (0, "hello\n")
    assert done.err == "longwatch quiet: not inside a run: the command runs, nobody watches it\n"


def test_a_run_without_a_folder(
    state: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """When the folder does not come the command still runs, and its silence counts."""
    monkeypatch.setattr(quiet, "FOLDER_WAIT_MS", -1)
    wish = quiet.Wish("build-abcdef", 5)
    wish.tell()
    wish.tell()
    wish.end()
    assert capfd.readouterr().err == (
        "longwatch quiet: run build-abcdef has no folder: the command runs, its silence counts\n"
    )
    folder = folders.make(state)
    os.mkdir(folder.channel_path)
    wish = quiet.Wish(folder.run, 5)
    wish.tell()
    assert "Is a directory: the command runs" in capfd.readouterr().err
    wish = quiet.Wish(folder.run, 5)
    wish.pending = False
    wish.end()
    assert "Is a directory" in capfd.readouterr().err


def test_exit_statuses_are_the_commands(state: Path) -> None:
    """The command's own, 128+N for a signal, 127 and 126 as a shell has them."""
    assert ask("5m", "--", "sh", "-c", "exit 3").code == 3
    assert ask("5m", "--", "sh", "-c", "kill -9 $$").code == 137
    missing = ask("5m", "--", "no-such-program-here")
    assert missing.code == 127
    assert missing.err.count("\n") == 2
    assert ask("5m", "--", "/").code == 126


def test_signals_reach_the_command(state: Path) -> None:
    """What is sent to `quiet` is passed on, and the wish is taken back."""
    run = folders.make(state)
    script = "trap 'echo got it; exit 5' TERM; echo ready; while :; do sleep 0.01; done"
    env = {**os.environ, "LONGWATCH_RUN_ID": run.run}
    argv = [sys.executable, "-c", CODE, "5m", "--", "sh", "-c", script]
    with helpers.ending(subprocess.Popen(argv, stdout=subprocess.PIPE, env=env, text=True)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "got it\n"
        assert process.wait(10) == 5
    assert run.channel()[-1]["op"] == "quiet_end"


def test_a_key_reaches_the_command_once(state: Path) -> None:
    """Ctrl-C at the terminal reaches the whole group; `quiet` does not send it again."""
    script = "import os, signal, sys, time\n"
    script += "signal.signal(2, lambda *_: os.write(1, b'int\\n'))\n"
    script += "print('ready', flush=True)\n"
    script += "sys.stdin.readline()\n"
    with helpers.Screen([sys.executable, "-c", CODE, "5m", "--", sys.executable, "-c", script]) as screen:
        screen.wait_for("ready")
        screen.send("\x03")
        screen.wait_for("int")
        screen.send("\n")
        assert screen.wait() == 0
        assert screen.text.count("int") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "quiet: no duration; write longwatch quiet DURATION -- COMMAND"),
        (["--x", "5m"], "quiet: no duration"),
        (["5", "--", "x"], "quiet: 5: a bare number is no duration; write 5s or 5m"),
        (["5m"], "quiet: no command"),
        (["5m", "--"], "quiet: no command"),
    ],
)
def test_wrong_words_are_one_line(words: list[str], said: str) -> None:
    """What is no duration and command is refused before anything runs."""
    with pytest.raises(UsageError) as refused:
        quiet.main(words)
    assert str(refused.value).startswith(said)


def test_quiet_is_a_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """The group finds the verb, its help, and refuses its wrong words with 2; its options are the command's."""
    assert folders.verb(capsys, "quiet", "5", "--", "x").code == 2
    assert "let a command be silent" in folders.verb(capsys, "quiet", "--help").out
    done = helpers.run_cli("quiet", "5m", "--", "echo", "--help", "-x")
    assert (done.code, done.out) == (0, "--help -x\n")
    with pytest.raises(AttributeError):
        quiet.nothing  # noqa: B018


def test_quiet_is_lean() -> None:
    """The way through the lean front imports neither click nor what it stands on."""
    code = (
        "import sys; before = set(sys.modules)\n"
        "from longwatch.cli.quiet import main\nmain(['5m', 'true'])\n"
        "print([n for n in 'click re enum typing json subprocess signal datetime'.split() if n in set(sys.modules) - before])"
    )
    argv = [
        sys.executable,
        "-S",
        "-E",
        "-c",
        f"import sys; sys.path.insert(0, {str(helpers.ROOT / 'src')!r})\n{code}",
    ]
    assert helpers.run_command(argv, measured=False).out == "[]\n"


@pytest.mark.slow
@pytest.mark.capability("NEW-7")
def test_quiet_holds_a_real_limit(state: Path) -> None:
    """A silence far over the idle limit is let pass inside `quiet`, and counts again after it."""
    program = f"{helpers.LONGWATCH} quiet 30s -- sleep 2; echo done; exec sleep 300"
    done = helpers.run_cli("run", "--idle", "700ms", "--", "sh", "-c", program)
    assert (done.code, done.out) == (124, "done\n")
    assert "no output for 700ms" in done.err


@pytest.mark.slow
@pytest.mark.capability("NEW-7")
def test_quiet_never_exceeds_what_the_human_allows(state: Path) -> None:
    """However long a wish, --allow-quiet of the human is the end of it."""
    program = f"{helpers.LONGWATCH} quiet 40m -- sleep 300"
    done = helpers.run_cli("run", "--idle", "700ms", "--allow-quiet", "1s", "--", "sh", "-c", program)
    assert done.code == 124
    assert done.seconds < 15
