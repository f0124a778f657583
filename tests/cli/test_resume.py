"""`run --resume-on-limit`: a limit ends an agent, the run waits for its reset, and goes on in the same conversation.

The agent is a program of our own that carries the name of a known one and writes transcripts where that does. The
wall clock of both, agent and longwatch, is the machine's plus what stands in a file: so hours pass in a moment.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import helpers
import longwatch
from longwatch.posix.clocks import LOOKED, Clocks
from supervised import Live, live, supervise

pytestmark = pytest.mark.long

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
SESSION = "01234567-89ab-4cde-8f01-23456789abcd"
PROMPT = "Do the steps."
GO_ON = "Continue where you left off."

# Longwatch itself, on the clock of the file, at a known place in the spread, and with a quick eye for all of it.
LONGWATCH = """#!{python}
import os, sys, time
real = time.time_ns
def skewed():
    with open({clock!r}) as file:
        return real() + int(file.read() or 0) * 1_000_000
time.time_ns, time.time = skewed, lambda: skewed() / 1e9
from longwatch.cli import again, main, waiting
from longwatch.core import pauses
from longwatch.observe import transcript
transcript.SEARCH = 0
again.drawn = lambda: {drawn}
pauses.PAUSE_SLACK = 0
waiting.LOOK_EVERY = 50
main.main(sys.argv)
"""

# An agent that acts by a plan: one line for each start. `limit`: ms until the reset, or the words for it.
AGENT = """#!{python}
import datetime, json, os, sys, time
home = os.environ["HOME"]
def now():
    with open({clock!r}) as file:
        return time.time_ns() // 1_000_000 + int(file.read() or 0)
def stamp(ms):
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.") + "%03dZ" % (ms % 1000)
words = sys.argv[1:]
session = words[words.index("--resume") + 1] if "--resume" in words else {session!r}
with open(home + "/starts", "a+") as starts:
    starts.write(json.dumps({{"pid": os.getpid(), "words": words, "at": now(), "attempt": os.environ.get("LONGWATCH_ATTEMPT"),
                              "run": os.environ.get("LONGWATCH_RUN_ID")}}) + "\\n")
    starts.seek(0)
    count = len(starts.read().splitlines())
with open(home + "/plan") as plan:
    act = json.loads(plan.read().splitlines()[count - 1])
folder = os.path.join(home, ".claude", "projects", os.getcwd().replace("/", "-"))
os.makedirs(folder, exist_ok=True)
os.makedirs(home + "/.claude/sessions", exist_ok=True)
with open(home + "/.claude/sessions/%d.json" % os.getpid(), "w") as file:
    start = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
    json.dump({{"pid": os.getpid(), "sessionId": session, "procStart": start}}, file, separators=(",", ":"))
ids = iter(range(1000))
def write(kind, message, **more):
    record = {{"type": kind, "uuid": "%d-%d" % (os.getpid(), next(ids)), "sessionId": session, "isSidechain": False,
              "cwd": os.getcwd(), "timestamp": stamp(now()), "message": message, **more}}
    with open(os.path.join(folder, session + ".jsonl"), "a") as file:
        file.write(json.dumps(record) + "\\n")
write("user", {{"role": "user", "content": words[-1] if words else "typed"}})
for number in range(act.get("calls", 0)):
    call = "tu%d-%d" % (os.getpid(), number)
    write("assistant", {{"id": call, "content": [{{"type": "tool_use", "id": call, "name": "Bash", "input": {{"n": number}}}}]}})
    write("user", {{"content": [{{"type": "tool_result", "tool_use_id": call, "content": "done"}}]}})
time.sleep(act.get("works", 0))
limit = act.get("limit")
if act.get("refused"):
    write("system", None, subtype="api_error", error={{"status": 429}}, maxRetries=10)
    time.sleep(600)
