"""`longwatch batch run --engine`: the items of a plan on a cluster that is there, or by its stand-in on this machine."""

import os
import random
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from longwatch.cli.batch_going import go_through, ground, plan_of, sinks
from longwatch.cli.batch_home import HomeHands
from longwatch.cli.batch_run import NOT_NOW, Wishes, perform
from longwatch.cli.batch_view import Prefixed, View
from longwatch.cli.render import clean, fail, note
from longwatch.config.plan_file import Loaded
from longwatch.core.fencing import LEASE
from longwatch.errors import UnitError
from longwatch.redaction import Redaction
from longwatch.runtime.attempt import Attempt
from longwatch.runtime.batch import Batch
from longwatch.runtime.engines.bridged import Bridge
from longwatch.runtime.engines.protocol import REFUSED, EngineError
from longwatch.runtime.host import Host
from longwatch.runtime.marks import text_of
from longwatch.runtime.placing import Placing
from longwatch.runtime.remote import Remote
from longwatch.store.workstreams import Workstreams
from longwatch.units import format_duration, nearest, parse_duration
from longwatch.work.nested import Session

ENGINES = ("local", "ray")
#: How long a cluster may take to answer at all, in ms.
_ANSWER = 120_000
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
        host, logs = ground(stack, shelf)
        redaction = Redaction.of((work.harness for work in loaded.works), os.environ)
        view = PlacedView(host, loaded, wishes.heartbeat, redaction)
        bridge = Bridge(host, engine, words, os.path.join(shelf.base, "engine.log"))
        stack.callback(bridge.close)
        _look_at_nodes(host, bridge)
        hands = HomeHands(loaded, host, shelf, session, view.told, detached=engine == "local")
        stack.callback(hands.close)
        sink = sinks(logs)

        def log_of(attempt: Attempt) -> Any:
            return sink(attempt.work.harness, attempt.state["run"], True, attempt.note)

        place = Placing(host, bridge, hands, log_of, lease=_lease())
        works = {work.id: work for work in loaded.works}
        plan = plan_of(loaded, states, wishes.only)
        batch = Batch(host, place, plan, works, dict(states), hands, random.random)
        return go_through(host, batch, shelf, view)


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
            remote.pull.taps.append(lines.feed)
        super().told(kind, item, **more)


class PlacedLines(Prefixed):
    """The lines of one item; those that its runner has written into its log are no lines of the item."""

    def _say(self, line: bytes) -> None:
        if text_of(line) is None:
            super()._say(line)


__all__ = ["perform_there"]
