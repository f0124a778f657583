"""Starting a forest and knowing what is left of it; shared by the programs that measure on one."""

import os
import signal
import uuid

MARK = "LONGWATCH_BENCH_FOREST"


class Forest:
    """A tree of processes that is complete once this is made. They carry a mark, so each can be found again."""

    def __init__(self, argv: list[str], *, before: str = "") -> None:
        self.mark = f"{MARK}={uuid.uuid4()}".encode()
        count = sum(int(word) for word in argv[-3:])
        reading, writing = os.pipe()
        env = {MARK: self.mark.decode().partition("=")[2]}
        words = ["/bin/sh", "-c", f'{before}exec "$@"', "sh", *argv]
        actions = [(os.POSIX_SPAWN_DUP2, writing, 1)]
        self.pid = os.posix_spawn(words[0], words, env, file_actions=actions, setsid=True)
        os.close(writing)
        while count > 0:
            data = os.read(reading, 65536)
            if not data:
                raise SystemExit(f"{count} processes of the forest could not be started")
            count -= len(data)
        os.close(reading)

    def left(self) -> list[int]:
        """Return the living processes that carry the mark."""
        return [int(name) for name in os.listdir("/proc") if name.isdecimal() and self._carries(int(name))]

    def clear(self) -> None:
        """Kill what is left and collect what is ours."""
        while pids := self.left():
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        while True:
            try:
                os.waitpid(-1, 0)
            except ChildProcessError:
                return

    def _carries(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                return self.mark in file.read()  # a zombie's is empty
        except OSError:
            return False
