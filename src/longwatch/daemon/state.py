"""What a daemon remembers between its lives: whether each harness is wanted, and how it has fared.

Each file is written whole and put in place by one rename. One that is damaged is set aside, said aloud and done
without.
"""

import json
import os
import threading
from contextlib import suppress
from functools import partial
from queue import SimpleQueue

from longwatch.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from longwatch.runtime.host import Host

    Version = tuple["Remembered", dict[str, Any], Callable[[], object] | None]

#: How long the end of a daemon waits for a disk, in seconds.
PATIENCE = 2.0


class Remembered:
    """One JSON file of a daemon's folder; `problem` says what was wrong with it, or nothing."""

    def __init__(self, folder: str, name: str) -> None:
        self.path = os.path.join(folder, name)
        self.problem = ""

    def read(self) -> "dict[str, Any]":
        """Return what it holds; empty where there is none, or none that can be read."""
        try:
            with open(self.path, encoding="utf-8") as file:
                told = json.load(file)
            if isinstance(told, dict):
                return told
            why = "it holds no object"
        except FileNotFoundError:
            return {}
        except OSError as error:
            self.problem = f"{self.path}: cannot be read: {error.strerror}"
            return {}
        except ValueError as error:
            why = str(error)
        self.problem = f"{self.path}: {why}; set aside as {self._set_aside()}"
        return {}

    def _set_aside(self) -> str:
        number = 1
        while os.path.exists(aside := f"{self.path}.damaged-{number}"):
            number += 1
        try:
            os.rename(self.path, aside)
        except OSError as error:
            return f"nothing, {error.strerror}"
        return aside

    def write(self, told: "dict[str, Any]") -> None:
        """Put it in place, durable. Raises StoreError with the path."""
        begun = self.path + ".new"
        try:
            fd = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                view = memoryview(json.dumps(told, separators=(",", ":")).encode())
                while view:
                    view = view[os.write(fd, view) :]
                os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(begun, self.path)
        except OSError as error:
            raise StoreError(f"{self.path}: cannot be written: {(error.strerror or '').lower()}") from error


class Scribe:
    """Writes files, and does what else a disk may take long for, in a thread of its own: no disk holds up the loop.

    Of several versions that wait, the last is written. `failed(text)` and whoever waits are called in the loop. The
    thread begins with the first file.
    """

    def __init__(self, host: "Host", failed: "Callable[[str], object]") -> None:
        self._host = host
        self._failed = failed
        self._queue: SimpleQueue[Version | Callable[[], object] | None] = SimpleQueue()
        self._news: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ready, self._bell = os.pipe()
        os.set_blocking(self._ready, False)
        os.set_blocking(self._bell, False)
        host.reactor.add(self._ready, self._heard)

    def write(
        self, file: Remembered, told: "dict[str, Any]", done: "Callable[[], object] | None" = None
    ) -> None:
        """Have a file written; `told` must not be changed afterwards. `done` is called when it is, or cannot be."""
        self._begin()
        self._queue.put((file, told, done))

    def do(self, act: "Callable[[], object]") -> None:
        """Have something else done there, which never raises."""
        self._begin()
        self._queue.put(act)

    def _begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="scribe", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Wait until all is written, for a bounded time. May be called again."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(PATIENCE)
            if not self._thread.is_alive():
                self._thread = None
        if self._ready >= 0:
            self._heard()
            self._host.reactor.remove(self._ready)
            if self._thread is None:  # else it may still ring, and the number must not become another file's
                os.close(self._ready)
                os.close(self._bell)
            self._ready = -1

    def _serve(self) -> None:
        over = False
        while not over:
            waiting = [self._queue.get()]
            while not self._queue.empty():
                waiting.append(self._queue.get())
            over = None in waiting
            newest = {id(item[0]): item for item in waiting if isinstance(item, tuple)}
            for file, told, _ in newest.values():
                try:
                    file.write(told)
                except StoreError as error:
                    self._tell(partial(self._failed, str(error)))
            for act in waiting:
                if isinstance(act, tuple):
                    self._tell(act[2])
                elif act is not None:
                    act()

    def _tell(self, news: "Callable[[], object] | None") -> None:
        """Have something called in the loop."""
        if news is not None:
            self._news.put(news)
            with suppress(BlockingIOError):  # it rings already
                os.write(self._bell, b"!")

    def _heard(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._ready, 4096)
        while not self._news.empty():
            self._news.get()()
