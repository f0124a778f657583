"""`longwatch run` from end to end: what each promise about a supervised command looks like to its user."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import helpers
from longwatch.cli.specs import limits_for_people, spec_of
from longwatch.options import parse
from longwatch.testing import children
from supervised import gone, live, numbers, python, shell, supervise

IDLE = ("--idle", "300ms")


@pytest.mark.capability("CAP-3")
@pytest.mark.parametrize("program", [["sleep", "60"], children.silent()], ids=["sleep", "python"])
def test_a_silent_program_is_stopped(program: list[str]) -> None:
    """A program that never says a word is stopped at its window, for that reason, with status 124."""
    run = supervise("--idle", "1s", program=program)
    assert (run.code, run.reason, run.out) == (124, "idle", "")
    assert 1_000 <= run.report["duration_ms"] < 4_000
    assert 1_000 <= run.report["idle_ms"] < 2_000


@pytest.mark.capability("CAP-4")
def test_what_came_before_the_silence_is_kept() -> None:
    """Output before a stall is passed on and in the report."""
    run = supervise(*IDLE, program=children.ticks_then_silent(3))
    assert (run.code, run.reason) == (124, "idle")
    assert run.out == run.report["stdout"]["head"] == "tick 0\ntick 1\ntick 2\n"


@pytest.mark.capability("CAP-6")
def test_bytes_are_progress_not_lines() -> None:
    """Dots without a line's end keep a program alive, and reach us one by one."""
    with live("--idle", "500ms", program=children.ticker(0.1, count=20, text=".")) as run:
        run.wait_for(".")
        early = len(run.out)
        done = run.finish()
    assert (done.code, done.reason, done.out) == (0, "exited", "." * 20)
    assert early < 20


@pytest.mark.capability("CAP-8")
@pytest.mark.parametrize("code", [0, 3])
def test_a_fast_exit_is_just_that(code: int) -> None:
    """A program that is over at once keeps its code, and nothing is said."""
    run = supervise("--idle", "50ms", "--first", "50ms", program=shell(f"echo x; exit {code}"))
    assert (run.code, run.out, run.err, run.reason) == (code, "x\n", "", "exited")


@pytest.mark.capability("CAP-9")
def test_an_exit_right_before_the_signal_wins(tmp_path: Path) -> None:
    """A program that ends by itself after its window, before the first signal, was not stopped by us."""
    program = shell(f"until [ -e {tmp_path}/go ]; do sleep 0.02; done; exit 3")
    run = supervise(*IDLE, "--before-stop", f"touch {tmp_path}/go; sleep 60", program=program)
    assert (run.code, run.reason) == (3, "exited")
    assert (run.report["limit"], run.report["stopped"]) == (None, None)
    assert [rung["why"] for rung in run.report["rungs"] if rung["rung"] == "stop_averted"] == ["exited"]
    assert run.said == []


# CAP-12


def limits(environ: dict[str, str], *flags: str) -> tuple[dict[str, dict[str, object]], list[str]]:
    """Return the limits that flags and variables make, and the warnings."""
    values, _ = parse("run", [*flags, "true"], environ)
    return limits_for_people(values, spec_of(values, merged=False)), values.warnings


BUILT_IN = {"idle": {"window_ms": 300_000, "action": "notify", "source": "default"}}


@pytest.mark.capability("CAP-12")
@pytest.mark.parametrize("environ", [{}, {"LONGWATCH_IDLE": ""}, {"LONGWATCH_IDLE": "  "}])
def test_the_built_in_window_only_notifies(environ: dict[str, str]) -> None:
    """With nothing named there are 5 minutes, after which a notice is all that happens."""
    assert limits(environ) == (BUILT_IN, [])


@pytest.mark.capability("CAP-12")
@pytest.mark.parametrize("text", ["garbage", "-5s", "5", "5 parsecs", "inf"])
def test_a_bad_variable_warns_once_and_leaves_the_built_in(text: str) -> None:
    """A variable that is no duration is named with its value in one warning; the built-in window stays."""
    found, warnings = limits({"LONGWATCH_IDLE": text})
    assert found == BUILT_IN
    (warning,) = warnings
    assert warning.startswith(f"LONGWATCH_IDLE={text}")


