"""How fast an agent's transcript is read: PERF-20 against json.loads, jq and grep over the same generated file."""

import importlib.util
import json
import os
import random
import time
from collections.abc import Callable, Sequence
from statistics import median

from bench.figures import Figure, at_least, at_most
from bench.lab import Failed, Lab, Missing, alternate, output

MB = 1_000_000
KIB = 1024
#: Of 300 MB: small records, results of tools, and images; the sizes are those of real sessions.
SMALL, RESULTS, IMAGES, IMAGE = 80_000, 2_750, 10, 7 * MB
WORDS = [
    "the",
    "of",
    "and",
    "to",
    "a",
    "in",
    "is",
    "it",
    "was",
    "for",
    "on",
    "are",
    "as",
    "with",
    "his",
    "they",
    "at",
    "be",
    "this",
    "from",
    "have",
    "or",
    "by",
    "one",
    "had",
    "not",
]


def perf_20(lab: Lab) -> list[Figure]:
    """Telling the kind of each record."""
    goals = {"json": ("json.loads", 4.5), "jq": ("jq -c .type", 11.0), "grep": ("grep -c", 0.9)}
    if importlib.util.find_spec("msgspec") is None:
        note = "msgspec is not installed (extra all)"
        return [at_least("PERF-20", f"kinds of records: longwatch / {name}", None, goal, note=note) for name, goal in goals.values()]  # fmt: skip
    path = os.path.join(lab.home, "transcript.jsonl")
    size = transcript(path, 10 if lab.quick else 1)
    runs: dict[str, list[dict[str, object]]] = {"longwatch": [], "json": [], "exact": []}
    cases: dict[str, Callable[[], float]] = {way: _ours(lab, way, path, runs[way]) for way in runs}
    skipped = {}
    for name, words in {"jq": ("-c", ".type"), "grep": ("-c", '"is_error":false')}.items():
        try:
            cases[name] = _peer(lab, [lab.peer(name), *words, path])
        except Missing as why:
            skipped[name] = str(why)
    found = {name: median(values) for name, values in alternate(cases, lab.rounds(5, 2)).items()}
    counts = [run["counts"] for each in runs.values() for run in each]
    if any(count != counts[0] for count in counts):
        raise Failed(f"the ways differ in what they count: {counts}")
    rates = ", ".join(f"{name} {size / found[name] / 1e3:.0f}" for name in found)
    figures = [
        at_least(
            "PERF-20", f"kinds of records: longwatch / {peer}",
            None if name in skipped else found[name] / found["longwatch"], goal,
            note=skipped.get(name) or (f"MB/s: {rates}" if name == "json" else ""),
        )
        for name, (peer, goal) in goals.items()
    ]  # fmt: skip
    grown = max(float(str(run["grown"])) for run in runs["longwatch"])
    return [*figures, at_most("PERF-20", "memory for it", grown / KIB, 8, "MiB")]


def _ours(lab: Lab, way: str, path: str, runs: list[dict[str, object]]) -> Callable[[], float]:
    def case() -> float:
        run = json.loads(output(lab, [*lab.program("classify"), way, path]))
        runs.append(run)
        return float(run["ms"])

    return case


def _peer(lab: Lab, argv: Sequence[str]) -> Callable[[], float]:
    """Its output goes into a pipe: grep sees that /dev/null wants no count, and stops at the first match."""

    def case() -> float:
        start = time.perf_counter()
        output(lab, argv)
        return (time.perf_counter() - start) * 1e3

    return case


def transcript(path: str, share: int) -> int:
    """Write a transcript of 300 MB over `share` and return its size: mostly small records, most bytes in long ones."""
    draw = random.Random(20)
    small, results, images = SMALL // share, RESULTS // share, max(1, IMAGES // share)
    kinds = ["small"] * small + ["result"] * results + ["image"] * images
    draw.shuffle(kinds)
    image = "QUJDREVGR0g" * (IMAGE // 11)
    prose = " ".join(draw.choice(WORDS) for _ in range(40_000))
    with open(path, "w", encoding="utf-8") as file:
        for number, kind in enumerate(kinds):
            record = (
                _small(number, draw, prose) if kind == "small" else _long(number, kind, draw, prose, image)
            )
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
    return os.path.getsize(path)


def _frame(number: int, **fields: object) -> dict[str, object]:
    stamp = f"2030-01-02T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000Z"
    return {
        "parentUuid": f"00000000-0000-4000-8000-{number:012}", "isSidechain": False, **fields,
        "uuid": f"00000000-0000-4000-9000-{number:012}", "timestamp": stamp, "userType": "external", "cwd": "/srv/work",
        "sessionId": "00000000-0000-4000-a000-000000000001", "version": "2.1.0", "gitBranch": "main",
    }  # fmt: skip


def _small(number: int, draw: random.Random, prose: str) -> dict[str, object]:
    at = draw.randrange(len(prose) - 1_500)
    said = prose[at : at + draw.randrange(1, 1_500)]
    which = draw.randrange(10)
    if which < 4:
        block = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": said}}
        return _frame(number, message={"id": f"m{number}", "role": "assistant", "content": [block], "stop_reason": "tool_use"}, type="assistant")  # fmt: skip
    if which < 8:
        result = {"tool_use_id": f"c{number}", "type": "tool_result", "content": said, "is_error": which == 7}
        return _frame(number, type="user", message={"role": "user", "content": [result]})
    words = {"type": "text", "text": said}
    return _frame(number, message={"id": f"m{number}", "role": "assistant", "content": [words], "stop_reason": "end_turn"}, type="assistant")  # fmt: skip


def _long(number: int, kind: str, draw: random.Random, prose: str, image: str) -> dict[str, object]:
    content: object = prose[: draw.randrange(30_000, 70_000)]
    if kind == "image":
        content = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}}]
    block = {"tool_use_id": f"c{number}", "type": "tool_result", "content": content, "is_error": False}
    return _frame(number, type="user", message={"role": "user", "content": [block]})
