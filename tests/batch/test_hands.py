"""What is done around the runs of an item: what it is told before one, and what is kept of it after."""

import json
import os
import select
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import folders
from longwatch import hands, paths
from longwatch.core.batch import Workstream
from longwatch.core.harness import Harness
from longwatch.core.plan import Item
from longwatch.hands import Hands, Ready
from longwatch.store.workstreams import Workstreams
from longwatch.work.nested import Session
from longwatch.work.steps import Alone
from repositories import commit, git


class Place:
    """The hands of a batch whose one item is `a`; its agent goes on with a conversation where the test says so."""

    def __init__(self, folder: Path) -> None:
        self.state_folder = str(folder / "state")
        self.shelf = Workstreams(str(folder / "base"))
        self.loop = Alone()
        self.forgotten: list[str] = []
        self.told: list[tuple[Any, ...]] = []
        self.going_on = SimpleNamespace(resumed=False)
        agents: Any = SimpleNamespace(
            conversations=SimpleNamespace(forget=self.forgotten.append),
            launch=lambda harness, attempt: self.going_on,
        )
        host: Any = SimpleNamespace(
            reactor=SimpleNamespace(add=lambda fd, call: None), command=self.loop.command, at=self.loop.at
        )
        self.hands = Hands(
            host, self.shelf, agents, "plan.toml", "plan", Session("tree"), self.state_folder,
            lambda *words, **named: self.told.append((*words, named)),
        )  # fmt: skip
        self.state: dict[str, Any] = {"id": "a", "run": "a-aaaaaa", "attempt": 1, "resumed": False}

    def prepare(self, work: Workstream) -> Ready:
        """Prepare a run; it has to be possible."""
        ready, why, _ = self.prepared(work)
        assert ready is not None, why
        return ready

    def prepared(self, work: Workstream) -> tuple[Ready | None, str, bool]:
        found: list[tuple[Ready | None, str, bool]] = []
        self.hands.prepare(work, self.state, lambda *told: found.append(told))
        while not found:
            self.loop.turn()
        return found[0]

    def settle(self, work: Workstream, why: Any = None, **report: Any) -> dict[str, Any]:
        self.hands.settle(work, self.state, report, why)
        return self.state


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    found = Place(tmp_path)
    yield found
    found.loop.close()
    found.shelf.close()


def work(*argv: str, resume_on_limit: bool = True, cwd: str = "", **more: Any) -> Workstream:
    harness = Harness("a", argv or ("x",), cwd=cwd, resume_on_limit=resume_on_limit)
    return Workstream(Item("a"), harness, **more)


# -- before a run


def test_an_item_is_told_who_it_is(place: Place) -> None:
    """Its name, its plan and where its batch stands; a checkpoint and places of answers only where there are any."""
    ready = place.prepare(work("x", "y"))
    inherited = Session("tree").variables()
    assert ready.env == {"LONGWATCH_ITEM": "a", "LONGWATCH_PLAN": "plan.toml", **inherited}
    assert (ready.harness.command, ready.harness.cwd, ready.stdin) == (
        ("x", "y"),
        place.shelf.work("a"),
        None,
    )
    assert place.state["log"] == place.shelf.log("a")
    assert place.forgotten == ["a"]
    place.state |= {"checkpoint": "half", "resumed": True}
    assert place.prepare(work("x")).env["LONGWATCH_CHECKPOINT"] == "half"
    assert place.forgotten == ["a"]


def test_a_prompt_and_an_answer_have_files_of_their_own(place: Place) -> None:
    """Private ones; the answer of an earlier attempt is not there any more."""
    asking = work("x", prompt="do\0 it", prompt_by="file", result=True)
    ready = place.prepare(asking)
    prompt, answer = ready.env["LONGWATCH_PROMPT_FILE"], ready.env["LONGWATCH_RESULT_FILE"]
    assert Path(prompt).read_text() == "do it"
    assert os.stat(prompt).st_mode & 0o777 == 0o600
    Path(answer).write_text("42")
    assert place.settle(asking)["result"] == answer
    assert place.prepare(asking).env["LONGWATCH_RESULT_FILE"] == answer
    assert not os.path.exists(answer)
    assert place.settle(asking)["result"] is None


