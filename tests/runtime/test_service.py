"""One harness across incarnations, under a real daemon: what a start is told, what an end proves, what comes after."""

import json
import os
import signal
import sys
from pathlib import Path

import pytest

import helpers
from daemons import Refused, daemon, harness, shell
from keepers import keeping
from keepers import shell as launched
from longwatch import paths
from longwatch.core.spec import LimitSpec
from longwatch.options import child_environment
from longwatch.runtime.host import Host
from longwatch.runtime.running import Begun, Parts, Running

SLEEP = "exec sleep 600"
READS_LEDGER = """
import os, sqlite3, sys
with sqlite3.connect("file:" + sys.argv[1] + "?mode=ro", uri=True) as ledger:
    print("found", ledger.execute("select count(*) from runs where run = ?", (os.environ["LONGWATCH_RUN_ID"],)).fetchone()[0])
"""


@pytest.mark.capability("NEW-10")
def test_an_incarnation_is_told_who_it_is_and_how_the_last_one_ended(tmp_path):
    """Run id, attempt, name, trigger and the last reason are in its environment; it reads nothing."""
    script = (
        'env | grep ^LONGWATCH_ | sort; cat; echo end; [ "$LONGWATCH_ATTEMPT" = 2 ] && exec sleep 600; exit 3'
    )
    with daemon(tmp_path, shell("a", script, env={"LONGWATCH_IDLE": "5m", "MINE": "x"})) as place:
        place.until("a", state="running", attempt=2)
        helpers.wait_until(lambda: place.logged("a").count("end\n") == 2)
        first, second = (part.splitlines() for part in place.logged("a").split("end\n")[:2])
        runs = [run["run"] for run in place.ledger()]
        assert f"LONGWATCH_RUN_ID={runs[0]}" in first
        assert f"LONGWATCH_RUN_ID={runs[1]}" in second
        assert {"LONGWATCH_ATTEMPT=1", "LONGWATCH_NAME=a", "LONGWATCH_TRIGGER=autostart"} <= set(first)
        assert {"LONGWATCH_ATTEMPT=2", "LONGWATCH_LAST_REASON=exited", "LONGWATCH_TRIGGER=restart"} <= set(
            second
        )
        assert not any("LAST_REASON" in line for line in first)


@pytest.mark.capability("CAP-122")
def test_the_record_is_durable_before_the_program_starts(tmp_path):
    """The first thing that the program does is to find itself in the ledger."""
    script = tmp_path / "reads.py"
    script.write_text(READS_LEDGER)
    with daemon(tmp_path, start=False) as place:
        ledger = f"{place.state}/ledger.sqlite3"
        place.define(harness("a", "sh", "-c", f"{sys.executable} {script} {ledger}; exec sleep 600"))
        place.start()
        helpers.wait_until(lambda: "found" in place.logged("a"))
        assert "found 1" in place.logged("a")


@pytest.mark.fault("T3")
def test_a_folder_that_is_gone_starts_nothing(tmp_path):
    """No program runs in another folder than its own; the run is recorded as what it was."""
    with daemon(tmp_path, shell("a", f"touch {tmp_path}/ran", cwd=str(tmp_path / "gone"))) as place:
        stands = place.until("a", state="failed")
        assert str(tmp_path / "gone") in stands["last_error"]
        assert not (tmp_path / "ran").exists()
        run = helpers.wait_until(lambda: [run for run in place.ledger() if run["outcome"] != "running"])[0]
        assert (run["termination_reason"], run["outcome"]) == ("spawn_failed", "failed")
        assert place.status("a")["last_run"]["ended_at"]


@pytest.mark.capability("CAP-116")
def test_a_command_that_is_not_there_is_failed_with_its_name(tmp_path):
    """Spawn failure is `failed`, at once, until somebody starts it again."""
    with daemon(tmp_path, harness("a", "/no/such/agent")) as place:
        stands = place.until("a", state="failed")
        assert "/no/such/agent" in stands["last_error"]
        place.define(shell("a", SLEEP))
        place.ask("reload")
        place.ask("start", name="a")
        place.running("a")


