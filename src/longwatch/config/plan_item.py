"""An item of a plan: from its table, and what is said beside the file, to the workstream that it comes to."""

from __future__ import annotations

import os
from typing import Any

from longwatch import presets
from longwatch.config.limits import limits_of
from longwatch.config.places import Path
from longwatch.config.plan_beside import Beside
from longwatch.config.problems import Report
from longwatch.config.sources import Settings
from longwatch.config.variables import Variables
from longwatch.core.batch import ITEM, Workstream
from longwatch.core.harness import RESIDENT, Harness
from longwatch.core.plan import Item
from longwatch.core.redact import SHORTEST
from longwatch.core.spec import MINUTE, NOTIFY, STOP, LimitSpec
from longwatch.core.workstream import BUDGET, CONTINUE, INTERRUPT
from longwatch.errors import UsageError
from longwatch.preset_table import Preset
from longwatch.work.results import ARGV, ask

#: What an item that is over its budget may be silent for, where nobody says (seed: the idle window).
SILENCE = 5 * MINUTE
_LOG_FILES = 2
#: Fields of a harness that an item has by the same name, and by another one.
_SAME = (
    "allow_quiet", "before_stop", "check", "keep_leftovers", "loop", "not_progress", "nudge", "pty", "resume_on_limit",
    "signal",
)  # fmt: skip
_OTHER = {"kill_after": "grace", "progress": "sources"}


class ItemSettings(Settings):
    """The values of one item, wherever they come from."""

    def __init__(self, at: int, *words: Any) -> None:
        super().__init__(*words)
        self._at = at

    def path(self, key: str = "") -> Path:
        """Return the way to a key of its table."""
        above: Path = ("item", self._at)
        return (*above, key) if key else above


class Maker:
    """From one table to one workstream. Paths are meant from `folder`; `log_max` is what a log may be, in bytes."""

    def __init__(
        self,
        settings: ItemSettings,
        variables: Variables,
        beside: Beside,
        report: Report,
        folder: str,
        log_max: int,
    ) -> None:
        self.settings = settings
        self.variables = variables
        self.beside = beside
        self.report = report
        self.folder = folder
        self.log_max = log_max
        self.values_from: dict[str, str] = {}

    def made(self) -> Workstream | None:
        """Return the workstream; None where its table is too wrong to make one."""
        get = self.settings.get
        named, levels = get("preset"), tuple((level.name, level.command) for level in get("level") or ())
        argv = self._argv(named, levels)
        if not argv:
            return None
        preset = self._preset(named, argv)
        policy = self._chosen("policy", CONTINUE)
        prompt = self._prompt()
        self._check(preset, argv, prompt)
        item = Item(self.settings.name, get("needs") or (), get("retries") or 0)
        return Workstream(
            item, self._harness(argv, preset, policy, named=bool(named)), policy=policy, git=self._git(), branch=get("branch") or "",
            base=get("base") or "", prompt=prompt, prompt_by=get("prompt_by") or "argv", result=bool(get("result")),
            levels=levels, description=get("description") or "", cpus=get("cpus") or 1, labels=get("labels"),
            values_from={**self.settings.setters(), **self.values_from},
        )  # fmt: skip

    def _argv(self, named: str | None, levels: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[str, ...]:
        command: tuple[str, ...] = self.settings.get("command") or ()
        if levels:
            return levels[0][1]
        if command:
            return command
        if named and named != presets.NONE:
            return (presets.named(named).programs[0],)
        if not self.settings.has("command"):
            self.report.error(
                self.settings.path(),
                f'item {self.settings.name} has no command; write command = ["..."], or preset and prompt',
            )
        return ()

    def _preset(self, named: str | None, argv: tuple[str, ...]) -> Preset | None:
        if named:
            return None if named == presets.NONE else presets.named(named)
        return presets.recognised(argv)

    def _git(self) -> str | None:
        told: str | None = self.settings.get("git")
        if told is None:
            return None
        local = os.path.normpath(os.path.join(self.folder, os.path.expanduser(told)))
        return local if os.path.isdir(local) else told

    def _prompt(self) -> str | None:
        told: str | None = self.settings.get("prompt")
        file = self.settings.get("prompt_file")
        if file is None:
            return told
        if told is not None:
            self.report.error(self.settings.path("prompt_file"), "prompt and prompt_file exclude each other")
        try:
            with open(file, encoding="utf-8") as opened:
                return opened.read()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "no text in UTF-8"
            self.report.error(self.settings.path("prompt_file"), f"prompt_file = {file}: {why}")
            return None

    def _check(self, preset: Preset | None, argv: tuple[str, ...], prompt: str | None) -> None:
        """Refuse what could mean nothing."""
        way = self.settings.get("prompt_by") or ARGV
        try:
            ask(argv, prompt, way, preset.name if preset else None)
        except UsageError as error:
            self.report.error(self.settings.path("prompt"), f"item {self.settings.name}: {error}")
        if self.settings.get("git") is None:
            for key in ("branch", "base"):
                if key in self.settings.given:
                    self.report.error(
                        self.settings.path(key), f'{key} is of a repository; write git = "..." with it'
                    )
        elif "cwd" in self.settings.given:
            self.report.error(
                self.settings.path("cwd"),
                "cwd and git exclude each other: with git it works in a tree of its own",
            )
        resume = self.settings.get("resume")
        if resume and not any("{session}" in word for word in resume):
            self.report.error(
                self.settings.path("resume"), "resume goes on with no conversation without {session} in it"
            )

    def _chosen(self, key: str, built_in: Any) -> Any:
        value, setter = self.beside.chosen(self.settings, key, built_in)
        if setter:
            self.values_from[key] = setter
        return value

    def _harness(self, argv: tuple[str, ...], preset: Preset | None, policy: str, *, named: bool) -> Harness:
        get = self.settings.get
        limited = limits_of(self.settings, RESIDENT, preset, argv)
        limits = dict(limited.specs)
        for key, built_in in (("soft", BUDGET), ("idle", limits["idle"].window if "idle" in limits else 0)):
            window = self._chosen(key, built_in)
            if window != (limits[key].window if key in limits else 0) or key == "soft":
                limits[key] = LimitSpec(window, NOTIFY if key == "soft" else STOP)
        if policy == INTERRUPT and not (limits.get("idle") and limits["idle"].window):
            limits["idle"] = LimitSpec(SILENCE)
        if named and preset is not None:
            argv = tuple(presets.completed(preset, argv)[0])
        fields = {key: get(key) for key in _SAME} | {field: get(key) for key, field in _OTHER.items()}
        log = {key: getattr(one, key) for one in self.settings.layers("log") for key in one.model_fields_set}
        return Harness(
            self.settings.name,
            argv,
            kind=ITEM,
            cwd=get("cwd") or "",
            env={**self.variables.own, **(get("env") or {})},
            preset=preset.name if preset else None,
            restart="no",
            limits={name: spec for name, spec in limits.items() if spec.window or any(spec.budgets.values())},
            setters={**limited.setters, **self.settings.setters(), **self.values_from},
            resume=get("resume") or (),
            armed_by_soft=policy == INTERRUPT,
            log={"max": self.log_max // _LOG_FILES, "keep": _LOG_FILES, **log},
            secrets=tuple(sorted(secret for secret in self.variables.secrets if len(secret) >= SHORTEST)),
            **{field: value for field, value in fields.items() if value is not None},
        )