@pytest.mark.capability("CAP-12")
def test_a_good_variable_stops() -> None:
    """A window named by the variable stops, blanks around it or not; 0 and off disable it."""
    named = {"idle": {"window_ms": 42_000, "action": "stop", "source": "variable"}}
    assert limits({"LONGWATCH_IDLE": " 42s "}) == (named, [])
    assert limits({"LONGWATCH_IDLE": "0"}) == limits({"LONGWATCH_IDLE": "off"}) == ({}, [])


@pytest.mark.capability("CAP-12")
def test_the_variable_from_end_to_end() -> None:
    """The variable stops a silent program and is named as who set the limit; a bad one is one line before the run."""
    run = supervise(program=children.silent(), env={"LONGWATCH_IDLE": " 300ms "})
    assert (run.code, run.reason) == (124, "idle")
    assert "(LONGWATCH_IDLE=300ms)" in run.said[0]
    bad = supervise(program=shell("echo on"), env={"LONGWATCH_IDLE": "5"})
    assert (bad.code, bad.out) == (0, "on\n")
    assert len(bad.said) == 1
    assert "LONGWATCH_IDLE=5" in bad.said[0]
    assert "5m" in bad.said[0]


@pytest.mark.capability("CAP-12")
def test_a_notice_is_one_line_and_ends_nothing() -> None:
    """A limit that only notifies says so once, says that the program goes on, and it does."""
    run = supervise("--idle", "300ms", "--idle-action", "notify", program=shell("sleep 1; echo done"))
    assert (run.code, run.out, run.reason) == (0, "done\n", "exited")
    (line,) = run.said
    assert line.startswith("longwatch: sh: no output for 300ms (--idle 300ms): stdout never")
    assert line.endswith("it goes on")


@pytest.mark.capability("CAP-13", "CAP-14")
@pytest.mark.parametrize("poll", ["50ms", "500ms"])
def test_the_variable_sets_the_cadence_of_files_only(poll: str, tmp_path: Path) -> None:
    """LONGWATCH_POLL says how often files are looked at, whatever window is named; output is never polled."""
    beat = tmp_path / "beat"
    program = python(
        "import time",
        f"file = open({str(beat)!r}, 'ab', buffering=0)",
        "for i in range(50): file.write(b'x'); print(i, flush=True); time.sleep(0.02)",
    )
    flags = ("--idle", "20s", "--progress", "output", "--progress", f"file:{beat}")
    env = {"LONGWATCH_POLL": poll, "LONGWATCH_IDLE": "300ms"}
    run = supervise(*flags, program=program, env=env)
    assert (run.code, run.reason) == (0, "exited")
    seen = run.report["progress"][f"file:{beat}"]["count"]
    assert run.report["progress"]["stdout"]["count"] >= 25
    assert seen >= 8 if poll == "50ms" else 1 <= seen <= 6


@pytest.mark.capability("CAP-18")
def test_the_message_names_the_silence() -> None:
    """The first line of a stop says what was missed, for how long, who set that and when something last came."""
    run = supervise("--idle", "1500ms", program=children.ticks_then_silent(2))
    first, second, third = run.said
    assert re.fullmatch(
        r"longwatch: python\S*: no output for 1s500ms \(--idle 1s500ms\): stdout 1s5\d\dms ago, stderr never",
        first,
    )
    assert re.fullmatch(r"longwatch: python\S*: cause: \d+ `python\S*` sleeps", second)
    assert re.fullmatch(
        rf"longwatch: python\S*: stopped the whole tree by TERM in \d+ms, nothing left; "
        rf"longwatch why {re.escape(run.report['run'])} tells more",
        third,
    )
    assert "timeout" not in run.err.lower()