def test_who_goes_on_with_a_conversation_is_asked_nothing_anew(place: Place) -> None:
    """Its words are those of its agent; without a conversation the item begins anew, with its prompt."""
    place.prepare(work("x"))
    place.state["resumed"] = True
    asking = work("x", prompt="do it", prompt_by="stdin")
    assert place.prepare(asking).stdin == b"do it"
    environment = {"LONGWATCH_RESUME": "s-1"}
    place.going_on = SimpleNamespace(resumed=True, argv=["x", "--resume"], environment=environment)
    ready = place.prepare(asking)
    assert (ready.harness.command, ready.stdin) == (("x", "--resume"), None)
    assert ready.env["LONGWATCH_RESUME"] == "s-1"


@pytest.mark.parametrize(("level", "argv"), [(0, ("best",)), (1, ("lesser",)), (7, ("lesser",))])
def test_an_item_with_levels_runs_the_one_it_has_come_to(
    place: Place, level: int, argv: tuple[str, ...]
) -> None:
    """The last one where there is no further; the report names it."""
    stepped = work(levels=(("one", ("best",)), ("two", ("lesser",))))
    assert place.prepare(stepped).harness.command == ("best",)
    assert place.settle(stepped)["level_name"] == "one"
    place.state["level"] = level
    assert place.prepare(stepped).harness.command == argv
    assert place.settle(stepped)["level_name"] == ("one" if level == 0 else "two")


def test_an_item_whose_folder_is_gone_begins_anew(place: Place) -> None:
    """A conversation about what is not there any more would go on with something else."""
    place.state |= {"resumed": True, "checkpoint": "half", "session": "s-1"}
    ready = place.prepare(work("x"))
    assert (place.state["resumed"], place.state["checkpoint"], place.state["session"]) == (False, None, None)
    assert "LONGWATCH_CHECKPOINT" not in ready.env
    assert "begins anew" in place.told[0][-1]["text"]


def test_a_folder_of_its_own_is_empty_unless_it_goes_on(place: Place) -> None:
    """What an earlier attempt has left there is only for whoever resumes it."""
    folder = Path(place.prepare(work("x")).harness.cwd)
    (folder / "left").touch()
    place.state["resumed"] = True
    place.prepare(work("x"))
    assert (folder / "left").exists()
    place.state["resumed"] = False
    place.prepare(work("x"))
    assert not (folder / "left").exists()


def test_what_cannot_be_prepared_says_why(place: Place, tmp_path: Path) -> None:
    """One line; it is no use to try again where the words are wrong."""
    gone = str(tmp_path / "gone")
    assert place.prepared(work("x", cwd=gone)) == (
        None, f"{gone}: no such folder; an item works where it is told, or not at all", False,
    )  # fmt: skip
    ready, why, later = place.prepared(work("x", prompt="do it", cwd=str(tmp_path)))
    assert (ready, later, "nobody knows how it is given a prompt" in why) == (None, False, True)


