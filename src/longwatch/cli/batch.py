"""`longwatch batch`: many resumable workstreams: run a plan, report on it, clean up after it."""

import os

import click

from longwatch.cli.batch_report import clean_up, show
from longwatch.cli.render import duration, fail
from longwatch.config.plan_beside import Flags
from longwatch.config.plan_file import Loaded, load
from longwatch.store.workstreams import Workstreams

FORMATS = click.Path(exists=False, dir_okay=False)


@click.group("batch")
def command() -> None:
    """Run many workstreams that can be resumed, as a plan file says."""


@command.command("run")
@click.argument("plan", metavar="PLAN", type=FORMATS)
@click.option(
    "-j", "--jobs", type=click.IntRange(min=1), help="So many at once; else as the plan says, or 8."
)
@click.option("--resume", is_flag=True, help="Go on with what an earlier run has left.")
@click.option("--fresh", is_flag=True, help="Begin anew; what an earlier run has left is given up.")
@click.option(
    "--only", metavar="ITEM", multiple=True, help="Run this item alone, again if need be. Repeatable."
)
@click.option("--dry-run", is_flag=True, help="Say what would be run, run nothing.")
@click.option("--soft", metavar="DURATION", help="The budget of an item: past it it is marked, not ended.")
@click.option("--policy", metavar="POLICY", help="continue-preserve or interrupt-preserve.")
@click.option("--idle", metavar="DURATION", help="No progress for so long stops an item.")
@click.option(
    "--heartbeat", metavar="DURATION", default="60s", help="A line of JSON every so often, off a terminal."
)
@click.option("--engine", metavar="ENGINE", help="Have items placed: by ray, or by local, its stand-in here.")
@click.option(
    "--address", metavar="ADDRESS", help="The cluster's; else RAY_ADDRESS, or the one of this machine."
)
@click.option(
    "--open-cluster", is_flag=True, help="Use a cluster that asks for no token: its network is closed."
)
@click.option("--json", "as_json", is_flag=True, help="The final report as JSON.")
def run(
    plan: str, jobs: int | None, resume: bool, fresh: bool, only: tuple[str, ...], dry_run: bool, soft: str | None,
    policy: str | None, idle: str | None, heartbeat: str, engine: str | None, address: str | None,
    open_cluster: bool, as_json: bool,
) -> int:  # fmt: skip
    """Run the items of a plan, N at a time. Ctrl-C leaves everything so that --resume goes on with it."""
    from longwatch.cli.batch_run import Wishes, perform  # noqa: PLC0415 - report and cleanup need none of it

    if resume and fresh:
        raise click.UsageError("--resume and --fresh exclude each other")
    if only and fresh:
        raise click.UsageError("--only and --fresh exclude each other: the other items are left as they are")
    flags = Flags(soft=duration("--soft", soft), idle=duration("--idle", idle), policy=policy, jobs=jobs)
    loaded = _loaded(plan, flags)
    wishes = Wishes(
        resume=resume,
        fresh=fresh,
        dry_run=dry_run,
        heartbeat=duration("--heartbeat", heartbeat) or 0,
        as_json=as_json,
        only=only,
    )
    if engine is not None:
        from longwatch.cli.batch_engine import perform_there  # noqa: PLC0415 - only beyond this machine

        return perform_there(loaded, wishes, engine, address, open_cluster=open_cluster)
    return perform(loaded, wishes)


@command.command("report")
@click.argument("plan", metavar="PLAN", type=FORMATS)
@click.option("--json", "as_json", is_flag=True, help="JSON.")
def report(plan: str, as_json: bool) -> int:
    """Say how each item of a plan stands: its end, its checkpoint, its folder, whether that may be removed."""
    loaded = _loaded(plan, Flags())
    return show(_shelf(loaded), loaded, as_json=as_json)


@command.command("cleanup")
@click.argument("plan", metavar="PLAN", type=FORMATS)
@click.option("--dry-run", is_flag=True, help="Say what would be removed, remove nothing.")
@click.option(
    "--abandon", metavar="ITEM", multiple=True, help="Give an item up, so that it may be removed. Repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="JSON.")
def cleanup(plan: str, dry_run: bool, abandon: tuple[str, ...], as_json: bool) -> int:
    """Remove the folders of items that are over, a branch only where it is merged. Logs stay."""
    loaded = _loaded(plan, Flags())
    return clean_up(_shelf(loaded), loaded, abandon, dry_run=dry_run, as_json=as_json)


def run_alone(plan: str, item: str, *, as_json: bool) -> int:
    """Run one item of a plan again, with the settings that the plan has now."""
    from longwatch.cli.batch_run import Wishes, perform  # noqa: PLC0415 - report and cleanup need none of it

    wishes = Wishes(resume=True, fresh=False, dry_run=False, heartbeat=0, as_json=as_json, only=(item,))
    return perform(_loaded(plan, Flags()), wishes)


def _loaded(plan: str, flags: Flags) -> Loaded:
    loaded = load(plan, os.environ, flags)
    for problem in loaded.errors:
        click.echo(str(problem), err=True)
    if loaded.errors:
        count = "one error" if len(loaded.errors) == 1 else f"{len(loaded.errors)} errors"
        fail(f"{count} in {plan}; nothing was run", 2)
    for problem in loaded.warnings:
        click.echo(str(problem), err=True)
    return loaded


def _shelf(loaded: Loaded) -> Workstreams:
    if not os.path.isdir(loaded.base):
        fail(f"{loaded.path} was never run: there is no {loaded.base}")
    return Workstreams(loaded.base)
