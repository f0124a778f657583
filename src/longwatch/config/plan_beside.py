"""What is said of a plan beside its file: flags and variables, and which setter of a value is the strongest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from longwatch.config.problems import Report
from longwatch.config.readers import said
from longwatch.config.sources import Settings
from longwatch.core.plan import JOBS
from longwatch.core.record import Plain
from longwatch.core.workstream import POLICIES
from longwatch.errors import UnitError, UsageError
from longwatch.units import format_size, nearest, parse_duration, parse_size

#: A log is two files of half the size: of what is too much the newest half at least is kept.
LOG_MAX = 100 << 20
VARIABLES = {
    "jobs": "LONGWATCH_BATCH_JOBS", "soft": "LONGWATCH_BATCH_SOFT", "idle": "LONGWATCH_BATCH_IDLE",
    "policy": "LONGWATCH_BATCH_POLICY", "log": "LONGWATCH_BATCH_LOG_MAX",
}  # fmt: skip


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
            raise UsageError(f"--policy {policy}: {policies(policy)}")
        self.jobs = jobs
        self.soft = soft
        self.idle = idle
        self.policy = policy


def policies(policy: str) -> str:
    """Return what is to be written in the place of a policy that there is not."""
    guess = nearest(policy, list(POLICIES))
    return f"did you mean {guess}?" if guess else f"write {' or '.join(POLICIES)}"


class Beside:
    """Flags and variables, as the values of a plan meet them; what is wrong with a variable is told in the report."""

    def __init__(self, flags: Flags, environ: Mapping[str, str], report: Report) -> None:
        self._flags = flags
        self._environ = environ
        self._report = report

    def jobs(self, told: int | None) -> int:
        """Return how many items run at once, where the plan says `told`."""
        for value in (self._flags.jobs, told):
            if value is not None:
                return value
        text = self._environ.get(VARIABLES["jobs"], "")
        if text and not (text.isascii() and text.isdecimal() and int(text) > 0):
            self._report.warn(
                (), f"{VARIABLES['jobs']}={said(text)}: write a number from 1 on; {JOBS} is taken"
            )
            return JOBS
        return int(text) if text else JOBS

    def log_max(self) -> int:
        """Return how large a log may be, in bytes."""
        text = self._environ.get(VARIABLES["log"], "")
        try:
            return (parse_size(text) if text else 0) or LOG_MAX
        except UnitError as error:
            self._report.warn((), f"{VARIABLES['log']}={error}; {format_size(LOG_MAX)} is taken")
            return LOG_MAX

    def chosen(self, settings: Settings, key: str, built_in: Any) -> tuple[Any, str]:
        """Return the value of the strongest setter, and who that is: item, flag, defaults, variable, built-in.

        The setter is empty where it is the file, which knows its lines, or nobody.
        """
        own, flag = settings.get(key), getattr(self._flags, key)
        if own is not None and (key in settings.given or flag is None):
            return own, ""
        if flag is not None:
            return flag, f"--{key}"
        text = self._environ.get(VARIABLES[key], "").strip()
        found = self._read(key, text) if text else None
        return (built_in if found is None else found), (VARIABLES[key] if text else "")

    def _read(self, key: str, text: str) -> Any:
        if key == "policy":
            if text in POLICIES:
                return text
            self._report.warn((), f"{VARIABLES[key]}={said(text)}: {policies(text)}; the built-in is taken")
            return None
        try:
            return parse_duration(text)
        except UnitError as error:
            self._report.warn((), f"{VARIABLES[key]}={error}; the built-in is taken")
            return None