@pytest.mark.fault("F7")
def test_the_next_one_begins_when_nothing_is_left_of_the_last(tmp_path):
    """What a first incarnation left behind, in a session of its own and deaf to TERM, is gone before the second."""
    leftover = f"trap '' TERM; echo $$ > {tmp_path}/pid; exec 9> {tmp_path}/lock; flock 9; while :; do sleep 0.05; done"
    script = f"""
        if [ "$LONGWATCH_ATTEMPT" = 1 ]; then
            setsid sh -c "{leftover}" & while [ ! -s {tmp_path}/pid ]; do sleep 0.01; done; exit 1
        fi
        kill -0 $(cat {tmp_path}/pid) 2>/dev/null && echo STILL; flock -n {tmp_path}/lock echo free; exec sleep 600
    """
    script = script.replace("$$", "\\$\\$")
    with daemon(tmp_path, shell("a", script)) as place:
        place.until("a", state="running", attempt=2)
        helpers.wait_until(lambda: "free" in place.logged("a"))
        assert "STILL" not in place.logged("a")
        assert place.ledger()[0]["leftovers"]["count"] >= 1


def test_it_is_ready_when_it_says_so(tmp_path):
    """Until its text appears it is starting; the text may come in pieces."""
    script = f"printf 'now li'; read x < {tmp_path}/go; printf 'stening\\n'; {SLEEP}"
    os.mkfifo(tmp_path / "go")
    with daemon(tmp_path, shell("a", script, ready="listening")) as place:
        helpers.wait_until(lambda: "now li" in place.logged("a"))
        assert place.status("a")["state"] == "starting"
        (tmp_path / "go").write_text("x\n")
        place.running("a")
        assert "now listening" in place.logged("a")


def test_a_stop_command_speaks_first_and_not_for_ever(tmp_path):
    """It may end the program in its own way; one that hangs is cut off by the grace, and TERM follows."""
    polite = shell(
        "polite",
        f"trap 'echo by TERM' TERM; read x < {tmp_path}/go; echo saved; exit 0",
        stop_command=f"echo x > {tmp_path}/go",
        restart="no",
        grace=2_000,
    )
    hangs = shell("hangs", SLEEP, stop_command="sleep 600", grace=300)
    os.mkfifo(tmp_path / "go")
    with daemon(tmp_path, polite, hangs) as place:
        place.running("polite")
        place.running("hangs")
        report = place.ask("stop", name="polite")["report"]
        assert (report["exit_code"], report["rungs"]) == (0, [])
        assert "saved" in place.logged("polite")
        assert "by TERM" not in place.logged("polite")
        report = place.ask("stop", name="hangs")["report"]
        assert (report["termination_reason"], report["signal"]) == ("cancelled", "TERM")
        assert "the stop command took too long" in place.said()


def test_a_stop_is_given_the_grace_that_was_asked_for(tmp_path):
    """A program deaf to TERM is killed after it, and the answer comes when that is proven."""
    with daemon(
        tmp_path, shell("a", "trap '' TERM; echo up; while :; do sleep 0.05; done", grace=60_000)
    ) as place:
        helpers.wait_until(lambda: "up" in place.logged("a"))
        report = place.ask("stop", name="a", kill_after_ms=100)["report"]
        assert (report["signal"], report["stopped"]["how"]) == ("KILL", "TERM, then KILL")


@pytest.mark.capability("CAP-112")
@pytest.mark.fault("J5")
def test_a_stall_goes_through_the_ordinary_exit_and_is_revived(tmp_path):
    """Closed as stalled with its real code, no verdict, and started again even with `restart = "no"`."""
    stalls = shell(
        "a",
        "trap 'exit 0' TERM; while :; do sleep 0.02; done",
        restart="no",
        limits={"stall": LimitSpec(700, "stop")},
        revive=("stall",),
    )
    with daemon(tmp_path, stalls) as place:
        first = place.running("a")
        place.until("a", state="running", attempt=2)
        ended = place.ledger()[0]
        assert (ended["run"], ended["outcome"], ended["verdict"], ended["exit_code"]) == (
            first["run"],
            "stalled",
            None,
            0,
        )
        fact = place.facts("stalled")[0]
        assert fact["tree"][0].startswith(f"{first['pid']} ")
        assert fact["stalls"] == 1


