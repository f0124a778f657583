"""The logs that a daemon keeps of its harnesses, found and read without it.

A resident harness has one file for all its runs, with lines of ours that say where each begins and ends; any other
has a file for each run.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from longwatch.cli.render import USAGE, fail
from longwatch.config.finding import find as find_file
from longwatch.errors import UsageError
from longwatch.observe.tail import last_time
from longwatch.paths import daemon_folder, daemon_id, is_run_id, name_of, safe_name, state
from longwatch.runtime import marks

_LOG = ".log"
#: No name of a harness is longer; what is cannot be one.
_LONGEST = 200
_LONGEST_LINE = 1 << 20


@dataclass(slots=True)
class Kept:
    """A log that is kept: of a harness (`run` None), or of one run; `shared`: the file has other runs, too."""

    harness: str
    path: str
    run: str | None = None
    shared: bool = False

    @property
    def last_run(self) -> str | None:
        """The run that it is of: of a harness, the one that started last."""
        if self.run is not None:
            return self.run
        for path in (self.path, f"{self.path}.1"):
            with suppress(OSError):
                found = last_time(path, marks.started_run, marks.BEGIN)
                if found:
                    return found
        return None

    @property
    def told(self) -> dict[str, str]:
        """Say in JSON what it is of."""
        return {"harness": self.harness} | ({} if self.run is None else {"run": self.run})


def of_file(word: str, config: str | None) -> Kept | None:
    """Return the log of a harness, or of a run, of the configuration file that is meant."""
    try:
        path = find_file(config, os.environ, os.getcwd())
    except UsageError:
        if config is not None:
            raise
        return None
    return _in(daemon_folder(state(), daemon_id(path)), word)


def of_any(word: str) -> Kept | None:
    """Return the same of whichever daemon has one. Ends the verb where several have."""
    folder = os.path.dirname(daemon_folder(state(), "x"))
    daemons = [(name, _in(os.path.join(folder, name), word)) for name in _listed(folder)]
    found = [(name, kept) for name, kept in daemons if kept is not None]
    if len(found) > 1:
        from longwatch.api.finding import file_of  # noqa: PLC0415 - it brings a client along

        files = ", ".join(file_of(name, state()) for name, _ in found)
        fail(f"{word} is a harness of several files; name one with --config: {files}", USAGE)
    return found[0][1] if found else None


def _in(daemon: str, word: str) -> Kept | None:
    folder = os.path.join(daemon, "logs")
    if not word or "/" in word or word.startswith(".") or len(word) > _LONGEST:
        return None
    path = os.path.join(folder, word + _LOG)
    if os.path.exists(path) or os.path.exists(f"{path}.1"):
        return Kept(word, path)
    runs = [name for name in _listed(os.path.join(folder, word)) if name.endswith(_LOG)]
    if runs:
        newest = max(runs, key=lambda name: _written(os.path.join(folder, word, name)))
        return Kept(word, os.path.join(folder, word, newest), newest.removesuffix(_LOG))
    return _of_run(folder, word) if is_run_id(word) else None


def _of_run(folder: str, run: str) -> Kept | None:
    for name in _listed(folder):
        path = os.path.join(folder, name, run + _LOG)
        if os.path.exists(path):
            return Kept(name, path, run)
    for name in _listed(folder):
        harness = name.removesuffix(_LOG)
        if name.endswith(_LOG) and safe_name(harness) == name_of(run):
            return Kept(harness, os.path.join(folder, name), run, shared=True)
    return None


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _written(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


class Section:
    """Cuts one run out of a log, given in pieces. `over`: its end was seen. Without a run, all is passed on."""

    def __init__(self, run: str | None, *, shared: bool) -> None:
        self._run = run
        self._inside = not shared
        self._shared = shared
        self._rest = b""
        self.seen = not shared
        self.over = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what belongs to the run; of a shared file whole lines."""
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest[-_LONGEST_LINE:]
        if not self._shared:
            # Nothing has to wait for the end of its line: only the marks are looked for.
            self.over = self.over or (
                self._run is not None and any(marks.ends(line, self._run) for line in lines)
            )
            yield chunk
            return
        for line in lines:
            if self._belongs(line):
                yield line + b"\n"

    def flush(self) -> bytes:
        """Return what waited for the end of its line."""
        return self._rest if self._shared and self._inside else b""

    def _belongs(self, line: bytes) -> bool:
        if marks.begins(line):
            self.over = self.over or self._inside
            self._inside = marks.begins(line, self._run)
            self.seen = self.seen or self._inside
        elif self._inside and marks.ends(line, self._run):
            self._inside, self.over = False, True
            return True
        return self._inside
