"""`longwatch start`: start a harness of the daemon; what it was held for, or had given up, does not count any more."""

import click

from longwatch.cli import items
from longwatch.cli.at_daemon import answers, config_option, daemon_of
from longwatch.cli.render import clean, emit
from longwatch.core.service_states import FAILED


@click.command("start")
@click.argument("names", metavar="NAME|PLAN/ITEM...", nargs=-1, required=True)
@config_option
@click.option("--json", "as_json", is_flag=True, help="JSON, a line for each.")
def command(names: tuple[str, ...], config: str | None, as_json: bool) -> int:
    """Start harnesses, or run items of a batch again. What is held, or has given up, is started all the same."""
    found = {name: items.of(name) for name in names}
    daemon = daemon_of(config) if None in found.values() else None
    status = 0
    for name, item in found.items():
        if item is not None:
            status = _item(item, as_json) or status
            continue
        assert daemon is not None
        with answers():
            told = daemon.start(name)
        tell(name, told, "runs already" if told.get("ran") else "started", as_json=as_json)
    return status


def _item(item: items.Item, as_json: bool) -> int:
    """Run an item again: by the batch that runs its plan, else here, alone."""
    items.require_right(item)
    run = items.ask_to_start(item)
    if run is None:
        from longwatch.cli.batch import run_alone  # noqa: PLC0415 - where no batch runs it

        return run_alone(item.known.plan, item.name, as_json=as_json)
    told: dict[str, object] = (
        {"run": run}
        if run
        else {"note": "it starts when those it needs are completed, and there is a place for it"}
    )
    tell(item.title, told, "started" if run else "wanted", as_json=as_json)
    return 0


def tell(name: str, told: dict[str, object], done: str, *, as_json: bool) -> None:
    """Print what became of one harness."""
    if as_json:
        emit({"name": name, **told})
        return
    run = f" as {clean(told['run'])}" if told.get("run") else ""
    remark = f" ({clean(told['note'])})" if told.get("note") else ""
    if told.get("state") == FAILED:
        remark += f", and failed; longwatch why {clean(name)} tells more"
    click.echo(f"{clean(name)}: {done}{run}{remark}")
