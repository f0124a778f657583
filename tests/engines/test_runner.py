"""`longwatch runner`, `probe` and `gc`, as engines and job scripts call them."""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import helpers
from longwatch.core.spec import LimitSpec
from longwatch.paths import new_run_id
from longwatch.posix import now
from longwatch.runtime.runfiles import EXIT, STATE, identity_in, read
from longwatch.runtime.work_spec import told
from placed import TREE, none_left, work

pytestmark = pytest.mark.long


class Here:
    """Runs of one machine, below a folder."""

    def __init__(self, longwatch: str, root: Path) -> None:
        self.longwatch = longwatch
        self.root = root

    def spec(self, argv: list[str], **more: Any) -> dict[str, Any]:
        """Return a spec."""
        run = new_run_id("it")
        state = {
            "id": "it",
            "attempt": 1,
            "resumed": False,
            "run": run,
            "over_budget": False,
            "parked_until": None,
        }
        return {
            "run": run, "attempt": 1, "work": told(work(argv)), "state": state, "plan": "p.toml", "name": "p",
            "key": "p-1", "session": {"tree": "t", "depth": 0, "deepest": 3, "most": 10}, "root": str(self.root), **more,
        }  # fmt: skip

    def folder(self, spec: dict[str, Any]) -> str:
        """Return the folder of its run."""
        return str(self.root / "runs" / spec["run"])

    def run(self, spec: dict[str, Any], *words: str) -> helpers.Finished:
        """Call the runner."""
        return helpers.run_command([self.longwatch, "runner", *words], input=json.dumps(spec))

    def verb(self, *words: str) -> helpers.Finished:
        """Call another verb."""
        return helpers.run_command([self.longwatch, *words])


