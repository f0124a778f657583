"""`longwatch logs`: what a run printed: its `--log` file, else the head and tail that its report keeps.

Of an observed agent it is what the agent did, an event a line: its output is a screen, or records that nobody reads.
"""

import os
import re
import select
import sys
from collections.abc import Iterator
from typing import Any

import click

from longwatch.cli.agent_events import has_events, parsed, path_of, stored
from longwatch.cli.agent_words import event_line
from longwatch.cli.render import emit, fail, note, refuse
from longwatch.paths import state
from longwatch.posix.capture import text
from longwatch.posix.supervisor import supervisor_of
from longwatch.store.ledger import Ledger
from longwatch.store.queries import (
    Folder,
    Found,
    ManyRunsError,
    NoSuchRunError,
    find,
    history,
    last_run,
    live_runs,
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
@click.option(
    "-f", "--follow", is_flag=True, help="Go on until the run is over (output needs the run's --log)."
)
@click.option("-n", "--lines", type=click.IntRange(min=0), help="Only the last lines; 10 with -f, else all.")
@click.option("--raw", is_flag=True, help="The bytes as they came, control sequences too; also of an agent.")
@click.option("--json", "as_json", is_flag=True, help="JSON.")
def command(run: str | None, follow: bool, lines: int | None, raw: bool, as_json: bool) -> None:
    """Show a run's output, or its agent's events. Without a name: those of the run that ended last."""
    found = _find(run)
    if not raw and found.folder is not None and has_events(found.folder):
        newest = _FOLLOWED_LINES if follow and lines is None else lines
        _show_events(found.folder, newest, follow=follow, as_json=as_json)
        return
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


def _show_events(folder: Folder, lines: int | None, *, follow: bool, as_json: bool) -> None:
    if not follow:
        events = stored(folder, lines)
        if as_json:
            emit({"run": folder.run, "events": events})
        else:
            click.echo("".join(event_line(event) + "\n" for event in events), nl=False)
        return
    while not os.path.exists(path_of(folder)):
        if not _lives_on(folder):
            return
    for event in parsed(_follow(folder, path_of(folder), lines)):
        if as_json:
            emit({"run": folder.run, "event": event})
        else:
            click.echo(event_line(event))


def _find(run: str | None) -> Found:
    folder = state()
    with history(folder) as ledger:
        try:
            found = find(folder, ledger, run) if run else _newest(folder, ledger)
        except (NoSuchRunError, ManyRunsError) as error:
            refuse(error)
        for said in ledger.notes:
            note(said)
    return found


def _newest(folder: str, ledger: Ledger) -> Found:
    """Return the run that ended last, or the one that runs where none has ended yet."""
    last = last_run(ledger)
    if last is not None:
        return past(folder, ledger, str(last["run"]))
    live = live_runs(folder)
    if not live:
        fail("no run is on record yet")
    return Found(live[0].run, live[0], None)


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


def _follow(folder: Folder, path: str, lines: int | None) -> Iterator[bytes]:
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


def _is_whole(sequence: bytes) -> bool:
    """Whether it has its end, that of its line, or none that is worth waiting for."""
    ended = b"\n" in sequence or b"\r" in sequence or len(sequence) > _LONGEST_SEQUENCE
    return ended or _SEQUENCE.match(sequence) is not None


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
        """Return up to where the bytes mean the same whatever comes next."""
        # A carriage return at the end may be the first half of a line break.
        end = len(data) - data.endswith(b"\r")
        at = data.rfind(b"\x1b", 0, end)
        if at < 0 or _is_whole(data[at:end]):
            return end
        # A string before it may end only where this one begins: they belong together.
        while (before := data.rfind(b"\x1b", 0, at)) >= 0 and not _is_whole(data[before:at]):
            at = before
        return at

    def _clean(self, data: bytes) -> bytes:
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return _CONTROL.sub(b"", _SEQUENCE.sub(b"", lines))
