"""`longwatch probe`: whether a placed run is being looked after; the liveness probe of containers. Exit 0 or 1.

A run that is over is well, too: whether it was started anew is not the probe's business. What says no: nobody has looked
for so long, or who looked is gone without having written how it ended.
"""

import os

import click

from longwatch.cli.render import clean, duration, fail
from longwatch.posix import now
from longwatch.posix.identity import boot_id
from longwatch.runtime.runfiles import EXIT, STATE, identity_in, read
from longwatch.units import ago


@click.command("probe")
@click.option("--folder", metavar="DIR", required=True, help="The folder of the run.")
@click.option(
    "--max-age", metavar="DURATION", default="1m", help="Its runner must have looked within so long."
)
def command(folder: str, max_age: str) -> int:
    """Say whether a placed run is being looked after: 0 yes, 1 no."""
    limit = duration("--max-age", max_age) or 0
    if read(folder, EXIT) is not None:
        return 0
    state = read(folder, STATE)
    if state is None:
        fail(f"{clean(folder)}: no run was begun there")
    runner = identity_in(state, "runner")
    here = runner is not None and runner.boot == boot_id() and state.get("host") == os.uname().nodename
    if here and runner is not None and not runner.alive():
        fail("the runner is gone, and did not write how it ended")
    age = now() - int(state.get("looked_ms") or 0)
    if here and limit and age >= limit:
        fail(f"the runner has not looked for {ago(age)}")
    return 0