@pytest.mark.capability("CAP-18")
def test_half_a_second_is_not_zero() -> None:
    """Short spans are told to the millisecond: no `0s ago`."""
    run = supervise("--idle", "500ms", program=children.ticks_then_silent(2))
    assert re.search(r"stdout 5\d\dms ago", run.said[0])
    assert "0s" not in run.said[0]


@pytest.mark.capability("CAP-18")
def test_a_limit_on_files_speaks_of_progress(tmp_path: Path) -> None:
    """Where output does not count the message does not speak of output."""
    beat = tmp_path / "beat"
    program = shell(f"sleep 0.1; echo x >{beat}; while :; do echo chatter; sleep 0.05; done")
    run = supervise(*IDLE, "--poll", "50ms", "--progress", f"file:{beat}", program=program)
    assert (run.code, run.reason) == (124, "idle")
    assert f"no progress for 300ms (--idle 300ms): file:{beat} 3" in run.said[0]


@pytest.mark.capability("CAP-21")
def test_a_program_that_cannot_be_started_is_a_result(tmp_path: Path) -> None:
    """A missing and a non-executable program are results: 127 and 126, one line, and a report with the reason."""
    plain = tmp_path / "plain"
    plain.write_text("x")
    missing = supervise(program=["no-such-program-here"])
    assert (missing.code, missing.reason, missing.report["outcome"]) == (127, "spawn_failed", "failed")
    assert missing.said == ["longwatch: no-such-program-here: not found on PATH"]
    assert missing.report["notes"] == ["no-such-program-here: not found on PATH"]
    barred = supervise(program=[plain])
    assert (barred.code, barred.reason) == (126, "spawn_failed")
    assert barred.said == [f"longwatch: {plain}: not executable (try chmod +x)"]


@pytest.mark.capability("CAP-59")
@pytest.mark.parametrize("limit", ["--timeout", "--ceiling"])
def test_a_cap_takes_the_background_along(limit: str) -> None:
    """A cap of 200 ms ends a sleeper and what was put into the background."""
    run = supervise(limit, "200ms", program=shell("sleep 30 & echo $!; sleep 30"))
    assert (run.code, run.reason) == (124, limit[2:])
    assert run.seconds < 10
    assert not [pid for pid in numbers(run.out) if helpers.alive(pid)]
    assert run.report["survivors"] == []
    assert f"({limit} 200ms)" in run.said[0]


@pytest.mark.capability("CAP-59")
def test_a_busy_program_is_capped_too() -> None:
    """A limit of time ends a program that works; its first line does not speak of silence."""
    run = supervise("--timeout", "500ms", program=children.ticker(0.05))
    assert (run.code, run.reason, run.report["outcome"]) == (124, "timeout", "timed_out")
    assert "the timeout of 500ms is over (--timeout 500ms)" in run.said[0]
    assert "cause" not in run.err
    assert "no output" not in run.err


@pytest.mark.capability("CAP-60")
def test_term_then_kill() -> None:
    """Who ignores TERM is dead by the cap and the grace; who is stopped is continued, so that TERM reaches it."""
    deaf = supervise("--timeout", "400ms", "-k", "300ms", program=children.ignores_term())
    assert (deaf.code, deaf.report["stopped"]["how"]) == (124, "TERM, then KILL")
    assert deaf.seconds < 0.4 + 0.3 + 2
    frozen = supervise(*IDLE, program=shell("trap 'echo heard; exit 0' TERM; kill -STOP $$; sleep 60"))
    assert (frozen.code, frozen.out, frozen.report["stopped"]["how"]) == (124, "heard\n", "TERM")


@pytest.mark.capability("CAP-60")
def test_the_default_grace_is_ten_seconds() -> None:
    """Without -k a program has 10 s to clean up."""
    values, _ = parse("run", ["true"], {})
    assert spec_of(values, merged=False).grace == 10_000


@pytest.mark.capability("CAP-60")
def test_another_signal_can_be_named() -> None:
    """With -s the program is asked to end by that signal, and the last line names it."""
    run = supervise(
        *IDLE, "-s", "USR2", program=shell("trap 'echo two; exit 0' USR2; while :; do sleep 0.05; done")
    )
    assert (run.code, run.out) == (124, "two\n")
    assert "by USR2 in" in run.said[2]


