"""`longwatch checkpoint NAME`: inside a run, name a point from which the work can go on.

The next attempt is told the name of the last one. Only names count: nothing can be resumed at a step that nobody named.
"""

import os
import time

import click

from longwatch.channel import channel_append
from longwatch.cli.render import clean, fail
from longwatch.errors import StoreError, UsageError
from longwatch.paths import state
from longwatch.posix import now

LONGEST = 64
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
#: A run folder appears when the run is 1 s old; items of a batch have theirs from the start.
_PATIENCE_MS, _LOOK_S = 2_000, 0.02


@click.command("checkpoint")
@click.argument("name", metavar="NAME")
def command(name: str) -> None:
    """Inside a run: name a point from which the next attempt can go on."""
    if not 0 < len(name) <= LONGEST or not _SAFE.issuperset(name):
        raise UsageError(
            f"{clean(name)!r}: write a name of letters, digits, dots, dashes, at most {LONGEST} of them"
        )
    run = os.environ.get("LONGWATCH_RUN_ID", "")
    if not run:
        fail(
            "checkpoint is for programs that run under longwatch, and this one does not (LONGWATCH_RUN_ID is not set)"
        )
    try:
        if not _told(run, {"op": "checkpoint", "name": name, "at_ms": now()}):
            fail(f"{clean(run)}: the run has no folder, so nobody would learn of it")
    except StoreError as error:
        fail(str(error))


def _told(run: str, message: dict[str, object]) -> bool:
    deadline = now() + _PATIENCE_MS
    while not channel_append(state(), run, message):
        if now() >= deadline:
            return False
        time.sleep(_LOOK_S)
    return True
