"""`longwatch runner`: run one item where an engine has placed it. Called by engines and by job scripts.

It leaves whoever called it as soon as it is at work: a session of its own, nobody's child. With --foreground it stays,
as containers and batch systems want it, and ends with 0 completed, 1 failed, 75 to be gone on with.
"""

import fcntl
import json
import os
import random
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import click

from longwatch import paths
from longwatch.cli.render import duration, fail
from longwatch.core.batch import Workstream
from longwatch.core.fencing import LEASE, Lease
from longwatch.core.plan import Plan
from longwatch.core.workstream import COMPLETED, resumable
from longwatch.daemon.agents import Agents
from longwatch.errors import LongwatchError, StoreError, UsageError
from longwatch.hands import Hands, bundled
from longwatch.posix import now
from longwatch.posix.atomic import replace
from longwatch.posix.signals import SignalPipe
from longwatch.redaction import Redaction
from longwatch.runtime.engines.sweeping import root, run_folder, sweep
from longwatch.runtime.host import Host
from longwatch.runtime.kept import STOP, Keeper
from longwatch.runtime.runfiles import BUNDLE, LOG, RESULT, STATE, RunFiles, RunnerLogs
from longwatch.runtime.runner import Alone, Runner
from longwatch.runtime.running import Parts
from longwatch.runtime.work_spec import environment, work_of
from longwatch.store.workstreams import Workstreams, file_name
from longwatch.work import results
from longwatch.work.nested import Session
from longwatch.work.steps import Walk

NOT_NOW = 75
#: How long an earlier attempt on this machine, whose end is under way, is waited for, in ms.
_EARLIER = 20_000
_LOOK_S, _LOOK_MS = 0.05, 100
_SENT = "sent:"
_DEFECT = "a defect of longwatch; runner.log in the run's folder has it"
_READY = b"ready\n"


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
    told = _read(spec) if plan is None else _of_plan(plan, str(item))
    told["root"] = told.get("root") or root()
    where = folder or run_folder(told["root"], told["run"])
    span = duration("--lease", lease) or 0
    if foreground:
        return _at_work(told, where, span, live_fd, lambda: None)
    return _detached(told, where, span, live_fd)


