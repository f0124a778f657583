"""The verbs of a daemon, as they are typed: up, ls, describe, why, start, stop, restart, trigger, reload, down."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import LONGWATCH, Finished, alive, environment, run_cli, wait_until
from longwatch.cli import at_daemon, harnesses
from longwatch.core import daemon_facts, firing_facts, service_facts
from longwatch.daemon import narration

pytestmark = pytest.mark.long

FILE = """
[harness.clock]
command = ["sh", "-c", "trap 'exit 0' TERM; while :; do date; sleep 0.2; done"]
kill_after = "2s"
[harness.bad]
command = ["sh", "-c", "echo cannot log in; exit 1"]
[harness.greet]
command = ["sh", "-c", "cat $LONGWATCH_EVENT_FILE </dev/null; exit 3"]
schedule = "0 6 * * *"
"""


class Place:
    """A folder with a file, whose verbs are typed in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "longwatch.toml"

    def __call__(self, *words: str, **options: object) -> Finished:
        return run_cli(*words, cwd=self.folder, measured=False, **options)

    def json(self, *words: str) -> dict[str, object]:
        """Return what a verb answers to `--json`."""
        done = self(*words, "--json")
        assert done.code == 0, done.err
        found: dict[str, object] = json.loads(done.out)
        return found

    def harness(self, name: str) -> dict[str, object]:
        """Return how one harness stands."""
        return self.json("describe", name)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "w"
    folder.mkdir()
    found = Place(folder)
    found.file.write_text(FILE)
    yield found
    found("down")


@pytest.fixture
def up(place: Place) -> Place:
    done = place("up", "-d")
    assert done.code == 0, done.err
    return place


@pytest.mark.capability("CAP-131", "CAP-117", "CAP-120")
def test_a_day_with_a_daemon(up: Place) -> None:
    """Each verb says what became of it, in words and as JSON."""
    wait_until(lambda: up.harness("bad")["gave_up"])
    listed = up("ls").out
    assert re.search(r"clock +\d+ .*running", listed)
    assert "gave up: it failed soon after each start, with the same error: cannot log in" in listed
    assert re.search(r"greet .*waits for .*06:00", listed)
    told = up.json("ls")
    assert told["from"] == "daemon and run folders"
    assert [one["name"] for one in told["harnesses"]] == ["clock", "bad", "greet"]  # type: ignore[attr-defined]
    assert told["runs"] == []

    described = up("describe", "clock").out
    assert "call 1h, then notify (built-in)" in described
    assert "limits" in described
    assert "to begin anew: longwatch restart bad" in up("why", "bad").out
    assert up.json("why", "bad")["harness"]["gave_up"] == "alike"  # type: ignore[index]

    fired = up("trigger", "greet", "--payload", "-", "--wait", input="the event\n")
    assert fired.code == 3
    run = fired.out.split(":")[0]
    assert '"payload": "the event\\n"' in up("logs", run).out
    asked = up("trigger", "greet", "--json")
    assert json.loads(asked.out)["run"].startswith("greet-")

    first = up.harness("clock")["pid"]
    assert re.fullmatch(r"clock: restarted as clock-\w{6}\n", up("restart", "clock").out)
    assert up.harness("clock")["pid"] != first
    assert re.match(r"clock: stopped by TERM, over in ", up("stop", "clock").out)
    assert up("stop", "clock").out == "clock: stopped; it was not running\n"
    assert up.harness("clock")["intent"] is False
    assert up("start", "clock").out.startswith("clock: started as clock-")
    assert up("down").out == "stopped clock; the daemon ended\n"
    assert up("ls").err == "longwatch: nothing is watched\n"


