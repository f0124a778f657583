"""Starting a program in another working directory from a program that has threads, where we must not change ours.

Only the library needs this; it loads `subprocess`, which costs as much as the interpreter's start.
"""

import errno
import os
import subprocess

from longwatch.posix import now
from longwatch.posix.child import Child
from longwatch.posix.spawn import (
    NOT_EXECUTABLE,
    PTY,
    SHELL,
    Launch,
    SpawnError,
    Wires,
    candidates,
    refused,
    spawn,
)


def spawn_in(launch: Launch) -> Child:
    """Start a program as `spawn` does, without ever changing the directory of this process. Raises SpawnError."""
    if launch.cwd is None:
        return spawn(launch)
    if launch.output == PTY:
        return spawn(_through_shell(launch))
    _require_folder(launch.cwd)
    wires = Wires()
    started = now()
    try:
        wires.lay(launch)
        pid = _popen(launch, wires)
    except OSError as error:
        wires.cut()
        raise refused(error, launch.argv) from error
    finally:
        wires.release()
    return Child(pid, started, wires.stdout, wires.stderr, wires.stdin, wires.master)


def _popen(launch: Launch, wires: Wires) -> int:
    program = _program(launch)
    given: dict[int, int] = {}
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for action in wires.actions:
        # The words for posix_spawn, as Popen's arguments. The only file that is opened is the null device.
        if len(action) == 3:
            given[action[2]] = subprocess.STDOUT if action[1:] == (1, 2) else action[1]
        else:
            given[action[1]] = null

    def popen(argv: list[str], program: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            argv, executable=program, cwd=launch.cwd, env=dict(launch.env),
            start_new_session=launch.new_session, stdin=given.get(0), stdout=given.get(1), stderr=given.get(2),
        )  # fmt: skip

    try:
        process = popen(launch.argv, program)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        process = popen([SHELL, program, *launch.argv[1:]], SHELL)
    finally:
        os.close(null)
    # We wait for it by ourselves: a Popen that thinks it is over never touches the pid again.
    process.returncode = 0
    return process.pid


def _through_shell(launch: Launch) -> Launch:
    """Let a shell change directory and become the program: Popen cannot make a terminal the controlling one."""
    folder = launch.at("")
    _require_folder(folder)
    argv = [
        SHELL,
        "-c",
        'cd -- "$1" && shift && exec "$@"',
        "sh",
        folder,
        _program(launch),
        *launch.argv[1:],
    ]
    return Launch(
        argv, launch.env, None, launch.stdin, PTY, launch.size, launch.new_session, launch.like, launch.apart
    )


def _program(launch: Launch) -> str:
    """Return the program's file as seen from the new directory."""
    found = candidates(launch)
    executable = [path for path in found if os.access(launch.at(path), os.X_OK)]
    if not found or not os.path.exists(launch.at(found[0])):
        raise FileNotFoundError(errno.ENOENT, "not found")
    return (executable or found)[0]


def _require_folder(folder: str) -> None:
    try:
        os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        raise SpawnError(f"{folder}: {(error.strerror or '').lower()}", NOT_EXECUTABLE) from error
