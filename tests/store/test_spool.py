"""The spool: one line a run, always whole, always short enough."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import folders
from longwatch.errors import StoreError
from longwatch.store import spool

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.text(max_size=9).map(lambda text: text * 300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
KEYS = st.sampled_from((*spool.TRIM_ORDER, *spool.ESSENTIAL[3:], "x", "y" * 200))


def lines(state: Path) -> list[dict[str, Any]]:
    found = [path.read_bytes().split(b"\n") for path in sorted((state / "spool").glob("*.jsonl"))]
    return [json.loads(line) for part in found for line in part if line]


def test_a_run_is_one_line_of_its_utc_day(state: Path) -> None:
    """A record becomes one JSON line with version and type, in the file of the day, private to the user."""
    spool.append(str(state), {"run": "a-000000"}, now=86_399.9)
    assert (state / "spool" / "1970-01-01.jsonl").stat().st_mode & 0o777 == 0o600
    assert (state / "spool").stat().st_mode & 0o777 == 0o700
    assert lines(state) == [{"v": 1, "type": "run", "run": "a-000000"}]


@given(st.dictionaries(KEYS, JSON, max_size=12), st.integers(0, 40_000))
@settings(deadline=None, max_examples=60)
def test_any_record_fits(record: dict[str, Any], bulk: int) -> None:
    """Whatever a record holds, its line is valid JSON within 16 KiB and still says which run it was."""
    record = {**record, "run": "build-abcdef", "name": "n" * bulk, "diagnosis": "d" * bulk}
    data = spool.line(record)
    assert len(data) <= spool.LONGEST_LINE
    found = json.loads(data)
    assert (found["v"], found["type"], found["run"]) == (
        record.get("v", 1),
        record.get("type", "run"),
        "build-abcdef",
    )


def test_bulky_fields_go_first_and_are_named() -> None:
    """Fields are dropped in a fixed order until the line fits, and the line names them."""
    record = {"run": "a", "rungs": ["x" * 9_000], "survivors": ["y" * 9_000], "diagnosis": "stuck"}
    found = json.loads(spool.line(record))
    assert found["trimmed"] == ["rungs"]
    assert found["survivors"]
    assert found["diagnosis"] == "stuck"


def test_a_limit_survives_the_worst_case() -> None:
    """When nothing but the essentials fits, the limit that fired is still named."""
    limit = {"name": "idle", "window_ms": 5, "subject": "s" * 20_000}
    found = json.loads(spool.line({"run": "a", "limit": limit, "other": "o" * 20_000, "exit_code": True}))
    assert found["limit"] == {"name": "idle", "window_ms": 5}
    assert found["trimmed"] == ["other"]


def test_summary_leaves_output_out() -> None:
    """The history keeps neither output nor process lines, but the diagnosis and how much was printed."""
    found: dict[str, Any] = spool.summary(folders.report("build-abcdef"))
    assert found["diagnosis"] == "2314 sort waits for input"
    assert found["stdout"] == {"bytes": 6, "truncated": False, "lost": 0}
    assert "post_mortem" not in found
    assert found["limit"]["name"] == "idle"
    assert spool.summary({"run": "a", "stdout": None, "post_mortem": None}) == {"run": "a", "stdout": None}


@pytest.mark.fault("R2")
def test_a_torn_line_swallows_nothing(state: Path) -> None:
    """What a crash left torn is fenced off: the next line stands on its own."""
    (state / "spool").mkdir(parents=True)
    (state / "spool" / "1970-01-01.jsonl").write_bytes(b'{"v": 1, "ru')
    spool.append(str(state), {"run": "b"}, now=0)
    assert (state / "spool" / "1970-01-01.jsonl").read_bytes().splitlines()[
        -1
    ] == b'{"v": 1, "type": "run", "run": "b"}'


def test_writers_never_mix(state: Path) -> None:
    """Lines that many write at once all arrive whole."""

    def write(number: int) -> None:
        for i in range(50):
            spool.append(str(state), {"run": f"{number}-{i}"})

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len({line["run"] for line in lines(state)}) == 400


def test_what_cannot_be_written_is_one_line(state: Path) -> None:
    """A spool that cannot be written raises StoreError with one line; a full disk too."""
    state.parent.mkdir(parents=True, exist_ok=True)
    state.write_text("a file in the way")
    with pytest.raises(StoreError, match="not in the history"):
        spool.append(str(state), {"run": "a"})


def test_a_full_disk_is_said(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk takes only a part of the line, the caller is told; readers pass the rest over."""
    monkeypatch.setattr(os, "write", lambda fd, data: len(data) - 5)
    with pytest.raises(StoreError, match="the disk is full"):
        spool.append(str(state), {"run": "a"})
