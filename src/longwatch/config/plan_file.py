"""A plan file as a whole: TOML or JSON, every error with its place, and the workstreams it comes to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import tomli

from longwatch import presets
from longwatch.config import plan_model as model
from longwatch.config.files import _syntax, _text
from longwatch.config.limits import limits_of
from longwatch.config.places import Path, Places
from longwatch.config.problems import Problem, Report
from longwatch.config.readers import Setting, said
from longwatch.config.sources import Settings, Told
from longwatch.config.tables import read, unknown
from longwatch.config.variables import FileOfVariables, Variables
from longwatch.core.batch import ITEM, Workstream
from longwatch.core.harness import RESIDENT, Harness
from longwatch.core.plan import ALIKE, JOBS, Item, faults
from longwatch.core.record import Plain
from longwatch.core.redact import SHORTEST
from longwatch.core.spec import MINUTE, NOTIFY, STOP, LimitSpec
from longwatch.core.workstream import BUDGET, CONTINUE, INTERRUPT, POLICIES
from longwatch.errors import UnitError, UsageError
from longwatch.paths import safe_name
from longwatch.preset_table import Preset
from longwatch.units import format_size, nearest, parse_duration, parse_size
from longwatch.work.results import ARGV, ask

#: What an item that is over its budget may be silent for, where nobody says (seed: the idle window).
SILENCE = 5 * MINUTE
#: A log is two files of half the size: of what is too much the newest half at least is kept.
LOG_MAX = 100 << 20
_LOG_FILES = 2
VARIABLES = {
    "jobs": "LONGWATCH_BATCH_JOBS", "soft": "LONGWATCH_BATCH_SOFT", "idle": "LONGWATCH_BATCH_IDLE",
    "policy": "LONGWATCH_BATCH_POLICY", "log": "LONGWATCH_BATCH_LOG_MAX",
}  # fmt: skip
#: Fields of a harness that an item has by the same name, and by another one.
_SAME = (
    "allow_quiet", "before_stop", "check", "keep_leftovers", "loop", "not_progress", "nudge", "pty", "resume_on_limit",
    "signal",
)  # fmt: skip
_OTHER = {"kill_after": "grace", "progress": "sources"}


class Flags(Plain):
    """What the command line says beside the plan; None: nothing."""

    __slots__ = ("idle", "jobs", "policy", "soft")

    def __init__(
        self,
        *,
        jobs: int | None = None,
        soft: int | None = None,
        idle: int | None = None,
        policy: str | None = None,
    ) -> None:
        if policy is not None and policy not in POLICIES:
            raise UsageError(f"--policy {policy}: {_policies(policy)}")
        self.jobs = jobs
        self.soft = soft
        self.idle = idle
        self.policy = policy


class Loaded:
    """What a plan comes to. With `errors` it is not to be run."""

    def __init__(self, path: str, report: Report) -> None:
        self.path = path
        self.report = report
        self.name = safe_name(os.path.splitext(os.path.basename(path))[0])
        self.base = ""
        self.jobs = JOBS
        self.alike = ALIKE
        self.works: list[Workstream] = []

    @property
    def errors(self) -> tuple[Problem, ...]:
        """All that is wrong, in the order of the places."""
        return self.report.errors

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is allowed and probably not meant."""
        return self.report.warnings


class _Problems(Report):
    """Where the places are not known, as in JSON, a problem names its item instead. `items` are the tables."""

    def __init__(self, file: str) -> None:
        super().__init__(file, Places({}))
        self.items: object = None

    def _at(self, path: Path, message: str) -> Problem:
        if isinstance(self.items, list) and len(path) > 1 and path[0] == "item" and isinstance(path[1], int):
            table = self.items[path[1]]
            name = table.get("id") if isinstance(table, Mapping) else None
            head, message = f"item {name or path[1] + 1}", message.removeprefix("[[item]] ")
            message = message if message.startswith(head) else f"{head}: {message}"
        return super()._at(path, message)


def load(path: str, environ: Mapping[str, str], flags: Flags) -> Loaded:
    """Read a plan. Raises UsageError where it cannot be read at all; what is wrong in it is in `errors`."""
    text = _text(path)
    report = _Problems(path)
    loaded = Loaded(os.path.abspath(path), report)
    raw = _json(path, text, report) if _is_json(path, text) else _toml(path, text, report)
    if raw is not None:
        _Reading(raw, loaded, environ, flags).all()
    return loaded


