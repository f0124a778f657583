"""`longwatch batch run --engine`: the same plan, states, report and lines as on one machine, the runs elsewhere."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import helpers
from clusters import ENVIRON, Cluster

pytestmark = pytest.mark.long

GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")


class There:
    """A plan in a folder, run on an engine."""

    def __init__(self, folder: Path, longwatch: str, words: list[str]) -> None:
        self.folder = folder
        self.longwatch = longwatch
        self.words = words
        self.plan = folder / "plan.toml"
        self.base = folder / ".longwatch" / "plan"

    def write(self, text: str) -> None:
        """Write the plan. Every item carries the test's mark."""
        marker = f'"{os.environ[helpers.MARKER]}"' if helpers.MARKER in os.environ else '""'
        self.plan.write_text(f"[defaults]\nenv = {{ {helpers.MARKER} = {marker} }}\n{text}")

    def argv(self, *more: str) -> list[str]:
        """Return the command line."""
        return [self.longwatch, "batch", "run", str(self.plan), *self.words, "--json", *more]

    def run(self, *more: str, code: int = 0, deadline: float = 50) -> tuple[dict[str, Any], helpers.Finished]:
        """Run the plan; return its report by item, and how the command ended."""
        done = helpers.run_command(self.argv(*more), deadline=deadline)
        assert done.code == code, (done.code, done.err, done.out)
        told = json.loads(done.out[done.out.index("\n{") + 1 :] if not done.out.startswith("{") else done.out)
        return {item["id"]: item for item in told["items"]}, done

    def state(self, item: str) -> dict[str, Any]:
        """Return what is kept of an item."""
        return dict(json.loads((self.base / "state" / f"{item}.json").read_text()))

    def log(self, item: str) -> str:
        """Return its log."""
        path = self.base / "logs" / f"{item}.log"
        return path.read_text() if path.exists() else ""


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.engine)])
def there(
    request: pytest.FixtureRequest, tmp_path: Path, longwatch: str, monkeypatch: pytest.MonkeyPatch
) -> There:
    """Return a plan's folder and an engine."""
    words = ["--engine", request.param]
    if request.param == "ray":
        cluster: Cluster = request.getfixturevalue("cluster")
        for name, value in ENVIRON.items():
            monkeypatch.setenv(name, value)
        words += ["--address", cluster.address]
    return There(tmp_path, longwatch, words)


def test_a_plan_comes_to_the_same_end(there: There) -> None:
    """Lines, states, logs and answers are those of one machine."""
    there.write(
        '[[item]]\nid = "good"\nresult = true\n'
        'command = ["sh", "-c", "echo one; echo answer > $LONGWATCH_RESULT_FILE; '
        f'{there.longwatch} checkpoint half"]\n'
        '[[item]]\nid = "bad"\ncommand = ["sh", "-c", "echo why >&2; exit 3"]\n'
        '[[item]]\nid = "after"\nneeds = ["bad"]\ncommand = ["true"]\n'
    )
    items, done = there.run(code=1)
    assert (items["good"]["lifecycle"], items["good"]["checkpoint"]) == ("completed", "half")
    assert (items["bad"]["lifecycle"], items["bad"]["exit_code"]) == ("failed_terminal", 3)
    assert (items["after"]["lifecycle"], items["after"]["left_out"]) == ("pending", "needs bad")
    assert Path(items["good"]["result"]).read_text() == "answer\n"
    assert "good  | one" in done.out
    assert "why" in there.log("bad")
    why = helpers.run_command([there.longwatch, "why", items["bad"]["run"]])
    assert why.code == 0, why.err
    assert "exit status 3" in why.out


@pytest.mark.capability("CAP-30")
@pytest.mark.engine
def test_silence_ends_it_there(there: There) -> None:
    """A window for an item elsewhere: idle is the reason, its output is kept, and its silence is named."""
    there.write('[[item]]\nid = "mute"\nidle = "700ms"\ncommand = ["sh", "-c", "echo before; sleep 60"]\n')
    items, done = there.run(code=1)
    assert items["mute"]["termination_reason"] == "idle"
    assert "before" in there.log("mute")
    why = helpers.run_command([there.longwatch, "why", items["mute"]["run"]])
    assert "idle limit of 700ms was reached, silent for" in why.out, why.out
    last = [line for line in done.err.splitlines() if line.startswith("longwatch: mute:")][-1]
    assert "idle" in last, done.err


def test_commits_come_home(there: There) -> None:
    """What an item commits there is on its branch here, forward of where it began; the user's tree is untouched."""
    repository = there.folder / "repo"
    commands = [
        ["init", "-q", "-b", "main", str(repository)],
        ["-C", str(repository), "commit", "-q", "--allow-empty", "-m", "first"],
    ]
    for words in commands:
        subprocess.run([*GIT, *words], check=True)
    commit = "git -c user.name=t -c user.email=t@e commit -qm done"
    there.write(
        f'[[item]]\nid = "work"\ngit = "{repository}"\nbranch = "task"\n'
        f'command = ["sh", "-c", "echo new > file; git add file; {commit}"]\n'
    )
    items, _ = there.run()
    shown = subprocess.run(["git", "-C", repository, "show", "task:file"], capture_output=True, check=True)
    assert shown.stdout == b"new\n"
    assert items["work"]["branch"] == "task"
    status = subprocess.run(
        ["git", "-C", repository, "status", "--short", "--branch"], capture_output=True, check=True
    )
    assert status.stdout == b"## main\n"


