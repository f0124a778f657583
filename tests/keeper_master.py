"""A master of a keeper that may be killed at any moment: `keeper_master.py FOLDER`. Run by tests, not imported.

It sees to it that ten programs run, two of them on terminals, and writes their lines and their ends to files in the
folder. Whatever it has taken from a pipe it has written: the kernel moves the bytes in one call. Whoever comes after
it goes on from the files alone.
"""

import mmap
import os
import select
import sys
from pathlib import Path

from longwatch.posix.spawn import NULL, PIPES, PTY, Launch
from longwatch.runtime.kept import Keeper

RUNS = 10
TERMINALS = 2
ROOM = 16 << 20

PROGRAM = """
import os, random, sys, time
folder, name, code = sys.argv[1:]
with open(f"{folder}/{name}.starts", "ab", buffering=0) as starts:
    starts.write(b"%d\\n" % os.getpid())
count = 0
while not os.path.exists(f"{folder}/enough"):
    os.write(1, b"%d %s\\n" % (count, b"x" * random.randrange(40)))
    count += 1
    time.sleep(random.random() / 200)
os.write(1, b"%d end\\n" % count)
if int(code) == 9:
    os.kill(os.getpid(), 9)
os._exit(int(code))
"""


def code_of(number: int) -> int:
    """Return how a program ends: by a code of its own, and two of them by a signal."""
    return 9 if number % 5 == 4 else 10 + number


class File:
    """Takes a pipe's bytes as they are; what is in the file was in the pipe, and the other way round."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = os.fstat(self._file).st_size

    def take(self, source: int) -> bool:
        """Move what is there; False at the end."""
        try:
            count = os.splice(source, self._file, 1 << 16, offset_dst=self._size)
        except BlockingIOError:
            return True
        self._size += count
        return count > 0


class Paper(File):
    """Takes a terminal's bytes: they are read into the file's own pages, since nothing can be spliced into a file."""

    def __init__(self, path: Path) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(file, ROOM)
        self._map = mmap.mmap(file, ROOM)
        os.close(file)
        self._size = len(bytes(self._map).rstrip(b"\0"))

    def take(self, source: int) -> bool:
        try:
            self._size += os.readv(source, [memoryview(self._map)[self._size : self._size + 4096]])
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True


class Watched:
    """One run: its output, and the file that takes it."""

    def __init__(self, keeper: Keeper, folder: Path, number: int, known: set[str]) -> None:
        self.name = f"m{number}"
        self.terminal = number < TERMINALS
        if self.name in known:
            self.child = keeper.lend(self.name)
        else:
            program = [
                sys.executable,
                "-I",
                "-S",
                "-c",
                PROGRAM,
                str(folder),
                self.name,
                str(code_of(number)),
            ]
            self.child = keeper.spawn(
                Launch(program, None, None, NULL, PTY if self.terminal else PIPES), self.name
            )
        source = self.child.master_fd if self.terminal else self.child.stdout_fd
        assert source is not None
        self.source = source
        self.file = (Paper if self.terminal else File)(folder / f"{self.name}.lines")
        self.open = True


def main(folder: Path) -> None:
    """Be the master until all is over."""
    ends = os.open(folder / "ends", os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    over = {line.split()[0] for line in os.pread(ends, 1 << 20, 0).decode().splitlines()}
    if len(over) == RUNS:
        return
    keeper = Keeper.at(str(folder / "socket"))
    known = {run.run_id for run in keeper.runs()}
    for name in known & over:
        keeper.forget(name)
    poll = select.poll()
    watched: dict[int, Watched] = {}
    for number in range(RUNS):
        if f"m{number}" not in over:
            run = Watched(keeper, folder, number, known)
            watched[run.source] = run
            poll.register(run.source, select.POLLIN)
    print("has them all", flush=True)
    while watched:
        for fd, _ in poll.poll():
            run = watched[fd]
            if run.file.take(fd):
                continue
            # Its output is over, and so will it be any moment.
            poll.unregister(fd)
            del watched[fd]
            pidfd = run.child.pidfd
            assert pidfd is not None
            select.select([pidfd], [], [], 10)
            code, signum = run.child.peek() or ("none", "none")
            os.write(ends, f"{run.name} {code} {signum}\n".encode())
            keeper.forget(run.name)
    keeper.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
