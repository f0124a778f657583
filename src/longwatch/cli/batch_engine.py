"""`longwatch batch run --engine`: the items of a plan on a cluster that is there, or by its stand-in on this machine."""

import os
import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from longwatch import paths
from longwatch.cli.batch_going import go_through, plan_of, sinks
from longwatch.cli.batch_run import NOT_NOW, Wishes, perform
from longwatch.cli.batch_spec import spec_of
from longwatch.cli.batch_view import Prefixed, View
from longwatch.cli.render import clean, fail, note
from longwatch.config.plan_file import Loaded
from longwatch.core.batch import Workstream
from longwatch.core.fencing import LEASE
from longwatch.daemon.agents import Agents
from longwatch.daemon.endings import End
from longwatch.errors import StoreError, UnitError
from longwatch.hands import Hands
from longwatch.paths import ensure
from longwatch.posix import now
from longwatch.posix.identity import Identity, boot_id
from longwatch.redaction import Redaction
from longwatch.runtime.engines.bridged import Bridge
from longwatch.runtime.engines.protocol import REFUSED, EngineError
from longwatch.runtime.host import Host
from longwatch.runtime.logfile import Logs
from longwatch.runtime.marks import text_of
from longwatch.runtime.placing import Placing, Remote
from longwatch.runtime.rundir import RunDir, meta
from longwatch.runtime.running import Parts
from longwatch.store.workstreams import Workstreams, file_name
from longwatch.units import format_duration, nearest, parse_duration
from longwatch.work.nested import Session
from longwatch.work.sending import Parcel, pack
from longwatch.work.steps import Steps, Walk, WorkError
from longwatch.work.trees import bring_home

ENGINES = ("local", "ray")
#: How long a cluster may take to answer at all, in ms.
_ANSWER = 120_000
#: What an attempt learned where it ran, and the next one has to know.
_LEARNED = (
    "checkpoint", "checkpoints", "session", "level_name", "over_budget", "work_dir", "branch", "base_commit",
    "parked_until",
)  # fmt: skip
_LEAST = 2_000


def perform_there(
    loaded: Loaded, wishes: Wishes, engine: str, address: str | None = None, *, open_cluster: bool = False
) -> int:
    """Run a plan on an engine, and return the exit status: 0 where every item that was to be run is completed."""
    if engine not in ENGINES:
        guess = nearest(engine, list(ENGINES))
        fail(
            f"no engine {clean(engine)}; "
            + (f"did you mean {guess}?" if guess else f"write {' or '.join(ENGINES)}"),
            2,
        )
    if engine == "local" and address is not None:
        fail("--address is a cluster's; the engine local is here", 2)
    words: dict[str, object] = {} if engine == "local" else {"address": address, "open": open_cluster}
    return perform(loaded, wishes, lambda *given: _run(engine, words, *given))


def _run(
    engine: str, words: Mapping[str, object], loaded: Loaded, shelf: Workstreams, states: dict[str, Any],
    session: Session, wishes: Wishes,
) -> int | None:  # fmt: skip
    """Go through the plan; return the signal that ended it, if one did."""
    with ExitStack() as stack:
        host = Host()
        stack.callback(host.close)
        stack.callback(shelf.close)
        redaction = Redaction.of((work.harness for work in loaded.works), os.environ)
        view = PlacedView(host, loaded, wishes.heartbeat, redaction)
        logs = Logs(os.path.join(shelf.base, "logs"))
        stack.callback(logs.close)
        bridge = Bridge(host, engine, words, os.path.join(shelf.base, "engine.log"))
        stack.callback(bridge.close)
        _look_at_nodes(host, bridge)
        parts = Parts(paths.state(), sinks=sinks(logs), redact=redaction.value)
        hands = HomeHands(loaded, host, shelf, session, view.told, redaction, detached=engine == "local")
        plan = plan_of(loaded, states, wishes.only)
        works = {work.id: work for work in loaded.works}
        batch = Placing(
            host, bridge, parts, plan, works, dict(states), hands, random.random, lease=_lease(),
        )  # fmt: skip
        ended_by = go_through(host, batch, shelf, view)
        hands.close()
        return ended_by


