"""`Result`: a bad end is a value, and `check` makes it the exception that says which."""

import copy
import pickle
import subprocess

import pytest

import longwatch
from longwatch import (
    CallReached,
    CeilingReached,
    FirstReached,
    IdleReached,
    LimitReached,
    LongwatchError,
    Result,
    RunFailed,
    TimeoutReached,
)
from longwatch.core.facts import LimitFired, RunEnded, RunStarted, StopBegan
from longwatch.core.outcomes import REASONS, exit_status
from longwatch.core.report import build

CLASSES = {
    "idle": IdleReached,
    "first": FirstReached,
    "call": CallReached,
    "ceiling": CeilingReached,
    "timeout": TimeoutReached,
    "stalled": LimitReached,
    "effect": LimitReached,
    "asked": LimitReached,
    "looping": LimitReached,
}
# The limit that brings a reason about, where its name is another one.
LIMITS = {"stalled": "stall", "asked": "ask", "lingered": "linger", "looping": None}


def result(reason, code=None, signal=None, *, notes=()):
    """Return the result of a run that ended for a reason, after 1.5 s."""
    limit = LIMITS.get(reason, reason if reason in CLASSES else None)
    facts = [RunStarted(0)]
    if limit is not None:
        facts += [LimitFired(1000, limit, 1000, 0, "stop"), StopBegan(1000, reason, 15)]
    facts.append(RunEnded(1500, reason, code, signal, limit=limit))
    report = build(
        run="x-abcdef", name="x", attempt=1, started_at="", started=0, facts=facts, progress={}, last_progress=None,
        streams={}, merged=False, notes=notes,
    )  # fmt: skip
    status = code if reason == "spawn_failed" else exit_status(reason, code, signal)
    return Result(["prog", "word"], report, "out", "err", status or 0)


def test_a_good_end_checks_out():
    """A run that exited 0 by itself gives itself back."""
    good = result("exited", 0)
    assert good.ok
    assert good.check() is good


@pytest.mark.parametrize("reason", CLASSES)
def test_limits_raise_their_class(reason):
    """Each limit has the class that it should have, which is a TimeoutError and knows reason and result."""
    bad = result(reason, signal=15)
    with pytest.raises(TimeoutError) as caught:
        bad.check()
    error = caught.value
    assert type(error) is CLASSES[reason]
    assert isinstance(error, LongwatchError)
    assert (error.reason, error.partial, bad.ok) == (reason, bad, False)
    assert str(error) == bad.message
    assert bad.returncode == 124


@pytest.mark.parametrize(
    ("reason", "code", "signal", "status"),
    [
        ("exited", 3, None, 3),
        ("signaled", None, 9, 137),
        ("cancelled", None, 15, 143),
        ("interrupted", None, 2, 130),
        ("spawn_failed", 127, None, 127),
        ("unknown", None, None, 125),
    ],
)
def test_other_bad_ends_raise_run_failed(reason, code, signal, status):
    """All other bad ends are a CalledProcessError with status, command and both streams."""
    bad = result(reason, code, signal, notes=["prog: not found"])
    with pytest.raises(subprocess.CalledProcessError) as caught:
        bad.check()
    error = caught.value
    assert type(error) is RunFailed
    assert not isinstance(error, TimeoutError)
    assert (error.returncode, error.cmd, error.stdout, error.stderr) == (
        status,
        ["prog", "word"],
        "out",
        "err",
    )
    said = bad.message + (": err" if reason == "exited" else "")
    assert (error.partial, error.reason, str(error)) == (bad, reason, said)


def test_every_reason_is_met():
    """No reason is left without an answer; 0 for `exited` and a good `lingered` are the good ends."""
    raised = set()
    for reason in REASONS:
        try:
            result(reason, 0 if reason == "exited" else None, notes=["why"]).check()
        except (LimitReached, RunFailed) as error:
            raised.add(error.reason)
    assert raised == set(REASONS) - {"exited"}


@pytest.mark.parametrize(
    ("reason", "code", "signal", "message"),
    [
        ("idle", None, 15, "prog: no output for 1s"),
        ("first", None, 15, "prog: no first output within 1s"),
        ("ceiling", None, 15, "prog: reached its ceiling of 1s"),
        ("timeout", 0, None, "prog: took longer than 1s"),
        ("exited", 3, None, "prog: exited with status 3"),
        ("signaled", None, 11, "prog: died of signal SEGV"),
        ("cancelled", None, 15, "prog: stopped on request"),
        ("unknown", None, None, "prog: ended; how could not be found out"),
        ("spawn_failed", 127, None, "prog: not found, really"),
    ],
)
def test_messages(reason, code, signal, message):
    """The message is one line that names the program and what happened to it."""
    assert result(reason, code, signal, notes=["prog: not found, really"]).message == message


def test_the_report_is_there_by_name():
    """Keys of the report are attributes; what is none is an AttributeError; the streams are text."""
    good = result("exited", 0)
    assert (good.termination_reason, good.duration_ms, good.survivors) == ("exited", 1500, [])
    assert (good.stdout, good.stderr, good.argv) == ("out", "err", ("prog", "word"))
    assert good.report["stdout"] is None
    with pytest.raises(AttributeError, match="a Result has no 'colour'"):
        good.colour  # noqa: B018
    assert repr(good) == "<Result prog exited success>"


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_results_and_errors_travel(again):
    """A result, and the errors that carry one, can be copied and sent to another process."""
    bad = again(result("idle", signal=15))
    assert bad.termination_reason == "idle"
    for reason, kind in (("idle", IdleReached), ("exited", RunFailed)):
        with pytest.raises(kind) as caught:
            result(reason, 1).check()
        error = again(caught.value)
        assert (type(error), str(error), error.reason) == (kind, str(caught.value), reason)
        assert error.partial.stdout == "out"


def test_classes_without_a_result():
    """The classes can be made by hand, for a test of somebody's handler, and know their reason."""
    assert [kind("x").reason for kind in (IdleReached, FirstReached, CallReached)] == [
        "idle",
        "first",
        "call",
    ]
    assert TimeoutReached().partial is None


def test_check_on_a_real_run():
    """One line is all that a program needs to fail where its command fails."""
    assert longwatch.run(["echo", "word"]).check().stdout == "word\n"
    with pytest.raises(subprocess.CalledProcessError, match="false: exited with status 1"):
        longwatch.run(["false"]).check()
