"""Transcripts: the newest good call in a large one (PERF-21), and a thousand that are followed at once (PERF-22)."""

import base64
import json
import os
import random
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from bench.figures import Figure, at_least, at_most
from bench.lab import Failed, Lab, finish, percentile, spawn
from longwatch.observe.tail import Tail, last_time

MB = 1_000_000
WORDS = (  # noqa: SIM905 - a list of words reads worse
    "the quick brown fox jumps over the lazy dog import class return value result error file path test build "
    "module index function const string number where which there other about would these could"
).split()
#: What ends the record of a call that went well; no other record has it.
NEEDLE = b'"is_error":false}]},"'
STAMP = "2030-01-02T03:04:05.000Z"
#: The length of the newest good call's result: most are far shorter than the 50 kB of those that went wrong here.
GOOD = 4_000
FILES, FOLDERS = 1_000, 50
#: How long nothing is written, in seconds.
QUIET = 5.0
#: Between two lines of the writer, in seconds.
INTERVAL = 0.002


def perf_21(lab: Lab) -> list[Figure]:
    """Typical: a few records behind the newest good call. Miss: every call of the whole file went wrong."""
    size = (100 if lab.quick else 1_000) * MB
    path = os.path.join(lab.folder, "transcript.jsonl")
    _write_transcript(path, size)
    missing = median(_took(path, None) for _ in range(lab.rounds(5, 2)))
    with open(path, "ab") as file:
        file.write(_record("user", [_result(GOOD, error=False)]) + b"".join(_texts(4)))
    typical = median(_took(path, STAMP) for _ in range(lab.rounds(200, 50)))
    forward = _forward(path)
    os.unlink(path)
    size_note = (
        f"{size // MB} MB; {typical * 1000:.3f} ms, {forward:.2f} s with json.loads from the beginning"
    )
    return [
        at_most("PERF-21", "the newest good call of a large transcript, typical", typical * 1000, 0.1, "ms"),
        at_least(
            "PERF-21",
            "json.loads of all lines / that",
            forward / typical,
            10_000 if not lab.quick else 1_000,
            note=size_note,
        ),
        at_least("PERF-21", "search of a transcript without one", size / missing / 1e9, 3, "GB/s"),
    ]


def perf_22(lab: Lab) -> list[Figure]:
    """A thousand files in fifty folders, one descriptor to wait for; lines come from another process."""
    try:
        from longwatch.observe.alarm import Alarm
    except ImportError:
        note = "inotify_simple is not installed (pip install 'longwatch[all]')"
        return [
            at_most("PERF-22", "wakeups of 1,000 followed transcripts when quiet", None, 0, "", note),
            at_most("PERF-22", "from a line's writing to its reading, p50", None, 0.2, "ms", note),
        ]
    with _followed(lab, Alarm()) as (alarm, tails):
        wakeups = _wakeups(alarm, QUIET if not lab.quick else QUIET / 5)
        late = _latencies(lab, alarm, tails, 2_000 if not lab.quick else 300)
        look = median(_look_at_all(tails) for _ in range(lab.rounds(9, 3)))
    note = f"p99 {percentile(late, 0.99):.2f} ms, {len(late)} lines; a look at all {FILES} without waking: {look:.1f} ms"
    return [
        at_most("PERF-22", "wakeups of 1,000 followed transcripts when quiet", wakeups, 0, ""),
        at_most("PERF-22", "from a line's writing to its reading, p50", median(late), 0.2, "ms", note),
    ]


# One large transcript