def _lease() -> int:
    """Return how long a run lives without us: as LONGWATCH_BATCH_LEASE says, or 10 min."""
    text = os.environ.get("LONGWATCH_BATCH_LEASE", "").strip()
    try:
        span = parse_duration(text) if text else LEASE
    except UnitError as error:
        note(f"LONGWATCH_BATCH_LEASE={error}; {format_duration(LEASE)} is taken")
        return LEASE
    if span < _LEAST:
        note(
            f"LONGWATCH_BATCH_LEASE={text}: a lease is {format_duration(_LEAST)} or longer, and so long it is"
        )
    return max(span, _LEAST)


def _look_at_nodes(host: Host, bridge: Bridge) -> None:
    """See to it that the engine is there, and that its nodes can run what we send. Ends with 75 where it is not there."""
    answers: list[tuple[Any, EngineError | None]] = []
    bridge.call("nodes", [], lambda nodes, error: answers.append((nodes, error)), _ANSWER)
    while not answers:
        host.turn(500)
    nodes, error = answers[0]
    if error is not None:
        fail(str(error), 2 if error.kind == REFUSED else NOT_NOW)
    if bridge.engine != "local":
        places = sum(int(node["free"] or 0) for node in nodes)
        note(f"{len(nodes)} {'node' if len(nodes) == 1 else 'nodes'} with {places} places")


class PlacedView(View):
    """The same view, of runs that are elsewhere."""

    def told(self, kind: str, item: str, **more: Any) -> None:
        """Hear what happened to an item."""
        remote = more.get("running")
        if isinstance(remote, Remote) and self._few:
            lines = self._lines[item] = PlacedLines(item, self, self._width, self._redaction.stream())
            remote.taps.append(lines.feed)
        super().told(kind, item, **more)


class PlacedLines(Prefixed):
    """The lines of one item; those that its runner has written into its log are no lines of the item."""

    def _say(self, line: bytes) -> None:
        if text_of(line) is None:
            super()._say(line)


