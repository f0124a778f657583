"""Which daemon a verb means, and how its answers end the verb: statuses, and one line for what went wrong."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from longwatch.cli.render import clean, fail, when
from longwatch.config.finding import find as find_file
from longwatch.core.harness import RESIDENT
from longwatch.daemon.narration import GAVE_UP
from longwatch.errors import StoreError, UsageError
from longwatch.paths import daemon_id, sockets, state

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
    from longwatch.api.client import NoDaemonError, find  # noqa: PLC0415 - only verbs that ask load it

    path = find_file(config, os.environ, os.getcwd())
    try:
        return find(path, state(), os.environ)
    except NoDaemonError as error:
        fail(str(error), error.status)


def daemon_if_any(config: str | None) -> "Daemon | None":
    """Return the daemon that answers, for verbs that also do without one. A file that was named must be there."""
    from longwatch.api.client import NoDaemonError, find  # noqa: PLC0415

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


def harness_line(harness: "dict[str, Any]") -> str:
    """Return how a harness stands now, in one line: its state and why."""
    name, words = clean(harness.get("name")), state_word(harness)
    if harness.get("report_only"):
        words += f", its stalls are only reported; longwatch restart {name} begins anew"
    elif harness.get("gave_up"):
        words += f", {gave_up_text(harness)}; longwatch restart {name} begins anew"
    elif holds := harness.get("holds"):
        words += f", held: {', '.join(hold_text(hold) for hold in holds)}"
    elif harness.get("backoff_until"):
        words += f", tries again at {when(harness['backoff_until'])}"
    if harness.get("pending_restart"):
        words += f", {pending_text(harness['pending_restart'])}"
    return f"{name}: {words}"


def state_word(harness: "dict[str, Any]") -> str:
    """Return the state in a word; of what waits for its time, until when."""
    state = clean(harness.get("state") or "?")
    if state == "stopped" and harness.get("intent") and harness.get("kind") != RESIDENT:
        due = harness.get("next_due")
        return f"waits for {when(due)}" if due else "waits to be fired"
    return state


def gave_up_text(harness: "dict[str, Any]") -> str:
    """Return that a harness is not started any more, and why."""
    cause = str(harness["gave_up"])
    why = GAVE_UP.get(cause, cause)
    error = harness.get("last_error")
    return f"gave up: {clean(why)}" + (f": {clean(error)}" if error and cause == "alike" else "")


def hold_text(hold: "dict[str, Any]") -> str:
    """Return why a harness is held, and until when."""
    text = clean(hold.get("reason") or hold.get("kind"))
    return f"{text}, until {when(hold['until'])}" if hold.get("until") else text


def pending_text(pending: object) -> str:
    """Return what a reload left for the next start."""
    keys = ", ".join(map(str, pending)) if isinstance(pending, list) else "the file has changed"
    return f"pending restart ({clean(keys)})"
