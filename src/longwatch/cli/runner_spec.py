"""What a runner is told to run: read once from whoever started it, or made from a plan file for a job script."""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from longwatch import paths
from longwatch.core.batch import Workstream
from longwatch.errors import UsageError
from longwatch.runtime.engines.sweeping import root, run_folder
from longwatch.runtime.work_spec import environment, work_of
from longwatch.work.nested import Session

_SENT = "sent:"


class Spec:
    """The spec of one attempt; see `cli.batch_spec`. It holds secrets: it is in no file while the item runs."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.root = told.get("root") or root()
        self.run = str(told["run"])
        self.state: dict[str, Any] = dict(told["state"])
        #: The plan file, and its name.
        self.plan, self.name = str(told["plan"]), str(told["name"])
        #: Runs of the item that may have been here before.
        self.earlier: tuple[str, ...] = tuple(told.get("earlier", ()))
        #: Until when its first lease is, where whoever placed it has said that.
        self.until = int(told.get("until") or 0)
        #: Whether this machine keeps the history of the item.
        self.remember = bool(told.get("remember"))
        self.session = Session(**told["session"])
        self._told = told

    @classmethod
    def read(cls, where: str) -> "Spec":
        """Read a spec from a file, which is removed, or with `-` from stdin. Raises UsageError."""
        try:
            told = json.loads(_once(where))
        except OSError as error:
            raise UsageError(f"--spec {where}: {error.strerror}") from error
        except ValueError as error:
            raise UsageError(f"--spec {where}: {error}") from None
        if not isinstance(told, dict) or not paths.is_run_id(str(told.get("run"))):
            raise UsageError(f"--spec {where}: no spec of a run")
        return cls(told)

    @classmethod
    def of_plan(cls, plan: str, item: str) -> "Spec":
        """Make the spec of an item of a plan file; ends the verb where that is not possible."""
        from longwatch.cli.batch_spec import spec_of_plan  # noqa: PLC0415 - an engine sends one that is made

        return cls(spec_of_plan(plan, item))

    @property
    def folder(self) -> str:
        """The folder of the run, where nobody names another one."""
        return run_folder(self.root, self.run)

    @property
    def base(self) -> str:
        """Where what is kept of the plan stands on this machine."""
        return os.path.join(self.root, "plans", self._told["key"])

    def work(self) -> Workstream:
        """Return the workstream as it is here: a repository that was sent is a file in the plan's folder."""
        work = dict(self._told["work"])
        if str(work.get("git") or "").startswith(_SENT):
            work["git"] = os.path.join(self.base, "files", os.path.basename(work["git"].removeprefix(_SENT)))
        return work_of(work)

    def environment(self) -> dict[str, str]:
        """Return what the item inherits."""
        return environment(self._told, os.environ)


def _once(where: str) -> bytes:
    if where == "-":
        return sys.stdin.buffer.read()
    with open(where, "rb") as file:
        os.unlink(where)
        return file.read()


__all__ = ["Spec"]
