"""Who is cancelled with whom: a graph of parts of the work, along which an abort runs down and its news runs up.

An abort is synchronous: when `abort` returns, everybody below has been told. Its event is written before the first
of them is, so whatever they do in answer comes later in the trace. Above, the ancestors hear of it and decide for
themselves. All of this belongs to one thread: that of the loop in which the controllers live.
"""

from collections.abc import Callable

from longwatch.core.outcomes import ORIGINS
from longwatch.core.record import Plain
from longwatch.errors import UsageError
from longwatch.streams.trace import Child, Trace

#: Time ran out: a limit of the part that is aborted.
LIMIT = "limit"
CASCADE = "cascade"
CAUSES = (*ORIGINS, LIMIT)


class Abort(Plain):
    """How one node came to be aborted.

    `origin` is `cascade` for whoever is reached from above, else the `cause`; `cause` is what was said of the node
    where it began, the `root`; `reason` its words.
    """

    __slots__ = ("cause", "node", "origin", "reason", "root")

    def __init__(self, node: str, origin: str, root: str, cause: str, reason: str = "") -> None:
        self.node = node
        self.origin = origin
        self.root = root
        self.cause = cause
        self.reason = reason

    @property
    def timeout(self) -> bool:
        """Whether time ran out, here or above."""
        return self.cause == LIMIT

    def passed_to(self, node: str) -> "Abort":
        """Return what this means for somebody below."""
        return Abort(node, CASCADE, self.root, self.cause, self.reason)


class _Node:
    __slots__ = ("abort", "children", "name", "on_abort", "on_descendant", "parent")

    def __init__(
        self,
        name: str,
        parent: "_Node | None",
        on_abort: "Controller | None",
        on_descendant: "Controller | None",
    ) -> None:
        self.name = name
        self.parent = parent
        self.on_abort = on_abort
        self.on_descendant = on_descendant
        self.children: dict[str, _Node] = {}
        self.abort: Abort | None = None


#: What a node does when it is aborted, or when somebody below it is.
Controller = Callable[[Abort], object]


class AbortGraph:
    """The nodes of one piece of work. An id that is not linked is a UsageError; so is one that is linked already.

    What controllers raise does not keep the others from being told; it is raised afterwards, as an ExceptionGroup.
    """

    def __init__(self, trace: Trace | Child | None = None) -> None:
        self._trace = trace
        self._nodes: dict[str, _Node] = {}

    def __contains__(self, node: str) -> bool:
        return node in self._nodes

    def link(
        self,
        node: str,
        parent: str | None = None,
        on_abort: Controller | None = None,
        on_descendant: Controller | None = None,
    ) -> None:
        """Add a node below its parent. Under an aborted parent it is aborted at once."""
        if node in self._nodes:
            raise UsageError(f"{node!r} is linked already; dispose of it first, or take another id")
        above = None if parent is None else self._node(parent)
        added = self._nodes[node] = _Node(node, above, on_abort, on_descendant)
        if above is None:
            return
        above.children[node] = added
        if above.abort is not None:
            self._carry_out(added, above.abort.passed_to(node))

    def abort(self, node: str, origin: str = "explicit", reason: str = "") -> tuple[str, ...]:
        """Abort a node and all below it; return the ids that this reached, the node first.

        Nothing happens, and nobody is told twice, where it is aborted already. Raises UsageError for an origin that
        is none of CAUSES.
        """
        if origin not in CAUSES:
            raise UsageError(f"origin {origin!r}: write one of {', '.join(CAUSES)}")
        found = self._node(node)
        if found.abort is not None:
            return ()
        return self._carry_out(found, Abort(node, origin, node, origin, reason))

    def aborted(self, node: str) -> Abort | None:
        """Return how a node was aborted, None while it is not."""
        return self._node(node).abort

    def dispose(self, node: str) -> None:
        """Take a node out, without a word to anybody: what is below it has no parent from then on."""
        gone = self._node(node)
        del self._nodes[node]
        if gone.parent is not None:
            del gone.parent.children[node]
        for child in gone.children.values():
            child.parent = None

    def _node(self, node: str) -> _Node:
        try:
            return self._nodes[node]
        except KeyError:
            raise UsageError(f"{node!r} is not linked; link it before it is named") from None

    def _carry_out(self, top: _Node, abort: Abort) -> tuple[str, ...]:
        """Mark everybody, write the event, tell those below, then tell those above."""
        reached = _below(top)
        top.abort = abort
        for node in reached[1:]:
            node.abort = abort.passed_to(node.name)
        names = tuple(node.name for node in reached)
        self._emit(abort, names)
        faults = [fault for node in reached if (fault := self._tell(node, node.on_abort, node.abort))]
        faults += [fault for node in _above(top) if (fault := self._tell(node, node.on_descendant, abort))]
        if faults:
            raise ExceptionGroup(f"{abort.node} is aborted, and not everybody could answer", faults)
        return names

    def _emit(self, abort: Abort, reached: tuple[str, ...]) -> None:
        if self._trace is None:
            return
        why = {"reason": abort.reason} if abort.reason else {}
        self._trace.emit(
            "aborted", node=abort.node, root=abort.root, origin=abort.origin, cause=abort.cause, count=len(reached),
            reached=",".join(reached), **why,
        )  # fmt: skip

    def _tell(self, node: _Node, controller: Controller | None, abort: Abort | None) -> Exception | None:
        """Call one controller; not that of a node which somebody told before it has disposed of."""
        if controller is None or abort is None or self._nodes.get(node.name) is not node:
            return None
        try:
            controller(abort)
        except Exception as fault:  # noqa: BLE001 - everybody else has to be told first
            return fault
        return None


def _below(top: _Node) -> list[_Node]:
    """Return a node and all below it that are not aborted, parents first; below an aborted one all are."""
    found = [top]
    for node in found:
        found += [child for child in node.children.values() if child.abort is None]
    return found


def _above(node: _Node) -> list[_Node]:
    """Return the ancestors, the nearest first."""
    found = []
    while node.parent is not None:
        node = node.parent
        found.append(node)
    return found


__all__ = ["CAUSES", "Abort", "AbortGraph", "Controller"]