def _is_json(path: str, text: str) -> bool:
    return path.endswith(".json") or text.lstrip()[:1] == "{"


def _toml(path: str, text: str, report: Report) -> dict[str, Any] | None:
    try:
        raw = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        report.elsewhere(_syntax(path, text, error))
        return None
    report.places = Places.of(text)
    return raw


def _json(path: str, text: str, report: _Problems) -> dict[str, Any] | None:
    try:
        raw = json.loads(text)
    except json.JSONDecodeError as error:
        report.elsewhere(Problem(path, error.lineno, error.colno, error.msg[:1].lower() + error.msg[1:]))
        return None
    if isinstance(raw, list):
        return {"item": [_of_issue(one, number, report) for number, one in enumerate(raw)]}
    if not isinstance(raw, dict):
        report.error((), "a plan is a table, or a list of workstreams")
        return None
    report.items = raw.get("item")
    return raw


def _of_issue(one: object, number: int, report: Report) -> object:
    """Read a workstream in the older form: an issue, its branch, its task."""
    if not isinstance(one, Mapping) or "issue" not in one:
        return one
    known = {
        "issue",
        "branch",
        "task",
        "description",
        "max_runtime",
        "timeout_policy",
        "command",
        "preset",
        "git",
    }
    for key in one:
        if key not in known:
            report.warn(("item", number), f"workstream {number + 1}: {key} is not known here, and left out")
    issue = one["issue"]
    name = str(issue) if isinstance(issue, int | str) and not isinstance(issue, bool) else ""
    if not name.isdecimal() or int(name) <= 0:
        report.error(
            ("item", number), f"workstream {number + 1}: issue {said(issue)}: write a number from 1 on"
        )
    told: dict[str, object] = {
        "id": name or str(number + 1),
        "description": one.get("description") or f"Issue #{name}",
    }
    told |= {key: one[key] for key in ("branch", "command", "preset", "git") if key in one}
    told |= {"prompt": one["task"]} if "task" in one else {}
    if "max_runtime" in one:
        told["soft"] = f"{one['max_runtime']}s" if isinstance(one["max_runtime"], int) else one["max_runtime"]
    policy = one.get("timeout_policy", CONTINUE)
    if policy in POLICIES:
        told["policy"] = policy
    else:
        report.warn(
            ("item", number),
            f"workstream {number + 1}: timeout_policy {said(policy)}: {_policies(str(policy))}; {CONTINUE} is taken",
        )
    return told


def _policies(policy: str) -> str:
    guess = nearest(policy, list(POLICIES))
    return f"did you mean {guess}?" if guess else f"write {' or '.join(POLICIES)}"


class ItemSettings(Settings):
    """The values of one item, wherever they come from."""

    def __init__(self, at: int, *words: Any) -> None:
        super().__init__(*words)
        self._at = at

    def path(self, key: str = "") -> Path:
        """Return the way to a key of its table."""
        above: Path = ("item", self._at)
        return (*above, key) if key else above


