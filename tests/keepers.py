"""Keepers for tests: started as they are, or so that their coverage is measured.

What a dead keeper leaves is found by the mark of its runs, everywhere on the machine: so each file of tests, which may
run beside another, names its runs by a letter of its own.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import helpers
import measure
from longwatch.posix.identity import process
from longwatch.posix.process import STDERR, STDOUT, Process
from longwatch.posix.reactor import Reactor
from longwatch.posix.spawn import NULL, Launch
from longwatch.runtime import birth
from longwatch.runtime.kept import Keeper, KeptChild

if measure.CHOSEN in os.environ:
    # Coverage comes with the installed packages, which a keeper does without.
    birth.INTERPRETER = tuple(flag for flag in birth.INTERPRETER if flag != "-S")


def launch(*argv: str, env: dict[str, str] | None = None, **options: Any) -> Launch:
    """Return what starts a program that reads nothing, in our environment and what is added to it."""
    return Launch(list(argv), {**os.environ, **(env or {})}, **{"stdin": NULL, **options})


def shell(script: str, **options: Any) -> Launch:
    """Return what starts a shell script."""
    return launch("sh", "-c", script, **options)


class Ended:
    """How a program ended, and what it wrote."""

    def __init__(self, child: KeptChild, deadline: float = 10.0, *, merged: bool = False) -> None:
        process = Process(child, Reactor(), {}, merged)
        begin = _now()
        assert process.run_until(begin + int(deadline * 1000)), "the end of the program"
        self.code, self.signal = process.ended or (None, None)
        captured = {name: pump.captured() for name, pump in process.pumps.items()}
        process.close()
        self.out = (
            b"".join(captured[STDOUT][:2]).decode(errors="surrogateescape") if STDOUT in captured else ""
        )
        self.err = (
            b"".join(captured[STDERR][:2]).decode(errors="surrogateescape") if STDERR in captured else ""
        )


def _now() -> int:
    from longwatch.posix import now

    return now()


@contextlib.contextmanager
def keeping(*args: Any, **options: Any) -> Iterator[Keeper]:
    """Start a keeper; at the end of the block everything is stopped."""
    keeper = Keeper.start(*args, **options)
    try:
        yield keeper
    finally:
        keeper.stop()


def read_line(fd: int) -> str:
    """Wait for a line on a non-blocking descriptor."""
    got = b""

    def there() -> bool:
        nonlocal got
        with contextlib.suppress(BlockingIOError):
            got += os.read(fd, 1)
        return got.endswith(b"\n")

    while not there():
        helpers.wait_until(lambda: _readable(fd), what="a line")
    return got.decode()


def _readable(fd: int) -> bool:
    import select

    return bool(select.select([fd], [], [], 0)[0])


def give_back(child: KeptChild) -> None:
    """Close all that was lent of a program."""
    for fd in (child.stdout_fd, child.stderr_fd, child.master_fd):
        if fd is not None:
            os.close(fd)
    child.close()


def state(pid: int) -> str:
    """Return the state letter of a process; empty when it is gone."""
    info = process(pid)
    return info.state if info is not None else ""


def ended(pid: int) -> bool:
    """Whether a process is gone, or a zombie."""
    info = process(pid)
    return info is None or not info.alive
