"""Several runs as one piece of work: what is tried, in which order, and what comes back."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import wait_until
from longwatch import Limits, RunFailed, UsageError, patterns
from longwatch.core.plan import JOBS
from longwatch.patterns import Step, batched, cascade, fallback, parallel, sequence


def sh(script: str, **words: object) -> Step:
    return Step(["sh", "-c", script], Limits(idle=20), **words)  # type: ignore[arg-type]


@pytest.mark.capability("CAP-24")
def test_a_cascade_goes_on_by_exit_status_alone() -> None:
    """Two that fail, one that does not: the third result, its level, and what was not to be had."""
    found = cascade([sh("exit 3"), sh("kill -9 $$"), sh("echo good")])
    assert found.ok
    assert (found.level, found.result.stdout) == ("tertiary", "good\n")
    assert found.degradation == "tertiary had to do: primary exited 3; secondary did not complete"
    assert [result.exit_code for result in found.attempts] == [3, None, 0]
    assert repr(found) == "<Outcome tertiary after 3>"


@pytest.mark.capability("CAP-24")
def test_a_first_level_that_does_is_the_only_one_run(tmp_path: Path) -> None:
    """Nothing is degraded, and nothing else was started."""
    found = cascade({"best": sh("true"), "worse": sh(f"touch {tmp_path}/started")})
    assert (found.level, found.degradation, len(found.attempts)) == ("best", "", 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.capability("CAP-24", "CAP-19")
def test_a_level_that_falls_silent_gives_way_to_the_next() -> None:
    """What it had said until then is in its result."""
    silent = Step(["sh", "-c", "echo begun; sleep 60"], Limits(idle=0.3))
    found = cascade([silent, sh("true")])
    assert found.level == "secondary"
    first = found.attempts[0]
    assert (first.termination_reason, first.exit_code, first.stdout) == ("idle", None, "begun\n")


@pytest.mark.capability("CAP-25")
def test_a_cascade_in_which_all_fail_says_so() -> None:
    """The level is `failed`, the result the last one, the attempts as many as the levels."""
    found = cascade([sh("exit 1"), sh("exit 2")])
    assert not found.ok
    assert (found.level, found.result.exit_code, len(found.attempts)) == ("failed", 2, 2)
    assert found.degradation == "all 2 failed: primary exited 1; secondary exited 2"


@pytest.mark.capability("CAP-26", "CAP-20")
def test_the_strategy_is_advice_that_ends_nothing() -> None:
    """A level that talks for longer than its advice is left alone; it can read what was thought of it."""
    talks = 'for n in 1 2 3 4 5 6; do echo "$LONGWATCH_ADVICE_SECONDS"; sleep 0.25; done'
    level = Step(["sh", "-c", talks], Limits(idle=1))
    found = cascade([sh("exit 1"), sh("exit 1"), level], "aggressive")
    assert found.level == "tertiary"
    assert found.result.stdout == "1\n" * 6
    assert found.result.duration_ms > 1_000
    assert patterns.STRATEGIES["patient"] == (120, 30, 10)
    assert patterns.STRATEGIES["balanced"] == (30, 10, 5)


@pytest.mark.capability("CAP-26")
@pytest.mark.parametrize(
    ("levels", "strategy", "why"),
    [
        ([sh("true")], "agressive", "did you mean 'aggressive'?"),
        ([sh("true")], "xyz", "there are aggressive, balanced, patient"),
        ([], "balanced", "at least one level"),
        ([sh("true")] * 4, "balanced", "give the levels names"),
    ],
)
def test_wrong_words_are_refused_before_anything_runs(levels: list[Step], strategy: str, why: str) -> None:
    """The message says what there is."""
    with pytest.raises(UsageError, match=r"^(strategy|a cascade)") as refusal:
        cascade(levels, strategy)
    assert why in str(refusal.value)


@pytest.mark.capability("CAP-27")
def test_a_sequence_passes_on_what_was_said_and_ends_at_a_failure() -> None:
    """Each one reads what the one before it printed; a failure is the last one, unless it is not to be."""
    steps = [sh("echo one"), sh("tr a-z A-Z; exit 4"), sh("cat; echo three")]
    assert [result.stdout for result in sequence(steps, pass_output=True)] == ["one\n", "ONE\n"]
    results = sequence(steps, stop_on_failure=False, pass_output=True)
    assert [result.stdout for result in results] == ["one\n", "ONE\n", "ONE\nthree\n"]


@pytest.mark.capability("CAP-27")
def test_no_more_run_side_by_side_than_may(tmp_path: Path) -> None:
    """Results come in the order of the steps, whoever ends first."""
    script = f"echo x >>{tmp_path}/at; n=$(cat {tmp_path}/at | wc -l); sleep 0.2; echo {{}}; echo -n >{tmp_path}/at; test $n -le 2"
    steps = [sh(script.replace("{}", str(number))) for number in range(4)]
    results = parallel(steps, jobs=2)
    assert [result.exit_code for result in results] == [0] * 4
    assert [result.stdout for result in results] == [f"{number}\n" for number in range(4)]
    assert JOBS == 8


@pytest.mark.capability("CAP-27")
def test_batches_follow_each_other(tmp_path: Path) -> None:
    """A batch in which one fails is the last, where that is wanted."""
    steps = [sh("exit 0"), sh("exit 5"), sh(f"touch {tmp_path}/started")]
    assert [[one.exit_code for one in batch] for batch in batched(steps, 2, stop_on_failure=True)] == [[0, 5]]
    assert list(tmp_path.iterdir()) == []
    assert [[one.exit_code for one in batch] for batch in batched(steps, 2)] == [[0, 5], [0]]


@pytest.mark.capability("CAP-27")
def test_a_fallback_names_how_many_failed() -> None:
    """The first that exits 0 is it; none at all is an error."""
    assert fallback([sh("exit 1"), sh("true", name="plain")]).level == "plain"
    assert fallback([sh("exit 1"), sh("exit 2"), sh("exit 3")]).degradation.startswith("all 3 failed: ")
    with pytest.raises(UsageError, match="at least one step"):
        fallback([])


def test_wrong_words_of_a_step_end_the_others_first() -> None:
    """What a step raises comes out of the pattern, and nothing is left running."""
    wrong = Step(["true"], Limits(idle=20), output="elsewhere")
    with pytest.raises(UsageError, match="elsewhere"):
        parallel([sh("sleep 60"), wrong])
    for refused in (lambda: parallel([], jobs=0), lambda: batched([], 0), lambda: Step([])):
        with pytest.raises(UsageError):
            refused()
    assert parallel([]) == []
    assert repr(sh("true")) == "<Step sh>"


@pytest.mark.fault("G7")
def test_who_interrupts_a_pattern_leaves_nothing_behind(tmp_path: Path) -> None:
    """Ctrl-C ends the trees of all that run side by side."""
    script = (
        "import sys; from longwatch.patterns import Step, parallel\n"
        "mark = sys.argv[1]\n"
        "parallel([Step(['sh', '-c', f'echo $$ >{mark}/{n}; sleep 60']) for n in range(3)])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stderr=subprocess.DEVNULL
    ) as process:
        pids = wait_until(lambda: _pids(tmp_path, 3))
        process.send_signal(signal.SIGINT)
        process.wait()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def _pids(folder: Path, count: int) -> list[int]:
    found = [int(text) for path in folder.iterdir() if (text := path.read_text().strip())]
    return found if len(found) == count else []


@pytest.mark.capability("CAP-29")
def test_a_failure_quotes_what_was_said_on_stderr() -> None:
    """On one line, the first 500 characters of it at most; a limit quotes nothing."""
    result = sh("printf 'no such\\n model %0600d' 7 >&2; exit 2").run()
    with pytest.raises(RunFailed) as failure:
        result.check()
    message = str(failure.value)
    assert message.startswith("sh: exited with status 2: no such model 000")
    assert message.endswith("0")
    assert len(message) <= 500 + len("sh: exited with status 2: ")
    with pytest.raises(RunFailed) as quiet:
        sh("exit 2").run().check()
    assert str(quiet.value) == "sh: exited with status 2"


@pytest.mark.capability("CAP-28")
@pytest.mark.parametrize(("given", "window"), [(0, None), (999, 999_000), (1200, 1_200_000)])
def test_a_window_has_no_upper_bound(given: int, window: int | None) -> None:
    """0 is off, whatever else is given holds as it is."""
    found = Limits(idle=given).resolve({}).specs.get("idle")
    assert (found and found.window) == window
