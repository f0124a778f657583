"""From one table `[harness.NAME]` to the harness that the daemon runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from longwatch import presets
from longwatch.config import model, rules
from longwatch.config.limits import Limited, limits_of
from longwatch.config.places import Path
from longwatch.config.problems import Report
from longwatch.config.readers import Setting
from longwatch.config.sources import Settings, Told
from longwatch.config.tables import header, read
from longwatch.config.variables import Variables
from longwatch.config.words import read_name
from longwatch.core.harness import QUEUE, RESIDENT, SKIP, TRIGGERED, Harness
from longwatch.core.redact import SHORTEST
from longwatch.core.restarts import ALWAYS, NO
from longwatch.errors import UsageError
from longwatch.preset_table import Preset

LOG: dict[str, Any] = {"max": 100 << 20, "keep": 3}
MAX_BODY, RATE = 1 << 20, 60
#: Keys of the file that are fields of a harness as they are, each with the built-in where the harness has another.
_SAME = (
    "allow_control", "allow_quiet", "before_stop", "catch_up", "check", "enabled", "hours", "intensity", "keep_leftovers",
    "keep_runs", "limit_patterns", "loop", "not_progress", "nudge", "on_hold", "period", "poll", "pty", "quota_group",
    "ready", "record_args", "resume", "resume_on_limit", "schedule", "signal", "stall_when_ready", "stop_command", "timezone",
)  # fmt: skip
_OTHER = {"kill_after": "grace", "progress": "sources"}
_BUDGETS = ("max_runs_per_day", "max_tokens", "max_cost_usd", "daily_cost_usd")


class Made:
    """A harness, and what people are told about it. `harness` is None where its table is too wrong to make one."""

    def __init__(self, settings: Settings, harness: Harness | None, notes: list[str]) -> None:
        self.settings = settings
        self.harness = harness
        self.notes = notes


def make(
    name: str, raw: object, defaults: Told, setting: Setting, home: str, report: Report,
) -> Made | None:  # fmt: skip
    """Read a table, tell all that is wrong with it, and return what it comes to; None where it is no table."""
    path: Path = ("harness", name)
    if not isinstance(raw, Mapping):
        report.error(
            path,
            f"[harness] {name}: a harness has a table of its own; write [harness.NAME] with {name} = ... in it",
        )
        return None
    own = Told(raw, read(model.Harness, raw, path, setting, report))
    settings = Settings(name, own, defaults, report.file, report.places)
    kind = rules.kind_of(settings.given)
    rules.fitting(settings, kind, report)
    return _Maker(settings, kind, setting.variables, home, report).made()


class _Maker:
    def __init__(
        self, settings: Settings, kind: str, variables: Variables, home: str, report: Report
    ) -> None:
        self.settings = settings
        self.kind = kind
        self.variables = variables
        self.cwd: str = settings.get("cwd", home)
        self.report = report
        self.notes: list[str] = []

    def made(self) -> Made:
        """Return the harness, or None in its place where it has no command."""
        named = self.settings.get("harness") or self.settings.get("preset")
        argv = self._argv(named)
        preset = self._preset(named, argv)
        limited = limits_of(self.settings, self.kind, preset, argv)
        env: dict[str, str] = {**self.variables.environ, **self._env()}
        path = env.get("PATH", os.defpath)
        rules.check(
            rules.Subject(self.settings, self.kind, preset, argv, self.cwd, path, self.report), limited
        )
        if not argv:
            return Made(self.settings, None, [])
        if named and preset is not None:
            argv = self._completed(preset, argv)
        if limited.note:
            self.notes.append(limited.note)
        return Made(self.settings, self._harness(argv, preset, limited), self.notes)

    def _argv(self, named: str | None) -> tuple[str, ...]:
        command: tuple[str, ...] = self.settings.get("command", ())
        given = self.settings.given
        if command or "command" in given:
            return command
        if named and named != presets.NONE:
            return (presets.named(named).programs[0], *self.settings.get("args", ()))
        if not {"harness", "preset"} & given or named == presets.NONE:
            header = f"[harness.{self.settings.name}]"
            self.report.error(
                self.settings.path(), f'{header} has no command; write command = ["claude", "-p", "..."]'
            )
        return ()

    def _env(self) -> dict[str, str]:
        return {**self.variables.own, **self.settings.get("env", {})}

    def _preset(self, named: str | None, argv: tuple[str, ...]) -> Preset | None:
        if named:
            return None if named == presets.NONE else presets.named(named)
        return presets.recognised(argv)

    def _completed(self, preset: Preset, argv: tuple[str, ...]) -> tuple[str, ...]:
        words, made = presets.completed(preset, argv)
        if made:
            added = " ".join(word for addition in made for word in addition.words)
            self.notes.append(f'harness = "{preset.name}" adds {added}')
        return tuple(words)

    def _harness(self, argv: tuple[str, ...], preset: Preset | None, limited: Limited) -> Harness:
        get = self.settings.get
        fields = {key: get(key) for key in _SAME} | {field: get(key) for key, field in _OTHER.items()}
        triggered = self.kind == TRIGGERED
        return Harness(
            self.settings.name,
            argv,
            kind=self.kind,
            cwd=self.cwd,
            env=self._env(),
            preset=preset.name if preset else None,
            restart=get("restart", ALWAYS) if self.kind == RESIDENT else NO,
            on_overlap=get("on_overlap", QUEUE if triggered else SKIP),
            limits=limited.specs,
            revive=limited.revive,
            setters={**limited.setters, **self.settings.setters()},
            triggers=tuple(_trigger(trigger) for trigger in get("trigger", ())),
            budgets={key: get(key) for key in _BUDGETS if get(key) is not None},
            log={
                **LOG,
                **{key: value for log in self.settings.layers("log") for key, value in _log(log).items()},
            },
            secrets=tuple(sorted(secret for secret in self.variables.secrets if len(secret) >= SHORTEST)),
            **{field: value for field, value in fields.items() if value is not None},
        )


def _log(log: model.Log) -> dict[str, Any]:
    return {key: getattr(log, key) for key in log.model_fields_set}


def _trigger(trigger: model.Trigger) -> dict[str, Any]:
    told = {key: getattr(trigger, key) for key in trigger.model_fields_set}
    return {"kind": "webhook", "max_body": MAX_BODY, "rate": RATE, **told}


def check_name(name: str, report: Report) -> bool:
    """Whether a harness may be called so."""
    try:
        return read_name(name) == name
    except UsageError as error:
        report.error(("harness", name), f"{header(('harness', name))}: {error}")
        return False


def home_of(file: str, own: str) -> str:
    """Return the folder that harnesses run in unless they say another."""
    whole = os.path.abspath(file)
    return os.path.expanduser("~") if whole == os.path.abspath(own) else os.path.dirname(whole)