@pytest.mark.capability("CAP-110")
def test_a_stall_that_only_notifies_is_told_once(tmp_path):
    """One notice an episode, and nothing happens to the program."""
    with daemon(tmp_path, shell("a", SLEEP, limits={"stall": LimitSpec(300, "notify")})) as place:
        pid = place.running("a")["pid"]
        helpers.wait_until(lambda: place.facts("stalled"))
        place.define(shell("a", SLEEP, limits={"stall": LimitSpec(300, "notify")}, nudge="x"))
        place.ask("reload")
        helpers.time.sleep(0.7)
        assert len(place.facts("stalled")) == 1
        place.kill()
        place.start()
        assert place.running("a")["pid"] == pid
        helpers.time.sleep(0.4)
        assert len(place.facts("stalled")) == 1
        run = place.status("a")["run"]
        events = (Path(paths.run_folder(place.state, run)) / "events.jsonl").read_text()
        assert events.count("limit_fired") == 1


@pytest.mark.capability("CAP-129")
def test_the_first_word_after_a_notice_answers_it_at_once(tmp_path):
    """A silence was told; what breaks it is told too, though no deadline is near."""
    os.mkfifo(tmp_path / "go")
    script = f"echo one; read x < {tmp_path}/go; echo two; exec sleep 600"
    with daemon(tmp_path, shell("a", script, limits={"idle": LimitSpec(300, "notify")})) as place:
        helpers.wait_until(lambda: place.facts("limit_notice"))
        assert not place.facts("recovered")
        (tmp_path / "go").write_text("x\n")
        helpers.wait_until(lambda: place.facts("recovered"), 5)


def test_a_run_that_looks_for_itself_turns_nobody_elses_loop(tmp_path):
    """In a shared reactor a last look before a stop takes what came of this program, and calls no one else."""
    host, over, called = Host(), [], []
    with keeping("keep", path=str(tmp_path / "k")) as keeper:
        child = keeper.spawn(launched("echo hello; exec sleep 600"), "a-abcdef")
        running = Running(
            host, Parts(paths.state()), shell("a", "x"), Begun("a-abcdef"), child, on_over=over.append
        )
        read, write = os.pipe()
        host.reactor.add(read, lambda: called.append(1))
        os.write(write, b"!")
        helpers.wait_until(lambda: running.effects.poll(0) or running.process.pumps["stdout"].bytes)
        assert called == []
        host.reactor.poll(0)
        assert called == [1]
        host.reactor.remove(read)
        running.stop("cancelled", "explicit")
        helpers.wait_until(lambda: host.turn(20) or over)
        host.close()
        os.close(read)
        os.close(write)


def test_inside_another_run_both_ids_are_its_mark(tmp_path, monkeypatch):
    """What has left its tree is looked for by the mark that it was given: that of the run around the daemon is part of it."""
    monkeypatch.setenv("LONGWATCH_RUN_ID", "outer-abcdef")
    host, over = Host(), []
    parts = Parts(paths.state(), environment=child_environment)
    with keeping("keep", path=str(tmp_path / "k")) as keeper:
        child = keeper.spawn(launched("exec sleep 600"), "a-abcdef")
        running = Running(host, parts, shell("a", "x"), Begun("a-abcdef"), child, on_over=over.append)
        marked = child_environment(os.environ, "a-abcdef")["LONGWATCH_RUN_ID"]
        assert running.tree.run_id == marked == "outer-abcdef/a-abcdef"
        running.stop("cancelled", "explicit")
        helpers.wait_until(lambda: host.turn(20) or over)
        host.close()


