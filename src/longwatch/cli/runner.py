"""`longwatch runner`: run one item where an engine has placed it. Called by engines and by job scripts.

It leaves whoever called it as soon as it is at work: a session of its own, nobody's child. With --foreground it stays,
as containers and batch systems want it, and ends with 0 completed, 1 failed, 75 to be gone on with. TERM and its like
end the item; USR2 says that its time is running out, and only marks it.
"""

import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import click

from longwatch import paths
from longwatch.cli.detached import DEFECT, detached
from longwatch.cli.render import duration
from longwatch.cli.runner_spec import Spec
from longwatch.core.batch import Workstream
from longwatch.core.fencing import LEASE, Lease
from longwatch.core.workstream import COMPLETED, RUNNING, resumable
from longwatch.daemon.agents import Agents
from longwatch.errors import StoreError, UsageError
from longwatch.hands import Hands, bundled
from longwatch.posix import now
from longwatch.posix.atomic import replace
from longwatch.posix.signals import SignalPipe
from longwatch.redaction import Redaction
from longwatch.runtime.attempt import Attempt
from longwatch.runtime.below import Below
from longwatch.runtime.engines.sweeping import run_folder, sweep
from longwatch.runtime.host import Host
from longwatch.runtime.kept import STOP, Keeper
from longwatch.runtime.runfiles import BUNDLE, LOG, RESULT, STATE, RunFiles, RunnerLogs
from longwatch.runtime.runner import Runner
from longwatch.runtime.running import Parts, Running
from longwatch.store.workstreams import Workstreams, file_name
from longwatch.work import results
from longwatch.work.steps import Walk

NOT_NOW = 75
#: How long an earlier attempt on this machine, whose end is under way, is waited for, in ms.
_EARLIER = 20_000
_LOOK_S, _LOOK_MS = 0.05, 100


@click.command("runner")
@click.option("--spec", metavar="FILE", default="-", help="What to run; read once, and removed. -: stdin.")
@click.option("--folder", metavar="DIR", help="Where it writes what is known of the run.")
@click.option(
    "--lease",
    metavar="DURATION",
    default=f"{LEASE}ms",
    help="It ends itself when nobody renews it for so long.",
)
@click.option("--live-fd", metavar="N", type=int, help="It ends when this descriptor does.")
@click.option("--foreground", is_flag=True, help="Stay, and end as the item did.")
@click.option("--plan", metavar="PLAN", help="Run an item of a plan file; instead of --spec.")
@click.option("--item", metavar="ID", help="Which one.")
def command(
    spec: str, folder: str | None, lease: str, live_fd: int | None, foreground: bool, plan: str | None, item: str | None,
) -> int:  # fmt: skip
    """Run one item of a plan here, for an engine or a job script."""
    if (plan is None) != (item is None):
        raise UsageError("--plan and --item go together")
    told = Spec.read(spec) if plan is None else Spec.of_plan(plan, str(item))
    where = folder or told.folder
    span = duration("--lease", lease) or 0

    def work(ready: Callable[[], object]) -> int:
        return _at_work(told, where, span, live_fd, ready)

    if foreground:
        return work(lambda: None)
    return detached(work, where, LOG, () if live_fd is None else (live_fd,))


# -- at work


def _at_work(spec: Spec, folder: str, span: int, live: int | None, ready: Callable[[], object]) -> int:
    """Run the item; return 0 completed, 1 failed, 75 to be gone on with."""
    if os.path.exists(os.path.join(folder, STATE)):
        raise StoreError(f"{spec.run} was begun here before; a run is begun once")
    work = spec.work()
    shelf = Workstreams(spec.base)
    _await_earlier(spec)
    with ExitStack() as stack:
        stack.callback(os.close, _held(shelf, work.id))
        lease = Lease(spec.until or now() + span, span) if span else None
        runner, redaction = _runner(stack, spec, work, shelf, folder, lease, live)
        ready()
        try:
            runner.run()
            _put_results(runner)
        except Exception:  # noqa: BLE001 - whatever it is: what runs is ended, and it is said how
            sys.excepthook(*sys.exc_info())
            runner.cause = "defect"
            runner.attempt.report = {"termination_reason": "unknown", "notes": [DEFECT]}
    # The keeper is gone, and so is all that it held: only now is it over.
    runner.files.exit(redaction.value(_exit_record(runner)))
    runner.files.close()
    lifecycle = runner.attempt.state["lifecycle"]
    if lifecycle == COMPLETED:
        return 0
    return NOT_NOW if resumable(lifecycle) else 1


