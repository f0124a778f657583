"""`longwatch.toml` as a whole: read once, every error with its place, and what it comes to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from longwatch import notices
from longwatch.config import model, telling, web
from longwatch.config.finding import users_own
from longwatch.config.harnesses import Made, check_name, home_of, make
from longwatch.config.places import Places
from longwatch.config.problems import Problem, Report
from longwatch.config.readers import Setting, said
from longwatch.config.sources import Settings, Told
from longwatch.config.tables import outside, read
from longwatch.config.texts import text_of, toml
from longwatch.config.variables import FileOfVariables, Variables
from longwatch.core.harness import Harness
from longwatch.core.redact import SHORTEST
from longwatch.units import DURATION_UNITS

DAEMON: dict[str, Any] = {
    "retention": 90 * DURATION_UNITS["d"], "ledger_max": 256 << 20, "max_concurrent": 0, "daily_cost_usd": 0.0,
}  # fmt: skip
NOTIFY: dict[str, Any] = {
    "hook": None, "urls": [], "events": None, "cooldown": notices.COOLDOWN, "timeout": notices.TIMEOUT, "dead_man": None,
    "dead_man_every": notices.DEAD_MAN,
}  # fmt: skip


class Loaded:
    """What a file comes to. With `errors` it is not to be run; what could be read is there all the same."""

    def __init__(self, path: str, report: Report) -> None:
        self.path = path
        self.report = report
        self.defaults = Told({}, {})
        self.made: list[Made] = []
        self.daemon = dict(DAEMON)
        self.notify = dict(NOTIFY)
        self.web: dict[str, Any] = web.settings({}, [])
        self.files = [path]
        self.secrets: set[str] = set()

    @property
    def errors(self) -> tuple[Problem, ...]:
        """All that is wrong, in the order of the places."""
        return self.report.errors

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is allowed and probably not meant."""
        return self.report.warnings

    @property
    def harnesses(self) -> list[Harness]:
        """The harnesses in the order of the file."""
        return [made.harness for made in self.made if made.harness is not None]

    @property
    def notes(self) -> dict[str, list[str]]:
        """What people are told of each harness when it begins."""
        return {made.settings.name: made.notes for made in self.made if made.notes}

    def settings(self, name: str | None) -> Settings:
        """Return the values of a harness; without one of this name those that hold for all."""
        found = next((made.settings for made in self.made if made.settings.name == name), None)
        return found or Settings("", Told({}, {}), self.defaults, self.path, self.report.places)

    def as_dict(self) -> dict[str, Any]:
        """Return it as one document; of a wrong file only what is wrong."""
        head = {"schema": 1, "config": os.path.realpath(self.path)}
        if self.errors:
            return {**head, "errors": [problem.as_dict() for problem in self.errors]}
        return {
            **head,
            "harnesses": [harness.as_dict() for harness in self.harnesses],
            "daemon": self.daemon,
            "notify": self.notify,
            "web": self.web,
            "warnings": [str(problem) for problem in self.warnings],
            "notes": self.notes,
            "files": self.files,
            "secrets": sorted(secret for secret in self.secrets if len(secret) >= SHORTEST),
        }


def load(path: str, environ: Mapping[str, str] = os.environ) -> Loaded:
    """Read a file. Raises UsageError where it cannot be read at all; what is wrong in it is in `errors`."""
    text = text_of(path)
    report = Report(path, Places({}))
    loaded = Loaded(path, report)
    raw = toml(path, text, report)
    if raw is not None:
        _Reading(raw, loaded, environ).all()
    return loaded


