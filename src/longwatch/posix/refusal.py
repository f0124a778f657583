"""Why a program could not be started, in one line that says what to do; loaded when that has happened."""

import errno
import os
import stat

from longwatch.posix.spawn import NOT_EXECUTABLE, NOT_FOUND, SpawnError, candidates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.posix.spawn import Launch


def explain(error: SpawnError, launch: "Launch") -> SpawnError:
    """Return a failure of `spawn` with a better message; the status is left as it is. Never raises."""
    return SpawnError(_reason(error, launch) or str(error), error.status)


def _reason(error: SpawnError, launch: "Launch") -> str | None:
    program = launch.argv[0] if launch.argv else ""
    cause = error.__cause__
    if not program:
        return "there is no command to run"
    if isinstance(cause, SpawnError) or not isinstance(cause, OSError):
        return None
    if cause.errno == errno.E2BIG:
        return f"{program}: arguments and environment are too long for the kernel"
    paths = candidates(launch)
    if not paths:
        return _not_on_path(launch, program)
    found = launch.at(paths[0])
    if error.status == NOT_FOUND:
        return _missing(program, found)
    return _not_executable(program, found) if cause.errno == errno.EACCES else None


def _not_on_path(launch: "Launch", program: str) -> str:
    here = launch.at(program)
    hint = (
        f"; the one in this folder is ./{program}"
        if os.path.isfile(here) and os.access(here, os.X_OK)
        else ""
    )
    return f"{program}: not found on PATH{hint}"


def _missing(program: str, path: str) -> str:
    if not os.path.exists(path):
        return f"{program}: not found"
    interpreter = _interpreter(path)
    if interpreter is not None:
        return f"{program}: its interpreter {interpreter!r} does not exist"
    return f"{program}: its loader does not exist (made for another system?)"


def _not_executable(program: str, path: str) -> str | None:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        return f"{program}: is a directory"
    return None if os.access(path, os.X_OK) else f"{program}: not executable (try chmod +x)"


def _interpreter(path: str) -> str | None:
    """Return the program that the first line of a script names, if it does."""
    try:
        with open(path, "rb") as script:
            line = script.readline(256)
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    # The carriage return of another system's line end is part of the name, and the usual culprit: not stripped.
    return os.fsdecode(line[2:].rstrip(b"\n").lstrip(b" \t").split(b" ")[0])


__all__ = ["NOT_EXECUTABLE", "NOT_FOUND", "explain"]
