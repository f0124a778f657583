"""`longwatch events`: what happened to the harnesses: from the ledger, and followed through their daemon."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from longwatch.cli.at_daemon import answers, config_option, daemon_if_any
from longwatch.cli.render import clean, emit, how_it_ended, note, paint, span, when
from longwatch.cli.runs import moment
from longwatch.config.finding import find as find_file
from longwatch.errors import UsageError
from longwatch.paths import daemon_id, rfc3339, state
from longwatch.store.feed import daemons, feed, newest_of, since_time
from longwatch.store.ledger import Ledger

if TYPE_CHECKING:
    from longwatch.api.client import Daemon

#: How many are shown where nobody says since when.
LIMIT = 50
_NO_DAEMON = 3
#: What every event has, and what is told in words of its own.
_COMMON = ("schema", "seq", "at", "at_ms", "event", "harness", "run", "record", "trimmed")
#: Wall instants and spans, both in ms.
_INSTANTS, _SPANS = ("due", "first", "until"), ("after", "idle", "span", "window")


@click.command("events")
@click.option(
    "--since", metavar="SEQ|WHEN", help="Behind this number; or since a span such as 2h, or an RFC 3339 time."
)
@click.option(
    "--harness", "harnesses", metavar="NAME", multiple=True, help="Only of this harness. Repeatable."
)
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), help=f"Only the newest; {LIMIT} without --since, else all."
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens; needs the daemon.")
@config_option
@click.option("--json", "as_json", is_flag=True, help="JSON, one object a line.")
def command(
    since: str | None,
    harnesses: tuple[str, ...],
    limit: int | None,
    follow: bool,
    config: str | None,
    as_json: bool,
) -> int:
    """Show what happened to the harnesses of a daemon, oldest first."""
    daemon = daemon_if_any(config) if follow else None
    with Ledger(state()) as ledger:
        whose = _whose(ledger, config)
        begin = _begin(ledger, whose, since)
        if limit is not None or (begin is None and daemon is None):
            begin = max(begin or 0, newest_of(ledger, whose, limit or LIMIT, harnesses))
        if daemon is None:
            for event in _stored(ledger, whose, begin or 0, harnesses):
                _tell(event, as_json)
        for text in ledger.notes:
            note(text)
    if daemon is not None:
        _follow(daemon, begin, harnesses, as_json)
        return 0
    if follow:
        note("no daemon answers: these are the events on record, and none will follow")
        return _NO_DAEMON
    return 0


def _whose(ledger: Ledger, config: str | None) -> str:
    """Return the id of the daemon that is meant: of the file, else the only one that has events."""
    try:
        return daemon_id(find_file(config, os.environ, os.getcwd()))
    except UsageError:
        known = daemons(ledger)
        if config is not None or not known:
            raise
        if len(known) > 1:
            from longwatch.api.finding import file_of  # noqa: PLC0415

            files = ", ".join(file_of(each, state()) for each in known)
            raise UsageError(
                f"events of several files are on record; name one with --config: {files}"
            ) from None
        return known[0]


def _begin(ledger: Ledger, whose: str, since: str | None) -> int | None:
    """Return the number behind which the events begin; None where nobody said."""
    if since is None:
        return None
    if since.isdecimal():
        return int(since)
    at = moment("--since", since)
    return 0 if at is None else since_time(ledger, whose, at)


def _stored(ledger: Ledger, whose: str, begin: int, harnesses: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    page = feed(ledger, whose, begin, harnesses=harnesses)
    if page.renewed and page.events:
        note("the ledger was made anew since that number was given: these are all events")
    while True:
        if page.dropped:
            yield {"event": "dropped", "count": page.dropped}
        yield from page.events
        last = page.last
        page = feed(ledger, whose, last, harnesses=harnesses)
        if page.last <= last:
            return


def _follow(daemon: "Daemon", begin: int | None, harnesses: tuple[str, ...], as_json: bool) -> None:
    with answers():
        for event in daemon.events(since=begin, harnesses=harnesses):
            _tell(event, as_json)


def _tell(event: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit(event)
        return
    name = clean(event.get("event"))
    if name == "dropped":
        note(
            f"{event.get('count')} events are missing here: they are kept no more, or nobody could write them"
        )
        return
    words = [when(event.get("at")), paint(clean(event.get("harness") or "-"), "cyan"), name, _details(event)]
    click.echo("  ".join(word for word in words if word))


def _details(event: dict[str, Any]) -> str:
    record = event.get("record")
    words = [clean(event["run"])] if event.get("run") else []
    if isinstance(record, dict):
        words.append(how_it_ended(record))
    words += [
        f"{clean(key)}={clean(_short(_readable(key, value)))}"
        for key, value in event.items()
        if key not in _COMMON and value is not False and value not in (None, "", [], {})
    ]
    return "  ".join(words)


def _readable(key: str, value: object) -> object:
    if not isinstance(value, int):
        return value
    return when(rfc3339(value)) if key in _INSTANTS else span(value) if key in _SPANS else value


def _short(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 200 else text[:199] + "…"
