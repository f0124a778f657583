"""`longwatch suggest`: windows that fit what this user's agents have done so far, and how often they would be wrong."""

import os
import re
import time
from fractions import Fraction
from types import ModuleType

import click

from longwatch import presets
from longwatch.cli.asleep import asleep
from longwatch.cli.render import FAILED, duration, emit, note
from longwatch.cli.suggested import Answer, page, record
from longwatch.errors import StoreError, UsageError
from longwatch.learn.suggest import History, Sleeps
from longwatch.observe.record import instant
from longwatch.paths import state
from longwatch.preset_table import PRESETS, Preset
from longwatch.store.queries import history, runs
from longwatch.units import shown

_MISSING = "suggest needs the package msgspec; install it with: pip install 'longwatch[all]'"
_RATE = re.compile(r"(\d{1,9}/\d{1,9}|0?\.\d{1,9})", re.ASCII)
#: More runs than these are not asked for when a session's first record came.
_RUNS = 10_000
Starts = dict[tuple[str, str], list[int]]


@click.command(short_help="Propose windows from what your agents have done.")
@click.option("--preset", "name", metavar="NAME", help="Only the history of this program.")
@click.option("--since", metavar="DURATION", help="Only sessions that went on within this span, such as 30d.")
@click.option(
    "--rate", "text", metavar="RATE", default="1/1000", show_default=True,
    help="In so many sessions a limit may be wrong.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="JSON.")
def command(name: str | None, since: str | None, text: str, as_json: bool) -> int:
    """Propose windows from the sessions that your agents have kept.

    A limit is wrong where it would have stopped a session that went on by itself. For each state the smallest round
    window is proposed that is wrong in at most RATE of the sessions, if there are enough of them to tell.
    """
    rate = _rate(text)
    chosen = _chosen(name)
    ago = duration("--since", since)
    begin = round(time.time() * 1_000) - ago if ago else None
    reader = _reader()
    answers = _answers(reader, chosen, rate, begin)
    if as_json:
        emit({"rate": float(rate), "suggestions": [record(answer) for answer in answers]})
    elif answers:
        click.echo("\n\n".join(map(page, answers)))
    else:
        places = ", ".join(reader.place(preset.name, os.environ) for preset in chosen)
        note(f"no sessions{' within this span' * (begin is not None)} in {places}")
    return 0 if answers else FAILED


def _reader() -> ModuleType:
    """Return the module that reads sessions: it needs a package that may be missing."""
    try:
        from longwatch.cli import history as reader  # noqa: PLC0415
    except ImportError as error:
        if error.name != "msgspec":
            raise
        raise UsageError(_MISSING) from error
    return reader


def _rate(text: str) -> Fraction:
    try:
        rate = Fraction(text) if _RATE.fullmatch(text) else Fraction(0)
    except ZeroDivisionError:
        rate = Fraction(0)
    if not 0 < rate < 1:
        raise UsageError(f"--rate {shown(text)}: it is a share of sessions; write 1/1000 or 0.001")
    return rate


def _chosen(name: str | None) -> list[Preset]:
    found = [preset for preset in PRESETS if preset.dialect is not None]
    if name is None:
        return found
    try:
        preset = presets.named(name)
    except UsageError as error:
        raise UsageError(f"--preset {error}") from error
    if preset not in found:
        raise UsageError(
            f"--preset {preset.name}: it keeps no records, and of its runs only the last silence is on record"
        )
    return [preset]


def _answers(reader: ModuleType, chosen: list[Preset], rate: Fraction, since: int | None) -> list[Answer]:
    there = {preset: reader.conversations(preset.name, os.environ, since) for preset in chosen}
    if not any(there.values()):
        return []
    folder = state()
    sleeps, starts = Sleeps(asleep(folder, since)), _starts(folder, since)
    answers = []
    for preset, found in there.items():
        known = History()
        for read in reader.read_all(found, sleeps, starts):
            for trouble in read.troubles:
                note(trouble)
            known.add(read.seen)
        if known.sessions:
            answers.append(Answer(preset, known, rate, len(sleeps)))
    return answers


def _starts(folder: str, since: int | None) -> Starts:
    """Return when runs of agents began, by the conversation that each had."""
    found: Starts = {}
    try:
        with history(folder) as ledger:
            summaries = runs(ledger, since=since, limit=_RUNS)
    except StoreError as error:
        note(f"when runs began is not known: {error}")
        return {}
    for summary in summaries:
        agent, began = summary.get("agent"), instant(summary.get("started_at"))
        if isinstance(agent, dict) and agent.get("session") and began is not None:
            found.setdefault((str(agent.get("preset")), str(agent["session"])), []).append(began)
    return found