@pytest.mark.capability("CAP-61")
def test_an_exit_right_before_the_cap_is_an_exit() -> None:
    """A program that is done just before its cap exited; one that somebody else killed was signaled."""
    run = supervise("--timeout", "600ms", program=shell("sleep 0.3"))
    assert (run.code, run.reason, run.err) == (0, "exited", "")
    with live("--timeout", "20s", program=shell("echo up; exec sleep 60")) as other:
        other.wait_for("up")
        os.kill(other.tree()[0], signal.SIGTERM)
        done = other.finish()
    assert (done.code, done.reason, done.report["signal"]) == (143, "signaled", "TERM")


@pytest.mark.capability("CAP-62")
def test_a_graceful_answer_to_the_cap_is_still_a_timeout() -> None:
    """A program that answers TERM after the cap by exiting 0 ran into its timeout."""
    run = supervise("--timeout", "400ms", program=children.handles_term(0))
    assert (run.code, run.reason, run.out) == (124, "timeout", "ready\nbye\n")
    assert run.report["exit_code"] == 0


@pytest.mark.capability("NEW-2")
def test_a_keep_alive_moves_only_one_of_two_clocks() -> None:
    """Lines that are no progress move the sign of life and nothing else, in `ls`, in the report and for the limit."""
    program = shell("echo begun; while :; do echo ': ping'; sleep 0.05; done")
    with live("--idle", "4s", "--not-progress", "^: ping", program=program) as run:
        run.wait_for(": ping\n" * 15)
        status = run.status()
        done = run.finish()
    assert status["alive_ms_ago"] < 500 < status["progress_ms_ago"] <= status["age_ms"]
    assert (done.code, done.reason) == (124, "idle")
    assert done.report["idle_ms"] >= 4_000
    assert done.report["duration_ms"] > done.report["idle_ms"]
    assert done.report["progress"]["stdout"]["count"] == 1


# NEW-3


def rungs(report: dict[str, Any]) -> list[str]:
    """Return the names of what was done about a silence."""
    return [rung["rung"] for rung in report["rungs"]]


@pytest.mark.capability("NEW-3")
def test_a_nudge_comes_before_a_stop(state: Path) -> None:
    """Note, notice, nudge: the text is typed at the terminal, and an answer to it saves the program."""
    reading, writing = os.pipe()
    try:
        run = supervise(
            "--pty", "--idle", "400ms", "--nudge", "go on", stdin=reading,
            program=shell("stty -echo; echo ready; read word; echo got $word"),
        )  # fmt: skip
    finally:
        os.close(reading)
        os.close(writing)
    assert (run.code, run.out, run.reason) == (0, "ready\r\ngot go on\r\n", "exited")
    assert rungs(run.report) == ["limit_fired", "nudged"]
    events = (state / "runs" / run.report["run"] / "events.jsonl").read_text().splitlines()
    told = [event["event"] for event in map(json.loads, events)]
    assert [name for name in told if name in ("limit_noted", "limit_fired", "nudged")] == [
        "limit_noted", "limit_fired", "nudged",
    ]  # fmt: skip


