"""`longwatch logs`: what a run printed: its `--log` file, else the head and tail that its report keeps."""

import os
import re
import select
import sys
from collections.abc import Iterator
from typing import Any

import click

from longwatch.cli.render import emit, fail, note, refuse
from longwatch.paths import state
from longwatch.posix.capture import text
from longwatch.posix.supervisor import supervisor_of
from longwatch.store.queries import (
    Folder,
    Found,
    ManyRunsError,
    NoSuchRunError,
    find,
    history,
    last_run,
    past,
)

#: How often a followed file is looked at: a reader's eye is not faster.
LOOK_MS = 200
_BLOCK = 64 * 1024
_FOLLOWED_LINES = 10
# CSI; the strings OSC, DCS, SOS, PM, APC up to their end or the line's; all other escapes.
_SEQUENCE = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\|(?=[\x1b\n]))|[ -/]*[0-OQ-WYZ\\`-~])"
)
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_LONGEST_SEQUENCE = 4096


@click.command("logs")
@click.argument("run", required=False, metavar="[NAME|RUN]")
@click.option("-f", "--follow", is_flag=True, help="Go on until the run is over (needs the run's --log).")
@click.option("-n", "--lines", type=click.IntRange(min=0), help="Only the last lines; 10 with -f, else all.")
@click.option("--raw", is_flag=True, help="The bytes as they came, control sequences too.")
@click.option("--json", "as_json", is_flag=True, help="JSON.")
def command(run: str | None, follow: bool, lines: int | None, raw: bool, as_json: bool) -> None:
    """Show a run's output. Without a name: that of the run that ended last."""
    found = _find(run)
    log = found.folder.log if found.folder else None
    if follow:
        if found.folder is None or log is None:
            fail(f"{found.run} has no log file; only a run with --log FILE can be followed")
        lines = _FOLLOWED_LINES if lines is None else lines
        chunks = _follow(found.folder, log, lines)
    elif log is not None and os.path.exists(log):
        chunks = _file(log, lines)
    else:
        chunks = iter(_captured(found, log, lines))
    if as_json:
        _emit_all(found.run, chunks, follow)
    else:
        _print(chunks, raw)


def _find(run: str | None) -> Found:
    folder = state()
    with history(folder) as ledger:
        try:
            last = None if run else last_run(ledger)
            if run is None and last is None:
                fail("no run is on record yet")
            found = past(folder, ledger, str(last["run"])) if last else find(folder, ledger, str(run))
        except (NoSuchRunError, ManyRunsError) as error:
            refuse(error)
        for said in ledger.notes:
            note(said)
    return found


def _captured(found: Found, log: str | None, lines: int | None) -> list[bytes]:
    """Return head and tail of both streams from the report; ends us with one line where there is none."""
    if found.folder is not None and found.folder.live:
        fail(
            f"{found.run} still runs: only the output of a run with --log FILE can be read before it is over"
        )
    report = found.folder.report() if found.folder else None
    if report is None:
        fail(
            f"{found.run}: no output is kept"
            + (f", and {log} is gone" if log else "; --log FILE would keep it")
        )
    if log is not None:
        note(f"{log} is gone; this is what the report keeps")
    streams = [(name, report.get(name)) for name in ("stdout", "stderr")]
    kept = [(name, stream) for name, stream in streams if isinstance(stream, dict) and stream.get("bytes")]
    parts = []
    for name, stream in kept:
        if len(kept) > 1:
            parts.append(f"==> {name} <==\n".encode())
        parts.append(_last(_whole(stream), lines))
    return parts


def _whole(stream: dict[str, Any]) -> bytes:
    head, tail = (str(stream.get(part) or "").encode("utf-8", "surrogatepass") for part in ("head", "tail"))
    size = stream.get("bytes")
    gap = size - len(head) - len(tail) if stream.get("truncated") and isinstance(size, int) else 0
    shown = text(head, tail, max(gap, 0)).encode("utf-8", "surrogatepass")
    return shown if shown.endswith(b"\n") else shown + b"\n"


def _last(data: bytes, lines: int | None) -> bytes:
    return data if lines is None else data[_begin_in(data, lines) :]


def _begin_in(data: bytes, lines: int) -> int:
    """Return where the last lines begin; the line break at the very end closes one, it begins none."""
    at = len(data) if lines == 0 else len(data) - 1
    for _ in range(lines):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return 0
    return at + 1 if lines else at


def _file(path: str, lines: int | None) -> Iterator[bytes]:
    with open(path, "rb") as log:
        log.seek(_begin_of_last(log.fileno(), lines))
        while chunk := log.read(_BLOCK):
            yield chunk


def _begin_of_last(descriptor: int, lines: int | None) -> int:
    """Return where the last lines of a file begin, reading it from its end."""
    begin = os.fstat(descriptor).st_size
    if lines is None:
        return 0
    data = b""
    while begin > 0 and data[:-1].count(b"\n") < lines:
        step = min(_BLOCK, begin)
        begin -= step
        data = os.pread(descriptor, step, begin) + data
    return begin + _begin_in(data, lines)


def _follow(folder: Folder, path: str, lines: int) -> Iterator[bytes]:
    """Yield a log as it grows, also past its rotation, until the run is over."""
    try:
        log = open(path, "rb")  # noqa: SIM115 - replaced at each rotation
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    try:
        log.seek(_begin_of_last(log.fileno(), lines))
        while True:
            over = not _lives_on(folder)
            while chunk := log.read(_BLOCK):
                yield chunk
            if _replaced(path, log.fileno()):
                log.close()
                log = open(path, "rb")  # noqa: SIM115
            elif over:
                return
    finally:
        log.close()


def _lives_on(folder: Folder) -> bool:
    """Wait a moment, or until the supervisor has ended; return whether it is still there."""
    supervisor = supervisor_of(folder.meta)
    if supervisor is None or not supervisor.alive():
        return False
    try:
        descriptor = os.pidfd_open(supervisor.pid)
    except OSError:
        return False
    try:
        ready = select.poll()
        ready.register(descriptor, select.POLLIN)
        ready.poll(LOOK_MS)
    finally:
        os.close(descriptor)
    return supervisor.alive()


def _replaced(path: str, descriptor: int) -> bool:
    try:
        return os.stat(path).st_ino != os.fstat(descriptor).st_ino
    except OSError:
        return False


def _emit_all(run: str, chunks: Iterator[bytes], follow: bool) -> None:
    if follow:
        for chunk in chunks:
            emit({"run": run, "output": chunk.decode("utf-8", "replace")})
    else:
        emit({"run": run, "output": b"".join(chunks).decode("utf-8", "replace")})


def _print(chunks: Iterator[bytes], raw: bool) -> None:
    out = sys.stdout.buffer
    cleaner = Cleaner()
    for chunk in chunks:
        out.write(chunk if raw else cleaner.feed(chunk))
        out.flush()
    out.write(cleaner.flush())


class Cleaner:
    """Takes control sequences out of a stream: what a program draws must not draw on the reader's terminal.

    Carriage returns become line breaks, so that a progress bar reads as lines.
    """

    def __init__(self) -> None:
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return the chunk's text; what may be half of a sequence waits for the rest."""
        data = self._held + chunk
        cut = self._complete(data)
        self._held = data[cut:]
        return self._clean(data[:cut])

    def flush(self) -> bytes:
        """Return what waited in vain."""
        rest, self._held = self._held, b""
        return self._clean(rest)

    def _complete(self, data: bytes) -> int:
        if data.endswith(b"\r"):
            return len(data) - 1
        at = data.rfind(b"\x1b")
        rest = data[at:] if at >= 0 else b"\n"
        if b"\n" in rest or len(rest) > _LONGEST_SEQUENCE or _SEQUENCE.match(rest):
            return len(data)
        return at

    def _clean(self, data: bytes) -> bytes:
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return _CONTROL.sub(b"", _SEQUENCE.sub(b"", lines))
