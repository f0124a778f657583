"""`longwatch batch run`: items side by side, what each end means, and what is seen of it."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

import helpers
from batches import PYTHON, Plan, sh


@pytest.mark.capability("CAP-35")
def test_items_run_together_and_each_line_carries_its_id(tmp_path: Path) -> None:
    """Three that wait for each other all start; what they print is told apart."""
    meet = "touch {0}.here; while ! test -e a.here -a -e b.here -a -e c.here; do sleep 0.02; done; echo met"
    plan = Plan(tmp_path, *(sh(name, meet.format(name), cwd=str(tmp_path)) for name in "abc"))
    done = plan.run()
    assert done.code == 0, done.err
    assert {line for line in done.out.splitlines() if "|" in line} == {"a | met", "b | met", "c | met"}


@pytest.mark.capability("CAP-35")
def test_no_more_than_the_jobs_run_at_once(tmp_path: Path) -> None:
    """With one place the second begins when the first is over, whatever order they finish in."""
    script = "test -e busy && echo overlap; touch busy; sleep 0.05; rm busy"
    plan = Plan(tmp_path, *(sh(name, script, cwd=str(tmp_path)) for name in "abcd"))
    assert plan.run("--jobs", "1").code == 0
    assert [plan.said(name) for name in "abcd"] == [[]] * 4


@pytest.mark.capability("CAP-41", "CAP-42")
def test_each_end_leaves_its_lifecycle(tmp_path: Path) -> None:
    """Well, failed with and without a checkpoint, never begun: the report says each, and what may be removed."""
    named = f"{helpers.LONGWATCH} checkpoint half; exit 3"
    plan = Plan(
        tmp_path,
        sh("good", "exit 0"),
        sh("bad", "echo the reason >&2; exit 3"),
        sh("half", named),
        sh("after", "exit 0", needs=["bad"]),
        {"id": "nowhere", "command": ["no-such-program"]},
    )
    done = plan.run()
    assert done.code == 1
    items = {item["id"]: item for item in plan.report()["items"]}
    assert {name: item["lifecycle"] for name, item in items.items()} == {
        "good": "completed", "bad": "failed_terminal", "half": "failed_resumable", "after": "pending",
        "nowhere": "failed_terminal",
    }  # fmt: skip
    assert {name for name, item in items.items() if item["cleanup_eligible"]} == {"good", "bad", "nowhere"}
    assert items["half"]["checkpoint"] == "half"
    assert (items["bad"]["exit_code"], items["bad"]["error"]) == (3, "the reason")
    assert items["after"]["left_out"] == "needs bad"
    assert "no-such-program: not found" in items["nowhere"]["error"]
    assert f"{plan.path} --resume goes on with 1 of 5" in done.out


@pytest.mark.capability("CAP-19")
def test_silence_ends_an_item_and_what_it_printed_is_kept(tmp_path: Path) -> None:
    """The reason is idle, there is no exit code, both streams are in the log."""
    plan = Plan(tmp_path, sh("quiet", "echo out; echo err >&2; exec sleep 60", idle="400ms"))
    done = plan.run()
    assert done.code == 1
    item = plan.item("quiet")
    assert (item["termination_reason"], item["exit_code"], item["lifecycle"]) == (
        "idle",
        None,
        "failed_terminal",
    )
    assert plan.said("quiet") == ["out", "err"]
    assert "its idle limit of 400ms was reached, silent for" in done.err
    told = json.loads(helpers.run_cli("why", item["run"], "--json").out)["report"]
    assert (told["termination_reason"], told["exit_code"]) == ("idle", None)
    assert "out" in told["stdout"]["head"]
    assert 400 <= told["idle_ms"] < 5_000


@pytest.mark.capability("CAP-20", "CAP-28")
def test_the_window_of_silence_is_no_span_of_life(tmp_path: Path) -> None:
    """An item that talks outlives its window three times over; a window may be as long as you like, and 0 is off."""
    talk = "for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.15; done"
    plan = Plan(
        tmp_path,
        sh("talks", talk, idle="450ms"),
        sh("long", "exit 0", idle="1200s"),
        sh("off", "exit 0", idle="off"),
    )
    assert plan.run().code == 0
    assert plan.state("talks")["runtime_ms"] >= 1_350


@pytest.mark.capability("CAP-36", "CAP-39", "CAP-50")
def test_who_is_over_its_budget_is_marked_and_goes_on(tmp_path: Path) -> None:
    """At three times its budget it is still supervised; it ends well, and is completed."""
    script = "for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.1; done"
    plan = Plan(tmp_path, sh("slow", script, soft="300ms"))
    with plan.start() as live:
        live.until(lambda: plan.state("slow").get("lifecycle") == "timed_out_resumable")
        assert "over its budget; marked, and it goes on" in live.err
        done = live.finish()
    assert done.code == 0
    state = plan.state("slow")
    assert (state["lifecycle"], state["over_budget"], state["policy"]) == (
        "completed",
        True,
        "continue-preserve",
    )
    assert state["runtime_ms"] >= 900
    assert len(plan.said("slow")) == 9


@pytest.mark.capability("CAP-37")
def test_over_budget_and_silent_it_is_stopped_where_that_is_its_policy(tmp_path: Path) -> None:
    """Of two that are over their budget the one with a growing log lives; the silent one can be resumed."""
    talks = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.2; done"
    rules = {"soft": "300ms", "idle": "600ms", "policy": "interrupt-preserve"}
    plan = Plan(tmp_path, sh("talks", talks, **rules), sh("silent", "echo x; exec sleep 60", **rules))
    assert plan.run().code == 1
    assert plan.lifecycles() == {"talks": "completed", "silent": "timed_out_resumable"}
    assert plan.state("silent")["reason"] == "idle"
    assert not plan.item("silent")["cleanup_eligible"]


@pytest.mark.capability("CAP-38")
def test_who_cannot_be_looked_at_is_not_stopped(tmp_path: Path) -> None:
    """Its source of progress cannot be read: nobody knows that it is silent, so it lives to its end."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    rules = {
        "soft": "100ms",
        "idle": "300ms",
        "policy": "interrupt-preserve",
        "progress": ["file:gone/*.log"],
    }
    plan = Plan(tmp_path, sh("unseen", "sleep 1.2", cwd=str(hidden), **rules))
    assert plan.run().code == 0
    assert plan.state("unseen")["lifecycle"] == "completed"


