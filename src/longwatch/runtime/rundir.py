"""One run's folder: what readers see of a live run, what is left of an ended one, and the channel back to it.

    meta.json     who runs what since when; written anew for each incarnation, and for the wait between two
    clocks        a small mapped file: the supervisor stores integers, readers look, nobody waits
    events.jsonl  one fact a line
    report.json   written whole when the run is over; a folder without it and without its supervisor: interrupted
    report-N.json the same of an incarnation that was followed by another one
    channel       lines appended by `quiet`, `stop`, `checkpoint` and `hook`, read by the supervisor when a limit is due
    agent.json    how an observed agent stands; agent.jsonl (and agent.jsonl.1) what it did: see `agent_log`

After `create` nothing here raises: a full disk must not end a supervised run. The first failure stays in
`RunDir.failed`, for the one note that the caller prints.
"""

import os
import time

from longwatch.errors import StoreError
from longwatch.jsonlean import dumps, parse_object
from longwatch.paths import ensure, is_run_id, rfc3339, run_folder, runs_folder
from longwatch.posix import now, wall_of
from longwatch.posix.clocks import MAX_SOURCES, Clocks
from longwatch.posix.identity import Identity
from longwatch.posix.supervisor import lives

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCHEMA = 1
KEEP_RUNS = 200
KEEP_DAYS = 30
KEEP_BYTES = 256 * 1024 * 1024
#: Pruning lists the folder; done for every 20th run it costs nothing that anybody notices.
PRUNE_SLACK = 20

_FILES = (
    "meta.json", ".meta.new", "clocks", "events.jsonl", "report.json", ".report.new", "channel", "agent.json",
    ".agent.new", "agent.jsonl", "agent.jsonl.1",
)  # fmt: skip
#: A folder under this name is still being made, or was when its maker died.
_BEGUN = ".new-"
_CHANNEL_CHUNK = 64 * 1024


