"""What is wrong with options: a flag that there is not, a variable that is refused, words that contradict each other.

Loaded only where there is something to doubt.
"""

from longwatch.errors import UsageError
from longwatch.option_kinds import describe
from longwatch.option_table import SETTERS
from longwatch.units import nearest, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from longwatch.option_table import Option
    from longwatch.options import Values

DEFAULT, _, FILE, VARIABLE, FLAG = SETTERS


def unknown(verb: str, flag: str, flags: "Iterable[str]", begun: "Sequence[str]") -> UsageError:
    """Return the refusal of a flag that the verb does not have; `begun` are those that begin so."""
    if begun:
        return UsageError(f"{flag} could be {' or '.join(begun)}; write it out")
    names = [name[2:] for name in flags if name[:2] == "--"]
    guess = nearest(flag[2:], names) if flag[:2] == "--" else None
    hint = f"did you mean --{guess}?" if guess else f"longwatch {verb} --help lists all"
    return UsageError(f"unknown option {shown(flag)}; {hint}")


def fall_back(values: "Values", option: "Option", problem: str) -> None:
    """Warn of a variable that is refused, and leave what holds without it."""
    if values.source(option.name) == VARIABLE:
        values.drop(option.name)
    source = values.source(option.name)
    who = "the built-in" if source == DEFAULT else f"{FILE} {values.place(option.name)}"
    values.warnings.append(f"{problem}; {who} is used: {describe(option, values.get(option.name))}")


def check(values: "Values") -> None:
    """Refuse what contradicts itself. What the file says counts where it can mean something, so it never does."""
    if not values.nudge:
        nudges = values.own("idle-action") == "nudge"
        _contradiction(values, "idle-action", nudges, "nudge", "nothing to type; add --nudge TEXT")
        steps = values.own("action") or {}
        nudged = next((limit for limit, action in steps.items() if action == "nudge"), None)
        _contradiction(values, "action", nudged, f"{nudged}=nudge", "nothing to type; add --nudge TEXT")
    if not values.effect:
        _contradiction(
            values, "check", values.own("check"), "COMMAND", "nothing waits for it; add --effect 10m"
        )


def _contradiction(values: "Values", name: str, found: object, word: str, problem: str) -> None:
    """Refuse a flag whose counterpart is missing; a variable warns and leaves what holds without it."""
    if not found:
        return
    option = next(option for option in values.options if option.name == name)
    if values.source(name) == FLAG:
        raise UsageError(f"{option.flags[0]} {word}: {problem}")
    fall_back(values, option, f"{option.variable}={word}: {problem}")
