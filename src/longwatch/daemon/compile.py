"""Reading the file: in a process of its own, so that the supervisor loads no parser and no model."""

import json
import sys

from longwatch.core.harness import Harness
from longwatch.core.record import Plain
from longwatch.posix.spawn import SpawnError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from longwatch.runtime.host import Host

#: How long reading a file may take, and how long what it says may be.
LIMIT = 20_000
MOST = 16 << 20


class Compiled(Plain):
    """What a file says: harnesses by name and the tables of the daemon itself; or what is wrong with it."""

    __slots__ = ("errors", "harnesses", "tables", "warnings")

    def __init__(self, told: "dict[str, Any]") -> None:
        self.errors: list[dict[str, Any]] = list(told.get("errors") or ())
        self.harnesses = {each["name"]: Harness.of(each) for each in told.get("harnesses") or ()}
        self.warnings: list[str] = list(told.get("warnings") or ())
        self.tables = told

    def table(self, name: str) -> "dict[str, Any]":
        """Return one of the tables `daemon`, `notify`, `web`."""
        found = self.tables.get(name)
        return found if isinstance(found, dict) else {}

    def problems(self) -> list[str]:
        """Return the errors as lines for people."""
        return [problem_line(error) for error in self.errors]


def problem_line(error: "dict[str, Any]") -> str:
    """Return `FILE:LINE:COLUMN: MESSAGE`; what has no place of its own stands with the file."""
    if not error.get("line"):
        return f"{error.get('file')}: {error.get('message')}"
    return f"{error.get('file')}:{error['line']}:{error.get('column')}: {error.get('message')}"


def read_file(
    host: "Host", path: str, done: "Callable[[Compiled], object]", argv: "list[str] | None" = None
) -> None:
    """Have a file read; `done` is called in the loop, also where it could not be."""

    def over(code: int | None, output: str) -> None:
        done(_read(path, code, output))

    words = argv or [sys.executable, "-m", "longwatch.config.compiled"]
    try:
        host.command([*words, path], limit_ms=LIMIT, on_done=over, tail=MOST)
    except SpawnError as error:
        done(_failed(path, f"it cannot be read: {error}"))


def _read(path: str, code: int | None, output: str) -> Compiled:
    if code is None:
        return _failed(path, f"reading it took longer than {LIMIT // 1000} s")
    for line in reversed(output.splitlines()):
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and ("harnesses" in told or "errors" in told):
            try:
                return Compiled(told)
            except (TypeError, KeyError) as error:
                return _failed(path, f"its harnesses are of another version: {error}")
    last = output.strip().splitlines()[-1:] or ["nothing was said"]
    return _failed(path, f"reading it failed with status {code}: {last[0][:300]}")


def _failed(path: str, message: str) -> Compiled:
    return Compiled({"errors": [{"file": path, "line": 0, "column": 0, "message": message}]})
