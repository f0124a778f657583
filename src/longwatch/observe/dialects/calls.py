"""The book of a reader's calls, and of what it has said: agents write the same thing again when they resume."""

from longwatch.observe import events as e

#: How many ids are remembered: more than any agent has calls open, or says twice within reach.
MOST = 10_000


class Recent:
    """A set that forgets its oldest members, so that it cannot grow without end."""

    __slots__ = ("_members", "most")

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self._members: dict[str, None] = {}

    def __contains__(self, member: str) -> bool:
        return member in self._members

    def add(self, member: str) -> bool:
        """Add a member; return whether it is new."""
        if member in self._members:
            return False
        self._members[member] = None
        if len(self._members) > self.most:
            del self._members[next(iter(self._members))]
        return True

    def discard(self, member: str) -> bool:
        """Take a member out; return whether it was one."""
        return self._members.pop(member, 0) is None


class Calls:
    """The calls of one reader: each begins once and ends once, however often its records are repeated."""

    __slots__ = ("_ended", "open")

    def __init__(self) -> None:
        #: Open calls by id: whether each still runs although a first answer came, or goes on in the background.
        self.open: dict[str, bool] = {}
        self._ended = Recent()

    def began(
        self, call: str, tool: str = "", arguments: object = None, background: bool = False
    ) -> tuple[e.Event, ...]:
        """Return the event of a call's begin; none for a repetition."""
        if not call or call in self.open or call in self._ended:
            return ()
        if len(self.open) >= MOST:
            self._ended.add(next(iter(self.open)))
            del self.open[next(iter(self.open))]
        self.open[call] = background
        return (e.ToolCalled(call, tool, arguments, background),)

    def ended(self, result: e.ToolResult, tool: str = "") -> tuple[e.Event, ...]:
        """Return the event of a call's result, behind its begin where that was not seen; none for a repetition."""
        call = result.call
        if not call or call in self._ended:
            return ()
        begin = self.began(call, tool)
        if result.partial:
            self.open[call] = True
        else:
            del self.open[call]
            self._ended.add(call)
        return (*begin, result)

    def orphaned(self, *, running: bool = False) -> tuple[e.Event, ...]:
        """End the calls that can get no result any more: those in the foreground, or the others (`running`)."""
        gone = [call for call, runs in self.open.items() if runs is running]
        return tuple(
            event
            for call in gone
            for event in self.ended(e.ToolResult(call, ok_native=False, why="orphaned"))
        )

    def reset(self) -> None:
        """A new process begins, and counts its calls anew."""
        self.open.clear()
        self._ended = Recent()
