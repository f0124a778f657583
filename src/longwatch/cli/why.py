"""`longwatch why`: what ended a run, whose fault it was, what is left and how to go on; or what it waits for now."""

import time
from collections.abc import Mapping
from typing import Any

import click

from longwatch.cli import agent_words, items, ls
from longwatch.cli.at_daemon import config_option, daemon_if_any, harness_line
from longwatch.cli.render import (
    clean,
    emit,
    fail,
    how_it_ended,
    instant,
    note,
    paint,
    refuse,
    since,
    span,
    when,
)
from longwatch.config.limits import key_of
from longwatch.core.outcomes import LIMITED
from longwatch.paths import state
from longwatch.posix.identity import identity
from longwatch.store.entries import RUNNING
from longwatch.store.ledger import Ledger
from longwatch.store.queries import Found, ManyRunsError, NoSuchRunError, find, history, last_run, past
from longwatch.store.run_folders import Folder, ending, live_runs
from longwatch.units import ago

_INDENT = 12


@click.command("why")
@click.argument("run", required=False, metavar="[NAME|RUN|PLAN/ITEM]")
@config_option
@click.option("--json", "as_json", is_flag=True, help="JSON, with the whole report.")
def command(run: str | None, config: str | None, as_json: bool) -> None:
    """Say why a run ended, or what it waits for now. Without a name: the run that ended last."""
    folder = state()
    item = items.of(run)
    if item is not None:
        if item.run is None or item.state().get("reason") == "spawn_failed":
            _tell_unstarted(item, as_json)
            return
        run = item.run
    harness = None if item is not None else _harness(run, config)
    if harness is not None and not as_json:
        click.echo(paint(harness_line(harness, config), "cyan"))
    with history(folder) as ledger:
        try:
            found = find(folder, ledger, run) if run else _last(folder, ledger)
        except (NoSuchRunError, ManyRunsError) as error:
            if item is not None:  # it began a moment ago
                _tell_unstarted(item, as_json)
                return
            if harness is None:
                refuse(error)
            found = None
        for text in ledger.notes:
            note(text)
    if found is None:
        _without_run(harness, as_json)
    elif found.folder is not None and found.folder.live:
        _tell_live(found.folder, as_json, harness)
    else:
        _tell_past(found, as_json, harness)


def _tell_unstarted(item: items.Item, as_json: bool) -> None:
    """Say why an item of a batch has no run: it waits, was left out, or could not be started."""
    kept = item.state()
    if as_json:
        emit({"live": False, "run": kept.get("run"), "report": None, "item": kept})
        return
    click.echo(paint(item.title, "cyan"))
    _tell("state", [clean(kept.get("lifecycle"))])
    why = kept.get("error") or kept.get("left_out")
    _tell("cause", [clean(why)] if why else [])


def _harness(name: str | None, config: str | None) -> dict[str, Any] | None:
    """Return how the harness of this name stands; None where no daemon answers, or it has none of that name."""
    from longwatch.api.client import DaemonError  # noqa: PLC0415 - only where a daemon may answer

    daemon = daemon_if_any(config) if name else None
    try:
        return None if daemon is None or name is None else daemon.describe(name)
    except DaemonError:
        return None


def _without_run(harness: dict[str, Any] | None, as_json: bool) -> None:
    if harness is None:
        fail("no run is on record yet")
    if as_json:
        emit({"live": False, "run": None, "report": None, "harness": harness})
    else:
        _tell("runs", ["none is on record yet"])


def _last(folder: str, ledger: Ledger) -> Found | None:
    summary = last_run(ledger)
    if summary is not None:
        return past(folder, ledger, str(summary["run"]))
    live = live_runs(folder)
    return Found(live[0].run, live[0], None) if live else None


def _tell_past(found: Found, as_json: bool, harness: dict[str, Any] | None) -> None:
    report = found.folder.report() if found.folder else None
    report = report or found.summary or (ending(found.folder) if found.folder else {})
    if as_json:
        emit({"live": False, "run": found.run, "report": report, **_of(harness)})
        return
    known = found.folder.meta if found.folder else report
    command_line = _command_line(known)
    click.echo(paint(found.run, "cyan") + (f"  {command_line}" if command_line else ""))
    for head, lines in _story(report, of_file=bool(known.get("harness") or known.get("item"))):
        _tell(head, lines)


def _tell(head: str, lines: list[str]) -> None:
    """Print lines under each other, the first one behind its head."""
    for index, line in enumerate(lines):
        click.echo(f"  {head if index == 0 else '':<{_INDENT - 2}}{line}")


def _story(report: Mapping[str, Any], *, of_file: bool) -> list[tuple[str, list[str]]]:
    """Return what is told of a run that is over: heads and their lines. `of_file`: its limits are keys, no options."""
    return [
        ("running" if report.get("outcome") == RUNNING else "ended", [how_it_ended(report), _times(report)]),
        ("cause", _cause(report)),
        *agent_words.story(report.get("agent")),
        ("stopped", _stopped(report)),
        ("left", _left(report)),
        ("note", [clean(text) for text in report.get("notes") or ()]),
        ("go on", _go_on(report, of_file=of_file)),
    ]


