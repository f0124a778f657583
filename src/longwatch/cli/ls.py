"""`longwatch ls`: what is watched now, with both clocks: the harnesses of the daemon, and runs from their folders."""

import time
from typing import Any

import click

from longwatch.cli.agent_words import state_of
from longwatch.cli.at_daemon import config_option, daemon_if_any, left_behind
from longwatch.cli.harnesses import HEADS, row
from longwatch.cli.render import clean, emit, note, paint, since, table, when
from longwatch.paths import rfc3339, state
from longwatch.posix import now
from longwatch.posix.clocks import LOOKED, STARTED, Clocks
from longwatch.store.run_folders import Folder, ending, folders
from longwatch.units import ago, format_duration

#: The driver looks every 10 s at least: a supervisor that has not looked for this long is stopped or starved.
UNWATCHED_MS = 30_000
REFRESH = 1.0
#: Limits whose clock a hold masks, of those that can be told from the clocks alone.
_SILENCE = ("idle", "first")
_TOTAL = ("ceiling", "timeout", "soft")
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


@click.command("ls")
@click.option("-a", "--all", "everything", is_flag=True, help="Runs that are over, too.")
@click.option("--watch", is_flag=True, help="Show it anew every second.")
@config_option
@click.option("--json", "as_json", is_flag=True, help="JSON; with --watch one line a second.")
def command(everything: bool, watch: bool, config: str | None, as_json: bool) -> None:
    """List what is watched, with both clocks: since when alive, and progress how long ago."""
    while True:
        notes: list[str] = []
        told = _asked(config, notes)
        found = [folder for folder in folders(state(), notes) if everything or folder.live]
        if watch and not as_json:
            click.echo(_CLEAR, nl=False)
        _show(told, found, as_json)
        for text in notes:
            note(text)
        if not watch:
            return
        time.sleep(REFRESH)


def _asked(config: str | None, notes: list[str]) -> dict[str, Any] | None:
    """Return what the daemon tells of its harnesses; None where there is none, or it does not answer."""
    from longwatch.api.client import DaemonError  # noqa: PLC0415 - only where there may be a daemon

    try:
        daemon = daemon_if_any(config)
        if daemon is not None:
            return daemon.status()
        left = left_behind(config)
        if left is not None:
            notes.append(
                f"no daemon answers for {left}; what it has started runs on, longwatch up goes on with it"
            )
    except DaemonError as error:
        notes.append(f"{error}; this is what the run folders say")
    return None


def _show(told: dict[str, Any] | None, found: list[Folder], as_json: bool) -> None:
    harnesses = [] if told is None else told["harnesses"]
    of_daemon = {harness.get("run") for harness in harnesses if harness.get("pid")}
    others = [folder for folder in found if folder.run not in of_daemon]
    if as_json:
        known = {} if told is None else {"daemon": told.get("daemon"), "harnesses": harnesses}
        source = "run folders" if told is None else "daemon and run folders"
        emit({"from": source, **known, "runs": [describe(folder) for folder in others]})
        return
    if harnesses:
        click.echo(table(HEADS, [row(harness) for harness in harnesses]))
    if harnesses and others:
        click.echo()
    if others:
        heads = ("RUN", "PID", "UP", "ALIVE", "PROGRESS", "STATE", "LIMITS", "SOURCES")
        click.echo(table(heads, [_row(folder) for folder in others]))
    if not harnesses and not others:
        note("nothing is watched")
    for text in [] if told is None else (told.get("daemon") or {}).get("problems") or []:
        note(clean(text))


def describe(folder: Folder) -> dict[str, Any]:
    """Return what is known of a run from its folder: both clocks, sources, holds, limits, its agent; spans in ms."""
    meta, agent = folder.meta, folder.agent()
    known: dict[str, Any] = {
        "run": folder.run,
        "name": folder.name,
        "item": meta.get("item"),
        "attempt": meta.get("attempt", 1),
        "parent": meta.get("parent"),
        "live": folder.live,
        "state": _state(folder, agent),
        "pid": meta.get("pid"),
        "child_pid": meta.get("child_pid"),
        "host": meta.get("host"),
        "placed": meta.get("placed"),
        "program": meta.get("program"),
        "cwd": meta.get("cwd"),
        "started_at": meta.get("started_at"),
        "log": folder.log,
        "agent": agent,
        **_clocks(folder),
    }
    if not folder.live:
        summary = ending(folder)
        known |= {
            key: summary.get(key) for key in ("termination_reason", "outcome", "exit_code", "duration_ms")
        }
    return known


