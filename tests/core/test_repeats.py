"""The same call again: the detector that only watches, and the latch that closes."""

import pytest

from longwatch.core.repeats import (
    LATCH_COUNT,
    SUSPECT_COUNT,
    SUSPECT_WINDOW,
    Detector,
    Latch,
    Suspicion,
    canonical,
    fingerprint,
)

A, B = fingerprint("Bash", {"cmd": "ls"}), fingerprint("Bash", {"cmd": "pwd"})


def suspicions(marks: list[str], detector: Detector | None = None) -> list[tuple[int, Suspicion]]:
    """Return the detector's findings, each with the number of the call that raised it."""
    detector = detector or Detector()
    found = [(place, detector.saw(mark)) for place, mark in enumerate(marks, 1)]
    return [(place, finding) for place, finding in found if finding is not None]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (
            {"a": 1, "b": {"c": 2, "d": 3}},
            {"b": {"d": 3, "c": 2}, "a": 1},
            True,
        ),  # order of keys, at every depth
        ([1, 2], [2, 1], False),  # order of lists counts
        ([1, 2], (1, 2), True),
        ({"a": None}, {}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": [{"b": 1, "c": 2}]}, {"a": [{"c": 2, "b": 1}]}, True),
        ("x", "x", True),
        (object, object(), False),  # odd values never raise
    ],
)
def test_canonical(one: object, other: object, same: bool) -> None:
    """Arguments are equal when they say the same, in whatever order their keys came."""
    assert (canonical(one) == canonical(other)) == same


def test_a_fingerprint_is_tool_arguments_and_result() -> None:
    """Each of the three makes a call another call: a repeated question with a changing answer is polling."""
    marks = [
        fingerprint("Bash", {"cmd": "ls"}),
        fingerprint("Read", {"cmd": "ls"}),
        fingerprint("Bash", {"cmd": "pwd"}),
        fingerprint("Bash", {"cmd": "ls"}, "a\n"),
        fingerprint("Bash", {"cmd": "ls"}, "a\nb\n"),
    ]
    assert len(set(marks)) == len(marks)


def test_five_of_twenty_are_suspect_once() -> None:
    """Five equal calls within the last twenty raise one suspicion, and no more of them in this turn."""
    assert (SUSPECT_COUNT, SUSPECT_WINDOW) == (5, 20)
    assert suspicions([A] * 12) == [(5, Suspicion(A, 5, 20))]


def test_an_interleaved_loop_is_found() -> None:
    """A loop of several calls has no two equal ones in a row, and is found all the same, each member once."""
    assert [place for place, _ in suspicions([A, B] * 6)] == [9, 10]


@pytest.mark.parametrize(
    "marks",
    [
        [A] * 4,  # not enough
        [fingerprint("Bash", {"n": n}) for n in range(30)],  # all different
        ([A] * 4 + [fingerprint("Read", {"n": n}) for n in range(17)]) * 1
        + [A],  # the first ones have aged out
        [fingerprint("Bash", {"cmd": "date"}, n) for n in range(30)],  # polling
    ],
)
def test_work_is_not_suspect(marks: list[str]) -> None:
    """Few, different, aged-out and polling calls raise nothing."""
    assert suspicions(marks) == []


def test_a_new_turn_starts_clean() -> None:
    """What was seen and said in one turn does not count in the next."""
    detector = Detector()
    assert suspicions([A] * 5, detector)
    detector.new_turn()
    assert suspicions([A] * 4, detector) == []
    assert suspicions([A], detector)


def test_the_latch_closes_at_eight_in_a_row() -> None:
    """Eight equal calls in a row close the latch, and it stays closed while they go on."""
    latch = Latch()
    assert LATCH_COUNT == 8
    assert [latch.saw(A) for _ in range(10)] == [False] * 7 + [True] * 3


def test_another_call_opens_the_latch() -> None:
    """The count is of calls in a row: any other call starts it anew, and so does a user's message."""
    latch = Latch(3)
    assert [latch.saw(mark) for mark in (A, A, B, A, A, A, B)] == [
        False,
        False,
        False,
        False,
        False,
        True,
        False,
    ]
    latch = Latch(2)
    latch.saw(A)
    latch.reset()
    assert latch.saw(A) is False
    assert latch.saw(A) is True


@pytest.mark.parametrize(("asked", "count"), [(-1, 8), (0, 8), (1, 8), (2, 2), (20, 20)])
def test_a_latch_needs_two(asked: int, count: int) -> None:
    """One call is no repetition: fewer than two means the built-in count."""
    assert Latch(asked).count == count
