"""What is kept of a batch between its runs: one file for each workstream, private, and always whole.

    BASE/{lock,asks,report.json}   BASE/state/ID.json   BASE/logs/ID.log   BASE/work/ID

A missing file is a fresh start, without a word; a damaged one is a fresh start that is said aloud, and is set aside.
A file that cannot be written costs its memory and never the run.
"""

import contextlib
import json
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from longwatch.core.workstream import LIFECYCLES, PENDING, removable
from longwatch.paths import ensure
from longwatch.posix.atomic import replace, replace_several

SCHEMA = 1
STATE, LOGS, WORK = "state", "logs", "work"
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def file_name(item: str) -> str:
    """Return an item's id as it stands in paths, which is the id where that is safe; two never become the same name."""
    kept = "".join(c if c in _SAFE else f"~{ord(c):x}~" for c in item)
    return f"~2e~{kept[1:]}" if kept[:1] == "." else kept or "~"


class Workstreams:
    """The kept state of the workstreams of one base folder. `notes` are lines for stderr, each said once.

    Raises StoreError where the folder cannot be made; one that is only `read` need not be there.
    """

    def __init__(self, base: str, *, read: bool = False) -> None:
        self.base = os.path.abspath(base)
        self.notes: list[str] = []
        self._writer: _Writer | None = None
        self._only_read = read
        if read:
            return
        for folder in (self.base, *(os.path.join(self.base, name) for name in (STATE, LOGS, WORK))):
            ensure(folder)

    def path(self, item: str) -> str:
        """Return the file of an item."""
        return os.path.join(self.base, STATE, file_name(item) + ".json")

    def log(self, item: str) -> str:
        """Return the log of an item."""
        return os.path.join(self.base, LOGS, file_name(item) + ".log")

    def work(self, item: str) -> str:
        """Return the folder that is made for an item where it has none of its own."""
        return os.path.join(self.base, WORK, file_name(item))

    def load(self, item: str) -> dict[str, Any] | None:
        """Return what is kept of an item; None where nothing is, or nothing that can be read."""
        path = self.path(item)
        try:
            with open(path, "rb") as file:
                return _checked(json.load(file), item)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.notes.append(f"ERROR {path}: {error.strerror}; {item} starts afresh")
        except ValueError as error:
            if self._only_read:
                return None
            aside = f"{path}.broken-{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}"
            os.rename(path, aside)
            self.notes.append(
                f"ERROR {path} is damaged ({error}); set aside as {aside}, {item} starts afresh"
            )
        return None

    def save(self, state: Mapping[str, Any], *, durable: bool = True) -> bool:
        """Keep the state of an item; False where that failed, which is said, and the run goes on."""
        path = self.path(str(state["id"]))
        if self._writer is not None:
            self._writer.wait_for(os.path.basename(path))
        try:
            replace(path, _encoded(state), durable=durable)
        except OSError as error:
            self._not_kept(path, error)
            return False
        return True

    def save_beside(self, state: Mapping[str, Any], done: Callable[[], object]) -> None:
        """Keep it durably, beside the loop: `done()` is called by `collect`. Also where it failed, which is in `notes`."""
        if self._writer is None:
            self._writer = _Writer(os.path.join(self.base, STATE))
        self._writer.put(os.path.basename(self.path(str(state["id"]))), _encoded(state), done)

    def fileno(self) -> int:
        """Return a descriptor that is readable when `collect` has something to do."""
        if self._writer is None:
            self._writer = _Writer(os.path.join(self.base, STATE))
        return self._writer.ready

    def collect(self) -> None:
        """Tell whoever waits for what is on the disk now."""
        if self._writer is None:
            return
        for name, error, done in self._writer.collect():
            if error is not None:
                self._not_kept(os.path.join(self.base, STATE, name), error)
            done()

    def close(self) -> None:
        """Wait for what is being written."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def _not_kept(self, path: str, error: OSError) -> None:
        self.notes.append(f"ERROR {path}: {error.strerror}; what is known of this item is not kept")

    def forget(self, item: str) -> None:
        """Remove what is kept of an item; its log stays."""
        try:
            os.unlink(self.path(item))
        except FileNotFoundError:
            pass

    def items(self) -> list[dict[str, Any]]:
        """Return all that is kept, oldest first."""
        found = []
        for name in os.listdir(os.path.join(self.base, STATE)):
            if name.endswith(".json"):
                state = self._named(name)
                found += [] if state is None else [state]
        return sorted(found, key=lambda state: (str(state.get("created_at")), str(state["id"])))

    def _named(self, name: str) -> dict[str, Any] | None:
        try:
            with open(os.path.join(self.base, STATE, name), "rb") as file:
                return _checked(json.load(file), None)
        except (OSError, ValueError):
            return None


Done = Callable[[], object]


class _Writer:
    """Writes states in a thread of its own: the loop waits for no disk, and many share the wait."""

    def __init__(self, folder: str) -> None:
        self.jobs: queue.SimpleQueue[tuple[str, bytes, Done] | None] = queue.SimpleQueue()
        self._folder = folder
        self._over: queue.SimpleQueue[tuple[str, OSError | None, Done]] = queue.SimpleQueue()
        self._waiting: dict[str, int] = {}
        self.ready, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._serve, name="states", daemon=True)
        self._thread.start()

    def put(self, name: str, data: bytes, done: Done) -> None:
        self._waiting[name] = self._waiting.get(name, 0) + 1
        self.jobs.put((name, data, done))

    def collect(self) -> list[tuple[str, OSError | None, Done]]:
        with contextlib.suppress(BlockingIOError):
            os.read(self.ready, 1 << 16)
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._over.get_nowait())
        for name, _, _ in found:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name]
        return found

    def wait_for(self, name: str) -> None:
        """Let what is queued of a file come first, so that an older state never replaces a newer one."""
        if name in self._waiting:
            written = threading.Event()
            self.jobs.put((name, b"", written.set))
            written.wait()

    def close(self) -> None:
        self.jobs.put(None)
        self._thread.join()
        os.close(self.ready)
        os.close(self._bell)

    def _serve(self) -> None:
        # Signals are for the thread that waits in the reactor.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        going = True
        while going:
            jobs = [self.jobs.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    jobs.append(self.jobs.get_nowait())
            going = None not in jobs
            self._write([job for job in jobs if job is not None])

    def _write(self, jobs: list[tuple[str, bytes, Done]]) -> None:
        files = {name: data for name, data, _ in jobs if data}
        failed = replace_several(self._folder, files) if files else {}
        for name, data, done in jobs:
            if data:
                self._over.put((name, failed.get(name), done))
            else:
                done()
        if files:
            with contextlib.suppress(BlockingIOError):
                os.write(self._bell, b"!")


def _encoded(state: Mapping[str, Any]) -> bytes:
    lifecycle = str(state["lifecycle"])
    kept = {"schema": SCHEMA, **state, "cleanup_eligible": removable(lifecycle), "updated_at": _now()}
    kept.setdefault("created_at", kept["updated_at"])
    return json.dumps(kept).encode()


def _checked(found: object, item: str | None) -> dict[str, Any]:
    if not isinstance(found, dict) or not isinstance(found.get("id"), str):
        raise ValueError("no state of a workstream")  # noqa: TRY004 - of a file, not of an argument
    if item is not None and found["id"] != item:
        raise ValueError(f"it is that of {found['id']}")
    if found.get("schema", 0) > SCHEMA:
        raise ValueError("a newer longwatch wrote it")
    if found.get("lifecycle", PENDING) not in LIFECYCLES:
        raise ValueError(f"lifecycle {found['lifecycle']!r} is unknown")
    return found


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