def test_a_work_tree_is_made_and_remembered(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its branch, its base and where it began; what there is to say of it is told; resumed it began where it began."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "nobody")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "nobody@example.org")
    remote = tmp_path / "remote"
    git(tmp_path, "init", "--quiet", "-b", "main", str(remote))
    first = commit(remote, "first")
    git(remote, "symbolic-ref", "HEAD", "refs/heads/gone")
    there = work("x", git=f"file://{remote}")
    folder = place.prepare(there).harness.cwd
    assert (folder, place.state["work_dir"]) == (place.shelf.work("a"), folder)
    assert Path(folder, "file").read_text() == "first"
    assert (place.state["branch"], place.state["base_commit"]) == ("longwatch/a", first)
    assert ["main is taken" in told[-1]["text"] for told in place.told] == [True]
    commit(folder, "work")
    place.state["resumed"] = True
    place.prepare(there)
    assert place.state["base_commit"] == first


# -- after a run


def test_whoever_waits_for_a_state_to_be_on_the_disk_is_told(place: Place) -> None:
    """Once it is there, and not before somebody looks."""
    there: list[str] = []
    place.hands.keep({"id": "a", "lifecycle": "running"}, lambda: there.append("a"))
    select.select([place.shelf.fileno()], [], [], 10)
    assert there == []
    place.hands.kept()
    assert there == ["a"]
    kept = place.shelf.load("a")
    assert kept is not None
    assert kept["lifecycle"] == "running"


def test_a_conversation_is_kept(place: Place) -> None:
    """The next attempt can go on with it; who tells of none leaves the last one."""
    assert place.settle(work(), agent={"session": "s-1"})["session"] == "s-1"
    for agent in (None, {}, {"session": None}):
        assert place.settle(work(), agent=agent)["session"] == "s-1"


@pytest.mark.parametrize(
    ("cls", "until", "wanted", "parked"),
    [
        ("usage", 99, True, 99),
        ("rate", 99, True, 99),
        ("usage", None, True, None),
        ("login", 99, True, None),
        ("usage", 99, False, None),
    ],
)
def test_an_item_waits_for_a_provider_that_says_until_when(
    place: Place, cls: str, until: int | None, wanted: bool, parked: int | None
) -> None:
    """And where its plan wants it to."""
    why = SimpleNamespace(cls=cls, until=until)
    assert place.settle(work(resume_on_limit=wanted), why).get("parked_until") == parked


def test_checkpoints_that_a_run_has_named_are_kept(place: Place) -> None:
    """In their order, after those of earlier attempts; the next one begins at the newest."""
    channel = Path(paths.run_folder(place.state_folder, "a-aaaaaa")) / "channel"
    channel.parent.mkdir(parents=True)
    lines = [
        {"op": "checkpoint", "name": "one"},
        {"op": "quiet"},
        {"op": "checkpoint", "name": ""},
        {"op": "checkpoint", "name": "two"},
    ]
    channel.write_text("".join(json.dumps(line) + "\n" for line in lines) + "torn")
    place.state["checkpoints"] = ["nought"]
    kept = place.settle(work())
    assert (kept["checkpoints"], kept["checkpoint"]) == (["nought", "one", "two"], "two")
    place.state["run"] = "a-bbbbbb"
    assert place.settle(work())["checkpoint"] == "two"


def test_a_run_is_remembered_as_that_of_an_item(place: Place) -> None:
    """With its program and the names of its flags, whose values are nobody's business; no run, no line."""
    place.prepare(work("x"))
    place.settle(work("x"))
    assert list(Path(place.state_folder).rglob("*.jsonl")) == []
    place.settle(work("x", "--key=secret", "more"), **folders.report("a-aaaaaa"))
    (file,) = Path(place.state_folder).rglob("*.jsonl")
    (line,) = filter(None, file.read_text().splitlines())
    told = json.loads(line)
    assert (told["run"], told["item"], told["program"], told["log"]) == (
        "a-aaaaaa", "plan/a", "x", place.shelf.log("a"),
    )  # fmt: skip
    assert "secret" not in line


def test_the_work_tree_of_a_kept_item_is_known_where_it_has_one() -> None:
    """A bundle is only made of that."""
    kept = {"repository": "r", "work_dir": "w", "branch": "b", "base": "main", "base_commit": "c"}
    found = hands.place_of(kept)
    assert found is not None
    assert (found.repository, found.path, found.branch, found.base, found.commit) == (
        "r",
        "w",
        "b",
        "main",
        "c",
    )
    assert hands.place_of({**kept, "repository": None}) is None
    with pytest.raises(StopIteration) as over:
        next(hands.bundled({}, "file"))
    assert over.value.value is False