def _clocks(folder: Folder) -> dict[str, Any]:
    """Return what the mapped clocks tell; nothing where they cannot be read or are another machine's."""
    clocks = folder.clocks
    if clocks is None or not folder.here:
        return {}
    moment = now() if folder.live else max(clocks.header[LOOKED], folder.seen_alive())
    wall = time.time_ns() // 1_000_000 - now()
    sources = {
        name: {
            **seen,
            "last_at": None if seen["last_ms_ago"] is None else rfc3339(wall + moment - seen["last_ms_ago"]),
        }
        for name, seen in folder.sources().items()
    }
    return {
        "age_ms": moment - clocks.header[STARTED],
        "alive_ms_ago": _back(moment, folder.seen_alive()),
        "progress_ms_ago": _back(moment, folder.progressed()),
        "looked_ms_ago": _back(moment, clocks.header[LOOKED]),
        "sources": sources,
        "holds": list(clocks.holds),
        "limits": {
            name: {**limit, "remaining_ms": _remaining(folder, name, limit, moment)}
            for name, limit in folder.limits.items()
        },
    }


def _back(moment: int, stamp: int) -> int | None:
    return moment - stamp if stamp else None


def _remaining(folder: Folder, name: str, limit: dict[str, Any], moment: int) -> int | None:
    """Return what is left of a limit, as far as folder and events tell; None while held, or when they do not."""
    window, clocks = limit.get("window_ms"), folder.clocks
    if not window or clocks is None or not folder.live:
        return None
    begun = clocks.header[STARTED]
    events = folder.events()
    if name in _TOTAL:
        due = begun - _number(limit, "spent_ms") + int(window) + _granted(events, name, begun)
    elif name in _SILENCE and not clocks.holds and not (name == "first" and folder.progressed()):
        moved = max(
            folder.progressed(), begun, *(_at(event) for event in events if _is(event, "hold_ended")), 0
        )
        lapses = sum(_span(event) for event in events if _is(event, "lapse") and _at(event) >= moved)
        due = moved + lapses + int(window)
    else:
        return None
    return max(0, due - moment)


def _granted(events: list[dict[str, Any]], name: str, since: int) -> int:
    """Return by how much pauses of the provider have moved a limit of this incarnation."""
    grants = [
        _number(e, "total")
        for e in events
        if _is(e, "extension_granted") and e.get("limit") == name and _at(e) >= since
    ]
    return grants[-1] if grants else 0


def _is(event: dict[str, Any], name: str) -> bool:
    return event.get("event") == name


def _number(event: dict[str, Any], key: str) -> int:
    found = event.get(key)
    return found if isinstance(found, int) else 0


def _at(event: dict[str, Any]) -> int:
    return _number(event, "mono_ms")


def _span(event: dict[str, Any]) -> int:
    return _number(event, "span")


def _state(folder: Folder, agent: dict[str, Any] | None) -> str:
    """Return what the run is about: what its agent does or what it is held by, or that nobody looks at it."""
    if not folder.live:
        summary = ending(folder)
        return f"{summary.get('outcome')} ({summary.get('termination_reason')})"
    if not folder.here:
        return f"on {folder.meta.get('host')}"
    clocks = folder.clocks
    if clocks is None:
        return "unknown"
    unwatched = _back(now(), clocks.header[LOOKED])
    if unwatched is not None and unwatched > UNWATCHED_MS:
        return f"unwatched for {ago(unwatched)}"
    busy = _busy(folder, clocks, agent)
    return f"{busy} on {folder.meta['placed']}" if folder.meta.get("placed") else busy


def _busy(folder: Folder, clocks: Clocks, agent: dict[str, Any] | None) -> str:
    if clocks.state != "running":
        return _parked(folder) if clocks.state == "parked" else clocks.state
    if agent and not agent.get("pending") and "quiet" not in clocks.holds:
        return state_of(agent)
    if clocks.holds:
        return "held: " + ", ".join("no source seen" if hold == "blind" else hold for hold in clocks.holds)
    return clocks.state


def _parked(folder: Folder) -> str:
    """Return until when nothing of the run runs."""
    parked = folder.meta.get("parked")
    until = parked.get("until") if isinstance(parked, dict) else None
    return f"parked until {when(until, brief=True)}" if until else "parked"


def _row(folder: Folder) -> list[str]:
    known = describe(folder)
    read = "age_ms" in known
    return [
        paint(clean(known["item"] or folder.run), "green") if folder.live else paint(folder.run, "white"),
        str(known["child_pid"] or "-") if folder.live else "-",
        ago(known["age_ms"]) if read else "?",
        since(known["alive_ms_ago"]) if read else "?",
        since(known["progress_ms_ago"]) if read else "?",
        clean(known["state"]),
        ", ".join(limit_text(name, limit) for name, limit in known.get("limits", {}).items()) or "-",
        ", ".join(source_text(name, seen) for name, seen in known.get("sources", {}).items()) or "-",
    ]


def limit_text(name: str, limit: dict[str, Any]) -> str:
    """Return a limit with what is left of it, where that is known."""
    window = limit.get("window_ms")
    text = f"{name} {format_duration(window)}" if isinstance(window, int) else name
    left = limit.get("remaining_ms")
    if left is None:
        return text
    return f"{text} ({ago(left)} left)" if left else f"{text} (reached)"


def source_text(name: str, seen: dict[str, Any]) -> str:
    """Return a source and when it moved last."""
    return f"{clean(name)} {since(seen['last_ms_ago'], 'never seen')}"