@pytest.mark.capability("CAP-131")
def test_what_is_not_there_has_a_status_of_its_own(place: Place) -> None:
    """3 without a daemon, 4 for no such name, 2 for wrong words; one line each."""
    for words in (("describe", "clock"), ("down",), ("reload",), ("start", "clock"), ("trigger", "clock")):
        done = place(*words)
        assert done.code == 3
        assert "longwatch up" in done.err
        assert done.err.count("\n") == 1
    assert place("up", "-d").code == 0
    for verb in ("start", "restart", "describe", "trigger", "send"):
        done = place(verb, "clok", *(["x"] if verb == "send" else []))
        assert done.code == 4
        assert "did you mean clock?" in done.err
    assert place("up", "-d").code == 1
    assert place("up", "-d", "--config", "nowhere.toml").code == 2


@pytest.mark.fault("R3")
def test_a_file_with_errors_starts_nothing_and_changes_nothing(place: Place) -> None:
    """Each error with its place, by `up` as by `reload`; what runs is not touched."""
    place.file.write_text(FILE.replace("kill_after", "kil_after"))
    for words in (("up", "-d"), ("up",)):
        done = place(*words)
        assert done.code == 2
        assert (
            'longwatch.toml:4:1: unknown key "kil_after" in [harness.clock]; did you mean "kill_after"?'
            in done.err
        )
    place.file.write_text(FILE)
    assert place("up", "-d").code == 0
    before = place.harness("clock")["pid"]
    place.file.write_text(FILE.replace("kill_after", "kil_after"))
    done = place("reload")
    assert done.code == 1
    assert "one error in the file; the daemon keeps what it had, and nothing was touched" in done.err
    assert place.harness("clock")["pid"] == before


@pytest.mark.capability("CAP-131")
def test_a_reload_says_what_it_does(up: Place) -> None:
    """At once, pending, gone, new; asked for, what is pending is restarted and what is gone is stopped."""
    up.file.write_text(
        FILE.replace('kill_after = "2s"', 'kill_after = "2s"\nenv = { A = "1" }').replace(
            "[harness.bad]", "[harness.new]"
        )
    )
    dry = up("reload", "--dry-run").out
    assert "would be added: new" in dry
    assert "pending restart: clock" in dry
    before = up.harness("clock")["pid"]
    said = up("reload").out
    assert "added: new" in said
    assert "pending restart: clock" in said
    assert "no longer in the file: bad; what still runs goes on, --prune stops it" in said
    assert up.harness("clock")["pid"] == before
    assert "pending restart" in up("ls").out
    told = json.loads(up("reload", "--restart", "--prune", "--json").out)
    assert told["errors"] == []
    wait_until(lambda: up.harness("clock")["pid"] not in (before, None))
    assert up("describe", "bad").code == 4


@pytest.mark.capability("NEW-16")
def test_a_daemon_that_was_killed_is_missed_and_its_harnesses_go_on(up: Place) -> None:
    """`ls` says that nobody answers; the next `up` goes on with the same process, and `--replace` with it again."""
    pid = up.harness("clock")["pid"]
    daemon = up.json("ls")["daemon"]["pid"]  # type: ignore[index]
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: not alive(daemon))
    assert "no daemon answers for" in up("ls").err
    assert "clock: running" in up("up", "-d").out
    assert up.harness("clock")["pid"] == pid
    assert up("up", "-d", "--replace").code == 0
    assert up.harness("clock")["pid"] == pid
    assert up("down", "--keep").out.startswith("the daemon ended; clock runs on")
    assert alive(int(str(pid)))
    assert json.loads(up("up", "-d", "--json").out)["ready"] is True
    assert up.harness("clock")["pid"] == pid


