"""The known program of a foreground run: its preset's limits lent to the values, its observer made of the front.

Loaded after the start, and only for what has a preset.
"""

from longwatch import presets
from longwatch.cli.main import Front, say
from longwatch.cli.specs import Known
from longwatch.observed import Observed
from longwatch.options import DEFAULT, PRESET
from longwatch.posix.spawn import PTY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from longwatch.posix.tree import Tree


def observe(front: Front, tree: "Tree", note: "Callable[[str], object]") -> Observed | None:
    """Return what is known of the run's program; None for one that nobody knows."""
    preset, values, terminal = front.preset, front.values, front.terminal
    if preset is None:
        return None
    if front.lent is None:
        front.lent = presets.lend(preset, values, front.argv)
    observed = Observed(
        preset, front.argv, front.process, tree,
        size=None if terminal is None else terminal.size,
        unnamed=values.source("progress") in (DEFAULT, PRESET),
        say=lambda text: say(f"{front.name}: {text}"), note=note,
    )  # fmt: skip
    if observed.screen is not None:
        front.screen = observed.screen
    if observed.sources is not None:
        values.put("progress", observed.sources, PRESET)
    return observed


def known(front: Front, observed: Observed) -> Known:
    """Return what follows from it for the limits."""
    return Known(
        observed.preset.name, lent=front.lent or (), observed=observed.agent is not None,
        gentle=observed.blinded or front.output == PTY, resident=observed.resident,
    )  # fmt: skip