@pytest.mark.capability("NEW-3")
def test_a_nudge_that_does_not_help_gives_one_window() -> None:
    """A program that does not answer the nudge is stopped one window later; every rung has its instant."""
    reading, writing = os.pipe()
    try:
        run = supervise(
            "--pty", "--idle", "400ms", "--nudge", "go on", stdin=reading, program=children.silent()
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert (run.code, run.reason) == (124, "idle")
    # The terminal echoes what is typed; that is our own doing, and moves no clock.
    assert run.out == "go on\r\n"
    assert rungs(run.report) == ["limit_fired", "nudged", "stop_began"]
    fired, nudged, stopped = (rung["after_ms"] for rung in run.report["rungs"])
    assert 400 <= fired <= nudged
    assert stopped - nudged >= 400
    assert run.report["progress"]["stdout"]["count"] == 0


@pytest.mark.capability("NEW-3")
def test_rungs_without_means_are_skipped() -> None:
    """Without a text nothing is nudged: notice and stop follow each other at once."""
    run = supervise(*IDLE, program=children.silent())
    assert rungs(run.report) == ["limit_fired", "stop_began"]
    fired, stopped = (rung["after_ms"] for rung in run.report["rungs"])
    assert fired >= 300
    assert stopped - fired < 1_000


@pytest.mark.capability("NEW-3")
def test_progress_during_the_hook_cancels_the_stop(tmp_path: Path) -> None:
    """The evidence is read again right before the first signal: a word during the hook saves the program."""
    program = shell(
        f"until [ -e {tmp_path}/asked ]; do sleep 0.02; done; echo here; touch {tmp_path}/said; sleep 1; exit 0"
    )
    hook = f"touch {tmp_path}/asked; until [ -e {tmp_path}/said ]; do sleep 0.02; done"
    run = supervise("--idle", "2s", "--before-stop", hook, "-v", program=program)
    assert (run.code, run.out, run.reason) == (0, "here\n", "exited")
    assert [rung["why"] for rung in run.report["rungs"] if rung["rung"] == "stop_averted"] == ["progress"]
    assert any("the stop is called off: there was progress" in line for line in run.said)
    assert not any("stopped" in line for line in run.said)


@pytest.mark.capability("NEW-3")
def test_verbose_says_what_is_noted_and_sent() -> None:
    """With -v each step is a line: the half of the window, what was sent, and KILL."""
    run = supervise(*IDLE, "-v", "-k", "200ms", program=children.ignores_term())
    assert [line.partition(": ")[2].partition(": ")[2].split(" ")[0] for line in run.said[-6:]] == [
        "half", "no", "cause:", "sends", "sends", "stopped",
    ]  # fmt: skip


# NEW-7


def quiet(span: str, seconds: float) -> str:
    """Return a script that announces and keeps a silence."""
    return f"{helpers.LONGWATCH} quiet {span} -- sleep {seconds}; echo done; sleep 60"


@pytest.mark.capability("NEW-7")
def test_a_silence_announced_from_inside_is_no_stall() -> None:
    """`quiet` holds the limit while its command runs; when it is over the window counts from there."""
    run = supervise("--idle", "800ms", program=shell(quiet("40m", 2)))
    assert (run.code, run.out, run.reason) == (124, "done\n", "idle")
    assert run.report["duration_ms"] >= 2_000 + 800
    assert rungs(run.report) == ["limit_fired", "stop_began"]
    assert [line for line in run.said if "no output" in line] == run.said[:1]


@pytest.mark.capability("NEW-7")
def test_the_human_caps_what_may_be_claimed() -> None:
    """--allow-quiet is the most that a run may claim in all, whatever it asks for."""
    run = supervise("--idle", "800ms", "--allow-quiet", "1200ms", program=shell(quiet("40m", 20)))
    assert (run.code, run.out, run.reason) == (124, "", "idle")
    assert 1_500 <= run.report["duration_ms"] < 5_000


@pytest.mark.capability("NEW-7")
def test_outside_a_run_it_just_runs() -> None:
    """Outside a run `quiet` runs its command and says that nobody watches."""
    done = helpers.run_cli("quiet", "40m", "--", "sh", "-c", "echo out; exit 4")
    assert (done.code, done.out) == (4, "out\n")
    assert "not inside a run" in done.err


# NEW-17


@pytest.mark.capability("NEW-17")
def test_why_tells_the_end_without_a_daemon() -> None:
    """`why` names limit, culprit, what was left and how to go on, from the run folder alone."""
    run = supervise("--idle", "600ms", "--name", "job", program=shell("echo part; sleep 60; true"))
    told = helpers.run_cli("why", "job")
    assert told.code == 0
    assert run.report["run"] in told.out
    assert "idle limit of 600ms was reached" in told.out
    assert "`sleep` sleeps" in told.out
    assert "nothing of it is alive" in told.out
    assert "--idle" in told.out
    assert helpers.run_cli("why").out.splitlines()[0] == told.out.splitlines()[0]
    as_json = json.loads(helpers.run_cli("why", "--json", run.report["run"]).out)
    assert as_json["report"]["stdout"]["head"] == "part\n"


@pytest.mark.slow
@pytest.mark.capability("NEW-17")
def test_a_run_of_over_a_second_leaves_a_folder(state: Path) -> None:
    """Also a run that ended well keeps events, clocks and report once it took longer than a second."""
    run = supervise(program=shell("echo part; sleep 1.2"))
    folder = state / "runs" / run.report["run"]
    assert sorted(os.listdir(folder)) == ["clocks", "events.jsonl", "meta.json", "report.json"]
    assert json.loads((folder / "report.json").read_text())["run"] == run.report["run"]
    brief = supervise(program=shell("echo part"))
    assert not (state / "runs" / brief.report["run"]).exists()
    assert brief.report["run"] in helpers.run_cli("runs").out


# What else a user meets


def test_stdout_is_the_programs_alone() -> None:
    """Whatever happens, not a byte of ours is on stdout."""
    for flags in (
        IDLE,
        ("--timeout", "300ms"),
        ("--idle", "300ms", "--idle-action", "notify", "--timeout", "1s"),
    ):
        run = supervise(*flags, "-v", "--still-running", "100ms", program=shell("printf a; sleep 60"))
        assert run.out == "a"
        assert all(line.startswith("longwatch: ") for line in run.err.splitlines())


def test_a_name_of_a_process_cannot_touch_the_terminal() -> None:
    """Control characters in somebody's name are not passed on in our lines."""
    program = python(
        "import ctypes, time",
        "ctypes.CDLL(None).prctl(15, b'a\\033[31mb', 0, 0, 0)",
        "time.sleep(60)",
    )
    run = supervise("--idle", "600ms", program=program)
    assert run.code == 124
    assert "\x1b" not in run.err
    assert "`a?[31mb`" in run.said[1]


def test_our_options_do_not_reach_the_program() -> None:
    """Variables that set our options are not in the program's environment; its run and attempt are."""
    env = {"LONGWATCH_IDLE": "20s", "LONGWATCH_POLL": "2s"}
    run = supervise("--name", "job", program=shell("env | grep ^LONGWATCH_ | sort"), env=env)
    marker = f"{helpers.MARKER}="
    names = [line for line in run.out.split() if not line.startswith(marker)]
    assert names == ["LONGWATCH_ATTEMPT=1", f"LONGWATCH_RUN_ID={run.report['run']}"]


def test_a_defect_of_ours_costs_no_work(tmp_path: Path) -> None:
    """Should longwatch itself fail, one line says where, and the program goes on to its own end, bytes and status."""
    crash = "import sys\nfrom longwatch.runtime import keeping\nkeeping.Keeping.looked = lambda *a: 1 / 0\n"
    crash += (
        "from longwatch.cli.main import main\nmain(['longwatch', 'run', '--idle', '400ms', *sys.argv[1:]])"
    )
    script = "sleep 1; echo done; exit 6"
    done = helpers.run_command([*python(crash), "sh", "-c", script])
    assert (done.code, done.out) == (6, "done\n")
    assert "Traceback" not in done.err
    assert "defect of longwatch" in done.err
    assert "ZeroDivisionError" in done.err
    assert "goes on unwatched" in done.err


def test_what_is_unwatched_can_be_ended(tmp_path: Path) -> None:
    """After a defect of ours signals still reach the program, and its helpers in other sessions go with us."""
    crash = "import sys\nfrom longwatch.runtime import keeping\nkeeping.Keeping.looked = lambda *a: 1 / 0\n"
    crash += (
        "from longwatch.cli.main import main\nmain(['longwatch', 'run', '--idle', '400ms', *sys.argv[1:]])"
    )
    command = [*python(crash), "sh", "-c", "setsid sleep 60 & echo $!; wait"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "goes on unwatched" in process.stderr.readline()
    process.terminate()
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGTERM
    gone(*numbers(out))


def test_closed_standard_descriptors_are_no_trap() -> None:
    """Started with stdin, stdout and stderr closed, a program runs, and its pipes are not taken for ours."""
    script = f"{helpers.LONGWATCH} run sh -c 'sleep 0.1; exit 6' <&- >&- 2>&-; echo $?"
    assert helpers.run_command(["sh", "-c", script]).out == "6\n"


def test_no_descriptor_of_ours_reaches_the_program() -> None:
    """The program inherits its three streams and nothing else."""
    run = supervise("--idle", "20s", "--log", os.devnull, program=shell("ls /proc/self/fd"))
    assert run.out.split() == ["0", "1", "2", "3"]


def test_a_log_rotates_and_misses_nothing(tmp_path: Path) -> None:
    """A full log becomes FILE.1, cut between lines; the newest lines are in the two files, in order."""
    log = tmp_path / "log"
    program = shell("i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i + 1)); done")
    run = supervise("--log", log, "--log-max", "16KiB", program=program)
    assert run.code == 0
    kept = (log.with_name("log.1").read_text() + log.read_text()).splitlines()
    assert kept == [f"line {i}" for i in range(2000 - len(kept), 2000)]
    assert log.stat().st_size <= 16 << 10


def test_a_removed_working_folder_is_no_trap(tmp_path: Path) -> None:
    """Also where the current folder is gone the run is kept and nothing is said about it."""
    script = f"mkdir x; cd x; rmdir ../x; {helpers.LONGWATCH} run sleep 0.1; {helpers.LONGWATCH} run echo on"
    done = helpers.run_command(["sh", "-c", script], cwd=tmp_path)
    assert (done.out, done.err) == ("on\n", "")


@pytest.mark.capability("NEW-2")
def test_still_running_is_for_outer_watchers() -> None:
    """The line for CI services shows age and evidence, and comes only as often as it was asked for."""
    run = supervise("--still-running", "200ms", "--idle", "20s", program=shell("sleep 0.7"))
    assert 2 <= len(run.said) <= 4
    assert re.fullmatch(
        r"longwatch: sh: still running after 2\d\dms: stdout never, stderr never", run.said[0]
    )


def test_signals_while_we_start_are_not_lost() -> None:
    """A signal that comes in the very first moment still ends the run and the tree."""
    with subprocess.Popen([helpers.LONGWATCH, "run", "sleep", "60"], stderr=subprocess.PIPE) as process:
        helpers.wait_until(lambda: helpers.descendants(process.pid))
        tree = helpers.descendants(process.pid)
        process.terminate()
        assert process.wait(10) == -15
    gone(*tree)


def test_a_limit_without_a_source_says_so(tmp_path: Path) -> None:
    """A file that was never seen condemns nobody; whoever named it is told once that the limit does not act."""
    source = f"file:{tmp_path / 'never'}"
    run = supervise("--idle", "300ms", "--progress", source, program=shell("sleep 1; echo done"))
    assert (run.code, run.out) == (0, "done\n")
    assert run.said == [f"longwatch: sh: no limit of silence acts yet: {source} never seen"]


@pytest.mark.capability("NEW-2")
@pytest.mark.parametrize(
    ("flags", "script"),
    [
        (("--not-progress", r"^\.$"), "while :; do echo .; sleep 0.05; done"),
        (("--progress", "stdout"), "while :; do echo . >&2; sleep 0.05; done"),
    ],
)
def test_a_stop_tells_both_clocks_where_they_differ(flags: tuple[str, ...], script: str) -> None:
    """Life that is no progress is told as such: nobody reads `no output` under a screen full of it."""
    run = supervise("--idle", "400ms", *flags, program=shell(script))
    assert run.reason == "idle"
    told = run.said[0]
    assert "no progress for 400ms" in told
    assert "stdout never" in told
    assert re.search(r"; alive (\d+ms|0s) ago$", told)
