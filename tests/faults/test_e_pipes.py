"""Inherited pipes: no end of a run waits for somebody who only holds an end of one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import helpers
from longwatch.testing import children
from supervised import gone, numbers, python, shell, supervise


@pytest.mark.fault("E1")
def test_a_stop_does_not_wait_for_a_grandchilds_pipe() -> None:
    """A shell that waits for a silent sleeper is stopped in the window, the grace and two seconds at most."""
    run = supervise("--idle", "300ms", "-k", "1s", program=shell("sleep 60 & echo $!; wait"))
    assert (run.code, run.reason) == (124, "idle")
    assert run.seconds < 0.3 + 1 + 2
    gone(*numbers(run.out))


@pytest.mark.fault("E1")
def test_a_stop_is_bounded_when_the_holder_ignores_it() -> None:
    """The same when the grandchild ignores TERM: KILL after the grace, nothing waits for its pipe."""
    script = shell("(trap '' TERM; echo up; sleep 60) & wait")
    run = supervise("--idle", "300ms", "-k", "300ms", program=script)
    assert (run.code, run.reason) == (124, "idle")
    assert run.seconds < 0.3 + 0.3 + 2
    assert run.report["survivors"] == []


@pytest.mark.fault("E2")
@pytest.mark.capability("CAP-10", "CAP-72")
def test_the_leaders_end_is_the_end() -> None:
    """A program that ends well and leaves a helper on its pipe has ended: its code, its text, in under 3 s."""
    run = supervise("--idle", "20s", program=children.holds_pipe(30))
    assert (run.code, run.out, run.reason) == (0, "done\n", "exited")
    assert run.seconds < 3
    assert run.report["stdout"]["tail"] + run.report["stdout"]["head"] == "done\n"
    assert run.report["leftovers"]["count"] == 1
    assert len(run.said) == 1
    assert "1 process behind" in run.said[0]


@pytest.mark.fault("E2")
@pytest.mark.capability("CAP-72")
def test_an_escaped_helper_with_the_pipe_holds_up_nobody() -> None:
    """A helper in a session of its own that holds the pipe is found, ended and counted as well."""
    body = [
        "import os, time",
        "if os.fork() == 0:",
        "    os.setsid()",
        "    if os.fork() == 0: time.sleep(30)",
    ]
    run = supervise(
        "--idle", "20s", program=python(*body, "    os._exit(0)", "os.wait(); print('done', flush=True)")
    )
    assert (run.code, run.out, run.reason) == (0, "done\n", "exited")
    assert run.seconds < 4
    assert run.report["leftovers"]["count"] == 1


@pytest.mark.slow
@pytest.mark.capability("CAP-10")
@pytest.mark.fault("E2")
def test_a_helper_that_goes_on_talking_gets_five_seconds() -> None:
    """What still talks into the pipe after the leader's end is read for 5 s in all, then it is a leftover."""
    # One process that only writes: of two that take turns a busy machine may hear nothing for half a second.
    talk = ("if os.fork() == 0:", "    while True:", "        os.write(1, b'more\\n'); time.sleep(0.02)")
    run = supervise(program=python("import os, time", "print('done', flush=True)", *talk))
    assert (run.code, run.reason) == (0, "exited")
    assert "done\n" in run.out
    assert run.out.count("more") >= 20
    assert 4 < run.seconds < 9
    assert run.report["leftovers"]["count"] >= 1


@pytest.mark.fault("E3")
@pytest.mark.parametrize("pause", [0, 0.1], ids=["fast", "slow"])
def test_a_full_log_stops_nothing(pause: float) -> None:
    """A log on a full device costs one warning; the program's output arrives whole and its end is its own."""
    body = python(
        "import sys, time", f"sys.stdout.write('y' * 1000000); sys.stdout.flush(); time.sleep({pause})"
    )
    run = supervise("--log", "/dev/full", program=body)
    assert (run.code, run.reason) == (0, "exited")
    assert run.out == "y" * 1_000_000
    assert len(run.said) == 1
    assert "/dev/full" in run.said[0]
    assert "no space left" in run.said[0].lower()


@pytest.mark.fault("E3")
@pytest.mark.parametrize("pause", [0, 0.1], ids=["fast", "slow"])
def test_a_full_stdout_is_drained_and_told(pause: float) -> None:
    """Output that cannot be written is read on, told once, and turns a success into our failure: 125."""
    body = python(
        "import sys, time", f"sys.stdout.write('y' * 1000000); sys.stdout.flush(); time.sleep({pause})"
    )
    with open("/dev/full", "wb") as full:
        run = supervise(program=body, stdout=full)
    assert (run.code, run.reason) == (125, "exited")
    assert run.report["stdout"]["lost"] == 1_000_000
    assert len(run.said) == 1
    assert "output" in run.said[0]
    assert "no space left" in run.said[0].lower()


@pytest.mark.fault("E3")
def test_a_failure_of_the_programs_own_is_kept_beside_ours() -> None:
    """A program that fails by itself keeps its status, whatever became of its output."""
    with open("/dev/full", "wb") as full:
        run = supervise(program=children.exits(3, "words"), stdout=full)
    assert run.code == 3


ENDLESS = {
    "chatty": "import itertools\nfor i in itertools.count(): print(i, flush=True); time.sleep(0.05)",
    "flood": "while True: print('y')",
    "deaf": "signal.signal(signal.SIGPIPE, signal.SIG_IGN)\nwhile True:\n  try: print('y', flush=True)\n  except OSError: pass",
}


@pytest.mark.fault("E5")
@pytest.mark.parametrize("kind", ENDLESS)
def test_a_reader_that_leaves_ends_the_run(kind: str, tmp_path: Path) -> None:
    """Piped into a reader that quits after one line the run ends within seconds, by SIGPIPE, with its tree."""
    pids = tmp_path / "pids"
    program = (
        f"import os, signal, sys, time\nopen({str(pids)!r}, 'w').write(str(os.getpid()))\n{ENDLESS[kind]}"
    )
    argv = [helpers.LONGWATCH, "run", "-k", "500ms", "--", sys.executable, "-c", program]
    with (
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        helpers.ending(process),
    ):
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(8) == -13
    gone(*numbers(pids.read_text()))


@pytest.mark.fault("E5")
def test_a_reader_that_never_was_ends_the_run_too() -> None:
    """The same when the reader is gone before the first byte."""
    argv = f"{helpers.LONGWATCH} run yes | true; echo over"
    done = helpers.run_command(["bash", "-c", f"set -o pipefail; {argv}; exit $?"], deadline=15)
    assert done.out == "over\n"
    assert done.err == ""


def test_ctrl_c_ends_a_run_whose_reader_does_not_read(tmp_path: Path) -> None:
    """The program is gone, its output has no taker: whoever presses Ctrl-C does not have to find the reader first."""
    reading, writing = os.pipe()
    gone_file = tmp_path / "gone"
    # More than both pipes hold together with what is in hand.
    script = f"head -c 1200000 /dev/zero; echo > {gone_file}"
    process = subprocess.Popen([str(helpers.LONGWATCH), "run", "--", "sh", "-c", script], stdout=writing)
    os.close(writing)
    try:
        helpers.wait_until(gone_file.exists)
        helpers.wait_until(lambda: not [pid for pid in helpers.descendants(process.pid) if _runs(pid, "sh")])
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == -signal.SIGINT
    finally:
        os.close(reading)
        process.kill()
        process.wait()


def _runs(pid: int, name: str) -> bool:
    """Whether a process is alive and has this name."""
    return helpers.alive(pid) and helpers.command_line(pid).startswith(name)