@pytest.mark.capability("CAP-56")
def test_both_streams_are_drained(tmp_path: Path) -> None:
    """Ten megabytes on stderr do not hang it, and all of them are in its log."""
    plan = Plan(tmp_path, sh("loud", "head -c 10000000 /dev/zero | tr '\\0' x >&2; echo done"))
    assert plan.run("--heartbeat", "off").code == 0
    assert plan.log("loud").count("x") >= 10_000_000


@pytest.mark.capability("CAP-55")
@pytest.mark.fault("O1")
def test_a_log_that_is_full_says_what_is_gone_and_nobody_is_idle_for_it(tmp_path: Path) -> None:
    """Far beyond the cap it still counts as progress; the last lines are kept, and the log says how much is not."""
    chatty = (
        "for i in 1 2 3 4 5 6 7 8; do head -c 65536 /dev/zero | tr '\\0' y; echo; sleep 0.15; done; echo end"
    )
    plan = Plan(tmp_path, sh("chatty", chatty, idle="800ms"))
    done = plan.run(env={"LONGWATCH_BATCH_LOG_MAX": "128KiB"})
    assert done.code == 0, done.err
    files = list((plan.base / "logs").glob("chatty.log*"))
    assert sum(path.stat().st_size for path in files) <= 128 * 1024 + 512
    assert "end" in plan.said("chatty")
    gone = re.search(r"(\d+) bytes of this log were discarded", plan.log("chatty"))
    assert gone is not None
    assert int(gone[1]) >= 8 * 65536 - 128 * 1024


@pytest.mark.capability("CAP-48")
def test_the_next_attempt_is_told_the_last_name(tmp_path: Path) -> None:
    """It goes on from the last checkpoint that was named, in the same folder; there is no way to name a step oneself."""
    script = (
        f'echo "from $${{LONGWATCH_CHECKPOINT:-nothing}} attempt $LONGWATCH_ATTEMPT"; test -e been && exit 0; touch been;'
        f"{helpers.LONGWATCH} checkpoint one; {helpers.LONGWATCH} checkpoint two; exit 1"
    )
    plan = Plan(tmp_path, sh("work", script))
    assert plan.run().code == 1
    assert plan.state("work")["checkpoints"] == ["one", "two"]
    assert plan.run("--resume").code == 0
    assert plan.said("work") == ["from nothing attempt 1", "from two attempt 2"]
    assert "--step" not in helpers.run_cli("batch", "run", "--help").out