def _read(spec: str) -> dict[str, Any]:
    """Read the spec, and remove it: it holds secrets."""
    try:
        if spec == "-":
            text = sys.stdin.buffer.read()
        else:
            with open(spec, "rb") as file:
                os.unlink(spec)
                text = file.read()
        told = json.loads(text)
    except OSError as error:
        raise UsageError(f"--spec {spec}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"--spec {spec}: {error}") from None
    if not isinstance(told, dict) or not paths.is_run_id(str(told.get("run"))):
        raise UsageError(f"--spec {spec}: no spec of a run")
    return told


def _of_plan(plan: str, item: str) -> dict[str, Any]:
    from longwatch.cli.batch_spec import spec_of_plan  # noqa: PLC0415 - an engine sends one that is made

    return spec_of_plan(plan, item)


# -- leaving


def _detached(told: dict[str, Any], folder: str, span: int, live: int | None) -> int:
    """Be at work in a process that is nobody's child; return when it is, or fail with its words."""
    ear, mouth = os.pipe()
    first = os.fork()
    if first == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        _work(told, folder, span, live, mouth)
    os.close(mouth)
    os.waitpid(first, 0)
    said = b""
    while chunk := os.read(ear, 4096):
        said += chunk
    if said.endswith(_READY):
        return 0
    return fail(said.decode(errors="replace").strip() or "the runner died while it started")


def _work(told: dict[str, Any], folder: str, span: int, live: int | None, mouth: int) -> None:
    """Be the runner; never returns."""
    status = 1
    try:
        paths.ensure(folder)
        _let_go(folder, {live, mouth})

        def ready() -> None:
            os.write(mouth, _READY)
            os.close(mouth)

        status = _at_work(told, folder, span, live, ready)
    except (LongwatchError, click.ClickException, OSError) as error:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        _last_word(mouth, text)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - a fork of ours must not go on as its parent would
        sys.excepthook(*sys.exc_info())
        _last_word(mouth, _DEFECT)
    os._exit(status)


def _last_word(mouth: int, text: str) -> None:
    try:
        os.write(mouth, text.encode() + b"\n")
    except OSError:
        return  # it is at work already, and nobody listens


def _let_go(folder: str, kept: set[int | None]) -> None:
    """Hold nothing of whoever called us: its descriptors would keep its pipes open for as long as the item runs."""
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(os.path.join(folder, LOG), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number, source in enumerate((null, log, log)):
        os.dup2(source, number)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in kept:
            try:
                os.close(int(name))
            except OSError:
                continue  # that of the listing itself
    for descriptor in kept:
        if descriptor is not None:
            os.set_inheritable(descriptor, False)


# -- at work


def _at_work(told: dict[str, Any], folder: str, span: int, live: int | None, ready: Any) -> int:
    """Run the item; return 0 completed, 1 failed, 75 to be gone on with."""
    if os.path.exists(os.path.join(folder, STATE)):
        raise StoreError(f"{told['run']} was begun here before; a run is begun once")
    work = work_of(_sent(told))
    shelf = Workstreams(os.path.join(told["root"], "plans", told["key"]))
    _await_earlier(told)
    with ExitStack() as stack:
        stack.callback(os.close, _held(shelf, work.id))
        lease = Lease(int(told.get("until") or now() + span), span) if span else None
        runner, redaction = _runner(stack, told, work, shelf, folder, lease, live)
        ready()
        try:
            runner.run()
            _put_results(runner)
        except Exception:  # noqa: BLE001 - whatever it is: what runs is ended, and it is said how
            sys.excepthook(*sys.exc_info())
            runner.cause = "defect"
            runner.batch.report = {"termination_reason": "unknown", "notes": [_DEFECT]}
    # The keeper is gone, and so is all that it held: only now is it over.
    ended = runner.batch.states.get(work.id) or told["state"]
    runner.files.exit(redaction.value(_exit_record(runner, ended)))
    runner.files.close()
    if ended["lifecycle"] == COMPLETED:
        return 0
    return NOT_NOW if resumable(ended["lifecycle"]) else 1


def _runner(
    stack: ExitStack, told: Mapping[str, Any], work: Workstream, shelf: Workstreams, folder: str,
    lease: Lease | None, live: int | None,
) -> tuple[Runner, Redaction]:  # fmt: skip
    """Put together what runs the item."""
    files = RunFiles(folder)
    host = Host()
    stack.callback(host.close)
    stack.callback(shelf.close)
    host.mark = told["run"]
    # The others go on: what keeps the lease must not stop for what shows the output.
    host.failed = lambda error: sys.excepthook(type(error), error, error.__traceback__)
    environ = environment(told, os.environ)
    redaction = Redaction.of([work.harness], environ)

    def told_to(kind: str, _item: str, **more: Any) -> None:
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

    described = {"batch": told["plan"], "plan": told["name"], "base": shelf.base, "hosted": True}
    parts = Parts(kept, sinks=sinks, observer=agents, redact=redaction.value, described=described)
    session = Session(**told["session"])
    hands = NodeHands(told, host, shelf, agents, told["plan"], told["name"], session, kept, told_to)
    keeper = stack.enter_context(Keeper.start(STOP))
    plan = Plan([work.item], 1)
    batch = Alone(host, lambda: keeper, parts, plan, {work.id: work}, {}, hands, environ, random.random)
    batch.given, batch.heard = told["state"], redaction.sink(files.fact)
    runner = Runner(host, files, batch, lease, keeper=keeper.pid, live=live)
    stack.callback(runner.close)
    _hear_signals(stack, host, runner)
    return runner, redaction


class NodeHands(Hands):
    """The hands of one item on the machine where it was placed."""

    def __init__(self, told: Mapping[str, Any], host: Host, shelf: Workstreams, *words: Any) -> None:
        super().__init__(host, shelf, *words)
        self._told = told
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
        if self._told.get("remember"):
            super()._remember(work, state, report)


def _sent(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return the workstream as it is here: a repository that was sent is a file in the plan's folder."""
    work = dict(told["work"])
    if str(work.get("git") or "").startswith(_SENT):
        name = os.path.basename(work["git"].removeprefix(_SENT))
        work["git"] = os.path.join(told["root"], "plans", told["key"], "files", name)
    return work


def _hear_signals(stack: ExitStack, host: Host, runner: Runner) -> None:
    """TERM and its like end the item so that it can be gone on with; a second one at once."""
    pipe = SignalPipe((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))

    def heard() -> None:
        for _ in pipe.read():
            runner.stop("signal", "interrupted", None, 0 if runner.cause else None)

    host.reactor.add(pipe.fileno(), heard)
    stack.callback(pipe.restore)
    stack.callback(host.reactor.remove, pipe.fileno())


def _await_earlier(told: Mapping[str, Any]) -> None:
    """See to it that nothing of an earlier attempt of the item is left on this machine."""
    for run in told.get("earlier", ()):
        folder = run_folder(told["root"], run)
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
    state = runner.batch.states[runner.batch.item]
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


def _exit_record(runner: Runner, state: Mapping[str, Any]) -> dict[str, Any]:
    last = runner.batch.last
    why = None if last is None else last.why_ended
    files = runner.files
    return {
        "run": state["run"], "attempt": state["attempt"], "item": state["id"], "cause": runner.cause or None,
        "state": dict(state), "report": runner.batch.report, "why": None if why is None else why.as_dict(),
        "result": os.path.exists(files.path(RESULT)), "bundle": os.path.exists(files.path(BUNDLE)),
        "ended_ms": now(), "host": os.uname().nodename,
    }  # fmt: skip
