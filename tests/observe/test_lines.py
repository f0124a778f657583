"""Bytes become lines, wherever the chunks end and however long a line is."""

import itertools
import json
import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.observe import lines
from longwatch.observe.lines import KEPT, LONGEST, Cut, Splitter, cut, joined, mended, runs

TEXT = "one\n\ntw\u00f6 \U0001f600 \u6f22\nthree".encode()


def split(data: bytes, *ends: int, longest: int = LONGEST) -> list[bytes]:
    """Split data that comes in chunks which end at these places."""
    splitter = Splitter(longest=longest)
    places = [0, *sorted(ends), len(data)]
    found = []
    for begin, end in itertools.pairwise(places):
        found += splitter.feed(data[begin:end])
    return [*found, splitter.rest]


@pytest.mark.fault("M1")
@given(st.lists(st.integers(0, len(TEXT)), max_size=6))
def test_chunks_change_nothing(ends: list[int]) -> None:
    """A chunk may end anywhere, inside a character too: the lines are the same, and half a line is none."""
    assert split(TEXT, *ends) == TEXT.split(b"\n")


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=4))
def test_any_bytes_are_lines(data: bytes, ends: list[int]) -> None:
    """Whatever the bytes are, each comes once and in its place."""
    assert split(data, *(min(end, len(data)) for end in ends)) == data.split(b"\n")


def test_offset_is_behind_the_last_whole_line() -> None:
    """Reading can be taken up again where the unfinished line begins, and brings that line then."""
    splitter = Splitter(100)
    assert splitter.feed(b'{"a":1}\n{"b"') == [b'{"a":1}']
    assert splitter.offset == 108
    again = Splitter(splitter.offset)
    assert again.places(b'{"b":2}\n') == [(108, b'{"b":2}')]


@pytest.mark.fault("M5")
def test_places_leave_out_what_is_nothing() -> None:
    """Blank lines and zero bytes give no line, and move the place of the next one."""
    data = b"\n \0\0\r\n\0\0\0{1}\n{2}\n"
    assert Splitter().places(data) == [(9, b"{1}"), (13, b"{2}")]


@pytest.mark.capability("OBS-10")
def test_a_huge_line_keeps_its_ends() -> None:
    """A line of 100 MB is read in bounded memory, its ends say what it was, and the next line is whole."""
    begin, end = b'{"type":"user","content":"', b'","id":"u1"}'
    block = b"QUJD" * 65_536
    splitter = Splitter()
    tracemalloc.start()
    try:
        found = splitter.feed(begin)
        for _ in range(400):
            found += splitter.feed(block)
        found += splitter.feed(end + b"\n{}\n")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    line, after = found
    assert isinstance(line, Cut)
    assert line.length == 400 * len(block) + len(begin) + len(end)
    assert {**json.loads(line), "content": ""} == {"type": "user", "content": "", "id": "u1"}
    assert after == b"{}"
    assert peak < 4 << 20
    assert splitter.offset == line.length + 1 + 3


def test_a_long_line_in_one_chunk_is_cut_too() -> None:
    """It does not depend on the chunks whether a line is too long."""
    line = b'"' + b"x" * LONGEST + b'"'
    (found,) = Splitter().feed(line + b"\n")
    assert isinstance(found, Cut)
    assert (found.length, len(found)) == (len(line), 2 * KEPT - 1)


@pytest.mark.parametrize(
    "text", ["\\n" * 40, "\\\\x" * 40, "\\u00e9" * 20, "\u00e9\u6f22\U0001f600" * 20, '\\"' * 40]
)
def test_no_escape_is_cut_in_two(text: str) -> None:
    """Wherever a string is cut, in an escape or in a character, what is left is JSON."""
    line = ('{"a":"' + text + '","b":1}').encode()
    for kept in range(20, 45):
        short = cut(line, kept)
        assert json.loads(short)["b"] == 1, short
        assert short.length == len(line)


@pytest.mark.parametrize(
    ("head", "whole"),
    [
        ('{"a":1,"b":[1,{"c":"d', {"a": 1, "b": [1, {}]}),
        ('{"a":1,"b":2', {"a": 1}),
        ('{"a":1,"b":', {"a": 1}),
        ('{"a":"x","b', {"a": "x"}),
        ("[true,fal", [True]),
        ('{"a":{"b":"c"}}', {"a": {"b": "c"}}),
        ('{"a":[]]', {"a": []}),
        ('{"a":"\\"","b":"\\', {"a": '"'}),
    ],
)
def test_a_beginning_is_closed(head: str, whole: object) -> None:
    """Of a text that was cut, the longest beginning that can be closed is JSON."""
    assert json.loads(mended(head.encode())) == whole


@given(st.binary(max_size=200))
def test_mending_and_joining_take_anything(data: bytes) -> None:
    """No bytes make them fail."""
    mended(data)
    assert joined(data[:50], data[-50:], len(data)).length == len(data)


def seen(path: Path, begin: int = 0, end: int | None = None) -> list[bytes]:
    """Return the runs of a file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return [bytes(run) for run in runs(descriptor, begin, end)]
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("size", [28, 64, 4096])
@pytest.mark.parametrize("short", [1, 10, 20])
def test_runs_of_a_file(size: int, short: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All lines between two offsets come in their order, a long one by itself; the last needs no line break."""
    monkeypatch.setattr(lines, "_BUFFER", size)
    monkeypatch.setattr(lines, "SHORT", short)
    path = tmp_path / "file"
    whole = [b"first", b"a second line", b"", b"the third line, the longest", b"4", b"fifth"]
    path.write_bytes(b"\n".join(whole))
    found = seen(path)
    assert b"\n".join(found).split(b"\n") == whole
    assert all(len(run) <= short or b"\n" not in run for run in found)
    assert b"\n".join(seen(path, 6, 15)) == b"a second "
    assert seen(path, 1_000) == []


def test_of_a_huge_line_the_ends_are_seen(tmp_path: Path) -> None:
    """A line that is longer than any buffer is seen by its ends, at the end of the file too."""
    huge = b'"' + b"x" * 3_000_000 + b'"'
    path = tmp_path / "file"
    path.write_bytes(b"{}\n" + huge + b"\n[]\n[1]\n" + huge)
    found = seen(path)
    assert [len(line) for line in found] == [2, 2 * KEPT - 1, 6, 2 * KEPT - 1]
    assert found[2] == b"[]\n[1]"
    assert all((line[:2], line[-2:]) == (b'"x', b'x"') for line in (found[1], found[3]))