@pytest.mark.capability("CAP-45", "CAP-47")
def test_what_goes_on_keeps_its_folder_and_its_log(tmp_path: Path) -> None:
    """The second attempt finds what the first one left, and its output follows behind a line that says so."""
    script = f"echo attempt $LONGWATCH_ATTEMPT; test -e here && exit 0; touch here; {helpers.LONGWATCH} checkpoint one; exit 1"
    plan = Plan(tmp_path, sh("work", script))
    plan.run()
    folder = plan.state("work")["work_dir"]
    plan.run("--resume")
    assert plan.state("work")["work_dir"] == folder
    assert (Path(folder) / "here").exists()
    assert plan.said("work") == ["attempt 1", "attempt 2"]
    marks = [line for line in plan.log("work").splitlines() if ": started " in line]
    assert [line.rpartition("(")[2] for line in marks] == ["attempt 1) --", "attempt 2) --"]


@pytest.mark.capability("CAP-46")
def test_what_is_over_begins_anew_in_an_empty_folder(tmp_path: Path) -> None:
    """A plan that is finished and run again does all of it again; --resume runs nothing of it."""
    plan = Plan(tmp_path, sh("work", "ls; touch here; echo attempt $LONGWATCH_ATTEMPT"))
    assert plan.run().code == 0
    assert plan.run("--resume").code == 0
    assert plan.said("work") == ["attempt 1"]
    assert plan.run().code == 0
    assert plan.said("work") == ["attempt 1", "attempt 1"]


def test_a_failure_is_tried_again_with_the_next_number(tmp_path: Path) -> None:
    """As often as the plan says, from an empty folder, as there is no checkpoint."""
    plan = Plan(
        tmp_path, sh("flaky", "ls; touch x; echo $LONGWATCH_ATTEMPT; test $LONGWATCH_ATTEMPT = 2", retries=2)
    )
    done = plan.run()
    assert done.code == 0
    assert "it is tried again" in done.err
    assert plan.said("flaky") == ["1", "2"]


def test_a_level_that_fails_gives_way_to_the_next(tmp_path: Path) -> None:
    """Exit status decides, no retry is spent, and the report names the level that did it."""
    levels = [
        {"name": name, "command": ["sh", "-c", f"echo {name}; exit {code}"]}
        for name, code in (("best", 1), ("good", 1), ("plain", 0), ("never", 0))
    ]
    plan = Plan(tmp_path, {"id": "work", "level": levels})
    assert plan.run().code == 0
    assert plan.said("work") == ["best", "good", "plain"]
    assert plan.item("work")["level"] == "plain"


@pytest.mark.fault("J3")
def test_the_same_failure_over_and_over_ends_the_tries_early(tmp_path: Path) -> None:
    """An item with many retries stops after three with that line; a plan whose items all fail so starts no more."""
    plan = Plan(tmp_path, sh("one", "echo login refused >&2; exit 1", retries=10))
    plan.run()
    assert plan.said("one") == ["login refused"] * 3
    assert plan.item("one")["error"] == "login refused"
    plan.define(
        *(sh(f"i{n}", "echo login refused >&2; exit 1") for n in range(9)), sh("other", "exit 0"), name="all"
    )
    done = plan.run("--fresh", "--jobs", "1")
    assert "items failed alike: login refused" in done.out
    left = [item["id"] for item in plan.report()["items"] if item["lifecycle"] == "pending"]
    assert left == ["i5", "i6", "i7", "i8", "other"]


@pytest.mark.capability("CAP-52")
def test_off_a_terminal_a_heartbeat_is_a_line_of_json(tmp_path: Path) -> None:
    """Each cycle one line: a summary, and of each item its lifecycle, step, checkpoint, last progress and log."""
    script = f"{helpers.LONGWATCH} checkpoint here; echo said; sleep 0.6"
    plan = Plan(tmp_path, sh("a", script), sh("b", "exit 0", needs=["a"]))
    done = plan.run("--heartbeat", "250ms")
    beats = [json.loads(line) for line in done.err.splitlines() if line.startswith("{")]
    assert all(beat["type"] == "heartbeat" for beat in beats)
    beat = next(beat for beat in beats if [item["checkpoint"] for item in beat["items"]] == ["here"])
    assert beat["summary"] == {"running": 1, "completed": 0, "failed": 0, "pending": 1, "total": 2}
    (item,) = beat["items"]
    assert (item["id"], item["lifecycle"], item["step"]) == ("a", "running", "running")
    assert any(beat["items"][0]["progress_ms"] is not None for beat in beats)
    assert item["log"] == str(plan.base / "logs" / "a.log")


