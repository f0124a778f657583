"""`longwatch trigger`: fire a harness now, and with `--wait` end as its run ends."""

import sys
from signal import NSIG
from typing import Any

import click

from longwatch.cli.at_daemon import answers, config_option, daemon_of
from longwatch.cli.render import clean, emit, how_it_ended, note
from longwatch.core.outcomes import TABLE, exit_status
from longwatch.core.report import signal_name


@click.command("trigger")
@click.argument("name", metavar="NAME")
@click.option("--trigger", metavar="TRIGGER", help="Which of its triggers it counts as; else manual.")
@click.option("--payload", type=click.File("rb"), help="A file that the run gets as its event, - for stdin.")
@click.option("--wait", is_flag=True, help="Wait for the end; the exit status is that of run.")
@config_option
@click.option("--json", "as_json", is_flag=True, help="JSON.")
def command(
    name: str, trigger: str | None, payload: Any, wait: bool, config: str | None, as_json: bool
) -> int:
    """Fire a harness now. 75: it runs already, or is held, and this firing was skipped."""
    data = None if payload is None else payload.read()
    daemon = daemon_of(config)
    with answers():
        told = daemon.trigger(name, trigger=trigger, payload=data, wait=wait)
    if as_json:
        emit(told)
    else:
        _say(name, told)
    ended = told.get("ended")
    return _status(ended) if isinstance(ended, dict) else 0


def _say(name: str, told: dict[str, Any]) -> None:
    ended, run = told.get("ended"), clean(told.get("run") or name)
    if isinstance(ended, dict):
        click.echo(f"{run}: {how_it_ended(ended)}")
    elif told.get("duplicate"):
        note(f"{clean(name)}: this event was delivered before")
    elif told.get("queued"):
        click.echo(f"{clean(name)}: queued; it runs when what holds it is over")
    else:
        click.echo(f"{run}: started; longwatch logs -f {run} shows what it prints")
    sys.stdout.flush()


def _status(ended: dict[str, Any]) -> int:
    """Return the exit status that `run` would have had; 75 where nothing was run at all."""
    reason = ended.get("termination_reason")
    if reason not in TABLE:
        return 75
    signal, code = ended.get("signal"), ended.get("exit_code")
    return exit_status(
        str(reason),
        code if isinstance(code, int) else None,
        _number(signal),
        result_ok=ended.get("outcome") == "success",
    )


def _number(signal: object) -> int | None:
    """Return the number of a signal that a report names."""
    return next((number for number in range(1, NSIG) if signal_name(number) == signal), None)
