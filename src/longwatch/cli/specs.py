"""From the values of a command line to what is watched."""

from longwatch.core.record import Plain
from longwatch.core.spec import HOUR, NOTIFY, STOP, LimitSpec, Spec
from longwatch.options import DEFAULT, FILE, PRESET, Values
from longwatch.posix.process import STDERR, STDOUT

#: The names that a known program may have, or what it stands behind (see `presets`): no other run loads the table.
NAMES = frozenset((
    "claude", "claude-code", "codex", "copilot", "gemini", "qwen", "opencode", "opencode-ai", "pi", "pytest", "py.test",
    "cargo", "docker", "podman", "buildah", "npm", "pnpm", "yarn", "bun", "env", "nice", "ionice", "nohup", "setsid",
    "stdbuf", "time", "npx", "bunx", "uvx", "uv",
))  # fmt: skip
#: The limits a command line can set, in the order of the core's table.
SETTABLE = ("idle", "first", "stall", "ceiling", "timeout", "soft", "ask", "linger", "effect")
#: Who stalls, asks or changes nothing may be right: these tell, unless somebody says otherwise.
_TELL = ("stall", "ask", "effect", "soft")
CALL = 1 * HOUR


class Known(Plain):
    """What is known of a program beyond its command line.

    `preset` is its name (empty: unknown), `lent` the tools whose budgets are that preset's. Where its records are read
    it is `observed`, and a preset's windows need them; `gentle`: what a preset says only notifies. `resident`: it
    starts out at its prompt.
    """

    __slots__ = ("gentle", "lent", "observed", "preset", "resident")

    def __init__(
        self, preset: str = "", *, lent: tuple[str, ...] = (), observed: bool = False, gentle: bool = False,
        resident: bool = False,
    ) -> None:  # fmt: skip
        self.preset = preset
        self.lent = lent
        self.observed = observed
        self.gentle = gentle
        self.resident = resident


NOBODY = Known()


def spec_of(values: Values, *, merged: bool, known: Known = NOBODY) -> Spec:
    """Return what to watch. Only named limits stop: the built-in idle window notes and notifies."""
    limits = {
        name: LimitSpec(
            values.get(name), _action(values, name, known), sighted=known.observed and values.source(name) == PRESET
        )
        for name in SETTABLE
        if values.get(name) > 0
    }  # fmt: skip
    call = call_limit(values, known)
    if call.window or any(call.budgets.values()):
        limits["call"] = call
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
        loop=values.loop,
        observed=known.observed,
        resident=known.resident,
    )


def call_limit(values: Values, known: Known = NOBODY) -> LimitSpec:
    """Return the limit of calls: a budget that was named stops, the built-in hour for all others only notifies."""
    budgets, steps = dict(values.call), values.action or {}
    named = values.source("call") != DEFAULT and not (known.gentle and "" in known.lent)
    action = STOP if named and "" in budgets else NOTIFY
    window = budgets.pop("", CALL)
    lent = tuple(tool for tool in known.lent if tool) if known.gentle else ()
    return LimitSpec(
        window, steps.get("call", action), budgets, budget_action=steps.get("call", STOP), lent=lent
    )


def _action(values: Values, name: str, known: Known) -> str:
    source = values.source(name)
    gentle = known.gentle and source == PRESET
    if name != "idle":
        step: str = (values.action or {}).get(name, NOTIFY if gentle or name in _TELL else STOP)
        return step
    if (source == DEFAULT or gentle) and values.source("idle-action") == DEFAULT:
        # Whoever named neither a limit nor an action did not ask for a stop.
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


def setter_of(values: Values, limit: str, known: Known) -> str:
    """Return who set a limit, a preset by its name, a file by its line."""
    source = values.source(limit)
    if source == FILE:
        return f"{FILE} {values.place(limit)}"
    return f"{PRESET} {known.preset}" if source == PRESET else source


def limits_for_people(values: Values, spec: Spec) -> dict[str, dict[str, object]]:
    """Return each limit with who set it, for `ls`, `why` and the run folder; and what was spent of it before."""
    return {
        name: {
            "window_ms": limit.window,
            "action": limit.action,
            "source": values.source(name),
            **({"spent_ms": limit.spent} if limit.spent else {}),
        }
        for name, limit in spec.limits.items()
        if name != "call" or spec.observed or values.source(name) != DEFAULT
    }