def test_many_items_are_told_as_rows(tmp_path: Path) -> None:
    """Above twenty their own lines are in the logs alone."""
    plan = Plan(tmp_path, *(sh(f"i{n}", f"echo {n}") for n in range(21)), sh("bad", "exit 4"))
    done = plan.run()
    assert " | " not in done.out
    assert "bad: failed_terminal, failed by itself with exit status 4" in done.err
    assert "i3" not in done.err
    assert "22 items: 21 completed, 1 failed_terminal" in done.out


def test_at_a_terminal_one_line_shows_how_far_it_is(tmp_path: Path) -> None:
    """It says how many are over and how many run, and is gone when the report comes."""
    seen = tmp_path / "seen"
    waits = f"while [ ! -e {seen} ]; do sleep 0.02; done"
    plan = Plan(tmp_path, sh("a", waits), sh("b", "exit 0"), sh("c", "exit 0", needs=["a"]), name="demo")
    with helpers.Screen([helpers.LONGWATCH, "batch", "run", plan.path]) as screen:
        screen.wait_for("demo: 1/3 over, 1 running, 1 to come")
        seen.touch()
        assert screen.wait() == 0
        assert "to come" not in screen.text
        assert "3 items: 3 completed" in screen.text


def test_neither_resume_nor_fresh_with_something_left(tmp_path: Path) -> None:
    """Nobody can answer: 75, and what to write. At a terminal it is asked."""
    plan = Plan(tmp_path, sh("a", f"{helpers.LONGWATCH} checkpoint x; exit 1"), sh("b", "exit 0"))
    plan.run()
    done = plan.run()
    assert done.code == 75
    assert "is unfinished: 1 of 2 items (a); write --resume to go on, or --fresh to begin anew" in done.err
    with helpers.Screen([helpers.LONGWATCH, "batch", "run", plan.path]) as screen:
        screen.wait_for("resume, fresh or quit")
        screen.send("quit\r")
        assert screen.wait() == 75
    with helpers.Screen([helpers.LONGWATCH, "batch", "run", plan.path]) as screen:
        screen.wait_for("resume, fresh or quit")
        screen.send("resume\r")
        assert screen.wait() == 1
    assert plan.state("a")["attempt"] == 2


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    """It says what would be run, in order, and of what is over that it would not."""
    plan = Plan(tmp_path, sh("a", "exit 0"), sh("b", "echo hi", needs=["a"]))
    done = plan.run("--dry-run")
    assert done.out.splitlines() == ["a: would run: sh -c 'exit 0'", "b: would run after a: sh -c 'echo hi'"]
    assert plan.lifecycles() == {}
    plan.run()
    assert plan.run("--dry-run", "--resume").out.splitlines()[0] == "a: would not be run: completed"


def test_only_some_items(tmp_path: Path) -> None:
    """--only runs what it names, again if need be, and leaves the others as they are."""
    plan = Plan(tmp_path, sh("a", "echo a"), sh("b", "echo b"), sh("c", "echo c", needs=["b"]))
    assert plan.run("--only", "a").code == 0
    assert plan.lifecycles() == {"a": "completed", "b": "pending", "c": "pending"}
    assert plan.run("--only", "c").code == 1
    assert plan.run("--only", "b").code == 0
    assert plan.run("--only", "c").code == 0
    assert plan.run("--only", "a").code == 0
    assert plan.said("a") == ["a", "a"]
    assert plan.run("--only", "d").code == 4


def test_one_batch_at_a_time(tmp_path: Path) -> None:
    """A second one of the same plan is refused while the first runs: 75, with its pid."""
    plan = Plan(tmp_path, sh("a", "echo up; exec sleep 60"))
    with plan.start() as live:
        live.until_log("a", "up")
        done = plan.run("--resume")
        assert done.code == 75
        assert f"is being run already (pid {live.process.pid})" in done.err
        live.send(signal.SIGTERM)
        assert live.finish().code == -signal.SIGTERM


@pytest.mark.capability("CAP-44")
def test_a_damaged_state_is_a_fresh_start_said_aloud(tmp_path: Path) -> None:
    """ERROR, what was found is set aside, and the item is run."""
    plan = Plan(tmp_path, sh("a", "echo ran"))
    plan.run()
    (plan.base / "state" / "a.json").write_text("{")
    done = plan.run("--resume")
    assert done.code == 0
    assert "ERROR" in done.err
    assert "is damaged" in done.err
    assert plan.said("a") == ["ran", "ran"]


@pytest.mark.capability("CAP-44")
def test_a_state_that_cannot_be_written_costs_no_run(tmp_path: Path) -> None:
    """ERROR, and the item runs to its end all the same."""
    plan = Plan(tmp_path, sh("a", "echo ran"))
    plan.run("--dry-run")
    (plan.base / "state").rmdir()
    (plan.base / "state").symlink_to("/proc/self")
    done = plan.run("--fresh")
    assert "ERROR" in done.err
    assert "not kept" in done.err
    assert plan.said("a") == ["ran"]