def test_a_nudge_is_typed_into_its_terminal(tmp_path):
    """Before the stop the text is typed, and what it answers saves it."""
    script = "echo up; while read x; do echo got $x; done"
    nudged = shell("a", script, pty=True, limits={"idle": LimitSpec(800, "stop")}, nudge="go on")
    with daemon(tmp_path, nudged) as place:
        pid = place.running("a")["pid"]
        helpers.wait_until(lambda: "got go on" in place.logged("a"))
        assert place.status("a")["pid"] == pid


def test_keys_reach_a_terminal_and_nothing_else(tmp_path):
    """`send` types; a harness without a terminal says that it reads nothing; `resize` is seen."""
    with daemon(
        tmp_path, shell("t", "read x; echo got $x; stty size; exec sleep 600", pty=True), shell("p", SLEEP)
    ) as place:
        place.running("t")
        place.running("p")
        place.ask("resize", name="t", rows=33, cols=101)
        assert place.ask("send", name="t", data="aGVsbG8=", newline=True)["sent"] == 6
        helpers.wait_until(lambda: "33 101" in place.logged("t"))
        assert "got hello" in place.logged("t")
        with pytest.raises(Refused, match="reads no input"):
            place.ask("send", name="p", data="aGVsbG8=", newline=True)
        with pytest.raises(Refused, match="not base64"):
            place.ask("send", name="t", data="?", newline=True)


@pytest.mark.capability("CAP-121")
def test_a_trigger_runs_with_its_payload_and_answers_at_the_end(tmp_path):
    """The payload is a private file named in the environment; the answer has the run's own end."""
    script = (
        'stat -c %a "$LONGWATCH_EVENT_FILE"; cat "$LONGWATCH_EVENT_FILE"; echo "$LONGWATCH_TRIGGER"; exit 4'
    )
    with daemon(tmp_path, shell("job", script, kind="triggered", restart="no")) as place:
        folder = place.folder / "payloads"
        folder.mkdir(mode=0o700)
        (folder / ".incoming-1").touch(mode=0o600)
        (folder / ".incoming-1").write_text('{"body": "hi"}\n')
        answer = place.ask(
            "trigger",
            name="job",
            trigger="manual",
            source="cli",
            wait=True,
            payload_file=str(folder / ".incoming-1"),
        )
        assert (answer["ended"]["exit_code"], answer["ended"]["outcome"]) == (4, "failed")
        log = (place.folder / "logs" / "job" / f"{answer['run']}.log").read_text()
        assert log.splitlines()[1:4] == ["600", '{"body": "hi"}', "manual"]
        with pytest.raises(Refused, match="no harness"):
            place.ask("trigger", name="nobody")


@pytest.mark.capability("CAP-120")
def test_a_run_that_takes_too_long_is_timed_out(tmp_path):
    """`timeout` of a fired run: TERM to the tree, its own outcome; a second firing meanwhile is skipped and says so."""
    job = shell(
        "job",
        SLEEP,
        kind="triggered",
        restart="no",
        limits={"timeout": LimitSpec(900, "stop")},
        on_overlap="skip",
    )
    with daemon(tmp_path, job) as place:
        first = place.ask("trigger", name="job", source="cli")
        assert first["run"]
        with pytest.raises(Refused, match="not started: its last run is not over"):
            place.ask("trigger", name="job", source="cli", wait=True)
        helpers.wait_until(lambda: [run for run in place.ledger() if run["outcome"] == "timed_out"])


@pytest.mark.capability("CAP-119")
def test_a_schedule_fires_and_remembers_that_it_has(tmp_path):
    """Every second: runs come, each of its own, and the next daemon does not repeat a window."""
    job = shell("job", "echo ran", kind="scheduled", restart="no", schedule=("@every 1s",))
    with daemon(tmp_path, job) as place:
        helpers.wait_until(lambda: len([r for r in place.ledger() if r["outcome"] == "success"]) >= 2)
        assert place.status("job")["next_due"]
        place.kill()
        place.start()
        helpers.wait_until(lambda: len([r for r in place.ledger() if r["outcome"] == "success"]) >= 3)
        starts = [run["started_at"] for run in place.ledger() if run["outcome"] == "success"]
        assert len({start[:19] for start in starts}) >= len(starts) - 1


