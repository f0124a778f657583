"""A plan file as a whole: TOML or JSON, every error with its place, and the workstreams it comes to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from longwatch.config import plan_json
from longwatch.config import plan_model as model
from longwatch.config.places import Path
from longwatch.config.plan_beside import Beside, Flags
from longwatch.config.plan_item import ItemSettings, Maker
from longwatch.config.problems import Problem, Report
from longwatch.config.readers import Setting, said
from longwatch.config.sources import Told
from longwatch.config.tables import read, unknown
from longwatch.config.texts import text_of, toml
from longwatch.config.variables import FileOfVariables, Variables
from longwatch.core.batch import Workstream
from longwatch.core.plan import ALIKE, JOBS, faults
from longwatch.paths import safe_name


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


def load(path: str, environ: Mapping[str, str], flags: Flags) -> Loaded:
    """Read a plan. Raises UsageError where it cannot be read at all; what is wrong in it is in `errors`."""
    text = text_of(path)
    report = plan_json.Problems(path)
    loaded = Loaded(os.path.abspath(path), report)
    read_plan = plan_json.plan if plan_json.is_json(path, text) else toml
    raw = read_plan(path, text, report)
    if raw is not None:
        _Reading(raw, loaded, environ, flags).all()
    return loaded


class _Reading:
    def __init__(self, raw: dict[str, Any], loaded: Loaded, environ: Mapping[str, str], flags: Flags) -> None:
        self.raw = raw
        self.loaded = loaded
        self.report = loaded.report
        self.environ = environ
        self.beside = Beside(flags, environ, loaded.report)
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
        self.loaded.jobs = self.beside.jobs(head.get("jobs"))
        self.loaded.alike = head.get("alike", ALIKE)
        self.log_max = self.beside.log_max()
        self._items(self._defaults())

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
        maker = Maker(settings, variables, self.beside, self.report, self.folder, self.log_max)
        return maker.made()

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


__all__ = ["Loaded", "load"]
