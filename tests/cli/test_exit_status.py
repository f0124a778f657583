"""How `longwatch run` ends: the child's own status, a word of ours, or the very signal that ended the run."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

import helpers
from longwatch.testing import children
from supervised import live, shell, supervise

# program, flags, status, reason
TABLE: dict[str, tuple[list[str], list[str], int, str]] = {
    "success": (shell("exit 0"), [], 0, "exited"),
    "failure": (shell("exit 3"), [], 3, "exited"),
    "failure-slow": (shell("sleep 0.1; exit 3"), [], 3, "exited"),
    "like-a-limit": (shell("exit 124"), [], 124, "exited"),
    "like-a-signal": (shell("exit 143"), [], 143, "exited"),
    "highest": (shell("exit 255"), [], 255, "exited"),
    "signal": (shell("kill -TERM $$"), [], 143, "signaled"),
    "abort": (shell("ulimit -c 0; kill -ABRT $$"), [], 134, "signaled"),
    "idle": (children.silent(), ["--idle", "200ms"], 124, "idle"),
    "first": (children.silent(), ["--first", "200ms"], 124, "first"),
    "ceiling": (children.silent(), ["--ceiling", "200ms"], 124, "ceiling"),
    "timeout": (children.silent(), ["--timeout", "200ms"], 124, "timeout"),
    "soft": (shell("sleep 0.5; exit 3"), ["--soft", "200ms"], 3, "exited"),
    "killed": (
        shell("trap '' TERM; while :; do sleep 1; done"),
        ["--timeout", "200ms", "-k", "100ms"],
        124,
        "timeout",
    ),
    "not-found": (["/no/such"], [], 127, "spawn_failed"),
    "directory": (["/"], [], 126, "spawn_failed"),
}


@pytest.mark.parametrize("case", TABLE)
def test_the_table_of_exits(case: str) -> None:
    """Each end has the status that the table of reasons gives it."""
    program, flags, status, reason = TABLE[case]
    run = supervise(*flags, program=program)
    assert (run.code, run.reason) == (status, reason)


CHOSEN: dict[str, tuple[list[str], list[str], int]] = {
    "idle": (["--exit-code", "idle=75", "--idle", "200ms"], children.silent(), 75),
    "two": (["--exit-code", "timeout=9", "--exit-code", "idle=75", "--idle", "200ms"], children.silent(), 75),
    "dash": (["--exit-code", "spawn-failed=9"], ["/no/such"], 9),
    "signaled": (["--exit-code", "signaled=9"], shell("kill -TERM $$"), 9),
    "zero": (["--exit-code", "idle=0", "--idle", "200ms"], children.silent(), 0),
    "other": (["--exit-code", "idle=75"], shell("exit 3"), 3),
}


@pytest.mark.parametrize("case", CHOSEN)
def test_a_status_can_be_chosen_for_a_reason(case: str) -> None:
    """--exit-code gives a reason another status, and leaves all others alone."""
    flags, program, status = CHOSEN[case]
    assert supervise(*flags, program=program).code == status


def test_a_chosen_status_replaces_a_death_by_signal() -> None:
    """Also an interrupted run can have a status of its own."""
    with live("--exit-code", "interrupted=99", program=shell("echo up; exec sleep 60")) as run:
        run.wait_for("up")
        run.send(signal.SIGTERM)
        assert run.finish().code == 99


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_what_ends_by_a_signal_ends_by_that_signal(signum: int) -> None:
    """Told to end by N longwatch ends by N itself, after its tree, and leaves no core of its own."""
    with live("-k", "2s", program=shell("echo up; exec sleep 60")) as run:
        run.wait_for("up")
        run.send(signum)
        done = run.finish()
    assert (done.code, done.reason) == (-signum, "interrupted")
    assert done.report["stopped"]["how"] == signal.Signals(signum).name[3:]


def test_a_shell_loop_ends_with_ctrl_c() -> None:
    """Ctrl-C at a loop of runs ends the loop, not just its current turn."""
    loop = f"for i in 1 2 3; do echo turn $i; {helpers.LONGWATCH} run --no-pty sleep 60; done; echo through"
    with helpers.Screen(["bash", "-c", loop]) as screen:
        screen.wait_for("turn 1")
        shell_pid = screen.process.pid
        helpers.wait_until(lambda: "sleep 60" in map(helpers.command_line, helpers.descendants(shell_pid)))
        screen.send("\x03")
        screen.wait(10)
        assert "turn 2" not in screen.text
        assert "through" not in screen.text


def test_a_shell_sees_128_and_the_signal() -> None:
    """What a shell makes of it is the usual number."""
    script = f"{helpers.LONGWATCH} run sh -c 'echo up; exec sleep 60' & wait $!; echo status $?"
    with subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        (longwatch,) = [
            p for p in helpers.descendants(process.pid) if "longwatch" in helpers.command_line(p)
        ][:1]
        os.kill(longwatch, signal.SIGTERM)
        assert process.stdout.read() == b"status 143\n"


def test_a_stop_by_the_verb_is_143_too() -> None:
    """`longwatch stop` sends TERM on a user's behalf: the status is that of TERM, the reason cancelled."""
    with live(program=shell("echo up; exec sleep 60")) as run:
        run.wait_for("up")
        name = run.status()["run"]
        stopped = helpers.run_cli("stop", name)
        done = run.finish()
    assert stopped.code == 0
    assert (done.code, done.reason, done.report["origin"]) == (143, "cancelled", "explicit")
    assert "stopped the whole tree by TERM" in done.err


def test_a_success_that_did_not_arrive_is_none(tmp_path: Path) -> None:
    """Where the program's output could not be written its success is ours to deny: 125."""
    with open("/dev/full", "wb") as full:
        assert supervise(program=shell("echo x"), stdout=full).code == 125


def test_ctrl_c_while_we_load_is_no_traceback(tmp_path: Path) -> None:
    """Interrupted before anything is loaded longwatch ends by that signal, like any program, without a word."""
    package = tmp_path / "longwatch" / "cli"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "main.py").write_text("import os, time\nos.kill(os.getpid(), 2)\ntime.sleep(5)\n")
    done = helpers.run_cli("run", "true", env={"PYTHONPATH": str(tmp_path)}, measured=False)
    assert (done.code, done.out, done.err) == (-2, "", "")