class _Reading:
    def __init__(self, raw: dict[str, Any], loaded: Loaded, environ: Mapping[str, str]) -> None:
        self.raw = raw
        self.loaded = loaded
        self.report = loaded.report
        self.environ = environ
        self.folder = os.path.dirname(os.path.abspath(loaded.path))
        self.read_files: dict[str, dict[str, str]] = {}

    def all(self) -> None:
        """Read every table."""
        self._tables()
        setting = self._setting(self.raw.get("defaults"), "defaults")
        loaded = self.loaded
        loaded.defaults = self._defaults(setting)
        self._harnesses(loaded.defaults)
        loaded.daemon |= self._rest("daemon", setting)
        told = self._rest("notify", setting)
        loaded.notify |= telling.settings(told)
        telling.check(self.raw.get("notify"), told, self.report)
        self._web(self._rest("web", setting))
        loaded.secrets |= setting.variables.secrets
        # Whoever knows such an address can write in our name, wherever it came from.
        loaded.secrets.update(told.get("urls", ()))

    def _web(self, told: dict[str, Any]) -> None:
        web.check(self.raw.get("web"), told, self.report)
        if "token_file" in told:
            found = web.token(told["token_file"], self.report)
            told["token"] = found
            self.loaded.secrets.update([found] if found else ())
        self.loaded.web = web.settings(told, self.loaded.harnesses)
        tables = self.raw.get("harness")
        for name, raw in tables.items() if isinstance(tables, Mapping) else ():
            if isinstance(raw, Mapping):
                web.check_triggers(name, raw.get("trigger"), self.report, listening="webhooks" in told)

    def _tables(self) -> None:
        for name, value in self.raw.items():
            if name not in model.File.model_fields:
                self.report.error((name,), outside(name, value))

    def _rest(self, name: str, setting: Setting) -> dict[str, Any]:
        raw = self.raw.get(name, {})
        return read(model.TABLES[name], raw, (name,), setting, self.report)

    def _defaults(self, setting: Setting) -> Told:
        raw = self.raw.get("defaults", {})
        values = read(model.Defaults, raw, ("defaults",), setting, self.report)
        return Told(raw if isinstance(raw, Mapping) else {}, values)

    def _harnesses(self, defaults: Told) -> None:
        tables = self.raw.get("harness", {})
        if not isinstance(tables, Mapping):
            self.report.error(("harness",), f"harness = {said(tables)}: write [harness.NAME]")
            return
        if not tables:
            self.report.warn((), "no [harness.NAME] in it: nothing to run")
        home = home_of(self.loaded.path, users_own(self.environ))
        for name, raw in tables.items():
            if isinstance(raw, Mapping) and not check_name(name, self.report):
                continue
            setting = self._setting(raw, "harness", name)
            made = make(name, raw, defaults, setting, home, self.report)
            if made is not None:
                self.loaded.made.append(made)
                self.loaded.secrets |= setting.variables.secrets

    def _setting(self, raw: object, *path: str) -> Setting:
        """Return what a table is read with: variables of its own files, else of those of `[defaults]`."""
        above = self.raw.get("defaults")
        told: object = None
        for table, place in ((raw, path), (above, ("defaults",))):
            if isinstance(table, Mapping) and "env_file" in table:
                told, path = table["env_file"], place
                break
        own: dict[str, str] = {}
        for name in told if isinstance(told, list) else [told]:
            if isinstance(name, str) and name.strip():
                own |= self._variables(name, path)
        return Setting(Variables(own, self.environ), self.folder)

    def _variables(self, name: str, path: tuple[str, ...]) -> dict[str, str]:
        """Read a file of variables, once."""
        try:
            filled = os.path.expanduser(Variables({}, self.environ).fill(name))
        except Exception:  # noqa: BLE001 - the reader of the key tells
            return {}
        file = os.path.normpath(os.path.join(self.folder, filled))
        if file not in self.read_files:
            self.read_files[file] = self._first_read(file, path)
        return self.read_files[file]

    def _first_read(self, file: str, path: tuple[str, ...]) -> dict[str, str]:
        self.loaded.files.append(file)
        try:
            found = FileOfVariables(file)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "no text in UTF-8"
            table = ".".join(path)
            self.report.error((*path, "env_file"), f"[{table}] env_file = {file}: {why}")
            return {}
        for problem in found.errors:
            self.report.elsewhere(problem)
        for problem in found.warnings:
            self.report.elsewhere(problem, warning=True)
        return found.values