def _times(report: Mapping[str, Any]) -> str:
    begun, took = instant(report.get("started_at")), report.get("duration_ms")
    if report.get("termination_reason") == "spawn_failed":
        return f"tried {when(report.get('started_at'))}"
    text = f"started {when(report.get('started_at'))}"
    if took is not None:
        text += f", ran for {span(took)}"
    if begun is not None and isinstance(took, int):
        text += f", ended {ago(round((time.time() - begun.timestamp()) * 1000) - took)} ago"
    return text


def _cause(report: Mapping[str, Any]) -> list[str]:
    post_mortem = report.get("post_mortem")
    found = post_mortem if isinstance(post_mortem, dict) else {"diagnosis": report.get("diagnosis")}
    diagnosis = found.get("diagnosis")
    # The diagnosis of a run that was found without a report is what ended it: it has been said.
    said = report.get("termination_reason") == "interrupted" and not isinstance(post_mortem, dict)
    lines = [clean(diagnosis)] if diagnosis and not said else []
    return lines + [clean(line) for line in found.get("lines") or ()]


def _stopped(report: Mapping[str, Any]) -> list[str]:
    stopped = report.get("stopped")
    if not isinstance(stopped, dict):
        return []
    return [f"by {clean(stopped.get('how'))}, over in {span(stopped.get('ms'))}"]


def _left(report: Mapping[str, Any]) -> list[str]:
    survivors = report.get("survivors") or []
    leftovers = report.get("leftovers")
    found = leftovers if isinstance(leftovers, dict) else {}
    lines = [f"still alive: {clean(', '.join(map(str, survivors)))}"] if survivors else []
    if found.get("count"):
        what = "kept as you asked" if found.get("kept") else "stopped"
        names = clean(", ".join(map(str, found.get("processes") or ())))
        lines.append(f"{found['count']} left behind by the program, {what}: {names}")
    if not lines and report.get("proof"):
        lines = [f"nothing of it is alive (proof: {clean(report['proof'])})"]
    return lines


def _go_on(report: Mapping[str, Any], *, of_file: bool) -> list[str]:
    lines = [clean(report["resume"])] if report.get("resume") else []
    limit = report.get("limit")
    name = limit.get("name") if isinstance(limit, dict) else None
    if report.get("termination_reason") in LIMITED and name:
        longer = f"{key_of(clean(name))} in its file" if of_file else f"--{clean(name)}"
        lines.append(f"was it at work? give it longer with {longer}")
    output = [report.get("stdout"), report.get("stderr")]
    if any(isinstance(stream, dict) and stream.get("bytes") for stream in output):
        shows = "what it did, with --raw what it printed" if report.get("agent") else "what it printed"
        lines.append(f"longwatch logs {clean(report.get('run'))} shows {shows}")
    return lines


def _command_line(meta: Mapping[str, Any]) -> str:
    program = meta.get("program")
    flags = meta.get("flags")
    words = [str(program)] if program else []
    return clean(" ".join(words + [str(flag) for flag in (flags if isinstance(flags, list) else [])]))


def _of(harness: dict[str, Any] | None) -> dict[str, Any]:
    return {} if harness is None else {"harness": harness}


def _tell_live(folder: Folder, as_json: bool, harness: dict[str, Any] | None) -> None:
    known = ls.describe(folder)
    post_mortem = _look(folder)
    if as_json:
        emit({"live": True, **known, "post_mortem": post_mortem, **_of(harness)})
        return
    click.echo(paint(folder.run, "green") + f"  {_command_line(folder.meta)}")
    lines = {
        "running": f"for {ago(known.get('age_ms', 0))}, pid {known['child_pid']}{_beside(known['state'])}",
        "progress": f"{since(known.get('progress_ms_ago'))}; alive {since(known.get('alive_ms_ago'))}",
        "sources": ", ".join(ls.source_text(name, seen) for name, seen in known.get("sources", {}).items()),
        "limits": ", ".join(ls.limit_text(name, limit) for name, limit in known.get("limits", {}).items()),
    }
    for head, line in lines.items():
        _tell(head, [line] if line else [])
    for head, told in agent_words.story(known["agent"]):
        _tell(head, told)
    _tell("waits for", _cause({"post_mortem": post_mortem}))


def _beside(state: object) -> str:
    """Return the state of a run, where it is another than that it runs."""
    return "" if state == "running" else f", {clean(state)}"


def _look(folder: Folder) -> dict[str, Any] | None:
    """Return what the program waits for at this moment; None when it cannot be looked at from here."""
    # Reads half of /proc: loaded only where it is asked for.
    from longwatch.posix.postmortem import capture  # noqa: PLC0415

    pid = folder.meta.get("child_pid")
    if not folder.here or not isinstance(pid, int):
        return None
    who = identity(pid)
    if who is None or who.start != folder.meta.get("child_start"):
        return None
    found: dict[str, Any] = capture(pid).as_dict()
    return found