def _runner(
    stack: ExitStack, spec: Spec, work: Workstream, shelf: Workstreams, folder: str, lease: Lease | None,
    live: int | None,
) -> tuple[Runner, Redaction]:  # fmt: skip
    """Put together what runs the item."""
    files = RunFiles(folder)
    host = Host()
    stack.callback(host.close)
    stack.callback(shelf.close)
    host.mark = spec.run
    # The others go on: what keeps the lease must not stop for what shows the output.
    host.failed = lambda error: sys.excepthook(type(error), error, error.__traceback__)
    environ = spec.environment()
    redaction = Redaction.of([work.harness], environ)

    def told(kind: str, _item: str, **more: Any) -> None:
        # Of values only what JSON knows.
        plain = {key: value for key, value in more.items() if isinstance(value, str | int | bool)}
        files.event(kind.replace(" ", "_"), now(), redaction.value(plain))

    logs = RunnerLogs(folder)
    stack.callback(logs.close)
    agents = Agents(paths.ensure(os.path.join(shelf.base, "agents", file_name(work.id))))
    agents.configure([work.harness])
    kept = paths.state(environ)

    def sinks(harness: Any, run: str, resumed: bool, warn: Any) -> Any:
        return logs.sink(harness, run, resumed, warn, redaction.stream())

    described = {"batch": spec.plan, "plan": spec.name, "base": shelf.base, "hosted": True}
    parts = Parts(kept, sinks=sinks, observer=agents, redact=redaction.value, described=described)
    hands = NodeHands(spec, host, shelf, agents, kept, told)
    keeper = stack.enter_context(Keeper.start(STOP))
    place = Below(host, lambda: keeper, parts, environ)
    state = {**spec.state, "lifecycle": RUNNING}
    # Whether and when the item is tried again is decided elsewhere.
    attempt = Attempt(work, state, hands, place, lambda *words: False, redaction.sink(files.fact))
    runner = Runner(host, files, attempt, lease, keeper=keeper.pid, live=live)
    stack.callback(runner.close)
    _hear_signals(stack, host, runner)
    return runner, redaction


class NodeHands(Hands):
    """The hands of one item on the machine where it was placed."""

    def __init__(
        self,
        spec: Spec,
        host: Host,
        shelf: Workstreams,
        agents: Agents,
        state: str,
        told: Callable[..., object],
    ) -> None:
        super().__init__(host, shelf, agents, spec.plan, spec.name, spec.session, state, told)
        self._remembers = spec.remember
        self._lock = os.path.join(paths.ensure(os.path.join(shelf.base, "locks")), ".prepare")

    def prepare(self, work: Workstream, state: dict[str, Any], done: Any) -> None:
        """Make its place; one after the other where they share a repository."""
        if work.git is None:
            super().prepare(work, state, done)
            return
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

        def over(ready: Any, why: str, later: bool) -> None:
            os.close(descriptor)
            done(ready, why, later)

        def enter(_at: int) -> None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._host.at(now() + _LOOK_MS, enter)
            else:
                Hands.prepare(self, work, state, over)

        enter(0)

    def _remember(self, work: Workstream, state: dict[str, Any], report: Mapping[str, Any]) -> None:
        if self._remembers:
            super()._remember(work, state, report)


def _hear_signals(stack: ExitStack, host: Host, runner: Runner) -> None:
    """TERM and its like end the item so that it can be gone on with; a second one at once. USR2 only marks it."""
    pipe = SignalPipe((signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2))

    def heard() -> None:
        for number in pipe.read():
            if number == signal.SIGUSR2:
                runner.warn()
            else:
                runner.stop("signal", "interrupted", None, 0 if runner.cause else None)

    host.reactor.add(pipe.fileno(), heard)
    stack.callback(pipe.restore)
    stack.callback(host.reactor.remove, pipe.fileno())


def _await_earlier(spec: Spec) -> None:
    """See to it that nothing of an earlier attempt of the item is left on this machine."""
    for run in spec.earlier:
        folder = run_folder(spec.root, run)
        if os.path.isdir(folder) and not sweep(folder, _EARLIER)["clean"]:
            raise StoreError(f"{run}, an earlier attempt, is still at work here; nothing was started")


def _held(shelf: Workstreams, item: str) -> int:
    """Hold the item on this machine: a second runner of it is refused."""
    path = os.path.join(paths.ensure(os.path.join(shelf.base, "locks")), file_name(item))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = now() + _EARLIER
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if now() >= deadline:
                os.close(descriptor)
                raise StoreError(f"another runner is at work on {item} here; nothing was started") from None
            time.sleep(_LOOK_S)
        else:
            return descriptor


# -- the end


def _put_results(runner: Runner) -> None:
    """Leave what came out of it beside the rest: its answer, and what it has committed."""
    state = runner.attempt.state
    path = state.get("result")
    answer = None if path is None else results.read(path)
    if answer is not None:
        replace(runner.files.path(RESULT), answer.encode())
    over: list[Any] = []
    file = runner.files.path(BUNDLE)
    Walk(
        bundled(state, file),
        runner.host.command,
        runner.host.at,
        lambda made, error: over.append((made, error)),
    )
    while not over:
        runner.host.turn()
    if over[0][1] is not None:
        runner.files.event("note", now(), {"text": str(over[0][1])})


def _exit_record(runner: Runner) -> dict[str, Any]:
    attempt, files = runner.attempt, runner.files
    state = attempt.state
    why = attempt.run.why_ended if isinstance(attempt.run, Running) else None
    return {
        "run": state["run"], "attempt": state["attempt"], "item": attempt.item, "cause": runner.cause or None,
        "state": dict(state), "report": attempt.report, "why": None if why is None else why.as_dict(),
        "result": os.path.exists(files.path(RESULT)), "bundle": os.path.exists(files.path(BUNDLE)),
        "ended_ms": now(), "host": os.uname().nodename,
    }  # fmt: skip