def _text(length: int) -> str:
    return " ".join(random.choices(WORDS, k=length // 5))[:length]


def _record(kind: str, content: list[dict[str, Any]]) -> bytes:
    record = {"type": kind, "message": {"role": kind, "content": content}, "uuid": "a1", "timestamp": STAMP}
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _result(size: int, *, error: bool) -> dict[str, Any]:
    text = _text(size)
    return {"tool_use_id": "t1", "type": "tool_result", "content": text, "is_error": error}


def _texts(count: int) -> list[bytes]:
    return [
        _record("assistant", [{"type": "text", "text": _text(random.randint(300, 2_000))}])
        for _ in range(count)
    ]


def _write_transcript(path: str, size: int) -> None:
    """Write what an agent writes: many small records, calls' results of 50 kB, and now and then an image."""
    random.seed(21)
    texts = _texts(400)
    results = [_record("user", [_result(random.randint(30_000, 70_000), error=True)]) for _ in range(20)]
    image = base64.b64encode(random.randbytes(5 * MB)).decode()
    images = [_record("user", [{"type": "image", "data": image}])]
    written = 0
    with open(path, "wb") as file:
        while written < size:
            part = [*random.choices(texts, k=2_700), *random.choices(results, k=90)]
            random.shuffle(part)
            written += file.write(b"".join([*part, *(images if random.random() < 1 / 3 else [])]))


def _good(line: bytes) -> str | None:
    """Return when a call went well, if the record says that one did."""
    record = json.loads(line)
    good = any(block.get("is_error") is False for block in record["message"]["content"])
    return record["timestamp"] if good else None


def _took(path: str, expected: str | None) -> float:
    start = time.perf_counter()
    found = last_time(path, _good, NEEDLE)
    took = time.perf_counter() - start
    if found != expected:
        raise Failed(f"the newest good call was told to be of {found}")
    return took


def _forward(path: str) -> float:
    start = time.perf_counter()
    found = None
    with open(path, "rb") as file:
        for line in file:
            found = _good(line) or found
    if found != STAMP:
        raise Failed("reading from the beginning found no good call")
    return time.perf_counter() - start


# Many small ones


@contextmanager
def _followed(lab: Lab, alarm: Any) -> Iterator[tuple[Any, dict[str, Tail]]]:
    tails = {}
    for number in range(FILES):
        folder = os.path.join(lab.folder, "agents", str(number % FOLDERS))
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, f"{number}.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write("{}\n")
        tails[path] = Tail(path)
        if not alarm.watch(path):
            raise Failed(f"{path} cannot be watched")
        for _ in tails[path].read():
            pass
        # A thousand descriptors are more than a process has: what is quiet rests.
        tails[path].close()
    alarm.changed()
    try:
        yield alarm, tails
    finally:
        alarm.close()
        for tail in tails.values():
            tail.close()


def _wakeups(alarm: Any, seconds: float) -> int:
    poll, count = select.poll(), 0
    poll.register(alarm.fileno(), select.POLLIN)
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if poll.poll(left * 1000):
            alarm.changed()
            count += 1
    return count


def _latencies(lab: Lab, alarm: Any, tails: dict[str, Tail], count: int) -> list[float]:
    """Return the ms from the writing of each line to the moment when it is in hand."""
    names = os.path.join(lab.folder, "names")
    with open(names, "w", encoding="utf-8") as file:
        file.write("\n".join(tails))
    argv = [*lab.program("appender"), str(count), str(INTERVAL), names]
    pid = spawn(lab, argv)
    poll, late = select.poll(), []
    poll.register(alarm.fileno(), select.POLLIN)
    while len(late) < count and poll.poll(10_000):
        for path in alarm.changed():
            for _, line in tails[path].read():
                sent = json.loads(line)["sent"]
                late.append((time.clock_gettime_ns(time.CLOCK_MONOTONIC) - sent) / 1e6)
            tails[path].close()
    finish(lab, pid, argv)
    if len(late) != count:
        raise Failed(f"of {count} lines {len(late)} came")
    return late


def _look_at_all(tails: dict[str, Tail]) -> float:
    start = time.perf_counter()
    for tail in tails.values():
        for _ in tail.read():
            pass
        tail.close()
    return (time.perf_counter() - start) * 1000