class RunDir:
    """The folder of a live run, as its supervisor holds it. `failed` is the first thing that went wrong, or None."""

    __slots__ = ("_channel", "_channel_offset", "_events", "_seq", "clocks", "failed", "path", "run")

    def __init__(self, path: str, run: str, clocks: Clocks) -> None:
        self.path = path
        self.run = run
        self.clocks = clocks
        self.failed: str | None = None
        #: Opened for each event: they are few, and of folders a daemon has thousands.
        self._events = os.path.join(path, "events.jsonl")
        self._seq = 0
        self._channel = -1
        self._channel_offset = 0

    @classmethod
    def create(cls, state_folder: str, meta: "Mapping[str, object]", started: int) -> "RunDir":
        """Make the folder of the run that `meta` (see `meta`) describes; it appears complete or not at all.

        `started` is the run's start on the watch's clock. Raises StoreError with one line: read-only, full, taken.
        """
        run = str(meta["run"])
        final = run_folder(state_folder, run)
        begun = os.path.join(os.path.dirname(final), _BEGUN + os.path.basename(final))
        ensure(runs_folder(state_folder))
        try:
            os.mkdir(begun, 0o700)
            _write(os.path.join(begun, "meta.json"), dumps(meta).encode())
            clocks = Clocks.create(os.path.join(begun, "clocks"), started)
            _write(os.path.join(begun, "events.jsonl"), b"")
            os.rename(begun, final)
        except OSError as error:
            _remove(begun)
            raise StoreError(
                f"{final}: no run folder, `ls` and `why` see nothing: {error.strerror}"
            ) from error
        return cls(final, run, clocks)

    @classmethod
    def reopen(cls, state_folder: str, run: str) -> "RunDir":
        """Take up the folder of a run that another supervisor has left. Raises StoreError where it cannot be gone on with."""
        path = run_folder(state_folder, run)
        try:
            clocks = Clocks.remap(os.path.join(path, "clocks"))
            folder = cls(path, run, clocks)
            folder._count_events()
        except OSError as error:
            raise StoreError(f"{path}: cannot be gone on with: {error.strerror}") from error
        return folder

    def _count_events(self) -> None:
        """Go on with the next number; a line that was torn is ended first."""
        events = os.open(self._events, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            last, at = b"\n", 0
            while chunk := os.pread(events, 1 << 16, at):
                self._seq += chunk.count(b"\n")
                at += len(chunk)
                last = chunk[-1:]
            if last != b"\n":
                self._seq += 1
                os.write(events, b"\n")
        finally:
            os.close(events)

    @property
    def channel_path(self) -> str:
        """The file that `quiet` and `stop` append to; it need not exist yet."""
        return os.path.join(self.path, "channel")

    def append_event(self, fields: "Mapping[str, object]") -> bool:
        """Append one fact; `fields` holds at least `event` and `mono_ms`. Adds schema, seq and at; False on failure."""
        self._seq += 1
        at = rfc3339(wall_of(_integer(fields.get("mono_ms"))))
        ours = {"schema": SCHEMA, "seq": self._seq, "at": at}
        line = dumps({**ours, **fields, **ours}).encode() + b"\n"
        try:
            events = os.open(self._events, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                written = os.write(events, line)
            finally:
                os.close(events)
        except OSError as error:
            return self.fail("events.jsonl", error.strerror)
        return written == len(line) or self.fail("events.jsonl", "the disk is full")

    def write_report(self, report: "Mapping[str, object]", *, over: bool = True) -> bool:
        """Write the report whole: it is there or it is not. False on failure. Not `over`: another incarnation follows."""
        return self._replace(
            "report.json" if over else f"report-{report['attempt']}.json", ".report.new", report
        )

    def write_meta(self, meta: "Mapping[str, object]") -> bool:
        """Say anew who runs what since when; False on failure."""
        return self._replace("meta.json", ".meta.new", meta)

    def write_agent(self, standing: "Mapping[str, object]") -> bool:
        """Show how the run's agent stands; False on failure."""
        return self._replace("agent.json", ".agent.new", standing)

    def renew(self, meta: "Mapping[str, object]", started: int) -> None:
        """Go on with the next incarnation of the same run."""
        self.clocks.restart(started)
        self.write_meta(meta)

    def _replace(self, name: str, begun: str, content: "Mapping[str, object]") -> bool:
        path = os.path.join(self.path, begun)
        try:
            _write(path, dumps(content).encode())
            os.rename(path, os.path.join(self.path, name))
        except OSError as error:
            return self.fail(name, error.strerror)
        return True

    def channel(self) -> "list[dict[str, object]]":
        """Return the messages that came since the last call; a line still being written waits for its end.

        A line that is no JSON object is passed over: whoever may write here may also stop us.
        """
        if self._channel < 0:
            try:
                self._channel = os.open(self.channel_path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return []
        messages = []
        for line in self._channel_lines():
            message = parse_object(line)
            if message is not None:
                messages.append(message)
        return messages

    def _channel_lines(self) -> list[bytes]:
        data = b""
        try:
            while chunk := os.pread(self._channel, _CHANNEL_CHUNK, self._channel_offset + len(data)):
                data += chunk
        except OSError as error:
            self.fail("channel", error.strerror)
        whole, newline, _ = data.rpartition(b"\n")
        self._channel_offset += len(whole) + len(newline)
        return [line for line in whole.split(b"\n") if line]

    def close(self) -> None:
        """Close what is open. The folder stays."""
        if self._channel >= 0:
            os.close(self._channel)
        self._channel = -1
        self.clocks.close()

    def fail(self, what: str, why: str | None) -> bool:
        """Note the first thing that could not be written; return False."""
        if self.failed is None:
            self.failed = f"{os.path.join(self.path, what)}: {why}"
        return False


def meta(
    run: str,
    name: str,
    command: "Sequence[str]",
    supervisor: Identity,
    child: Identity,
    *,
    attempt: int = 1,
    parent: str | None = None,
    cwd: str | None = None,
    started_ms: int,
    limits: "Mapping[str, Mapping[str, object]]",
    sources: "Sequence[str]",
    log: str | None = None,
    preset: str | None = None,
) -> dict[str, object]:
    """Return what meta.json holds. `command` is what may be recorded of it: see `options.recorded`.

    `started_ms` is on CLOCK_BOOTTIME; `limits` is {name: {"window_ms", "action", "source"}}; `log` an absolute path.
    """
    return {
        "schema": SCHEMA,
        "run": run,
        "name": name,
        "attempt": attempt,
        "parent": parent,
        "pid": supervisor.pid,
        "start": supervisor.start,
        "boot": supervisor.boot,
        "host": os.uname().nodename,
        "child_pid": child.pid,
        "child_start": child.start,
        "program": command[0],
        "flags": list(command[1:]),
        "cwd": cwd,
        "started_at": rfc3339(wall_of(started_ms)),
        "started_boot_ms": started_ms,
        "limits": limits,
        "sources": list(sources[:MAX_SOURCES]),
        "log": log,
        "preset": preset,
    }


def _integer(value: object) -> int:
    return value if isinstance(value, int) else now()


def _write(path: str, data: bytes) -> None:
    """Write a whole file, 0600. Raises OSError, also when the disk took only a part."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def read_object(path: str) -> "dict[str, object] | None":
    """Return the JSON object that a file holds; None when it is missing, torn or something else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = b""
        while chunk := os.read(descriptor, 1 << 20):
            data += chunk
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return parse_object(data)


def gc(state_folder: str, *, moment: float | None = None, live: int = 0) -> int:
    """Prune run folders when it is worth it: past 220 of them beside those of `live` runs, or once a day.

    Kept are the newest 200, for 30 days, within 256 MB; a live run's folder and whatever is not ours always, without
    being counted. Returns how many went. Never raises.
    """
    folder = runs_folder(state_folder)
    moment = time.time() if moment is None else moment
    try:
        names = [name for name in os.listdir(folder) if is_run_id(name.removeprefix(_BEGUN))]
        if len(names) - live <= KEEP_RUNS + PRUNE_SLACK and not _first_today(folder, moment):
            return 0
        return _prune(folder, names, moment)
    except OSError:
        return 0


def _first_today(folder: str, moment: float) -> bool:
    mark = os.path.join(folder, ".pruned")
    try:
        if os.stat(mark).st_mtime // 86400 == moment // 86400:
            return False
    except FileNotFoundError:
        os.close(os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    os.utime(mark, (moment, moment))
    return True


def _prune(folder: str, names: list[str], moment: float) -> int:
    aged = []
    for name in names:
        path = os.path.join(folder, name)
        changed, size = _measure(path)
        aged.append((changed, size, path))
    aged.sort(reverse=True)
    kept = total = pruned = 0
    for changed, size, path in aged:
        if not os.path.exists(os.path.join(path, "report.json")) and _lives(path):
            continue
        kept += 1
        total += size
        if kept <= KEEP_RUNS and total <= KEEP_BYTES and moment - changed <= KEEP_DAYS * 86400:
            continue
        pruned += _remove(path)
    return pruned


def _lives(folder: str) -> bool:
    described = read_object(os.path.join(folder, "meta.json"))
    return described is not None and lives(described)


def _measure(folder: str) -> tuple[float, int]:
    """Return when a run folder changed last and the bytes in it."""
    size = 0
    changed = os.lstat(folder).st_mtime
    for name in _own(folder):
        try:
            found = os.lstat(os.path.join(folder, name))
        except OSError:
            continue
        size += found.st_size
        changed = max(changed, found.st_mtime)
    return changed, size


def _own(folder: str) -> list[str]:
    """Return the names in a folder that we may have given."""
    try:
        reports = [name for name in os.listdir(folder) if _is_earlier_report(name)]
    except OSError:
        reports = []
    return [*_FILES, *reports]


def _is_earlier_report(name: str) -> bool:
    return name.startswith("report-") and name.endswith(".json") and name[7:-5].isdigit()


def _remove(folder: str) -> bool:
    """Remove a run folder by the names that we gave; False where anything else is in it, which stays."""
    try:
        for name in _own(folder):
            try:
                os.unlink(os.path.join(folder, name))
            except FileNotFoundError:
                continue
        os.rmdir(folder)
    except OSError:
        return False
    return True
