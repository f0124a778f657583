"""`longwatch logs`: what a run or a harness printed: its log file, else the head and tail that its report keeps.

Of an observed agent it is what the agent did, an event a line: its output is a screen, or records that nobody reads.
All of it is read from files: whoever follows a log is nothing to the run or the daemon that writes it.
"""

import os
import select
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import click

from longwatch.cli import items, kept
from longwatch.cli.agent_events import has_events, parsed, path_of, stored
from longwatch.cli.agent_words import event_line
from longwatch.cli.at_daemon import config_option, daemon_if_any
from longwatch.cli.cleaner import Cleaner
from longwatch.cli.following import LOOK, Follower, Waker, begin_in
from longwatch.cli.kept import Kept, Section
from longwatch.cli.render import emit, fail, note, refuse
from longwatch.errors import LongwatchError
from longwatch.paths import state
from longwatch.posix.capture import text
from longwatch.posix.supervisor import supervisor_of
from longwatch.store.ledger import Ledger
from longwatch.store.queries import Found, ManyRunsError, NoSuchRunError, find, history, last_run, past
from longwatch.store.run_folders import Folder, folders, live_runs

_FOLLOWED_LINES = 10


@click.command("logs")
@click.argument("run", required=False, metavar="[NAME|RUN|PLAN/ITEM]")
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Go on: until the run is over, or of a harness until Ctrl-C. (The output of `run` needs its --log.)",
)
@click.option("-n", "--lines", type=click.IntRange(min=0), help="Only the last lines; 10 with -f, else all.")
@click.option("--raw", is_flag=True, help="The bytes as they came, control sequences too; also of an agent.")
@click.option("--json", "as_json", is_flag=True, help="JSON.")
@config_option
def command(
    run: str | None, follow: bool, lines: int | None, raw: bool, as_json: bool, config: str | None
) -> None:
    """Show the output of a run or a harness, or its agent's events. Without a name: of the run that ended last."""
    if follow and lines is None:
        lines = _FOLLOWED_LINES
    found = _find(run, config)
    folder = _folder_of(found) if isinstance(found, Kept) else found.folder
    if not raw and folder is not None and has_events(folder):
        _show_events(folder, lines, follow=follow, as_json=as_json)
        return
    if isinstance(found, Kept):
        told, chunks = found.told, _kept(found, lines, follow=follow)
    else:
        told, chunks = {"run": found.run}, _of_run(found, lines, follow=follow)
    if as_json:
        _emit_all(told, chunks, follow)
    else:
        _print(chunks, raw)


def _of_run(found: Found, lines: int | None, *, follow: bool) -> Iterator[bytes]:
    log = found.folder.log if found.folder else None
    if follow:
        if found.folder is None or log is None:
            fail(f"{found.run} has no log file; only a run with --log FILE can be followed")
        return _follow(found.folder, log, _FOLLOWED_LINES if lines is None else lines)
    if log is not None and os.path.exists(log):
        return _file(log, lines)
    return iter(_captured(found, log, lines))


def _kept(found: Kept, lines: int | None, *, follow: bool) -> Iterator[bytes]:
    """Yield what is kept of a harness or of one of its runs, and what comes after it if it is followed."""
    section = Section(found.run, shared=found.shared)
    with Follower(found.path) as follower:
        if not found.shared and lines is not None:
            yield from _through(section, follower.last_lines(lines))
        elif lines is not None:
            yield from _newest_lines(_through(section, follower.everything()), lines)
        else:
            yield from _through(section, follower.everything())
        if not section.seen and not follow:
            fail(f"{found.run}: its lines are no longer in the log of {found.harness}")
        if follow:
            yield from _go_on(section, follower)
        yield section.flush()


def _go_on(section: Section, follower: Follower) -> Iterator[bytes]:
    with Waker(follower.path) as waker:
        while True:
            yield from _through(section, follower.read())
            if section.over:
                return
            waker.wait()


def _through(section: Section, chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        yield from section.feed(chunk)


def _newest_lines(lines: Iterable[bytes], count: int) -> Iterator[bytes]:
    yield from deque(lines, maxlen=count)


def _folder_of(found: Kept) -> Folder | None:
    """Return the run folder of the newest run of a harness, or of the run that was named."""
    run = found.last_run
    for folder in folders(state()):
        if folder.run == run or (run is None and folder.name == found.harness):
            return folder
    return None


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
    for event in parsed(_follow(folder, path_of(folder), lines or 0)):
        if as_json:
            emit({"run": folder.run, "event": event})
        else:
            click.echo(event_line(event))


def _find(word: str | None, config: str | None) -> Found | Kept:
    """Return what a word means: a harness of the file in use or its run, a run of the history, a harness elsewhere."""
    item = items.of(word)
    if item is not None:
        return item.log()
    if word is not None and (found := kept.of_file(word, config)) is not None:
        return found
    folder = state()
    with history(folder) as ledger:
        try:
            run = find(folder, ledger, word) if word else _newest(folder, ledger)
        except (NoSuchRunError, ManyRunsError) as error:
            elsewhere = kept.of_any(word) or _silent(word, config) if word else None
            if elsewhere is None:
                refuse(error)
            return elsewhere
        for said in ledger.notes:
            note(said)
    told = run.summary or (run.folder.meta if run.folder else {})
    if told.get("item") and told.get("log"):  # its log has its item's other runs, too
        return Kept(str(told["name"]), str(told["log"]), run.run, shared=True)
    return run


def _silent(word: str, config: str | None) -> Kept | None:
    """Return the log that a harness of a living daemon does not have yet, for it has printed nothing."""
    daemon = daemon_if_any(config)
    if daemon is None:
        return None
    try:
        about = daemon.describe(word)
    except LongwatchError:
        return None
    path = about.get("log")
    return Kept(word, path) if isinstance(path, str) and path else None


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
    if (found.summary or {}).get("termination_reason") == "spawn_failed":
        fail(f"{found.run} could not be started; longwatch why {found.run} tells more")
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
    return data if lines is None else data[begin_in(data, lines) :]


def _file(path: str, lines: int | None) -> Iterator[bytes]:
    """Yield a file as it is, or its last lines; where it was rotated, what came before it is another file."""
    with Follower(path) as follower:
        yield from follower.read() if lines is None else follower.last_lines(lines, older=False)


def _follow(folder: Folder, path: str, lines: int) -> Iterator[bytes]:
    """Yield a log as it grows, also past its rotation, until the run is over."""
    with Follower(path) as follower:
        if follower.error is not None:
            fail(f"{path}: {follower.error.strerror}")
        yield from follower.last_lines(lines, older=False)
        over = False
        while not over:
            over = not _lives_on(folder)
            yield from follower.read()


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
        ready.poll(LOOK)
    finally:
        os.close(descriptor)
    return supervisor.alive()


def _emit_all(told: dict[str, str], chunks: Iterator[bytes], follow: bool) -> None:
    if follow:
        for chunk in chunks:
            emit({**told, "output": chunk.decode("utf-8", "replace")})
    else:
        emit({**told, "output": b"".join(chunks).decode("utf-8", "replace")})


def _print(chunks: Iterator[bytes], raw: bool) -> None:
    out = sys.stdout.buffer
    cleaner = Cleaner()
    for chunk in chunks:
        out.write(chunk if raw else cleaner.feed(chunk))
        out.flush()
    out.write(cleaner.flush())
