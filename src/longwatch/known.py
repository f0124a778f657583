"""A known program under the library: recognised by its name, observed, and bounded by what is known of it.

Its windows are lent where nobody has set any, and where it can be read: they are argued for an observed program.
"""

import os

from longwatch import presets
from longwatch.core.spec import STOP, LimitSpec
from longwatch.observed import Observed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from longwatch.limits import Resolved
    from longwatch.posix.process import Process
    from longwatch.posix.tree import Tree
    from longwatch.preset_table import Preset

#: What a program sees at a terminal whose size nobody has set.
_SIZE = (24, 80)


def observed(
    argv: list[str], process: "Process", tree: "Tree", resolved: "Resolved", *, say: "Callable[[str], object]",
    pty: bool,
) -> Observed | None:  # fmt: skip
    """Return what is known of a program that was started, and lend its limits; None for one that nobody knows."""
    unwanted = os.environ.get("LONGWATCH_PRESET") == presets.NONE
    preset = None if unwanted else presets.recognised(argv)
    if preset is None or preset.dialect is None:
        return None
    found = Observed(preset, argv, process, tree, size=_SIZE if pty else None, say=say)
    if found.agent is not None:
        lend(preset, resolved, lingers=found.headless and not presets.is_conversation(argv))
    return found


def lend(preset: "Preset", resolved: "Resolved", *, lingers: bool) -> None:
    """Set the windows of a preset where nobody has set any. Who named a window of silence did not mean a first sign."""
    left_out = {
        *resolved.named,
        *(("first",) if "idle" in resolved.named else ()),
        *(() if lingers else ("linger",)),
    }
    for name, setting in preset.limits.items():
        if name not in left_out:
            before = resolved.specs.get(name)
            action = STOP if before is None else before.action
            resolved.specs[name] = LimitSpec(setting.window, action, sighted=True)
    if preset.call and "call" not in resolved.named:
        budgets = {tool: setting.window for tool, setting in preset.call.items()}
        window = budgets.pop("", 0)
        resolved.specs["call"] = LimitSpec(window, STOP, budgets, lent=tuple(budgets))
