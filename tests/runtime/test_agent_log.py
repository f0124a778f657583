"""What an agent did, in its run's folder."""

import json
from pathlib import Path
from typing import Any

import pytest

import folders
from longwatch.posix import now
from longwatch.runtime import agent_log
from longwatch.runtime.agent_log import AgentLog


def lines(folder: Path, name: str = "agent.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_events_wait_for_their_folder(state: Path) -> None:
    """What happened before a run had its folder is written, too, in order, with the instant of each."""
    log, at = AgentLog(), now()
    log.heard(at, {"kind": "turn_start", "by": "user"})
    log.looked()
    folder = folders.make(state)
    log.keep_in(folder)
    log.heard(at + 5, {"kind": "tool_call", "call": "c1", "tool": "Bash"})
    log.looked()
    log.looked()
    log.heard(at + 9, {"kind": "turn_end", "ok": True})
    log.end()
    log.end()
    found = lines(Path(folder.path))
    assert [(line["schema"], line["kind"], line["mono_ms"]) for line in found] == [
        (1, "turn_start", at),
        (1, "tool_call", at + 5),
        (1, "turn_end", at + 9),
    ]
    assert found[1]["tool"] == "Bash"
    assert found[0]["at"].endswith("Z")
    assert folder.failed is None


def test_rows_are_one_line(state: Path) -> None:
    """A streamed text is one line for each look, stamped with its last piece; calls, and other helpers', are not joined."""
    log, folder = AgentLog(), folders.make(state)
    log.keep_in(folder)
    for at, chars in ((1, 10), (2, 20), (3, 30)):
        log.heard(at, {"kind": "text", "chars": chars})
    log.heard(4, {"kind": "text", "chars": 1, "sub": "h"})
    log.heard(5, {"kind": "heartbeat", "what": "keep_alive"})
    log.heard(6, {"kind": "heartbeat", "what": "keep_alive"})
    log.heard(7, {"kind": "tool_call", "call": "a"})
    log.heard(8, {"kind": "tool_call", "call": "a"})
    log.looked()
    log.heard(9, {"kind": "text", "chars": 4})
    log.looked()
    told = [
        (line["kind"], line["mono_ms"], line.get("chars"), line.get("count"))
        for line in lines(Path(folder.path))
    ]
    assert told == [
        ("text", 3, 60, 3),
        ("text", 4, 1, None),
        ("heartbeat", 6, None, 2),
        ("tool_call", 7, None, None),
        ("tool_call", 8, None, None),
        ("text", 9, 4, None),
    ]


def test_the_newest_are_kept(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a run is its events take two files of a bounded size; another incarnation goes on in them."""
    monkeypatch.setattr(agent_log, "MOST", 1_000)
    monkeypatch.setattr(agent_log, "_EARLY", 5)
    folder = folders.make(state)
    early = AgentLog()
    for number in range(9):
        early.heard(number, {"kind": "tool_call", "call": f"early {number}"})
    early.keep_in(folder)
    early.end()
    assert [line["call"] for line in lines(Path(folder.path))] == [
        f"early {number}" for number in range(4, 9)
    ]
    log = AgentLog()
    log.keep_in(folder)
    for number in range(100):
        log.heard(number, {"kind": "tool_call", "call": f"c{number}"})
        log.looked()
    log.end()
    before, newest = (lines(Path(folder.path), name) for name in ("agent.jsonl.1", "agent.jsonl"))
    assert newest[-1]["call"] == "c99"
    numbers = [int(line["call"][1:]) for line in [*before, *newest]]
    assert numbers == list(range(numbers[0], 100))
    assert len(numbers) < 40
    assert Path(folder.path, "agent.jsonl.1").stat().st_size < 1_200


def test_a_full_file_is_known_to_the_next_incarnation(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever goes on with a file that is full does not fill it again."""
    monkeypatch.setattr(agent_log, "MOST", 150)
    folder = folders.make(state)
    for at, call in ((1, "c1"), (3, "c2"), (5, "c3")):
        log = AgentLog()
        log.keep_in(folder)
        log.heard(at, {"kind": "tool_call", "call": call})
        log.looked()
        log.heard(at + 1, {"kind": "tool_call", "call": call})
        log.end()
    assert [line["call"] for line in lines(Path(folder.path), "agent.jsonl.1")] == ["c2", "c3"]
    assert [line["call"] for line in lines(Path(folder.path))] == ["c3"]


def test_a_folder_that_cannot_take_them(state: Path) -> None:
    """What cannot be written is told once by the folder, and nothing raises."""
    folder = folders.make(state)
    Path(folder.path, "agent.jsonl").mkdir()
    log = AgentLog()
    log.keep_in(folder)
    log.heard(1, {"kind": "text"})
    log.looked()
    assert folder.failed is not None
    assert "agent.jsonl" in folder.failed
    Path(folder.path, "agent.jsonl").rmdir()
    Path(folder.path, "agent.jsonl").symlink_to("/dev/full")
    log.heard(2, {"kind": "text"})
    log.end()


def test_another_supervisor_goes_on_where_the_last_one_ended(state: Path) -> None:
    """Who takes a run up reads its agent again from the beginning, and tells only what does not stand there yet."""
    first, folder = AgentLog(), folders.make(state)
    first.keep_in(folder)
    first.heard(10, {"kind": "tool_call", "call": "a"})
    first.heard(20, {"kind": "tool_result", "call": "a"})
    first.end()
    again = AgentLog()
    again.heard(10, {"kind": "tool_call", "call": "a"})
    again.keep_in(folder)
    again.heard(20, {"kind": "tool_result", "call": "a"})
    again.heard(30, {"kind": "tool_call", "call": "b"})
    again.end()
    assert [line["mono_ms"] for line in lines(Path(folder.path))] == [10, 20, 30]


@pytest.mark.parametrize("text", ["", "{}\n", '{"mono_ms": "x"}\n', "\xff"])
def test_a_file_that_says_no_instant_is_gone_on_with(state: Path, text: str) -> None:
    """Whatever stands there, what comes is written."""
    log, folder = AgentLog(), folders.make(state)
    (Path(folder.path) / "agent.jsonl").write_text(text, encoding="latin-1")
    log.keep_in(folder)
    log.heard(1, {"kind": "turn_start"})
    log.end()
    assert b'"kind": "turn_start"' in (Path(folder.path) / "agent.jsonl").read_bytes()
