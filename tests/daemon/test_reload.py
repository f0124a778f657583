"""Reading the file again: what is asked of a daemon while it does so, or while it ends."""

from types import SimpleNamespace
from typing import Any

import pytest

from longwatch.daemon import reload
from longwatch.daemon.asking import NOT_NOW, Later
from longwatch.daemon.compile import Compiled

WRONG = {"errors": [{"file": "x.toml", "line": 1, "column": 1, "message": "no such key"}]}


class Place:
    """A daemon about to read its file; what is read comes when the test wants."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.published: list[object] = []
        systemd = SimpleNamespace(
            reloading=lambda at: self.said.append("reloading"), ready=lambda: self.said.append("ready")
        )
        supervisor = SimpleNamespace(
            config_errors=0, log=self.said.append, publish=self.published.append, services={}
        )
        self.app: Any = SimpleNamespace(
            leaving=SimpleNamespace(begun=False),
            systemd=systemd,
            host=None,
            config="x.toml",
            supervisor=supervisor,
            wiring=None,
        )
        self.reading: list[Any] = []
        monkeypatch.setattr(reload, "read_file", lambda host, path, done: self.reading.append(done))
        self.reloading = reload.Reloading(self.app)

    def read(self, told: dict[str, Any]) -> None:
        """Have the file read."""
        self.reading.pop()(Compiled(told))


def heard(later: Later) -> tuple[Any, Any]:
    """Return the answer and the refusal, as far as they are there."""
    found: list[tuple[Any, Any]] = []
    later.then(lambda answer, refusal: found.append((answer, refusal and (refusal.kind, str(refusal)))))
    return found[0] if found else (None, None)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(monkeypatch)


def test_a_daemon_that_ends_meanwhile_applies_nothing(place: Place) -> None:
    """What it started now would live on, or be killed without a word; before and after, it says that it ends."""
    ends = (None, (NOT_NOW, "the daemon is about to end"))
    first = place.reloading.ask()
    place.app.leaving.begun = True
    assert heard(place.reloading.ask()) == ends
    place.read({"harnesses": []})
    assert heard(first) == ends
    assert place.published == []


def test_the_file_is_read_once_at_a_time(place: Place) -> None:
    """Who asks meanwhile is told so, and may ask again afterwards; the service manager hears of both ends."""
    first = place.reloading.ask(dry_run=True)
    assert heard(place.reloading.ask()) == (None, (NOT_NOW, "the file is being read already"))
    assert heard(first) == (None, None)
    place.read({"harnesses": []})
    assert heard(first)[0]["errors"] == []
    assert place.said == ["reloading", "ready"]
    place.reloading.ask(dry_run=True)
    assert len(place.reading) == 1


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_file_with_errors_is_told_to_whoever_asks(place: Place, dry_run: bool) -> None:
    """The journal and the metrics hear of it too, unless somebody only tried."""
    later = place.reloading.ask(dry_run=dry_run)
    place.read(WRONG)
    answer, _ = heard(later)
    assert (answer["errors"], answer["applied"], answer["added"]) == (WRONG["errors"], [], [])
    assert place.app.supervisor.config_errors == (0 if dry_run else 1)
    assert len(place.published) == (0 if dry_run else 1)
    assert any("no such key" in line for line in place.said) is not dry_run
