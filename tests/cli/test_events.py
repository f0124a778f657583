"""`longwatch events`: what happened to the harnesses."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from folders import verb
from longwatch.api import client
from longwatch.cli import events
from longwatch.cli.render import when
from longwatch.paths import daemon_id, rfc3339
from longwatch.store.ledger import Ledger

Capture = pytest.CaptureFixture[str]
START = 1_767_323_045_000


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in a folder with a configuration."""
    path = tmp_path / "h" / "longwatch.toml"
    path.parent.mkdir()
    path.write_text("[harness.web]\ncommand = 'true'\n")
    monkeypatch.chdir(path.parent)
    return path


def happened(state: Path, file: Path, *found: dict[str, Any]) -> None:
    """Put events on record, a minute apart."""
    daemon = daemon_id(str(file))

    def work(db: Any) -> None:
        for number, event in enumerate(found, 1):
            at = START + number * 60_000
            whole = {"seq": number, "at": rfc3339(at), "at_ms": at, **event}
            row = (daemon, number, at, event.get("harness"), json.dumps(whole))
            db.execute("INSERT INTO feed VALUES (?, ?, ?, ?, ?)", row)

    with Ledger(str(state), writer=True) as ledger:
        ledger.write(work)


STORY: list[dict[str, Any]] = [
    {"event": "run_opened", "harness": "web", "run": "web-aaaaaa", "trigger": "autostart", "attempt": 1},
    {
        "event": "stalled",
        "harness": "job",
        "run": "job-bbbbbb",
        "tree": ["1 sh", "2 \x1b[31mcurl"],
        "gave_up": False,
    },
    {
        "event": "run_closed",
        "harness": "web",
        "run": "web-aaaaaa",
        "record": {"termination_reason": "exited", "exit_code": 3},
    },
]


def numbers(capsys: Capture, *args: str) -> list[Any]:
    said = verb(capsys, "events", "--json", *args)
    assert (said.code, said.err) == (0, "")
    return [json.loads(line)["seq"] for line in said.out.splitlines()]


@pytest.mark.capability("CAP-131")
def test_events_are_lines(state: Path, file: Path, capsys: Capture) -> None:
    """Each event is one line: when, of which harness, what, and what is known of it; nothing draws on the terminal."""
    happened(state, file, *STORY)
    said = verb(capsys, "events")
    assert (said.code, said.err) == (0, "")
    first, second, third = said.out.splitlines()
    assert first.split("  ")[1:] == ["web", "run_opened", "web-aaaaaa", "trigger=autostart", "attempt=1"]
    assert "tree=1 sh, 2 ?[31mcurl" in second
    assert third.endswith("failed by itself with exit status 3")


@pytest.mark.capability("CAP-131", "CAP-123")
def test_events_are_narrowed_down(state: Path, file: Path, capsys: Capture) -> None:
    """Since a number, an instant or a span; of harnesses; the newest so many."""
    happened(state, file, *STORY)
    assert numbers(capsys) == [1, 2, 3]
    assert numbers(capsys, "--since", "1") == [2, 3]
    assert numbers(capsys, "--since", "3") == []
    assert numbers(capsys, "--since", rfc3339(START + 120_000)) == [2, 3]
    assert numbers(capsys, "--since", "5m") == []
    assert numbers(capsys, "--since", "off") == [1, 2, 3]
    assert numbers(capsys, "--harness", "web") == [1, 3]
    assert numbers(capsys, "--harness", "web", "-n", "1") == [3]
    assert numbers(capsys, "--harness", "web", "--harness", "job", "--since", "1") == [2, 3]
    first = json.loads(verb(capsys, "events", "--json", "-n", "9").out.splitlines()[0])
    assert first == {
        "schema": 1,
        "seq": 1,
        "at": rfc3339(START + 60_000),
        "at_ms": START + 60_000,
        **STORY[0],
    }
    assert "--since x x" in verb(capsys, "events", "--since", "x x").err


