"""`${NAME}` in a file, and the file of variables beside it.

A value comes from `env_file`, then from the environment; one that is set nowhere is an error. All that `env_file`
says and all that `${NAME}` brings is secret, but for what is no secret on any machine, such as HOME.
"""

import os
import re
import stat
from collections.abc import Mapping

from longwatch.config.problems import Problem
from longwatch.units import nearest

_REFERENCE = re.compile(r"\$(\$\{)|\$\{([^}]*)\}?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
#: Values of these are on every screen; hiding them would shred every path in a log.
_PLAIN = frozenset((
    "HOME", "USER", "LOGNAME", "SHELL", "PATH", "PWD", "OLDPWD", "TMPDIR", "LANG", "LC_ALL", "TERM", "TZ", "HOSTNAME",
    "EDITOR", "DISPLAY", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR",
))  # fmt: skip


class UnsetError(Exception):
    """A reference that cannot be filled; `str()` says which, never a value."""


class Variables:
    """What `${NAME}` stands for. `secrets` collects what has been handed out."""

    def __init__(self, own: Mapping[str, str], environ: Mapping[str, str]) -> None:
        self.own = dict(own)
        self.environ = environ
        self.secrets: set[str] = set(own.values())

    def fill(self, text: str) -> str:
        """Return a text with each `${NAME}` replaced; `$${` stands for a literal `${`. Raises UnsetError."""
        return _REFERENCE.sub(self._value, text)

    def _value(self, found: re.Match[str]) -> str:
        if found[1]:
            return "${"
        name = found[2]
        if not _NAME.fullmatch(name) or not found[0].endswith("}"):
            raise UnsetError(f"{found[0]}: no variable; write ${{NAME}}, or $${{ for a literal ${{")
        value = self.own.get(name, self.environ.get(name))
        if value is None:
            guess = nearest(name, [*self.own, *self.environ])
            hint = f"did you mean ${{{guess}}}?" if guess else "set it, or write it into env_file"
            raise UnsetError(f"${{{name}}}: this variable is not set; {hint}")
        if name not in _PLAIN or name in self.own:
            self.secrets.add(value)
        return value


class FileOfVariables:
    """What a file of lines NAME=VALUE says, and what is wrong with it."""

    def __init__(self, path: str) -> None:
        self.values: dict[str, str] = {}
        self.errors: list[Problem] = []
        self.warnings: list[Problem] = []
        with open(path, encoding="utf-8") as file:
            self._look(path, os.fstat(file.fileno()))
            for number, line in enumerate(file, 1):
                self._take(path, number, line.strip())

    def _look(self, path: str, found: os.stat_result) -> None:
        mode = stat.S_IMODE(found.st_mode)
        if mode & 0o077:
            self.warnings.append(
                Problem(
                    path,
                    0,
                    0,
                    f"others can read it (mode {mode:04o}), and it holds secrets; chmod 600 {path}",
                )
            )

    def _take(self, path: str, number: int, line: str) -> None:
        if not line or line.startswith("#"):
            return
        found = _LINE.fullmatch(line)
        value = _unquoted(found[2]) if found else None
        if found is None or value is None:
            # The line itself may be a secret that lost its name.
            self.errors.append(Problem(path, number, 1, "no variable; write NAME=VALUE, one a line"))
        else:
            self.values[found[1]] = value


def _unquoted(text: str) -> str | None:
    """Read a value as shells and Compose do: '...' as it is, "..." with escapes, else up to ` #`."""
    quote = text[:1]
    if quote not in ("'", '"'):
        return re.sub(r"(^|\s+)#.*", "", text)
    end = re.fullmatch(r"""'([^']*)'\s*(?:#.*)?|"((?:[^"\\]|\\.)*)"\s*(?:#.*)?""", text)
    if end is None:
        return None
    if quote == "'":
        return end[1]
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), end[2])