@pytest.fixture
def here(longwatch: str, tmp_path: Path) -> Here:
    """Return a folder for runs."""
    return Here(longwatch, tmp_path / "root")


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 1)])
def test_in_the_foreground_it_ends_as_the_item(
    here: Here, script: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0 completed, 1 failed. Of whoever started it the item inherits what its spec names."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # what Ray sets for its workers
    spec = here.spec(["sh", "-c", f"echo [$OMP_NUM_THREADS]; {script}"])
    done = here.run(spec, "--foreground")
    assert done.code == code, done.err
    assert "[]" in Path(here.folder(spec), "output.log").read_text()
    assert read(here.folder(spec), EXIT) is not None


def test_told_to_end_it_can_be_gone_on_with(here: Here, tmp_path: Path) -> None:
    """A batch system's TERM ends the item with its tree, and the exit status says that there is more to do."""
    noted = tmp_path / "pids"
    spec = here.spec([sys.executable, "-c", TREE, str(noted), "polite"])
    words = [here.longwatch, "runner", "--foreground", "--lease", "off"]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as runner:
        assert runner.stdin is not None
        runner.stdin.write(json.dumps(spec).encode())
        runner.stdin.close()
        helpers.wait_until(lambda: noted.exists() and len(noted.read_text().split()) == 4)
        runner.send_signal(signal.SIGTERM)
        assert runner.wait(15) == 75
    none_left([int(pid) for pid in noted.read_text().split()])
    ended = read(here.folder(spec), EXIT)
    assert ended is not None
    assert (ended["cause"], ended["state"]["lifecycle"]) == ("signal", "interrupted_resumable")


class Foreground:
    """A runner in the foreground, and what it has written."""

    def __init__(self, here: Here, spec: dict[str, Any]) -> None:
        self.here = here
        self.spec = spec
        words = [here.longwatch, "runner", "--foreground", "--lease", "off"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(spec).encode())
        self.process.stdin.close()

    def until(self, standing: str) -> None:
        """Wait until it stands so."""
        folder = self.here.folder(self.spec)
        helpers.wait_until(lambda: (read(folder, STATE) or {}).get("state") == standing, 20, standing)

    def warn(self) -> None:
        """Tell it that its time is running out."""
        self.process.send_signal(signal.SIGUSR2)

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of a name."""
        lines = Path(self.here.folder(self.spec), "events.ndjson").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def until_marked(self) -> None:
        """Wait until the item is marked."""
        helpers.wait_until(lambda: self.events("marked"), 10, "the mark")

    def state(self) -> dict[str, Any]:
        """Return what is kept of the item on its machine."""
        kept = self.here.root / "plans" / self.spec["key"] / "state" / "it.json"
        return dict(json.loads(kept.read_text()))


def test_what_it_says_of_itself_has_both_clocks(here: Here, tmp_path: Path) -> None:
    """Also when no limit has looked at the output yet: whoever follows it from afar knows nothing else."""
    go = tmp_path / "go"
    seen = Foreground(here, here.spec(["sh", "-c", f"echo one; until test -e {go}; do sleep 0.05; done"]))

    def moved() -> bool:
        told = read(here.folder(seen.spec), STATE) or {}
        return bool(told.get("progress_ms") and told.get("alive_ms"))

    helpers.wait_until(moved, 20, "its clocks")
    go.touch()
    assert seen.process.wait(15) == 0


def test_warned_an_item_is_marked_and_goes_on(here: Here, tmp_path: Path) -> None:
    """USR2 marks it, once: it can be gone on with from then on, whatever comes. Finished in time it is completed."""
    go = tmp_path / "go"
    warned = Foreground(here, here.spec(["sh", "-c", f"until test -e {go}; do sleep 0.05; done"]))
    warned.until("running")
    warned.warn()
    warned.until_marked()
    state = warned.state()
    assert (state["lifecycle"], state["over_budget"]) == ("timed_out_resumable", True)
    warned.warn()
    go.touch()
    assert warned.process.wait(15) == 0
    assert [event["limit"] for event in warned.events("limit_fired")] == ["soft"]
    assert len(warned.events("marked")) == 1
    assert warned.state()["lifecycle"] == "completed"


def test_a_warned_item_may_be_ended_for_its_silence(here: Here) -> None:
    """Where that is its policy: over budget and silent. Before the warning its silence ended nothing."""
    spec = here.spec(["sleep", "60"])
    spec["work"]["policy"] = spec["state"]["policy"] = "interrupt-preserve"
    spec["work"]["harness"] |= {"armed_by_soft": True, "limits": {"idle": LimitSpec(100).as_dict()}}
    warned = Foreground(here, spec)
    warned.until("running")
    helpers.wait_until(lambda: warned.events("run_started")[0]["mono_ms"] + 300 < now())
    assert warned.process.poll() is None
    warned.warn()
    assert warned.process.wait(20) == 75
    assert warned.state()["reason"] == "idle"
    assert warned.state()["lifecycle"] == "timed_out_resumable"


def of_a_repository(here: Here, folder: Path, argv: list[str]) -> dict[str, Any]:
    """Return the spec of an item that works in a tree of its own."""
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C")
    subprocess.run(["git", "init", "-q", folder / "repo"], check=True)
    subprocess.run([*git, folder / "repo", "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    spec = here.spec(argv)
    spec["work"]["git"] = str(folder / "repo")
    return spec


@contextlib.contextmanager
def held_back(here: Here, spec: dict[str, Any]) -> Iterator[None]:
    """Let no tree be made meanwhile, as another runner does that is making one."""
    locks = here.root / "plans" / spec["key"] / "locks"
    locks.mkdir(parents=True)
    with open(locks / ".prepare", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_told_to_end_while_it_is_made_ready_it_does(here: Here, tmp_path: Path) -> None:
    """Nobody waits for what is being made: nothing of the item was run, and it can be gone on with."""
    spec = of_a_repository(here, tmp_path, ["true"])
    with held_back(here, spec):
        runner = Foreground(here, spec)
        runner.until("preparing")
        runner.process.send_signal(signal.SIGTERM)
        assert runner.process.wait(15) == 75
    ended = read(here.folder(spec), EXIT)
    assert ended is not None
    assert (ended["cause"], ended["report"]["termination_reason"]) == ("signal", "interrupted")
    assert runner.state()["lifecycle"] == "interrupted_resumable"
    assert not runner.events("run_started")


def test_warned_while_it_is_made_ready_it_is_marked_when_it_runs(here: Here, tmp_path: Path) -> None:
    """Nothing is lost: the warning waits for the item."""
    go = tmp_path / "go"
    spec = of_a_repository(here, tmp_path, ["sh", "-c", f"until test -e {go}; do sleep 0.05; done"])
    with held_back(here, spec):
        warned = Foreground(here, spec)
        warned.until("preparing")
        warned.warn()
    warned.until_marked()
    go.touch()
    assert warned.process.wait(15) == 0


def test_a_spec_is_read_once(here: Here, tmp_path: Path) -> None:
    """It holds secrets: the file is gone before anything is done. And a run is begun once."""
    spec, file = here.spec(["true"]), tmp_path / "spec.json"
    file.write_text(json.dumps(spec))
    assert here.run({}, "--foreground", "--spec", str(file)).code == 0
    assert not file.exists()
    again = here.run(spec, "--foreground")
    assert again.code == 1
    assert "was begun here before" in again.err


@pytest.mark.parametrize("text", ["", "[]", '{"run": "../../etc"}'])
def test_what_is_no_spec_is_refused(here: Here, text: str) -> None:
    """In one line."""
    done = helpers.run_command([here.longwatch, "runner"], input=text)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "--spec" in done.err


def test_two_attempts_do_not_meet(here: Here) -> None:
    """While one attempt is at work on an item, the next one that names it does not begin on the same machine."""
    first = here.spec(["sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
    assert here.run(first, "--lease", "20s").code == 0
    who = identity_in(read(here.folder(first), STATE), "runner")
    assert who is not None
    os.kill(who.pid, signal.SIGKILL)  # its keeper is about to end the rest
    second = here.spec(["true"], earlier=[first["run"]])
    assert here.run(second, "--foreground").code == 0
    began = json.loads((Path(here.folder(second)) / "events.ndjson").read_text().splitlines()[0])["mono_ms"]
    keeper = identity_in(read(here.folder(first), STATE), "keeper")
    assert keeper is not None
    assert not keeper.alive()
    assert began <= now()


@pytest.mark.fault("T3")
def test_elsewhere_no_conversation_is_gone_on_with(here: Here) -> None:
    """An attempt that comes to a machine without the item's folder and conversation begins anew, in a folder of its own."""
    spec = here.spec(["sh", "-c", "echo fresh $LONGWATCH_CHECKPOINT in $PWD"], earlier=["it-abcdef"])
    spec["work"]["harness"]["resume"] = ["sh", "-c", "echo resumed {session}"]
    spec["state"] |= {
        "resumed": True,
        "attempt": 2,
        "session": "s-1",
        "checkpoint": "half",
        "work_dir": "/elsewhere",
    }
    assert here.run(spec, "--foreground").code == 0
    lines = (Path(here.folder(spec)) / "output.log").read_text().splitlines()
    assert f"fresh in {here.root}/plans/p-1/work/it" in lines


def test_a_probe_says_whether_somebody_looks(here: Here) -> None:
    """Yes while the runner looks and once the run is over; no while it is stopped, and when it is gone without a word."""
    spec = here.spec(["sleep", "60"])
    folder = here.folder(spec)
    assert here.verb("probe", "--folder", folder).code == 1
    assert here.run(spec, "--lease", "1m").code == 0
    assert here.verb("probe", "--folder", folder).code == 0
    who = identity_in(read(folder, STATE), "runner")
    assert who is not None
    os.kill(who.pid, signal.SIGSTOP)
    looked = (read(folder, STATE) or {})["looked_ms"]
    helpers.wait_until(lambda: now() - looked > 300)
    silent = here.verb("probe", "--folder", folder, "--max-age", "200ms")
    assert (silent.code, "has not looked" in silent.err) == (1, True)
    os.kill(who.pid, signal.SIGKILL)
    helpers.wait_until(lambda: not who.alive())
    lost = here.verb("probe", "--folder", folder)
    assert (lost.code, "is gone" in lost.err) == (1, True)
    # What got away from everybody but carries the mark of the run.
    stray = subprocess.Popen(["sleep", "60"], env={**os.environ, "LONGWATCH_RUN_ID": spec["run"]})
    swept = here.verb("gc", "--folder", str(here.root))
    assert (swept.code, swept.out) == (0, f"{spec['run']}: swept\n")
    assert stray.wait(5) == -signal.SIGKILL


@pytest.mark.engine
def test_gc_removes_what_is_old(here: Here) -> None:
    """What has ended stays for 30 days, and what lives is never touched."""
    ended, lives = here.spec(["true"]), here.spec(["sleep", "60"])
    lives["state"]["id"] = lives["work"]["item"]["id"] = "other"
    assert here.run(ended, "--foreground").code == 0
    assert here.run(lives, "--lease", "1m").code == 0
    assert here.verb("gc", "--folder", str(here.root)).out == ""
    month = 31 * 86_400
    for spec in (ended, lives):
        changed = os.stat(here.folder(spec)).st_mtime - month
        os.utime(here.folder(spec), (changed, changed))
    dry = here.verb("gc", "--folder", str(here.root), "--dry-run", "--json")
    assert json.loads(dry.out)["runs"] == [{"run": ended["run"], "did": "would be removed", "left": []}]
    assert here.verb("gc", "--folder", str(here.root)).code == 0
    assert not os.path.exists(here.folder(ended))
    assert here.verb("gc", "it-abcdef", "--folder", str(here.root)).code == 4
    Path(here.folder(lives), "stop.json").write_text('{"grace": 0}')
    with open(Path(here.folder(lives), "control"), "w") as control:
        control.write("stop\n")
    helpers.wait_until(lambda: read(here.folder(lives), EXIT))


def test_an_item_of_a_plan_file(here: Here, tmp_path: Path, state: Path) -> None:
    """A job script names the plan and the item; what is kept lets the next job go on."""
    plan = tmp_path / "plan.toml"
    marker = f'{helpers.MARKER} = "{os.environ[helpers.MARKER]}"'
    script = "echo $LONGWATCH_ATTEMPT >> here; longwatch checkpoint one; kill -9 $$"
    plan.write_text(
        f'[[item]]\nid = "it"\nenv = {{ {marker} }}\ncommand = ["sh", "-c", "PATH={Path(here.longwatch).parent}:$PATH; {script}"]\n'
    )
    words = ["runner", "--foreground", "--lease", "off", "--plan", str(plan), "--item", "it"]
    assert here.verb(*words).code == 75
    assert here.verb(*words).code == 75
    found = list((state / "placed" / "plans").glob("*/work/it/here"))
    assert [file.read_text() for file in found] == ["1\n2\n"]
    assert here.verb(*words[:-1], "other").code == 4
    assert here.verb("runner", "--plan", str(plan)).code == 2