if isinstance(limit, int):
    write("system", None, subtype="api_error", error={{"status": 429, "rateLimits": {{
        "rateLimitType": "five_hour", "resetsAt": (now() + limit) // 1000}}}}, retryInMs=1000, retryAttempt=1)
if act.get("waits"):
    time.sleep(600)
if act.get("says"):
    write("assistant", {{"id": "m0", "content": [{{"type": "text", "text": act["says"]}}]}})
    print(act["says"], flush=True)
if limit is not None:
    text = limit if isinstance(limit, str) else "You've hit your limit"
    write("assistant", {{"id": "e", "model": "<synthetic>", "content": [{{"type": "text", "text": text}}]}},
          isApiErrorMessage=True, error=act.get("error", "rate_limit"), apiErrorStatus=act.get("status", 429))
else:
    write("assistant", {{"id": "m", "stop_reason": "end_turn", "content": [{{"type": "text", "text": "All done."}}]}})
print("incarnation", count, flush=True)
if act.get("leaves"):
    os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "60")
time.sleep(act.get("lasts", 0.5))
os.remove(home + "/.claude/sessions/%d.json" % os.getpid())
sys.exit(act.get("exit", 0))
"""


class Stage:
    """One agent's plan, its clock, and what came of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.clock = home / "clock"

    def plan(self, *acts: dict[str, Any]) -> None:
        """Say what the agent does at each start."""
        (self.home / "plan").write_text("".join(json.dumps(act) + "\n" for act in acts))

    def skip(self, span: int) -> None:
        """Move both clocks on by so many ms at once."""
        passed = int(self.clock.read_text() or 0) + span
        (self.home / "next").write_text(str(passed))
        os.replace(self.home / "next", self.clock)

    @property
    def starts(self) -> list[dict[str, Any]]:
        """What the agent was started with, each time."""
        path = self.home / "starts"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def turns(self) -> list[str]:
        """Return what the agent was told, in all of its conversations."""
        files = self.home.glob(".claude/projects/*/*.jsonl")
        lines = [line for path in files for line in path.read_text().splitlines()]
        told = [record["message"]["content"] for record in map(json.loads, lines) if record["type"] == "user"]
        return [text for text in told if isinstance(text, str)]


@pytest.fixture
def stage(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Return a stage with the agent on the PATH, and our own longwatch on the same clock."""
    stage = Stage(home)
    stage.clock.write_text("0")
    _script(home / "bin" / "claude", AGENT, clock=str(stage.clock), session=SESSION)
    spread(stage, monkeypatch, 0.0)
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("LONGWATCH_POLL", "50ms")
    monkeypatch.chdir(tmp_path)
    return stage


def spread(stage: Stage, monkeypatch: pytest.MonkeyPatch, drawn: float) -> None:
    """Say where in the spread the run comes back."""
    script = stage.home / "bin" / "longwatch"
    _script(script, LONGWATCH, clock=str(stage.clock), drawn=drawn)
    monkeypatch.setattr(helpers, "LONGWATCH", script)


def _script(path: Path, text: str, **values: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text.format(python=sys.executable, **values))
    path.chmod(0o755)


def agent(*flags: str, program: tuple[str, ...] = ("claude", "-p", PROMPT), **options: Any) -> Any:
    """Start the agent under `run --resume-on-limit`."""
    return live("--resume-on-limit", *flags, program=program, **options)


def parked(run: Live, times: int = 1) -> str:
    """Wait until a run has said so often that it is parked, and return the last such line."""
    helpers.wait_until(lambda: run.err.count("parked by") >= times, what=f"parked {times} times")
    return next(line for line in reversed(run.err.splitlines()) if "parked by" in line)


def started(stage: Stage, times: int) -> None:
    """Wait until the agent was started so often."""
    helpers.wait_until(lambda: len(stage.starts) >= times, what=f"{times} starts")


def looked_at(state: Path, run: str) -> int:
    """Return when longwatch has last shown that it is there."""
    clocks = Clocks.open(str(state / "runs" / run / "clocks"))
    return 0 if clocks is None else clocks.header[LOOKED]


def history(run: str) -> list[dict[str, Any]]:
    """Return what `runs` has of a run, its first incarnation first."""
    found = json.loads(helpers.run_cli("runs", "--json").out)["runs"]
    return sorted((row for row in found if row["run"] == run), key=lambda row: row["attempt"])


@pytest.mark.capability("NEW-11")
def test_it_waits_and_goes_on_where_it_was(stage: Stage, state: Path) -> None:
    """A limit for three hours ends the agent: three hours later it is told to go on, once, in its conversation."""
    stage.plan({"calls": 2, "limit": 3 * HOUR, "exit": 1}, {"calls": 1, "exit": 3})
    with agent() as run:
        said = parked(run)
        stage.skip(3 * HOUR - MINUTE)
        known = run.status()
        looked = looked_at(state, known["run"])
        helpers.wait_until(lambda: looked_at(state, known["run"]) > looked, what="a look at the clock")
        assert len(stage.starts) == 1
        stage.skip(2 * MINUTE)
        done = run.finish()
    assert done.code == 3
    assert done.out == "incarnation 1\nincarnation 2\n"
    first, second = stage.starts
    assert (first["words"], second["words"]) == (["-p", PROMPT], ["--resume", SESSION, "-p", GO_ON])
    assert (first["attempt"], second["attempt"]) == ("1", "2")
    assert first["run"] == second["run"] == done.report["run"]
    assert second["at"] >= first["at"] + 3 * HOUR - SECOND
    assert stage.turns() == [PROMPT, GO_ON]
    assert "parked by a usage limit until" in said
    assert "goes on at" in said
    assert (known["live"], known["child_pid"]) == (True, None)
    assert known["state"].startswith("parked until ")
    folder = state / "runs" / done.report["run"]
    reports = [json.loads((folder / name).read_text()) for name in ("report-1.json", "report.json")]
    assert [(r["attempt"], r["exit_code"]) for r in reports] == [(1, 1), (2, 3)]
    assert {**reports[1], "post_mortem": None} == {**done.report, "post_mortem": None}
    assert [(row["attempt"], row["exit_code"]) for row in history(done.report["run"])] == [(1, 1), (2, 3)]
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    kinds = [event["event"] for event in events if event["event"].startswith("run_")]
    assert kinds == ["run_started", "run_ended", "run_parked", "run_started", "run_ended"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert json.loads((folder / "meta.json").read_text())["attempt"] == 2


@pytest.mark.fault("K6")
def test_still_limited_after_the_reset(stage: Stage) -> None:
    """Limited twice past its own reset and then fine: three starts in all, each told to go on once."""
    stage.plan(
        {"calls": 1, "limit": HOUR, "exit": 1}, {"limit": -MINUTE, "exit": 1}, {"limit": "Limit reached", "exit": 1},
        {"calls": 1},
    )  # fmt: skip
    with agent() as run:
        for number, wait in enumerate((HOUR, 5 * MINUTE, 10 * MINUTE), 1):
            said = parked(run, number)
            assert ("which still holds" in said) == (number > 1)
            stage.skip(wait - MINUTE)
            assert len(stage.starts) == number
            stage.skip(MINUTE + SECOND)
            started(stage, number + 1)
        done = run.finish()
    assert done.code == 0
    assert len(stage.starts) == 4
    assert stage.turns() == [PROMPT, GO_ON, GO_ON, GO_ON]
    assert [row["attempt"] for row in history(done.report["run"])] == [1, 2, 3, 4]


@pytest.mark.fault("K7")
def test_not_in_the_second_of_the_reset(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run comes back at its own moment of the minute after the reset."""
    spread(stage, monkeypatch, 0.75)
    stage.plan({"limit": HOUR, "exit": 1}, {})
    with agent() as run:
        parked(run)
        stage.skip(HOUR + 30 * SECOND)
        assert run.status()["state"].startswith("parked")
        stage.skip(20 * SECOND)
        run.finish()
    first, second = stage.starts
    assert second["at"] - first["at"] >= HOUR + 44 * SECOND


@pytest.mark.fault("L1")
def test_asleep_over_the_reset(stage: Stage) -> None:
    """A machine that slept over the reset goes on as soon as it is awake."""
    stage.plan({"limit": HOUR, "exit": 1}, {})
    with agent() as run:
        parked(run)
        run.send(signal.SIGSTOP)
        stage.skip(8 * HOUR)
        run.send(signal.SIGCONT)
        done = run.finish()
    assert (done.code, len(stage.starts)) == (0, 2)


@pytest.mark.capability("NEW-11")
@pytest.mark.parametrize(
    ("act", "words"),
    [
        ({"limit": "Credit balance is too low", "error": "billing_error"}, "lack of credit; that needs you"),
        ({"limit": "Invalid API key", "error": "authentication_failed", "status": 401}, "a refused login; that needs you"),
        ({"limit": "You've hit your limit \u00b7 resets soon"}, "a usage limit; nobody says until when"),
        ({"limit": "You\u2019ve hit your limit \u00b7 resets 30"}, "a usage limit; nobody says until when"),
    ],
    ids=["credit", "auth", "unreadable", "unreadable number"],
)  # fmt: skip
def test_what_needs_a_human(stage: Stage, act: dict[str, Any], words: str) -> None:
    """Credit, a refused login, and a limit without an end that can be read: one line says what to type, nothing waits."""
    stage.plan({**act, "exit": 1})
    done = supervise("--resume-on-limit", program=["claude", "-p", PROMPT])
    assert done.code == 1
    assert done.said == [f"longwatch: claude: ended by {words}; to go on: claude --resume {SESSION}"]
    assert len(stage.starts) == 1


@pytest.mark.capability("NEW-11")
def test_without_the_flag(stage: Stage) -> None:
    """Nothing waits, and the last line says until when, and what to type; a run that succeeds says nothing."""
    stage.plan({"limit": HOUR, "exit": 1}, {})
    done = supervise(program=["claude", "-p", PROMPT])
    assert done.code == 1
    (line,) = done.said
    assert line.startswith("longwatch: claude: ended by a usage limit until ")
    assert line.endswith(
        f"; to go on then: claude --resume {SESSION}; with --resume-on-limit longwatch waits and does it"
    )
    assert supervise(program=["claude", "-p", PROMPT]).said == []


@pytest.mark.fault("K4")
def test_writing_about_limits(stage: Stage) -> None:
    """An agent that writes about limits, and prints it, is not limited."""
    stage.plan({"says": "You've hit your limit \u00b7 resets 3pm. usage limit reached|1893560700"})
    done = supervise("--resume-on-limit", program=["claude", "-p", PROMPT])
    assert (done.code, done.said, len(stage.starts)) == (0, [], 1)


@pytest.mark.fault("K5")
def test_a_reset_that_is_too_far_away(stage: Stage) -> None:
    """No window is longer than a week, so after a week it is tried."""
    stage.plan({"limit": 3_650 * 24 * HOUR, "exit": 1}, {})
    with agent() as run:
        parked(run)
        stage.skip(7 * 24 * HOUR + MINUTE)
        done = run.finish()
    assert (done.code, len(stage.starts)) == (0, 2)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_the_wait(stage: Stage, signum: int) -> None:
    """A parked run that is told to end does so at once, by that signal, and is on record as interrupted."""
    stage.plan({"limit": HOUR, "exit": 1})
    with agent() as run:
        parked(run)
        for harmless in (signal.SIGUSR1, signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT, signal.SIGCHLD):
            run.send(harmless)
        run.send(signum)
        done = run.finish()
    assert done.code == -signum
    assert done.said[-1] == f"longwatch: claude: not resumed; to go on: claude --resume {SESSION}"
    assert (done.reason, done.report["outcome"], done.report["attempt"]) == ("interrupted", "interrupted", 1)
    assert done.report["notes"][-1].startswith("it was parked until ")
    (row,) = history(done.report["run"])
    assert (row["termination_reason"], row["exit_code"]) == ("interrupted", 1)


def test_stopped_while_it_waits(stage: Stage) -> None:
    """`longwatch stop` ends the wait, with the status of a stopped run."""
    stage.plan({"limit": HOUR, "exit": 0})
    with agent() as run:
        parked(run)
        stopped = helpers.run_cli("stop", "claude")
        done = run.finish()
    assert (stopped.code, stopped.err) == (0, "")
    assert done.code == 128 + signal.SIGTERM
    assert (done.reason, done.report["origin"]) == ("cancelled", "explicit")
    assert helpers.run_cli("ls").err == "longwatch: nothing is watched\n"


def test_nohup(stage: Stage) -> None:
    """An ignored hang-up stays ignored while nothing runs."""
    stage.plan({"limit": HOUR, "exit": 1}, {})
    with agent(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as run:
        parked(run)
        run.send(signal.SIGHUP)
        stage.skip(2 * HOUR)
        assert run.finish().code == 0
    assert len(stage.starts) == 2


def test_a_signal_at_the_very_end(stage: Stage) -> None:
    """Told to end while the last bytes of an incarnation are waited for, the run is not parked any more."""
    stage.plan({"limit": HOUR, "exit": 1, "leaves": True})
    with agent() as run:
        started(stage, 1)
        helpers.wait_until(lambda: not helpers.alive(stage.starts[0]["pid"]))
        run.send(signal.SIGTERM)
        done = run.finish()
    assert done.code != 0
    assert "parked" not in done.err


def test_the_program_is_gone(stage: Stage, state: Path) -> None:
    """A program that cannot be started any more is a failed start, and the last incarnation of the run."""
    stage.plan({"limit": HOUR, "exit": 1})
    with agent() as run:
        parked(run)
        (stage.home / "bin" / "claude").unlink()
        stage.skip(2 * HOUR)
        done = run.finish()
    assert done.code == 127
    assert (done.reason, done.report["attempt"]) == ("spawn_failed", 2)
    kept = state / "runs" / done.report["run"] / "report.json"
    assert json.loads(kept.read_text()) == done.report
    assert [row["termination_reason"] for row in history(done.report["run"])] == ["exited", "spawn_failed"]


def test_the_package_is_gone(stage: Stage, tmp_path: Path) -> None:
    """An upgrade during the wait does no harm: nothing is loaded after it."""
    folder = tmp_path / "site"
    shutil.copytree(Path(longwatch.__file__).parent, folder / "longwatch")
    script = Path(helpers.LONGWATCH)
    script.write_text(
        script.read_text().replace(
            "import os, sys, time", f"import os, sys, time; sys.path.insert(0, {str(folder)!r})"
        )
    )
    stage.plan({"limit": HOUR, "exit": 1}, {"calls": 1, "lasts": 1.2})
    with agent("--idle", "10s") as run:
        parked(run)
        shutil.rmtree(folder)
        stage.skip(2 * HOUR)
        done = run.finish()
    assert (done.code, len(stage.starts)) == (0, 2), done.err
    assert "defect" not in done.err


def test_a_timeout_holds_over_all(stage: Stage) -> None:
    """A run whose timeout would be over by the reset is not parked."""
    stage.plan({"limit": 3 * HOUR, "exit": 1})
    done = supervise("--resume-on-limit", "--timeout", "1h", program=["claude", "-p", PROMPT])
    assert done.code == 1
    assert "; the timeout of the run is over before that; to go on: " in done.said[-1]


def test_a_ceiling_holds_over_all(stage: Stage) -> None:
    """What one incarnation has used up of the ceiling the next one does not get; the wait counts for nobody."""
    stage.plan({"works": 0.9, "limit": HOUR, "exit": 1}, {"calls": 1, "lasts": 60})
    with agent("--ceiling", "1500ms") as run:
        parked(run)
        stage.skip(2 * HOUR)
        done = run.finish()
    assert (done.code, done.reason) == (124, "ceiling")
    assert done.report["limit"]["window_ms"] == 1_500
    assert done.report["rungs"][0]["after_ms"] < 700


def test_on_a_terminal(stage: Stage) -> None:
    """While nothing runs the terminal is ours: a key ends the wait; each incarnation has a terminal of its own."""
    stage.plan({"limit": HOUR, "exit": 1}, {"limit": HOUR, "exit": 1})
    with helpers.Screen(
        [helpers.LONGWATCH, "run", "--resume-on-limit", "--", "claude", "-p", PROMPT]
    ) as screen:
        screen.wait_for("parked by")
        stage.skip(2 * HOUR)
        screen.wait_for("incarnation 2")
        helpers.wait_until(lambda: screen.text.replace("\n", "").count("parked by") >= 2)
        screen.send("\x03")
        assert screen.wait() == -signal.SIGINT


@pytest.mark.fault("Q1")
def test_a_result_and_no_end(stage: Stage) -> None:
    """An agent that has said its last word and stays is ended, with its result's own status; it is not brought back."""
    stage.plan({"calls": 1, "lasts": 600})
    done = supervise("--resume-on-limit", "--linger", "400ms", program=["claude", "-p", PROMPT])
    assert (done.code, done.reason, done.report["verdict"]) == (0, "lingered", "success")
    assert (done.report["agent"]["result_ok"], len(stage.starts)) == (True, 1)


@pytest.mark.capability("NEW-11")
def test_a_limit_and_no_end(stage: Stage) -> None:
    """An agent that is silent under a limit without any end is stopped by a window that was named, and left."""
    stage.plan({"calls": 1, "refused": True})
    done = supervise("--resume-on-limit", "--idle", "600ms", program=["claude", "-p", PROMPT])
    assert (done.code, done.reason) == (124, "idle")
    assert "; nobody says until when; " in done.said[-1]
    assert len(stage.starts) == 1


@pytest.mark.fault("K2")
@pytest.mark.capability("NEW-11")
def test_a_wait_that_nothing_follows(stage: Stage) -> None:
    """An agent that waits by itself is let alone; silent past the reset it is stopped, and goes on now, not tomorrow."""
    stage.plan({"calls": 1, "limit": 2 * SECOND, "waits": True}, {"calls": 1, "exit": 5})
    done = supervise("--resume-on-limit", "--idle", "400ms", program=["claude", "-p", PROMPT])
    assert done.code == 5
    first, second = stage.starts
    assert second["at"] - first["at"] > SECOND
    assert stage.turns() == [PROMPT, GO_ON]
    parked = next(line for line in done.said if "parked by" in line)
    assert ", just over; goes on at " in parked
    assert [row["termination_reason"] for row in history(done.report["run"])] == ["idle", "exited"]


@pytest.mark.parametrize("words", [("true",), ("env", "pytest")])
def test_a_program_that_cannot_be_resumed(stage: Stage, words: tuple[str, ...]) -> None:
    """The flag is refused before the start where nothing can be resumed; the variable is for those that can."""
    done = supervise("--resume-on-limit", program=words)
    assert (done.code, done.said) == (
        125,
        [
            f"longwatch: --resume-on-limit: {words[-1]} is none of the agents that can be resumed; name one with --preset"
        ],
    )
    assert supervise("--resume-on-limit", "--preset", "none", program=["claude"]).code == 125
    assert supervise(program=["true"], env={"LONGWATCH_RESUME_ON_LIMIT": "yes"}).said == []


def test_by_a_variable(stage: Stage) -> None:
    """A variable says it for all runs of agents."""
    stage.plan({"limit": "Credit balance is too low", "error": "billing_error", "exit": 1})
    done = supervise(program=["claude", "-p", PROMPT], env={"LONGWATCH_RESUME_ON_LIMIT": "yes"})
    assert "that needs you" in done.said[-1]


def test_who_quits_at_the_screen(stage: Stage) -> None:
    """An agent that a human had on the screen and quit under a limit is not brought back."""
    stage.plan({"limit": HOUR, "exit": 0})
    with helpers.Screen([helpers.LONGWATCH, "run", "--resume-on-limit", "--", "claude"]) as screen:
        assert screen.wait() == 0
        assert "you left it" in screen.text.replace("\n", "")
    assert len(stage.starts) == 1


def test_others_are_told_that_it_waits(stage: Stage) -> None:
    """`--still-running` speaks of a parked run, too."""
    stage.plan({"limit": HOUR, "exit": 1}, {})
    with agent("--still-running", "100ms") as run:
        parked(run)
        helpers.wait_until(lambda: "still parked, for another" in run.err)
        stage.skip(2 * HOUR)
        assert run.finish().code == 0


def test_a_folder_that_cannot_be_made(stage: Stage, state: Path) -> None:
    """Without a run folder it waits and goes on all the same."""
    state.parent.mkdir(parents=True)
    state.write_text("in the way")
    stage.plan({"limit": HOUR, "exit": 1}, {})
    with agent() as run:
        parked(run)
        stage.skip(2 * HOUR)
        done = run.finish()
    assert (done.code, len(stage.starts)) == (0, 2)
    assert sum("is not in the history" in line for line in done.said) == 1
