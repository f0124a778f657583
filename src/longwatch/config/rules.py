"""What contradicts itself: keys that could mean nothing where they stand, and keys that need another one.

A key that is read and ignored would be a lie in the file, so each of these is an error with its place; what may be
right and is probably not meant is a warning.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence

from longwatch.config import model
from longwatch.config.limits import Limited, action_key, key_of
from longwatch.config.problems import Report
from longwatch.config.sources import Settings
from longwatch.core.harness import RESIDENT, SCHEDULED, TRIGGERED
from longwatch.core.limits import NAMES
from longwatch.core.restarts import NO
from longwatch.core.spec import NUDGE, RESTART
from longwatch.preset_table import PRICED, SESSION, Preset
from longwatch.units import format_duration, shown

_ON: dict[str, tuple[str, ...]] = {
    name: tuple(str(kind) for kind in extra["x-on"])
    for name, field in model.Harness.model_fields.items()
    if isinstance(extra := field.json_schema_extra, dict) and isinstance(extra["x-on"], list)
}
_ENDS = "a {kind} program ends by itself and is bounded by timeout"
_WHY_NOT = {
    "stall_timeout": _ENDS, "stall_action": _ENDS, "stall_when_ready": _ENDS,
    "restart": "its next start is the retry", "intensity": "its next start is the retry",
    "period": "its next start is the retry", "ready": "nothing waits for a {kind} program to be ready",
    "timeout": "a resident program has no end to wait for; use idle, or ceiling for a bound of time",
    "timeout_action": "a resident program has no end to wait for",
    "on_overlap": "only schedule and trigger start a second run", "keep_runs": "only schedule and trigger make runs",
    "on_hold": "only schedule and trigger have firings to hold", "catch_up": "only a schedule can be missed",
}  # fmt: skip


class Subject:
    """One harness under the rules."""

    def __init__(
        self, settings: Settings, kind: str, preset: Preset | None, argv: Sequence[str], cwd: str, path: str, report: Report,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.kind = kind
        self.preset = preset
        self.argv = argv
        self.cwd = cwd
        self.path = path
        self.observed = preset is not None and preset.dialect is not None
        self._report = report

    def error(self, key: str, text: str) -> None:
        """Refuse a key."""
        self._report.error(self.settings.path(key), f"[harness.{self.settings.name}] {key}: {text}")

    def warn(self, key: str, text: str) -> None:
        """Doubt a key."""
        self._report.warn(self.settings.path(key), f"[harness.{self.settings.name}] {key}: {text}")

    def needs(self, key: str, other: str, text: str) -> None:
        """Refuse a key of its own whose counterpart nobody set."""
        if key in self.settings.given and not self.settings.has(other):
            self.error(key, text)

    def get(self, key: str) -> object:
        """Return a value; None where nobody set it."""
        return self.settings.get(key)


def fitting(settings: Settings, kind: str, report: Report) -> None:
    """Refuse keys that mean nothing on this kind of harness; let go of such defaults."""
    out_of_place = {key for key, kinds in _ON.items() if kinds and kind not in kinds}
    name = settings.name
    for key in sorted(out_of_place & settings.given):
        if key == "restart" and settings.get(key) == NO:
            continue
        why = _WHY_NOT[key].format(kind=kind)
        beside = "without schedule or trigger"
        if kind != RESIDENT:
            beside = (
                "beside schedule"
                if kind == SCHEDULED
                else "beside trigger"
                if key != "catch_up"
                else "without schedule"
            )
        report.error(settings.path(key), f"[harness.{name}] {key} {beside}: {why}")
    settings.drop(out_of_place)


def check(subject: Subject, limited: Limited) -> None:
    """Apply all rules."""
    for rule in _RULES:
        rule(subject, limited)


def _steps(subject: Subject, limited: Limited) -> None:
    for limit in NAMES:
        key = action_key(limit)
        step = subject.get(key)
        if step is None:
            continue
        own = key in subject.settings.given
        if own and limit not in limited.specs and not _misread(subject, limit):
            subject.error(key, f'nothing for it to do; add {key_of(limit)} = "45m"')
        elif own and step == RESTART and subject.kind != RESIDENT:
            subject.error(
                key, f"restart: the next firing of a {subject.kind} program is the retry; write stop"
            )
        elif own and step == NUDGE and not subject.settings.has("nudge"):
            subject.error(key, 'nudge: nothing to type; add nudge = "..."')


def _misread(subject: Subject, limit: str) -> bool:
    """Whether the window itself was refused: then that line is enough."""
    key = key_of(limit)
    return key in subject.settings.given and subject.get(key) is None


def _counterparts(subject: Subject, limited: Limited) -> None:
    settings = subject.settings
    if not settings.get("pty"):
        subject.needs("nudge", "pty", "nothing to type into; add pty = true")
        if "progress" in settings.given and "screen" in settings.get("progress", ()):
            subject.error("progress", "screen: it has no terminal; add pty = true")
    if "check" in settings.given and "effect" not in limited.specs and not _misread(subject, "effect"):
        subject.error("check", 'nothing waits for it; add effect = "30m"')
    if "timezone" in settings.given and not (settings.has("hours") or settings.has("schedule")):
        subject.error("timezone", "no time of day to read in it; add hours or schedule")
    if (
        "stall_when_ready" in settings.given
        and "stall" not in limited.specs
        and not _misread(subject, "stall")
    ):
        subject.error("stall_when_ready", 'nothing for it to hold; add stall_timeout = "45m"')
    if settings.get("restart") == NO and not limited.revive:
        for key in ("intensity", "period"):
            if key in settings.given:
                subject.error(key, 'nothing to count: restart = "no"')


def _names(subject: Subject, _: Limited) -> None:
    settings = subject.settings
    if {"harness", "preset"} <= settings.given:
        subject.error("preset", "the same as harness; keep one of them")
    if {"command", "args"} <= settings.given:
        subject.error("args", "the arguments stand in command already; keep one of them")
    elif "args" in settings.given and not {"harness", "preset"} & settings.given:
        subject.error("args", 'arguments of what? add harness = "claude", or write it all into command')


def _resume(subject: Subject, _: Limited) -> None:
    words: tuple[str, ...] = subject.settings.get("resume", ())
    for word in words:
        bare = word[1:-1]
        if word[:1] + word[-1:] == "{}" and bare.isidentifier() and word != SESSION:
            subject.error("resume", f"{shown(word)}: no such placeholder; {SESSION} is the only one")
    if any(SESSION in word for word in words) and not subject.observed:
        subject.error(
            "resume", f"nobody tells the id of a conversation of this program, so {SESSION} stays empty"
        )


def _bounds(subject: Subject, limited: Limited) -> None:
    settings, soft = subject.settings, limited.specs.get("soft")
    for name in ("ceiling", "timeout"):
        hard = limited.specs.get(name)
        if soft and hard and soft.window >= hard.window and "soft" in settings.given:
            who = settings.setter(name) if settings.has(name) else "built-in"
            end = f"{name} {format_duration(hard.window)} ({who})"
            subject.error("soft", f"{format_duration(soft.window)}: the run is over by then: {end}")


def _sight(subject: Subject, limited: Limited) -> None:
    settings = subject.settings
    if subject.observed:
        _costs(subject)
        return
    if settings.get("daily_cost_usd") and "daily_cost_usd" in settings.given:
        subject.warn("daily_cost_usd", "nobody says what runs of this program cost, so it never holds")
    if "transcript" in settings.get("progress", ()) and "progress" in settings.given:
        subject.error(
            "progress", 'transcript: nobody can read one of this program; add harness = "claude" if it is one'
        )
    for key in ("max_tokens", "max_cost_usd"):
        if key in settings.given:
            subject.error(key, 'nobody counts those of this program; add harness = "claude" if it is one')
    if "stall" in limited.specs:
        subject.warn(
            "stall_timeout", "no calls of this program can be seen, so it counts from the start of each run"
        )
    for key in ("call", "calls", "ask", "linger", "loop"):
        if key in settings.given and settings.get(key):
            subject.warn(key, "no calls, questions and results of this program can be seen; it never acts")


def _costs(subject: Subject) -> None:
    preset, settings = subject.preset, subject.settings
    if preset is None or preset.dialect in PRICED:
        return
    for key in ("max_cost_usd", "daily_cost_usd"):
        if key in settings.given and settings.get(key):
            subject.warn(
                key, f"{preset.name} tells its tokens and no costs, so this never acts; max_tokens does"
            )


def _program(subject: Subject, _: Limited) -> None:
    if not os.path.isdir(subject.cwd):
        subject.warn("cwd", f"{subject.cwd}: no such folder now; it cannot be started without it")
    if not subject.argv:
        return
    program = subject.argv[0]
    whole = os.path.join(subject.cwd, os.path.expanduser(program)) if "/" in program else program
    if shutil.which(whole, path=subject.path) is None:
        key = "command" if "command" in subject.settings.given else "harness"
        subject.warn(key, f"{shown(program)}: no such program now")


_RULES: tuple[Callable[[Subject, Limited], None], ...] = (
    _names, _steps, _counterparts, _resume, _bounds, _sight, _program,
)  # fmt: skip


def kind_of(given: frozenset[str]) -> str:
    """Return what kind of harness a table describes."""
    if "schedule" in given:
        return SCHEDULED
    return TRIGGERED if "trigger" in given else RESIDENT