class HomeHands(Hands):
    """What is done at home for items that run elsewhere: what they begin from is sent, what they made is brought home."""

    def __init__(
        self, loaded: Loaded, host: Host, shelf: Workstreams, session: Session, told: Callable[..., object],
        redaction: Redaction, *, detached: bool,
    ) -> None:  # fmt: skip
        super().__init__(
            host, shelf, Agents(shelf.base), loaded.path, loaded.name, session, paths.state(), told
        )
        self._loaded = loaded
        self._detached = detached
        self._redaction = redaction
        self._parcels = ensure(os.path.join(shelf.base, "send"))
        self._brought = ensure(os.path.join(shelf.base, "bundles"))
        self._positions = Positions(ensure(os.path.join(shelf.base, "pulled")))
        self._events: dict[str, list[dict[str, Any]]] = {}
        self._works = {work.id: work for work in loaded.works}

    # -- before a run

    def prepare(
        self, work: Workstream, state: dict[str, Any], done: Callable[[Any, str, bool], object]
    ) -> None:
        """Pack what it begins from, and call back with its spec."""
        state |= {"log": self._shelf.log(work.id), "plan": self._plan}
        state["runs"] = [*state.get("runs", ()), state["run"]][-20:]

        def over(parcel: Parcel | None, error: WorkError | None) -> None:
            if error is not None:
                done(None, str(error), error.transient)
            else:
                done(self._spec(work, state, parcel), "", False)

        if work.git is None or not os.path.isdir(work.git):
            over(None, None)
            return
        branch = work.branch or f"longwatch/{file_name(work.id)}"
        steps = pack(work.git, self._parcels, base=work.base, branch=branch, resumed=bool(state["resumed"]))
        Walk(steps, self._host.command, self._host.at, over)

    def _spec(self, work: Workstream, state: dict[str, Any], parcel: Parcel | None) -> dict[str, Any]:
        spec = spec_of(self._loaded, work, state, self._session)
        spec |= {"detached": self._detached, "remember": False}
        if parcel is not None:
            state["base"] = parcel.base
            spec["work"] |= {"git": f"sent:{parcel.name}", "base": parcel.branch}
            spec["files"] = {parcel.name: parcel.file}
        return spec

    # -- while it runs

    def position(self, item: str, run: str) -> tuple[int, int]:
        """Return up to where the events and the output of a run are here already."""
        return self._positions.of(item, run)

    def keep_position(self, item: str, run: str, events: int, output: int) -> None:
        """Note up to where they are here."""
        self._positions.keep(item, run, events, output)

    def event(self, item: str, run: str, event: Mapping[str, Any]) -> None:
        """Keep an event for the run's folder here."""
        self._events.setdefault(run, []).append(dict(event))

    # -- after a run

    def place_for(self, item: str, name: str) -> str:
        """Return where an answer, or a bundle, is put."""
        if name == "result":
            return os.path.join(self._results, file_name(item))
        return os.path.join(self._brought, f"{file_name(item)}.bundle")

    def bring(self, item: str, told: dict[str, Any], done: Callable[[], object]) -> None:
        """Bring the commits home: they are verified, and the branch only ever moves forward."""
        work = self._works[item]
        if not told.get("bundle") or work.git is None or not os.path.isdir(work.git):
            done()
            return

        def over(commit: str | None, error: WorkError | None) -> None:
            if error is not None:
                told["notes"] = [str(error)]
                self.told("note", item, text=str(error))
            else:
                told["brought"] = commit
            done()

        steps: Steps[str] = bring_home(work.git, self.place_for(item, "bundle"), told["state"]["branch"])
        Walk(steps, self._host.command, self._host.at, over)

    def settle(self, work: Workstream, state: dict[str, Any], report: Mapping[str, Any], why: Any) -> None:
        """Take over what was learned there; `why` is the exit record, or None of a run that was lost."""
        if why is not None:
            state |= {name: why["state"][name] for name in _LEARNED if name in why["state"]}
            state["brought"] = why.get("brought")
        self._events_of(work, state, report)
        judged = None if why is None or why["why"] is None else End(**why["why"])
        super().settle(work, state, report, judged)

    def lost(self, work: Workstream, state: dict[str, Any]) -> None:
        """The folder of the run is elsewhere, and what it tells is in the exit record."""

    def _events_of(self, work: Workstream, state: dict[str, Any], report: Mapping[str, Any]) -> None:
        """Make a folder of the run here, so that `why` and `runs` know it as any other."""
        events = self._events.pop(str(state["run"]), [])
        if not report.get("run"):
            return
        nobody = Identity(0, 0, boot_id())
        described = meta(
            state["run"], work.id, work.harness.command[:1], nobody, nobody, attempt=state["attempt"],
            cwd=state.get("work_dir"), started_ms=now(), limits={}, sources=(), log=state["log"],
            preset=work.harness.preset,
        )  # fmt: skip
        described |= {
            "batch": self._plan,
            "plan": self._name,
            "base": self._shelf.base,
            "item": f"{self._name}/{work.id}",
        }
        try:
            folder = RunDir.create(self._state, described, now())
        except StoreError:
            return  # it is that of the run itself: it was placed on this machine
        for event in events:
            folder.append_event({key: value for key, value in event.items() if key not in ("seq", "at")})
        folder.write_report(report)
        folder.close()

    def close(self) -> None:
        """Let go of what is open."""
        self._positions.close()


class Positions:
    """Up to where what happened elsewhere is here. Written after each piece, so that a killed reader repeats one at most."""

    _FORM = "{:>20}{:>20}"

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[str, int] = {}

    def of(self, item: str, run: str) -> tuple[int, int]:
        """Return the bytes of events and of output."""
        try:
            text = os.pread(self._file(item, run), 40, 0).decode()
            return int(text[:20]), int(text[20:])
        except ValueError:
            return 0, 0

    def keep(self, item: str, run: str, events: int, output: int) -> None:
        """Note them."""
        try:
            os.pwrite(self._file(item, run), self._FORM.format(events, output).encode(), 0)
        except OSError:
            return  # a full disk: some of it may come twice

    def _file(self, item: str, run: str) -> int:
        name = f"{file_name(item)}.{run}"
        if name not in self._files:
            for old in os.listdir(self._folder):
                if old.startswith(f"{file_name(item)}.") and old != name:
                    self._drop(old)
            path = os.path.join(self._folder, name)
            self._files[name] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._files[name]

    def _drop(self, name: str) -> None:
        if name in self._files:
            os.close(self._files.pop(name))
        os.unlink(os.path.join(self._folder, name))

    def close(self) -> None:
        """Close the files."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()


__all__ = ["perform_there"]