@pytest.mark.capability("CAP-131")
def test_in_the_foreground_it_tells_what_happens_and_ends_with_everything(place: Place) -> None:
    """A line for each start and end; Ctrl-C stops it all, proven."""
    with subprocess.Popen(
        [LONGWATCH, "up"],
        cwd=place.folder,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        seen: list[str] = []
        while not any("bad: gave up" in line for line in seen):
            seen.append(process.stderr.readline())
        pid = int(str(place.harness("clock")["pid"]))
        process.send_signal(signal.SIGINT)
        seen += process.stderr.readlines()
        process.wait()
    text = "".join(seen)
    assert "greet: each run ends after 1h, for nothing else bounds it" in text
    assert "3 harnesses; longwatch ls shows how each stands" in text
    assert re.search(r"clock: starts as clock-\w{6}\n", text)
    assert "bad: exited with status 1 after " in text
    assert "bad: starts again in " in text
    assert "clock: stopped on request (along with longwatch) after " in text
    assert not alive(pid)


def test_every_fact_has_a_line_or_is_told_by_another() -> None:
    """What is new in the closed set must not be forgotten here."""
    silent = {
        service_facts.StateChanged,
        service_facts.Recovered,
        firing_facts.TriggerReceived,
        service_facts.StaleDropped,
    }
    silent |= {daemon_facts.DaemonStarted, daemon_facts.DaemonStopping, daemon_facts.NotifyDelivered}
    known = set(service_facts.FACTS.values())
    assert known - set(narration.TABLE) == silent
    for fact in silent:
        assert narration.TABLE.get(fact) is None


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (service_facts.Stalled(0, "a", "a-1", 90_000, 60_000, "restart", 2, gave_up=False), "a: no successful call for 1m30s (window 1m), 2 stalls in a row; it is restarted"),
        (service_facts.Stalled(0, "a", "a-1", 90_000, 60_000, "notify", 6, gave_up=True), "a: no successful call for 1m30s (window 1m), 6 stalls in a row; its stalls are only reported from now on"),
        (service_facts.RestartPlanned(0, "a", 0, "failed"), "a: starts again"),
        (service_facts.GaveUp(0, "a", "intensity", ""), "a: gave up: it was restarted too often; to begin anew: longwatch restart a"),
        (firing_facts.FiringMissed(0, "a", 1, 2, 2), "a: 2 due times were missed"),
        (daemon_facts.TickLate(0, 5_000), "the supervisor was held up for 5s (stopped, asleep or starved); silence in that time does not count"),
        (daemon_facts.LedgerFailed(0, "no space left"), "the ledger cannot be written: no space left"),
    ],
)  # fmt: skip
def test_facts_in_words(fact: object, said: str) -> None:
    """A name, and what happened."""
    assert narration.line(fact) == said  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("snapshot", "state"),
    [
        ({"state": "running"}, "running"),
        ({"state": "stopped", "intent": True, "kind": "triggered"}, "waits to be fired"),
        ({"state": "stopped", "intent": True, "kind": "resident"}, "stopped"),
        ({"state": "failed", "gave_up": "intensity"}, "gave up: it was restarted too often"),
        ({"state": "stopped", "holds": [{"kind": "budget", "reason": "5 USD a day are spent", "until": None}]}, "stopped, held: 5 USD a day are spent"),
        ({"state": "running", "pending_restart": True, "blind": "no record was read"}, "running, no record was read, pending restart"),
    ],
)  # fmt: skip
def test_a_state_in_words(snapshot: dict[str, object], state: str) -> None:
    """The most telling of what is known comes first."""
    assert harnesses.state({"name": "a", **snapshot}) == state


def test_a_hold_names_its_end() -> None:
    """And a harness that backs off when it tries again."""
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 86_400 * 3))
    line = at_daemon.harness_line(
        {"name": "a", "state": "stopped", "holds": [{"reason": "out of its hours", "until": until}]}
    )
    assert re.fullmatch(r"a: stopped, held: out of its hours, until \w{3} \d\d \d\d:\d\d", line)
    assert at_daemon.harness_line({"name": "a", "state": "degraded", "backoff_until": until}).startswith(
        "a: degraded, tries again at "
    )
    assert (
        at_daemon.harness_line({"name": "a", "state": "running", "pending_restart": ["env"]})
        == "a: running, pending restart (env)"
    )
