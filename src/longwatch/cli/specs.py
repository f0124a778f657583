"""From the values of a command line to what is watched."""

from longwatch.core.spec import NOTIFY, STOP, LimitSpec, Spec
from longwatch.options import DEFAULT, Values
from longwatch.posix.process import STDERR, STDOUT

#: The limits a command line can set, in the order of the core's table.
SETTABLE = ("idle", "first", "ceiling", "timeout", "soft")


def spec_of(values: Values, *, merged: bool) -> Spec:
    """Return what to watch. Only named limits stop: the built-in idle window notes and notifies."""
    limits = {
        name: LimitSpec(values.get(name), _action(values, name)) for name in SETTABLE if values.get(name) > 0
    }
    held, sampled = sources_of(values.progress, merged=merged)
    return Spec(
        limits,
        held,
        sampled,
        nudge=values.nudge,
        signal=values.signal,
        grace=values.kill_after,
        keep_leftovers=values.keep_leftovers,
        allow_quiet=values.allow_quiet,
    )


def _action(values: Values, name: str) -> str:
    if name != "idle":
        return NOTIFY if name == "soft" else STOP
    if values.source("idle") == DEFAULT and values.source("idle-action") == DEFAULT:
        # The built-in window: whoever named neither a limit nor an action did not ask for a stop.
        return NOTIFY
    action: str = values.idle_action
    return action


def sources_of(progress: tuple[str, ...], *, merged: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the sources that we hold, and those that must first appear."""
    both = (STDOUT,) if merged else (STDOUT, STDERR)
    held: list[str] = []
    sampled: list[str] = []
    for source in progress:
        if source == "output":
            held += both
        elif source in (STDOUT, STDERR):
            # With one pipe for both streams either name means that pipe.
            held.append(STDOUT if merged else source)
        else:
            sampled.append(source)
    return tuple(dict.fromkeys(held)), tuple(dict.fromkeys(sampled))


def limits_for_people(values: Values, spec: Spec) -> dict[str, dict[str, object]]:
    """Return each limit with who set it, for `ls`, `why` and the run folder."""
    return {
        name: {"window_ms": limit.window, "action": limit.action, "source": values.source(name)}
        for name, limit in spec.limits.items()
    }
