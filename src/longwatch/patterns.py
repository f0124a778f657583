"""Several runs as one piece of work: one after the other, side by side, the next one if the first one fails.

Each step is a `run` with limits of its own; nothing here has a clock. A pattern decides by exit status alone: a slow
step that talks is never given up for a faster one.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from longwatch.core.plan import JOBS
from longwatch.errors import UsageError
from longwatch.library import run, run_async
from longwatch.limits import Limits
from longwatch.result import Result
from longwatch.units import nearest

Path = str | os.PathLike[str]

#: How long each level of a cascade is thought to take, in seconds: advice, told to the program and never enforced.
STRATEGIES: Mapping[str, tuple[int, ...]] = {
    "aggressive": (5, 2, 1),
    "balanced": (30, 10, 5),
    "patient": (120, 30, 10),
}
BALANCED = "balanced"
LEVELS = ("primary", "secondary", "tertiary")
FAILED = "failed"
#: The variable that tells a level of a cascade its advice, in seconds.
ADVICE = "LONGWATCH_ADVICE_SECONDS"


class Step:
    """One run of a pattern: its words, its limits, and whatever else `run` takes (cwd, env, input, pty, keeper)."""

    __slots__ = ("argv", "limits", "name", "words")

    def __init__(
        self, argv: Sequence[Path], limits: Limits | None = None, *, name: str = "", **words: Any
    ) -> None:
        if not argv:
            raise UsageError("a step needs a command")
        self.argv = tuple(argv)
        self.limits = limits
        self.name = name or os.path.basename(os.fspath(argv[0]))
        self.words = words

    def run(self, **more: Any) -> Result:
        """Run it; what is given here stands beside what it was made with."""
        return run(self.argv, self.limits, **{**self.words, **more})

    def __repr__(self) -> str:
        return f"<Step {self.name}>"


class Outcome:
    """What a pattern of alternatives came to.

    `result` is that of the last step that was tried, `attempts` are those of all, in order; `level` is the name of the
    step that ended well, `failed` where none did; `degradation` says in a sentence what was not to be had, and is
    empty where the first one ended well.
    """

    __slots__ = ("attempts", "degradation", "level")

    def __init__(self, level: str, attempts: Sequence[Result], degradation: str) -> None:
        self.level = level
        self.attempts = tuple(attempts)
        self.degradation = degradation

    @property
    def result(self) -> Result:
        """The result of the last step that was tried."""
        return self.attempts[-1]

    @property
    def ok(self) -> bool:
        """Whether one of the steps ended well."""
        return self.level != FAILED

    def __repr__(self) -> str:
        return f"<Outcome {self.level} after {len(self.attempts)}>"


def sequence(
    steps: Iterable[Step], *, stop_on_failure: bool = True, pass_output: bool = False
) -> list[Result]:
    """Run steps one after the other and return their results.

    stop_on_failure  the first one that does not exit 0 is the last one that is run
    pass_output      each one reads on stdin what the one before it printed on stdout
    """
    results: list[Result] = []
    for step in steps:
        given = {"input": results[-1].stdout} if pass_output and results else {}
        results.append(step.run(**given))
        if stop_on_failure and not _good(results[-1]):
            break
    return results


def parallel(steps: Iterable[Step], *, jobs: int = JOBS) -> list[Result]:
    """Run steps side by side, at most `jobs` at once; return their results in the order of the steps.

    Whatever is raised meanwhile (UsageError for the words of a step, KeyboardInterrupt) ends the trees of the others
    first. Never raises for how a step ends. Not for use inside an event loop: there `run_async` and a task group do it.
    """
    try:
        return asyncio.run(_side_by_side(list(steps), _bounded("jobs", jobs)))
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None


def batched(steps: Iterable[Step], size: int, *, stop_on_failure: bool = False) -> list[list[Result]]:
    """Run steps in batches: those of one side by side, one batch after the other.

    stop_on_failure  a batch in which a step does not exit 0 is the last one
    """
    waiting, results = list(steps), []
    size = _bounded("size", size)
    for first in range(0, len(waiting), size):
        results.append(parallel(waiting[first : first + size], jobs=size))
        if stop_on_failure and not all(map(_good, results[-1])):
            break
    return results


def fallback(steps: Iterable[Step]) -> Outcome:
    """Run one step after the other until one exits 0. Raises UsageError for no steps at all."""
    found = list(steps)
    if not found:
        raise UsageError("a fallback needs at least one step")
    return _first_good(found)


def cascade(levels: Mapping[str, Step] | Sequence[Step], strategy: str = BALANCED) -> Outcome:
    """Run the best level first and a lesser one only where it fails.

    levels    steps by the names of their levels, best first; without names they are primary, secondary and tertiary
    strategy  aggressive (5, 2, 1 s), balanced (30, 10, 5) or patient (120, 30, 10): how long each level is thought to
              take. It reaches the program as LONGWATCH_ADVICE_SECONDS, and ends none

    Raises UsageError, before anything is run, for an unknown strategy, no levels, or more than three without names.
    """
    if strategy not in STRATEGIES:
        guess = nearest(strategy, list(STRATEGIES))
        hint = f"did you mean {guess!r}?" if guess else f"there are {', '.join(STRATEGIES)}"
        raise UsageError(f"strategy {strategy!r} is unknown; {hint}")
    named = _named(levels)
    advice = STRATEGIES[strategy]
    return _first_good(
        [_advised(step, advice[min(rank, len(advice) - 1)]) for rank, step in enumerate(named)]
    )


def _named(levels: Mapping[str, Step] | Sequence[Step]) -> list[Step]:
    pairs = list(levels.items()) if isinstance(levels, Mapping) else list(zip(LEVELS, levels, strict=False))
    if not pairs:
        raise UsageError("a cascade needs at least one level")
    if len(pairs) < len(levels):
        raise UsageError(f"a cascade without names has {len(LEVELS)} levels at most; give the levels names")
    return [Step(step.argv, step.limits, name=name, **step.words) for name, step in pairs]


def _advised(step: Step, seconds: int) -> Step:
    environ = {**(step.words.get("env") or os.environ), ADVICE: str(seconds)}
    return Step(step.argv, step.limits, name=step.name, **{**step.words, "env": environ})


def _first_good(steps: list[Step]) -> Outcome:
    attempts: list[Result] = []
    for step in steps:
        attempts.append(step.run())
        if _good(attempts[-1]):
            return Outcome(step.name, attempts, _degradation(steps, attempts, step.name))
    return Outcome(FAILED, attempts, f"all {len(steps)} failed: {_said(steps, attempts)}")


def _degradation(steps: list[Step], attempts: list[Result], level: str) -> str:
    if len(attempts) == 1:
        return ""
    return f"{level} had to do: {_said(steps, attempts[:-1])}"


def _said(steps: list[Step], attempts: list[Result]) -> str:
    return "; ".join(f"{step.name} {_how(result)}" for step, result in zip(steps, attempts, strict=False))


def _how(result: Result) -> str:
    code = result.exit_code
    return "did not complete" if code is None else f"exited {code}"


def _good(result: Result) -> bool:
    return bool(result.exit_code == 0 and result.termination_reason == "exited")


def _bounded(name: str, count: int) -> int:
    if count < 1:
        raise UsageError(f"{name} is at least 1, not {count}")
    return count


async def _side_by_side(steps: list[Step], jobs: int) -> list[Result]:
    """A cancelled coroutine ends its whole tree first: so does whoever interrupts the pattern."""
    places = asyncio.Semaphore(jobs)

    async def take(step: Step) -> Result:
        async with places:
            return await run_async(step.argv, step.limits, **step.words)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(take(step)) for step in steps]
    return [task.result() for task in tasks]
