"""What one incarnation of a harness is made of beside the runtime, and what follows from its definition."""

from binascii import crc32

from longwatch.core.harness import LAUNCH
from longwatch.core.record import Plain
from longwatch.core.spec import Spec
from longwatch.jsonlean import dumps
from longwatch.posix.kin import RUN_VARIABLE
from longwatch.posix.process import STDERR, STDOUT, Process
from longwatch.posix.spawn import MERGED, PIPES, PTY
from longwatch.runtime.effects import ProcessEffects
from longwatch.runtime.keeping import Keeping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from longwatch.core.harness import Harness


class Begun(Plain):
    """What is known of an incarnation before it runs: its id and number, and why it was started.

    `report_only` where its limit of stalls may only notify. `launched` is the mark of the definition that it was
    started by, where that is not ours. `resumed` where an earlier supervisor has followed it.
    """

    __slots__ = ("attempt", "launched", "report_only", "resumed", "run", "trigger")

    def __init__(
        self, run: str, attempt: int = 1, trigger: str = "", *, report_only: bool = False, launched: str = "",
        resumed: bool = False,
    ) -> None:  # fmt: skip
        self.run = run
        self.resumed = resumed
        self.report_only = report_only
        self.launched = launched
        self.attempt = attempt
        self.trigger = trigger


class Parts:
    """What a run is made of beside the runtime; everything has a part that does nothing.

    `sinks(harness, run, resumed, warn)` opens the log of a run (None: none is kept), `observer(harness, running)`
    reads the records of the program, `redact(value)` takes secrets out of what is written down. A run younger than
    `folder_after` ms has no run folder; 0: each has one from its start. `environment(environ, run, attempt)` makes
    that of a program, `recorded(argv)` is what may be written down of a command.
    """

    def __init__(
        self,
        state: str,
        *,
        sinks: "Callable[..., Any] | None" = None,
        observer: "Callable[[Harness, Any], Any] | None" = None,
        redact: "Callable[[Any], Any] | None" = None,
        described: "Mapping[str, object] | None" = None,
        folder_after: int = 0,
        environment: "Callable[[Mapping[str, str], str, int], dict[str, str]] | None" = None,
        recorded: "Callable[[Sequence[str]], list[str]] | None" = None,
    ) -> None:
        self.folder_after = folder_after
        self.state = state
        self.sinks = sinks or _no_log
        self.observer = observer or _not_observed
        self.redact = redact or _as_it_is
        self.environment = environment or _marked
        self.recorded = recorded or _program
        #: What every run folder says of its daemon.
        self.described = dict(described or {})


class Unobserved:
    """Stands for an observer where nobody reads records."""

    session = ""

    def spec(self, spec: Spec) -> Spec:
        """Return what to watch."""
        return spec

    def join(self, effects: ProcessEffects) -> None:
        """Nothing is read."""

    def keep(self, keeping: Keeping) -> None:
        """Nothing is kept."""

    def ended(self, now: int) -> "dict[str, Any]":
        """Return what the report says of the agent."""
        return {}

    def judged(self, report: "Mapping[str, Any]") -> None:
        """Return why it ended."""

    def as_dict(self, now: int) -> "dict[str, Any] | None":
        """Return how the agent stands."""

    def facts(self, now: int) -> "dict[str, Any]":
        """Return what the snapshot says."""
        return {}

    def heard(self) -> "list[tuple[str, Any]]":
        """Return what the service should hear of: `succeeded`, `turn`, `limited`, each with a value."""
        return []

    def size(self, rows: int, columns: int) -> None:
        """The terminal has another size."""

    def typed(self) -> None:
        """Somebody types: the echo of it is no progress."""

    def close(self) -> None:
        """Nothing is open."""


def how_it_ended(report: "Mapping[str, Any]") -> str:
    """Return the end of a run in a few words: `exited 0`, `stalled, KILL`."""
    reason, code, signal = (report.get(key) for key in ("termination_reason", "exit_code", "signal"))
    if signal is not None:
        return f"{signal}" if reason == "signaled" else f"{reason}, {signal}"
    if code is not None:
        return f"{reason} {code}" if reason == "exited" else f"{reason}, exit {code}"
    return str(reason)


def output_of(harness: "Harness") -> str:
    """Return how the output of a harness is connected: one pipe for both streams, unless one of them is meant."""
    if harness.pty:
        return PTY
    return PIPES if {STDOUT, STDERR} & set(harness.sources) else MERGED


def spec_of(harness: "Harness", process: Process) -> Spec:
    """Return what to watch. A stream that nobody holds any more is none of the sources."""
    held: list[str] = []
    for source in harness.sources:
        names = (STDOUT, STDERR) if source == "output" else (source,)
        held += [name for name in names if name in process.pumps]
    sampled = [source for source in harness.sources if source not in ("output", STDOUT, STDERR)]
    return Spec(
        harness.limits, tuple(dict.fromkeys(held)), tuple(dict.fromkeys(sampled)), nudge=harness.nudge,
        signal=harness.signal, grace=harness.grace, keep_leftovers=harness.keep_leftovers,
        allow_quiet=harness.allow_quiet, loop=harness.loop, stall_when_ready=harness.stall_when_ready,
        armed_by_soft=harness.armed_by_soft,
    )  # fmt: skip


def launch_mark(harness: "Harness") -> str:
    """Return what is equal for harnesses whose processes would be the same."""
    return f"{crc32(dumps({key: getattr(harness, key) for key in LAUNCH}).encode()):08x}"


def _no_log(*words: object) -> None:
    """No log is kept."""


def _not_observed(*_words: object) -> Unobserved:
    return Unobserved()


def _marked(environ: "Mapping[str, str]", run: str, attempt: int) -> dict[str, str]:
    return {**environ, RUN_VARIABLE: run, "LONGWATCH_ATTEMPT": str(attempt)}


def _program(argv: "Sequence[str]") -> list[str]:
    return [argv[0]]


def _as_it_is(value: "Any") -> "Any":
    return value
