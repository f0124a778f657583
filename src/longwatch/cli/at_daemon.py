"""Which daemon a verb means, and how its answers end the verb: statuses, and one line for what went wrong."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from longwatch.cli.render import clean, fail, when
from longwatch.config.finding import find as find_file
from longwatch.core.harness import RESIDENT
from longwatch.core.restarts import ALIKE_FAILED, SPAWN, STALLED
from longwatch.errors import StoreError, UsageError
from longwatch.paths import daemon_id, sockets, state
from longwatch.vocabulary import GAVE_UP, HOLDS, ONLY_TOLD, command

if TYPE_CHECKING:
    from longwatch.api.client import Daemon

F = TypeVar("F", bound=Callable[..., Any])


def config_option(command: F) -> F:
    """Add `--config` to a verb: the file whose daemon is meant."""
    return click.option(
        "--config",
        metavar="FILE",
        help="Whose daemon; else LONGWATCH_CONFIG, the nearest longwatch.toml upwards.",
    )(command)


def daemon_of(config: str | None) -> "Daemon":
    """Return the daemon of a configuration file. Ends the verb with 3 where none answers, with 2 for a wrong file."""
    from longwatch.api.client import NoDaemonError  # noqa: PLC0415 - only verbs that ask load it
    from longwatch.api.finding import find  # noqa: PLC0415

    path = find_file(config, os.environ, os.getcwd())
    try:
        return find(path, state(), os.environ)
    except NoDaemonError as error:
        fail(str(error), error.status)


def daemon_if_any(config: str | None) -> "Daemon | None":
    """Return the daemon that answers, for verbs that also do without one. A file that was named must be there."""
    from longwatch.api.client import NoDaemonError  # noqa: PLC0415
    from longwatch.api.finding import find  # noqa: PLC0415

    try:
        path = find_file(config, os.environ, os.getcwd())
    except UsageError:
        if config is not None:
            raise
        return None
    try:
        return find(path, state(), os.environ)
    except NoDaemonError:
        return None


def left_behind(config: str | None) -> str | None:
    """Return the file of a daemon that does not answer and has left something running; None where there is none."""
    try:
        path = find_file(config, os.environ, os.getcwd())
    except UsageError:
        return None
    try:
        keeper = os.path.join(sockets(daemon_id(path), state()), "keeper.sock")
    except StoreError:
        return None
    return path if os.path.exists(keeper) else None


@contextmanager
def answers() -> Iterator[None]:
    """End the verb with the status and the line of what the daemon refuses."""
    from longwatch.api.client import DaemonError  # noqa: PLC0415

    try:
        yield
    except DaemonError as error:
        fail(str(error), error.status)


def harness_line(harness: "dict[str, Any]", config: str | None = None) -> str:
    """Return how a harness stands now, in one line: its state and why. `config` is what the user had to name."""
    name, words, given_up = clean(harness.get("name")), [state_word(harness)], harness.get("gave_up")
    if given_up and not only_told(harness):
        words.append(gave_up_text(harness))
    elif not harness.get("report_only") and (waits := waits_for(harness)):
        words.append(waits)
    if only_told(harness):
        words.append(ONLY_TOLD)
    if harness.get("pending_restart"):
        words.append(pending_text(harness["pending_restart"]))
    line = f"{name}: {', '.join(words)}"
    if not (given_up or harness.get("report_only")):
        return line
    return f"{line}; to begin anew: {command('restart', (name,), config or '')}"


def state_word(harness: "dict[str, Any]") -> str:
    """Return the state in a word; of what waits for its time, until when."""
    state = clean(harness.get("state") or "?")
    if state == "stopped" and harness.get("intent") and harness.get("kind") != RESIDENT:
        due = harness.get("next_due")
        return f"waits for {when(due)}" if due else "waits to be fired"
    return state


def only_told(harness: "dict[str, Any]") -> bool:
    """Whether restarts did not help against its stalls."""
    return bool(harness.get("report_only")) or harness.get("gave_up") == STALLED


def gave_up_text(harness: "dict[str, Any]") -> str:
    """Return that a harness is not started any more, and why."""
    cause = str(harness["gave_up"])
    error = harness.get("last_error") if cause in (ALIKE_FAILED, SPAWN) else None
    return f"gave up: {clean(GAVE_UP.get(cause, cause))}" + (f": {clean(error)}" if error else "")


def waits_for(harness: "dict[str, Any]") -> str:
    """Return what the next start waits for: what holds it, the end of its backoff; empty where it is nothing."""
    if holds := harness.get("holds"):
        return f"held: {', '.join(hold_text(hold) for hold in holds)}"
    return f"tries again at {when(harness['backoff_until'])}" if harness.get("backoff_until") else ""


def hold_text(hold: "dict[str, Any]") -> str:
    """Return why a harness is held, and until when."""
    kind = str(hold.get("kind"))
    text = clean(hold.get("reason") or HOLDS.get(kind, kind))
    return f"{text}, until {when(hold['until'])}" if hold.get("until") else text


def pending_text(pending: object) -> str:
    """Return what a reload left for the next start."""
    keys = ", ".join(map(str, pending)) if isinstance(pending, list) else "the file has changed"
    return f"pending restart ({clean(keys)})"