class _Reading:
    def __init__(self, raw: dict[str, Any], loaded: Loaded, environ: Mapping[str, str], flags: Flags) -> None:
        self.raw = raw
        self.loaded = loaded
        self.report = loaded.report
        self.environ = environ
        self.flags = flags
        self.folder = os.path.dirname(loaded.path)

    def all(self) -> None:
        """Read every table."""
        for key in self.raw:
            if key not in model.File.model_fields:
                self.report.error((key,), unknown(key, "the plan", model.File))
        setting = Setting(Variables({}, self.environ), self.folder)
        given = {key: self.raw[key] for key in model.Head.model_fields if key in self.raw}
        head = read(model.Head, given, (), setting, self.report)
        self.loaded.name = head.get("name", self.loaded.name)
        default = os.path.join(self.folder, ".longwatch", self.loaded.name)
        self.loaded.base = head.get("base", default)
        self.loaded.jobs = self._jobs(head.get("jobs"))
        self.loaded.alike = head.get("alike", ALIKE)
        self.log_max = self._log_max()
        self._items(self._defaults())

    def _jobs(self, told: int | None) -> int:
        for value in (self.flags.jobs, told):
            if value is not None:
                return value
        text = self.environ.get(VARIABLES["jobs"], "")
        if text and not (text.isascii() and text.isdecimal() and int(text) > 0):
            self.report.warn(
                (), f"{VARIABLES['jobs']}={said(text)}: write a number from 1 on; {JOBS} is taken"
            )
            return JOBS
        return int(text) if text else JOBS

    def _log_max(self) -> int:
        text = self.environ.get(VARIABLES["log"], "")
        try:
            return (parse_size(text) if text else 0) or LOG_MAX
        except UnitError as error:
            self.report.warn((), f"{VARIABLES['log']}={error}; {format_size(LOG_MAX)} is taken")
            return LOG_MAX

    def _defaults(self) -> Told:
        raw = self.raw.get("defaults", {})
        setting = Setting(self._variables(raw, ("defaults",)), self.folder)
        values = read(model.Defaults, raw, ("defaults",), setting, self.report)
        return Told(raw if isinstance(raw, Mapping) else {}, values)

    def _items(self, defaults: Told) -> None:
        tables = self.raw.get("item", [])
        if not isinstance(tables, list):
            self.report.error(("item",), f"item = {said(tables)}: write [[item]]")
            return
        if not tables:
            self.report.warn((), "no [[item]] in it: nothing to run")
        for at, raw in enumerate(tables):
            work = self._item(at, raw, defaults)
            if work is not None:
                self.loaded.works.append(work)
        places = {work.id: at for at, work in enumerate(self.loaded.works)}
        for name, text in faults(work.item for work in self.loaded.works):
            self.report.error(("item", places[name]), text)

    def _item(self, at: int, raw: object, defaults: Told) -> Workstream | None:
        path: Path = ("item", at)
        if not isinstance(raw, Mapping):
            self.report.error(path, f"item {at + 1}: a table is wanted here")
            return None
        variables = self._variables(raw if "env_file" in raw else defaults.raw, path)
        own = Told(raw, read(model.Item, raw, path, Setting(variables, self.folder), self.report))
        name = own.values.get("id")
        if not isinstance(name, str):
            return None
        if safe_name(name) != name:
            self.report.error(
                (*path, "id"),
                f"id {said(name)}: write letters, digits, . _ -, at most 40, none of . - in front",
            )
            return None
        settings = ItemSettings(at, name, own, defaults, self.report.file, self.report.places)
        return _Maker(settings, variables, self).made()

    def _variables(self, raw: object, path: Path) -> Variables:
        told = raw.get("env_file") if isinstance(raw, Mapping) else None
        own: dict[str, str] = {}
        for name in told if isinstance(told, list) else [told]:
            if not isinstance(name, str) or not name.strip():
                continue
            file = os.path.normpath(os.path.join(self.folder, os.path.expanduser(name)))
            try:
                found = FileOfVariables(file)
            except (OSError, UnicodeDecodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "no text in UTF-8"
                self.report.error((*path, "env_file"), f"env_file = {file}: {why}")
                continue
            for problem in found.errors:
                self.report.elsewhere(problem)
            for problem in found.warnings:
                self.report.elsewhere(problem, warning=True)
            own |= found.values
        return Variables(own, self.environ)


class _Maker:
    """From one table to one workstream."""

    def __init__(self, settings: ItemSettings, variables: Variables, reading: _Reading) -> None:
        self.settings = settings
        self.variables = variables
        self.reading = reading
        self.report = reading.report
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
        local = os.path.normpath(os.path.join(self.reading.folder, os.path.expanduser(told)))
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
        """Return the value of the strongest setter: item, flag, defaults, variable, built-in."""
        if key in self.settings.given and self.settings.get(key) is not None:
            return self.settings.get(key)
        flag = getattr(self.reading.flags, key)
        if flag is not None:
            self.values_from[key] = f"--{key}"
            return flag
        if self.settings.get(key) is not None:
            return self.settings.get(key)
        found = self._variable(key)
        return built_in if found is None else found

    def _variable(self, key: str) -> Any:
        text = self.reading.environ.get(VARIABLES[key], "").strip()
        if not text:
            return None
        self.values_from[key] = VARIABLES[key]
        if key == "policy":
            if text in POLICIES:
                return text
            self.report.warn((), f"{VARIABLES[key]}={said(text)}: {_policies(text)}; the built-in is taken")
            return None
        try:
            return parse_duration(text)
        except UnitError as error:
            self.report.warn((), f"{VARIABLES[key]}={error}; the built-in is taken")
            return None

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
            log={"max": self.reading.log_max // _LOG_FILES, "keep": _LOG_FILES, **log},
            secrets=tuple(sorted(secret for secret in self.variables.secrets if len(secret) >= SHORTEST)),
            **{field: value for field, value in fields.items() if value is not None},
        )


__all__ = ["SILENCE", "VARIABLES", "Flags", "Loaded", "load"]