def test_a_killed_submitter_is_followed_by_the_next(there: There, tmp_path: Path) -> None:
    """Kill -9 in the middle: what runs goes on, --resume takes it up, and nothing is begun or shown twice."""
    begun, go = tmp_path / "begun", tmp_path / "go"
    script = f"echo begun >> {begun}; echo first; until test -e {go}; do sleep 0.2; done; echo last"
    there.write(f'[[item]]\nid = "long"\ncommand = ["sh", "-c", "{script}"]\n')
    with subprocess.Popen(there.argv(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        helpers.wait_until(lambda: "first" in there.log("long"), 40, "its output at home")
        first.kill()
    said = tmp_path / "said"
    with (
        said.open("wb") as err,
        subprocess.Popen(there.argv("--resume"), stdout=subprocess.DEVNULL, stderr=err) as second,
    ):
        helpers.wait_until(lambda: "followed again" in said.read_text(), 40, "the run to be taken up")
        go.touch()
        assert second.wait(40) == 0
    state = there.state("long")
    assert (state["lifecycle"], state["attempt"]) == ("completed", 1)
    assert begun.read_text() == "begun\n"
    lines = [line for line in there.log("long").splitlines() if not line.startswith("--")]
    assert lines == ["first", "last"]


def test_what_runs_there_is_seen_here(there: There, tmp_path: Path) -> None:
    """While it runs `ls` has it once, by its item, as live and with both clocks; afterwards nothing is watched."""
    go = tmp_path / "go"
    script = f"echo first; until test -e {go}; do sleep 0.2; done"
    there.write(f'[[item]]\nid = "long"\ncommand = ["sh", "-c", "{script}"]\n')

    def seen() -> list[dict[str, Any]]:
        listed = json.loads(helpers.run_command([there.longwatch, "ls", "--json"]).out)
        return [run for run in listed["runs"] if run.get("progress_ms_ago") is not None]

    with subprocess.Popen(there.argv(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as batch:
        (run,) = helpers.wait_until(seen, 40, "the run in ls")
        assert (run["item"], run["live"], run["attempt"]) == ("plan/long", True, 1)
        assert run["state"].split(" on ")[0] == "running"
        assert run["run"] == there.state("long")["run"]
        go.touch()
        assert batch.wait(40) == 0
    assert seen() == []


@pytest.mark.engine
def test_interrupted_it_can_be_gone_on_with(there: There, tmp_path: Path) -> None:
    """Ctrl-C stops what runs there, with its tree; --resume begins the next attempt in the same folder."""
    script = "test -e here && exit 0; touch here; echo first; sleep 60"
    there.write(f'[[item]]\nid = "long"\ncommand = ["sh", "-c", "{script}"]\n')
    with subprocess.Popen(there.argv(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        helpers.wait_until(lambda: "first" in there.log("long"), 40, "its output at home")
        first.send_signal(signal.SIGINT)
        first.wait(30)
    assert first.returncode == -signal.SIGINT
    assert there.state("long")["lifecycle"] == "interrupted_resumable"
    items, _ = there.run("--resume")
    assert (items["long"]["lifecycle"], items["long"]["attempt"]) == ("completed", 2)


@pytest.mark.fault("F7", "G7")
def test_a_lost_run_is_begun_again_after_it_is_gone(there: There, tmp_path: Path) -> None:
    """Its runner is killed hard: the next attempt begins by itself, and never while anything of the first one lives."""
    noted = tmp_path / "noted"
    # Each attempt notes when it begins and, while it lives, that it does; deaf to TERM.
    script = (
        f"trap '' TERM; echo begin $LONGWATCH_ATTEMPT >> {noted}; test $LONGWATCH_ATTEMPT = 2 && exit 0; "
        f"while :; do echo alive $LONGWATCH_ATTEMPT >> {noted}; sleep 0.1; done"
    )
    there.write(f'[[item]]\nid = "it"\ncommand = ["sh", "-c", "{script}"]\n')
    with subprocess.Popen(there.argv(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as batch:
        runner = helpers.wait_until(lambda: runner_of(there), 40, "its runner")
        helpers.wait_until(lambda: noted.exists() and "alive 1" in noted.read_text())
        os.kill(runner, signal.SIGKILL)
        assert batch.stderr is not None
        said = batch.stderr.read().decode()
        assert batch.wait(60) == 0, said
    words = noted.read_text().split("\n")
    assert words.index("begin 2") > max(at for at, line in enumerate(words) if line == "alive 1")
    assert there.state("it")["attempt"] == 2


def runner_of(there: There) -> int:
    """Return the runner of the item; 0 while there is none."""
    try:
        folder = (there.state("it")["placed"] or {})["folder"]
        return int(json.loads((Path(folder) / "state.json").read_text())["runner"]["pid"])
    except (OSError, KeyError, ValueError):
        return 0