def test_fifty_are_shown_else_all(
    state: Path, file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --since the newest fifty, with it all, however many pages that are."""
    happened(state, file, *({"event": "x", "harness": "web"} for _ in range(1_203)))
    assert numbers(capsys) == list(range(1_154, 1_204))
    assert numbers(capsys, "--since", "0") == list(range(1, 1_204))


@pytest.mark.capability("CAP-123")
def test_what_is_missing_is_said(state: Path, file: Path, capsys: Capture) -> None:
    """Events that are kept no more, that could not be written, or that were numbered anew."""
    happened(state, file, *STORY, {"event": "dropped", "count": 7})
    with Ledger(str(state), writer=True) as ledger:
        ledger.write(lambda db: db.execute("DELETE FROM feed WHERE seq=1"))
    said = verb(capsys, "events", "--since", "0")
    assert said.err.splitlines() == [
        f"longwatch: {count} events are missing here: they are kept no more, or nobody could write them"
        for count in (1, 7)
    ]
    said = verb(capsys, "events", "--since", "99", "--json")
    assert "made anew" in said.err
    assert [json.loads(line)["event"] for line in said.out.splitlines()] == [
        "dropped",
        "stalled",
        "run_closed",
        "dropped",
    ]


def test_whose_events(
    state: Path, file: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the file; where there is none, of the only daemon on record; of several none is guessed."""
    happened(state, file, *STORY)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    file.rename(tmp_path / "elsewhere.toml")
    assert numbers(capsys) == [1, 2, 3]
    happened(state, tmp_path / "other" / "longwatch.toml", *STORY)
    said = verb(capsys, "events")
    assert said.code == 2
    assert "name one with --config: " in said.err
    assert verb(capsys, "events", "--config", "nowhere.toml").code == 2


def test_nothing_on_record(state: Path, file: Path, capsys: Capture) -> None:
    """No event is no failure; no configuration and no event is."""
    assert verb(capsys, "events") == (0, "", "")
    file.unlink()
    assert verb(capsys, "events").code == 2


@pytest.mark.capability("CAP-131")
@pytest.mark.fault("I5")
def test_following_without_a_daemon_fails_aloud(state: Path, file: Path, capsys: Capture) -> None:
    """What is on record is shown, and that nothing will follow is said and is the exit status."""
    happened(state, file, *STORY)
    said = verb(capsys, "events", "-f")
    assert said.code == 3
    assert len(said.out.splitlines()) == 3
    assert said.err == "longwatch: no daemon answers: these are the events on record, and none will follow\n"


@pytest.mark.capability("CAP-131")
def test_following_asks_the_daemon(
    state: Path, file: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that answers tells all that is asked for, of what was before as much; when it ends, the verb says so (3)."""
    happened(state, file, *STORY)
    asked: list[tuple[int | None, tuple[str, ...]]] = []

    class Daemon:
        def events(
            self, since: int | None = None, harnesses: tuple[str, ...] = ()
        ) -> Iterator[dict[str, Any]]:
            asked.append((since, harnesses))
            yield {"event": "stalled", "harness": "web", "seq": 4, "at": rfc3339(START)}
            yield {"event": "dropped", "count": 2}
            raise client.NoDaemonError("no daemon listens")

    monkeypatch.setattr(events, "daemon_if_any", lambda _: Daemon())
    said = verb(capsys, "events", "-f", "--since", "2", "--harness", "web", "--json")
    assert (said.code, said.err) == (3, "longwatch: no daemon listens\n")
    assert [json.loads(line)["event"] for line in said.out.splitlines()] == ["stalled", "dropped"]
    assert asked == [(2, ("web",))]
    for words in (("-n", "1"), ("--since", "1", "-n", "1"), ("--since", "2", "-n", "9"), ()):
        verb(capsys, "events", "-f", *words)
    assert [since for since, _ in asked[1:]] == [2, 2, 2, None]
    monkeypatch.setattr(Daemon, "events", lambda *_, **__: iter(()))
    assert verb(capsys, "events", "-f").code == 0


def test_instants_and_spans_are_told_as_what_they_are() -> None:
    """Numbers of milliseconds are for programs; other numbers stay as they are."""
    told = events._details(
        {"event": "x", **dict.fromkeys(("due", "first", "until"), START), **dict.fromkeys(("after", "idle", "span", "window"), 90_000), "count": 90_000}
    )  # fmt: skip
    at = when(rfc3339(START))
    instants = [f"{key}={at}" for key in ("due", "first", "until")]
    spans = [f"{key}=1m30s" for key in ("after", "idle", "span", "window")]
    assert told == "  ".join([*instants, *spans, "count=90000"])
