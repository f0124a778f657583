"""The house of the tests itself: homes, leaks, and the helpers that all of them rely on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import helpers
import measure

HERE = str(Path(__file__).parent)
# Nobody sees whose a process is while it loads another program, so this one waits for the end of that.
ORPHAN = "tail -f /dev/null >/dev/null 2>&1 & until grep -q tail /proc/$!/cmdline; do :; done"
# The ways in which a process gets away from the test that caused it.
ESCAPES = {
    "child": "subprocess.Popen(['tail', '-f', '/dev/null'])",
    "session": "subprocess.Popen(['tail', '-f', '/dev/null'], start_new_session=True)",
    "orphan": "subprocess.run(['sh', '-c', ORPHAN])",
    "fork": "os.fork() or time.sleep(60)",
}


def run_pytest(folder: Path, body: str) -> helpers.Finished:
    """Run one test with this project's conftest in a pytest of its own."""
    lines = ["import os, subprocess, time", f"ORPHAN = {ORPHAN!r}", "kept = []", "def test_it(home):"]
    (folder / "test_it.py").write_text("\n".join([*lines, f"    kept.append({body})", ""]))
    options = ["-q", "-p", "conftest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder]
    argv = [sys.executable, "-m", "pytest", *options, folder]
    return helpers.run_command(argv, env={"PYTHONPATH": HERE}, measured=False)


@pytest.mark.slow
@pytest.mark.parametrize("way", ESCAPES)
def test_a_left_process_fails_its_test_and_is_ended(way: str, tmp_path: Path) -> None:
    """A test that leaves a process behind fails, whichever way the process took, and the process is ended."""
    done = run_pytest(tmp_path, ESCAPES[way])
    assert done.code == 1, done.out
    assert "left running" in done.out


@pytest.mark.slow
def test_a_tidy_test_passes(tmp_path: Path) -> None:
    """A test that ends what it started is not accused."""
    done = run_pytest(tmp_path, "subprocess.run(['sleep', '0.05'])")
    assert done.code == 0, done.out


def test_home_is_empty_and_own(home: Path, tmp_path: Path) -> None:
    """No test sees the user's home, settings or state."""
    assert os.environ["HOME"] == str(home)
    assert [path.name for path in home.iterdir()] == []
    assert not [name for name in os.environ if name.startswith("LONGWATCH_") and name != helpers.MARKER]
    assert tmp_path not in home.parents


def test_waiting_has_a_deadline() -> None:
    """Waiting gives the value that it waited for, and fails by name when it does not come."""
    answers = iter([0, 0, 7])
    assert helpers.wait_until(lambda: next(answers)) == 7
    with pytest.raises(AssertionError, match=r"the moon did not come true in 0\.02 s"):
        helpers.wait_until(lambda: False, 0.02, "the moon")


def test_alive_tells_zombies_from_the_living() -> None:
    """A process that has ended is not alive, reaped or not."""
    with helpers.ending(subprocess.Popen(["sleep", "60"])) as process:
        assert helpers.alive(process.pid)
        assert process.pid in helpers.descendants()
        process.kill()
        helpers.wait_until(lambda: not helpers.alive(process.pid))
        assert helpers.stat(process.pid) == ("Z", os.getpid())


def test_a_command_that_is_not_over_in_time_fails() -> None:
    """A command with a deadline is killed at it, with its group, and what it had said is told."""
    with pytest.raises(AssertionError, match=r"not over in 0\.5 s; it said \['words"):
        helpers.run_command(["sh", "-c", "echo words; sleep 60; true"], deadline=0.5)


def test_screen_reads_and_types() -> None:
    """A program on a terminal is read by its screen, typed to, resized, and waited for."""
    script = "stty size; read word; printf '\\033[?1000h\\033[2Jsaid %s' $word; stty size; kill -TERM $$"
    with helpers.Screen(["sh", "-c", script], rows=10, columns=40) as screen:
        before = screen.settings
        screen.wait_for("10 40")
        screen.resize(12, 50)
        screen.send("hello\n")
        assert "said hello12 50" in screen.wait_for("12 50")
        assert screen.wait() == -signal.SIGTERM
        assert 1000 in screen.modes
        assert screen.settings == before


def test_tmux_reads_and_types(tmux: helpers.Tmux) -> None:
    """A tmux of the test's own shows a screen, takes keys, and tells its modes."""
    tmux.type("printf '\\033[?1049h'; echo $((6 * 7)).", "Enter")
    tmux.wait_for("42.")
    assert tmux.show("#{alternate_on}") == "1"


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (["/bin/longwatch", "run", "true"], True),
        (["/tmp/src/timeout", "5", "true"], True),
        (["-c", "import longwatch"], True),
        (["-c", "import time"], False),
        ([], False),
    ],
)
def test_only_longwatch_is_measured(words: list[str], ours: bool) -> None:
    """Coverage slows the start of a process, so the programs under supervision go without."""
    assert measure.is_ours(words) is ours


@pytest.mark.parametrize(
    "program", ["import longwatch", "import runpy; runpy.run_path(script, run_name='__main__')"]
)
def test_windows_is_refused(program: str) -> None:
    """On Windows one line says where longwatch can be used; the command shows no traceback."""
    script = f"import sys; sys.platform = 'win32'; script = {str(helpers.ROOT / 'scripts/longwatch')!r}\n"
    done = helpers.run_command([sys.executable, "-c", script + program], measured=False)
    assert done.code == 1
    assert "use it under WSL" in done.err
    assert ("Traceback" in done.err) == program.startswith("import longwatch")