@pytest.mark.capability("CAP-131")
def test_a_restart_answers_with_the_new_process(tmp_path):
    """`restart` by hand gives another process and clears what was counted."""
    with daemon(tmp_path, shell("a", SLEEP)) as place:
        first = place.running("a")
        answer = place.ask("restart", name="a")
        assert answer["run"] != first["run"]
        assert place.status("a")["pid"] != first["pid"]
        assert place.ledger()[0]["outcome"] == "cancelled"


def test_a_dead_keeper_costs_the_next_start_nothing(tmp_path):
    """What it held runs on and is stopped with its real end; what starts next has a new keeper."""
    with daemon(tmp_path, shell("a", SLEEP), shell("b", SLEEP)) as place:
        first = place.running("a")
        place.running("b")
        helpers.kill_all([place.ask("status")["daemon"]["keeper_pid"]])
        assert place.ask("stop", name="a")["report"]["termination_reason"] == "cancelled"
        assert not helpers.alive(first["pid"])
        place.ask("start", name="a")
        assert place.running("a")["pid"] != first["pid"]
        assert place.status("b")["state"] == "running"
        assert any("keeper is gone" in problem for problem in place.ask("status")["daemon"]["problems"])
        assert place.down()["survivors"] == []


def test_a_log_folder_that_is_no_folder_stops_nobody(tmp_path):
    """The program is read all the same, and what is lost is said."""
    with daemon(
        tmp_path,
        shell(
            "a",
            "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo line $i of some length; done; exec sleep 600",
        ),
        start=False,
    ) as place:
        place.folder.mkdir(parents=True)
        (place.folder / "logs").write_text("in the way")
        place.start()
        helpers.wait_until(lambda: place.status("a")["sources"].get("stdout", {}).get("count"))
        pid = place.running("a")["pid"]
        helpers.wait_until(lambda: helpers.command_line(pid).startswith("sleep"))
        assert "logs" in place.said()


@pytest.mark.capability("CAP-115")
def test_events_and_report_are_in_the_run_folder(tmp_path):
    """`ls`, `why` and `logs` find a harness's run as any other."""
    with daemon(
        tmp_path,
        shell("a", "echo hello; exec sleep 600", limits={"idle": LimitSpec(600, "stop")}, restart="no"),
    ) as place:
        first = place.running("a")
        helpers.wait_until((place.folder.parent.parent / "runs" / first["run"] / "report.json").exists)
        folder = place.folder.parent.parent / "runs" / first["run"]
        events = [json.loads(line)["event"] for line in (folder / "events.jsonl").read_text().splitlines()]
        assert events[0] == "run_started"
        assert events[-1] == "run_ended"
        report = json.loads((folder / "report.json").read_text())
        assert report["termination_reason"] == "idle"
        assert report["post_mortem"]["processes"]
        assert "hello\n" in report["stdout"]["tail"]
        meta = json.loads((folder / "meta.json").read_text())
        assert (meta["harness"], meta["daemon"], meta["log"]) == (
            "a",
            place.id,
            str(place.folder / "logs" / "a.log"),
        )


def test_a_signal_from_outside_is_the_programs_own_end(tmp_path):
    """A kill -9 by somebody else is `signaled`, and followed by the next one."""
    with daemon(tmp_path, shell("a", SLEEP)) as place:
        os.kill(place.running("a")["pid"], signal.SIGKILL)
        place.until("a", state="running", attempt=2)
        ended = place.ledger()[0]
        assert (ended["termination_reason"], ended["signal"], ended["outcome"]) == (
            "signaled",
            "KILL",
            "failed",
        )
