"""The abort graph: down runs the abort, up runs the news."""

import pytest

from longwatch.core.outcomes import ORIGINS
from longwatch.errors import UsageError
from longwatch.streams.graph import CAUSES, Abort, AbortGraph
from longwatch.streams.trace import Trace

pytestmark = pytest.mark.capability("CAP-98")


class Log:
    """Notes in one list what the trace writes and what controllers are told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.graph = AbortGraph(Trace(self._write, clock=lambda: 7))

    def _write(self, event) -> None:
        self.lines.append(f"event {event.fields['node']} -> {event.fields['reached']}")

    def link(self, node: str, parent: str | None = None) -> None:
        """Link a node that notes what it is told."""

        def aborted(abort: Abort) -> None:
            self.lines.append(f"{node} {abort.origin}")

        def below(abort: Abort) -> None:
            self.lines.append(f"{node} hears of {abort.node}")

        self.graph.link(node, parent, aborted, below)

    def family(self) -> AbortGraph:
        """Link main > (a > (a1, a2), b)."""
        for node, parent in [("main", None), ("a", "main"), ("a1", "a"), ("a2", "a"), ("b", "main")]:
            self.link(node, parent)
        return self.graph


def test_an_abort_runs_down_at_once_and_its_news_runs_up() -> None:
    """When abort returns, all below have been told, those above have heard of it, and nobody beside it has."""
    log = Log()
    assert log.family().abort("a") == ("a", "a1", "a2")
    assert log.lines == [
        "event a -> a,a1,a2", "a explicit", "a1 cascade", "a2 cascade", "main hears of a",
    ]  # fmt: skip
    assert log.graph.aborted("main") is None
    assert log.graph.aborted("b") is None


def test_the_event_comes_before_the_first_controller_and_lists_who_is_reached() -> None:
    """Whatever controllers do in answer stands later in the trace than the abort that made them do it."""
    log = Log()
    log.family().abort("main")
    assert log.lines[0] == "event main -> main,a,b,a1,a2"
    assert [line for line in log.lines[1:] if line.startswith("event")] == []


def test_whoever_is_reached_is_marked_before_anybody_is_told() -> None:
    """A controller that looks around finds everybody aborted who will be."""
    graph, seen = AbortGraph(), []
    graph.link("main", on_abort=lambda abort: seen.append(graph.aborted("a")))
    graph.link("a", "main")
    graph.abort("main", "shutdown", "going down")
    assert seen == [Abort("a", "cascade", "main", "shutdown", "going down")]


@pytest.mark.parametrize("origin", CAUSES)
def test_the_origin_is_kept(origin: str) -> None:
    """The node itself has the origin as it was said; below it is a cascade that knows its cause and root."""
    graph = AbortGraph()
    graph.link("main")
    graph.link("a", "main")
    graph.abort("main", origin, "because")
    own, below = graph.aborted("main"), graph.aborted("a")
    assert own == Abort("main", origin, "main", origin, "because")
    assert below == Abort("a", "cascade", "main", origin, "because")
    assert own.timeout is below.timeout is (origin == "limit")


def test_the_origins_are_a_closed_set() -> None:
    """Those of a cancelled run, and the limit that ran out; any other word is refused."""
    assert (*ORIGINS, "limit") == CAUSES
    graph = AbortGraph()
    graph.link("main")
    with pytest.raises(UsageError, match="origin 'whim': write one of explicit, cascade"):
        graph.abort("main", "whim")
    assert graph.aborted("main") is None


def test_a_second_abort_is_nothing() -> None:
    """What is aborted stays as it was: no event, nobody is told again, also from further up."""
    log = Log()
    graph = log.family()
    graph.abort("a", "budget")
    log.lines.clear()
    assert graph.abort("a", "explicit") == ()
    assert log.lines == []
    assert graph.abort("main") == ("main", "b")
    assert log.lines == ["event main -> main,b", "main explicit", "b cascade"]
    assert graph.aborted("a").origin == "budget"


def test_a_link_below_what_is_aborted_is_aborted_at_once() -> None:
    """Who comes too late is told as those were who came in time, with an event of its own."""
    log = Log()
    graph = log.family()
    graph.abort("main", "limit", "ceiling")
    log.lines.clear()
    log.link("late", "a")
    assert log.lines == ["event late -> late", "late cascade", "a hears of late", "main hears of late"]
    assert graph.aborted("late") == Abort("late", "cascade", "main", "limit", "ceiling")


def test_dispose_orphans_what_is_below() -> None:
    """A node that goes takes nobody with it: its children are told nothing, then or later."""
    log = Log()
    graph = log.family()
    graph.dispose("a")
    assert "a" not in graph
    assert graph.abort("main") == ("main", "b")
    assert graph.aborted("a1") is None
    assert graph.abort("a1") == ("a1",)
    assert log.lines[-2:] == ["event a1 -> a1", "a1 explicit"]


def test_an_id_may_be_linked_again_after_its_disposal() -> None:
    """A later node of that id starts afresh, under whatever parent it names."""
    graph = AbortGraph()
    graph.link("a")
    graph.abort("a")
    graph.dispose("a")
    graph.link("a")
    assert graph.aborted("a") is None


@pytest.mark.parametrize("act", ["abort", "aborted", "dispose"])
def test_an_unknown_id_is_an_error(act: str) -> None:
    """A word about nobody is a mistake, never silence."""
    with pytest.raises(UsageError, match="'ghost' is not linked"):
        getattr(AbortGraph(), act)("ghost")


def test_an_unknown_parent_and_a_second_link_are_errors() -> None:
    """A parent has to be there first; an id names one node at a time, and the refusal changes nothing."""
    graph = AbortGraph()
    with pytest.raises(UsageError, match="'ghost' is not linked"):
        graph.link("a", "ghost")
    assert "a" not in graph
    graph.link("a")
    with pytest.raises(UsageError, match="'a' is linked already"):
        graph.link("a")


def test_a_controller_that_raises_keeps_nobody_from_being_told() -> None:
    """All are told, above and below; then what went wrong is raised together."""
    graph, told = AbortGraph(), []

    def wrong(abort: Abort) -> None:
        raise OSError(abort.node)

    graph.link("main", on_descendant=told.append)
    graph.link("a", "main", on_abort=wrong)
    graph.link("b", "a", on_abort=told.append)
    with pytest.raises(ExceptionGroup, match="a is aborted, and not everybody could answer") as raised:
        graph.abort("a")
    assert [str(fault) for fault in raised.value.exceptions] == ["a"]
    assert [abort.node for abort in told] == ["b", "a"]


def test_who_is_disposed_of_meanwhile_is_not_told() -> None:
    """A controller may take others out of the graph; their controllers stay silent."""
    graph, told = AbortGraph(), []
    graph.link("main", on_abort=lambda abort: graph.dispose("a"))
    graph.link("a", "main", on_abort=told.append)
    graph.abort("main")
    assert told == []


def test_depth_is_no_limit() -> None:
    """A chain of thousands is aborted like one of two."""
    graph = AbortGraph()
    graph.link("0")
    for number in range(1, 5_000):
        graph.link(str(number), str(number - 1))
    assert len(graph.abort("0")) == 5_000
