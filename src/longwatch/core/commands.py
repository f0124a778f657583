"""What a watch asks for, in the imperative. `runtime.effects` performs; a watch never does anything itself."""

from longwatch.core.facts import Fact
from longwatch.core.record import Plain


class Command(Plain):
    """Base of everything a watch can ask for."""

    __slots__ = ()


class CapturePostMortem(Command):
    """Describe the tree before anything is signalled, run the hook before the stop; answer `Prepared` or `Vetoed`."""

    __slots__ = ("limit",)

    def __init__(self, limit: str) -> None:
        self.limit = limit


class SignalTree(Command):
    """Send a signal to every process of the run. KILL stops a storm first and sweeps until a pass finds nothing."""

    __slots__ = ("signal",)

    def __init__(self, signal: int) -> None:
        self.signal = signal


class SweepTree(Command):
    """The leader has ended: look for what it left; answer `TreeGone` or `LeftoversFound`, and `TreeGone` later."""

    __slots__ = ()


class Nudge(Command):
    """Type a text into the program."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class AbandonPipes(Command):
    """Stop reading: the leader is gone and whoever holds the pipes will not be waited for."""

    __slots__ = ()


class CancelStream(Command):
    """End an event stream that has no process of ours behind it."""

    __slots__ = ()


class Notify(Command):
    """Tell the human, once per episode."""

    __slots__ = ("fact",)

    def __init__(self, fact: Fact) -> None:
        self.fact = fact


class Record(Command):
    """Write a fact to the run's events."""

    __slots__ = ("fact",)

    def __init__(self, fact: Fact) -> None:
        self.fact = fact