@pytest.mark.capability("CAP-22", "CAP-31")
def test_a_prompt_on_stdin_is_seen_by_nobody_else(tmp_path: Path) -> None:
    """A megabyte in while a megabyte comes out, no NULs; it is in no argument, no variable, no state and no log."""
    secret = "tell-nobody-" + "s" * 32
    (tmp_path / "prompt").write_text(secret + "\0" + "p" * 1_000_000)
    script = (
        "import os,sys; sys.stdout.write('x' * 1_000_000); text = sys.stdin.read();"
        "print(len(text), chr(0) in text, any('tell-nobody' in each for each in [*sys.argv, *os.environ.values()]))"
    )
    plan = Plan(
        tmp_path,
        {"id": "a", "command": [PYTHON, "-c", script], "prompt_file": "prompt", "prompt_by": "stdin"},
    )
    assert plan.run().code == 0
    assert plan.log("a").count(f"{len(secret) + 1_000_000} False False") == 1
    kept = [path for folder in (plan.base, Path(os.environ["XDG_STATE_HOME"])) for path in folder.rglob("*")]
    assert [path for path in kept if path.is_file() and b"tell-nobody" in path.read_bytes()] == []


@pytest.mark.capability("CAP-22")
@pytest.mark.parametrize("way", ["argv", "file"])
def test_other_ways_to_be_asked(tmp_path: Path, way: str) -> None:
    """As an argument, or in a file of its own that nobody else can read."""
    script = (
        "cat $LONGWATCH_PROMPT_FILE; stat -c %a $LONGWATCH_PROMPT_FILE"
        if way == "file"
        else "echo '{prompt}'"
    )
    plan = Plan(tmp_path, sh("a", script, prompt="do it", prompt_by=way))
    assert plan.run().code == 0
    assert plan.said("a") == (["do it600"] if way == "file" else ["do it"])


@pytest.mark.capability("CAP-23")
def test_the_answer_is_what_stands_in_the_result_file(tmp_path: Path) -> None:
    """Where the item was told one and wrote text into it; who was not told one does not hear of any."""
    plan = Plan(
        tmp_path,
        sh("told", "echo out; echo answer > $LONGWATCH_RESULT_FILE", result=True),
        sh("empty", "true > $LONGWATCH_RESULT_FILE", result=True),
        sh("untold", "echo $${LONGWATCH_RESULT_FILE:-none}"),
    )
    assert plan.run(env={"LONGWATCH_RESULT_FILE": "/outer"}).code == 0
    result = plan.item("told")["result"]
    assert Path(result).read_text() == "answer\n"
    assert plan.item("empty")["result"] is None
    assert plan.said("untold") == ["none"]


def test_secrets_of_the_plan_are_shown_nowhere(tmp_path: Path) -> None:
    """What an env_file brings reaches the program, and neither log nor screen nor report."""
    (tmp_path / "env").write_text("TOKEN=hush-hush-hush\n")
    plan = Plan(tmp_path, sh("a", "echo it is $TOKEN; exit 1", env_file="env"))
    done = plan.run()
    assert "a | it is " in done.out
    assert "hush-hush" not in done.out + done.err + plan.log("a") + json.dumps(plan.state("a"))


@pytest.mark.capability("CAP-57")
def test_a_batch_in_a_batch_goes_only_so_deep(tmp_path: Path) -> None:
    """Each level tells its items where they are; past the depth it is blocked with a reason: 75."""
    inner = Plan(tmp_path, sh("leaf", "env | grep LONGWATCH_TREE_DEPTH"))
    (tmp_path / "outer").mkdir()
    command = [str(helpers.LONGWATCH), "batch", "run", str(inner.path), "--fresh"]
    outer = Plan(tmp_path / "outer", {"id": "node", "command": command})
    assert outer.run().code == 0
    assert inner.said("leaf") == ["LONGWATCH_TREE_DEPTH=2"]
    done = inner.run("--fresh", env={"LONGWATCH_TREE_DEPTH": "3"})
    assert done.code == 75
    assert "batches are nested 3 deep, and 3 is the most" in done.err
    forged = {"LONGWATCH_TREE_DEPTH": "32", "LONGWATCH_TREE_MAX_DEPTH": "99999999"}
    assert "32 is the most" in inner.run("--fresh", env=forged).err
