"""What a harness is: one table of the file with everything resolved, as plain values that travel as JSON.

`config` makes it, the daemon lives by it; nobody between them knows how it was written down.
"""

from longwatch.core.record import Plain
from longwatch.core.restarts import ALWAYS, INTENSITY, PERIOD
from longwatch.core.spec import ALLOW_QUIET, GRACE, HOUR, SECOND, LimitSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self

#: It lives as long as the daemon wants it; it runs at set times; it runs when something happens.
RESIDENT, SCHEDULED, TRIGGERED = "resident", "scheduled", "triggered"
KINDS = (RESIDENT, SCHEDULED, TRIGGERED)
SKIP, QUEUE, REPLACE = "skip", "queue", "replace"

#: What a change of these asks for: a new process. Everything else applies to the one that runs.
LAUNCH = ("command", "cwd", "env", "pty", "preset", "stdin", "resume")


class Harness(Plain):
    """One supervised program of the file. Spans are ms, sizes bytes, wall times minutes of the day in `timezone`.

    `limits` by name (see `limits.RULES`), `setters` says where each was set. `resume` is the argv that goes on with a
    conversation (`{session}` stands for its id). `sources` are what counts as progress. `ready` is the text whose
    appearance makes it ready (empty: as soon as it runs). `schedule` are cron lines; `triggers`, `budgets` and `log`
    are tables of their own. What a limit in `revive` stops is started again whatever `restart` says. `check` is the
    command whose output is an effect, `poll` how often what must be sampled is looked at. `armed_by_soft` makes `idle`
    wait for `soft`. `fail_alike` quick failures
    with the same last error end the tries early (0: off).
    """

    __slots__ = (
        "allow_control", "allow_quiet", "armed_by_soft", "before_stop", "budgets", "catch_up", "check", "command", "cwd", "enabled", "env",
        "fail_alike", "grace", "hours", "intensity", "keep_leftovers", "keep_runs", "kind", "limit_patterns",
        "limits", "log", "loop", "name", "not_progress", "nudge", "on_hold", "on_overlap", "period", "poll", "preset",
        "pty", "quota_group", "ready", "record_args", "restart", "resume", "resume_on_limit", "revive", "schedule",
        "secrets", "setters", "signal", "sources", "stall_when_ready", "stdin", "stop_command", "timezone", "triggers",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        command: tuple[str, ...],
        *,
        kind: str = RESIDENT,
        cwd: str = "/",
        env: "Mapping[str, str] | None" = None,
        pty: bool = False,
        stdin: str = "null",
        preset: str | None = None,
        enabled: bool = True,
        restart: str = ALWAYS,
        intensity: int = INTENSITY,
        period: int = PERIOD,
        fail_alike: int = 3,
        limits: "Mapping[str, LimitSpec] | None" = None,
        setters: "Mapping[str, str] | None" = None,
        sources: tuple[str, ...] = ("output",),
        not_progress: tuple[str, ...] = (),
        signal: int = 15,
        grace: int = GRACE,
        keep_leftovers: bool = False,
        allow_quiet: int = ALLOW_QUIET,
        nudge: str | None = None,
        loop: int = 0,
        revive: tuple[str, ...] = (),
        check: str | None = None,
        poll: int = 1 * SECOND,
        stall_when_ready: bool = False,
        armed_by_soft: bool = False,
        before_stop: str | None = None,
        stop_command: str | None = None,
        ready: str = "",
        resume: tuple[str, ...] = (),
        resume_on_limit: bool = True,
        limit_patterns: tuple[str, ...] = (),
        quota_group: str | None = None,
        hours: tuple[str, ...] = (),
        timezone: str = "",
        on_hold: str = QUEUE,
        on_overlap: str = SKIP,
        schedule: tuple[str, ...] = (),
        catch_up: int = 0,
        keep_runs: int = 20,
        triggers: "tuple[Mapping[str, Any], ...]" = (),
        budgets: "Mapping[str, Any] | None" = None,
        log: "Mapping[str, Any] | None" = None,
        allow_control: bool = False,
        record_args: bool = False,
        secrets: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.command = command
        self.kind = kind
        self.cwd = cwd
        self.env = dict(env or {})
        self.pty = pty
        self.stdin = stdin
        self.preset = preset
        self.enabled = enabled
        self.restart = restart
        self.intensity = intensity
        self.period = period
        self.fail_alike = fail_alike
        self.limits = dict(limits or {})
        self.setters = dict(setters or {})
        self.sources = sources
        self.not_progress = not_progress
        self.signal = signal
        self.grace = grace
        self.keep_leftovers = keep_leftovers
        self.allow_quiet = allow_quiet
        self.nudge = nudge
        self.loop = loop
        self.revive = revive
        self.check = check
        self.poll = poll
        self.stall_when_ready = stall_when_ready
        self.armed_by_soft = armed_by_soft
        self.before_stop = before_stop
        self.stop_command = stop_command
        self.ready = ready
        self.resume = resume
        self.resume_on_limit = resume_on_limit
        self.limit_patterns = limit_patterns
        self.quota_group = quota_group
        self.hours = hours
        self.timezone = timezone
        self.on_hold = on_hold
        self.on_overlap = on_overlap
        self.schedule = schedule
        self.catch_up = catch_up
        self.keep_runs = keep_runs
        self.triggers = tuple(triggers)
        self.budgets = dict(budgets or {})
        self.log = dict(log or {})
        self.allow_control = allow_control
        self.record_args = record_args
        self.secrets = secrets

    def as_dict(self) -> dict[str, object]:
        """Return it as values that JSON knows."""
        plain = super().as_dict()
        limits = {name: limit.as_dict() for name, limit in self.limits.items()}
        return {**{key: _listed(value) for key, value in plain.items()}, "limits": limits}

    @classmethod
    def of(cls, told: "Mapping[str, Any]") -> "Self":
        """Return what `as_dict` gave. A key that this version does not know is a TypeError."""
        values = _restored(told)
        values["limits"] = {
            name: LimitSpec(**_restored(limit)) for name, limit in told.get("limits", {}).items()
        }
        return cls(**values)

    def launched_alike(self, other: "Harness") -> bool:
        """Whether a process of the other one is what this one would start."""
        return all(getattr(self, key) == getattr(other, key) for key in LAUNCH)


def _listed(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _restored(told: "Mapping[str, Any]") -> "dict[str, Any]":
    return {key: tuple(value) if isinstance(value, list) else value for key, value in told.items()}


#: A scheduled run that nothing else bounds (CAP-120).
SCHEDULED_TIMEOUT = 1 * HOUR
