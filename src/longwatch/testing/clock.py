"""A clock that moves only when a test moves it."""


class FakeClock:
    """Stands where `posix.reactor.now` is expected: call it for the time in integer milliseconds.

    It never goes backwards, as the clock it stands for never does.
    """

    __slots__ = ("_now",)

    def __init__(self, start: int = 0) -> None:
        self._now = start

    def __call__(self) -> int:
        """Return the time in ms."""
        return self._now

    def advance(self, span: int) -> int:
        """Let `span` ms pass and return the new time. Raises ValueError for a negative span or a fraction."""
        return self.jump(self._now + span)

    def jump(self, instant: int) -> int:
        """Move on to an instant in ms and return it. Raises ValueError for one in the past or a fraction."""
        if not isinstance(instant, int):
            raise ValueError(f"{instant!r}: time is whole milliseconds")  # noqa: TRY004
        if instant < self._now:
            raise ValueError(f"{instant} ms is before {self._now} ms: time does not go backwards")
        self._now = instant
        return instant
