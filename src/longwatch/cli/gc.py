"""`longwatch gc`: end what is left of placed runs whose runner is gone, and remove the folders of old ones."""

import os
import shutil
import time

import click

from longwatch.cli.render import clean, emit, fail
from longwatch.runtime.engines.sweeping import folders, is_held, is_open, root, run_folder, sweep

#: Folders of ended runs are kept as long as those of other runs are.
KEEP_DAYS = 30


@click.command("gc")
@click.argument("run", metavar="[RUN]", required=False)
@click.option("--folder", metavar="DIR", help="What was placed here; by default all that was.")
@click.option("--dry-run", is_flag=True, help="Say what would be ended and removed, touch nothing.")
@click.option("--json", "as_json", is_flag=True, help="JSON.")
def command(run: str | None, folder: str | None, dry_run: bool, as_json: bool) -> int:
    """End what is left of placed runs whose runner is gone; remove folders that are 30 days old."""
    base = folder or root()
    try:
        found = folders(base) if run is None else [run_folder(base, run)]
    except ValueError as error:
        fail(str(error), 2)
    if run is not None and not os.path.isdir(found[0]):
        fail(f"{clean(run)}: no such run was placed here", 4)
    told = [one for path in found if (one := _collected(path, dry_run=dry_run)) is not None]
    if as_json:
        emit({"runs": told})
    else:
        for one in told:
            click.echo(f"{clean(one['run'])}: {one['did']}")
    return 1 if any(one["left"] for one in told) else 0


def _collected(folder: str, *, dry_run: bool) -> dict[str, object] | None:
    """See to one run; None where nothing is to be done about it."""
    told: dict[str, object] = {"run": os.path.basename(folder), "did": "", "left": []}
    if is_held(folder):
        return None
    if is_open(folder):
        if dry_run:
            return {**told, "did": "its runner is gone; would be swept"}
        left = sweep(folder)["left"]
        did = f"left and not to be ended: {', '.join(map(clean, left))}" if left else "swept"
        return {**told, "did": did, "left": left}
    if time.time() - os.stat(folder).st_mtime < KEEP_DAYS * 86_400:
        return None
    if not dry_run:
        shutil.rmtree(folder, ignore_errors=True)
    return {**told, "did": "would be removed" if dry_run else "removed"}
