"""What a file says to a run that the daemon does not own: of `run`, `watch`, `tool`, `mcp` and the library.

One rule: a key that is an option of the verb counts as that option, wherever no flag and no variable speaks. `[defaults]`
holds for every run, since that is what it is for. A table `[harness.NAME]` counts only for a run that was given that very
name: a program that merely is called so may be run for something else. All other keys say when the daemon starts a
program, in which place, and what follows its end; whoever types a command says that himself.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from longwatch.config.files import load
from longwatch.config.finding import there
from longwatch.config.limits import action_key, key_of
from longwatch.config.sources import Settings
from longwatch.core.spec import RESTART, STOP
from longwatch.errors import UsageError
from longwatch.option_kinds import STEPPED
from longwatch.option_table import Option
from longwatch.options import options_for

#: An option's value, and the key that it comes from.
Found = tuple[Any, str]


def read(path: str, verb: str, name: str | None = None, who: str = "--config ") -> dict[str, tuple[Any, str]]:
    """Return what a file says of a verb's options: each value, and where it stands.

    `name` is that of the run, `who` said the path. Raises UsageError: a line for each thing that is wrong in the file.
    """
    loaded = load(there(who, os.path.expanduser(path)))
    if loaded.errors:
        raise UsageError("\n".join(map(str, loaded.errors)))
    return options_of(loaded.settings(name), verb)


def options_of(settings: Settings, verb: str) -> dict[str, tuple[Any, str]]:
    """Return what the values of a table are as options of a verb."""
    told = {}
    for option in options_for(verb):
        found = _READERS.get(option.name, _as_it_is)(settings, option)
        if found is not None and not (verb in _ALWAYS_STOP and _only_tells(settings, option)):
            told[option.name] = (found[0], settings.setter(found[1]))
    return told


#: The verbs that have nobody to tell: there a limit stops, or it is none.
_ALWAYS_STOP = ("tool", "mcp")


def _only_tells(settings: Settings, option: Option) -> bool:
    return settings.get(action_key(option.name), STOP) not in (STOP, RESTART)


def _as_it_is(settings: Settings, option: Option) -> Found | None:
    key = str(option.key)
    value = settings.get(key)
    return None if value is None else (value, key)


def _call(settings: Settings, _: Option) -> Found | None:
    budgets = dict(settings.get("calls") or {})
    if settings.get("call") is not None:
        budgets[""] = settings.get("call")
    return (budgets, "call" if "" in budgets else "calls") if budgets else None


def _stall(settings: Settings, _: Option) -> Found | None:
    key = key_of("stall")
    return None if settings.get(key) is None else (settings.get(key), key)


def _actions(settings: Settings, _: Option) -> Found | None:
    steps = {limit: _step(settings, limit) for limit in STEPPED if settings.get(action_key(limit))}
    return (steps, action_key(next(iter(steps)))) if steps else None


def _idle_action(settings: Settings, _: Option) -> Found | None:
    key = action_key("idle")
    return (_step(settings, "idle"), key) if settings.get(key) else None


def _step(settings: Settings, limit: str) -> str:
    """Return the step of a limit. Who runs a command once has nothing to start again: a restart stops."""
    step = str(settings.get(action_key(limit)))
    return STOP if step == RESTART else step


def _preset(settings: Settings, _: Option) -> Found | None:
    return next(((settings.get(key), key) for key in ("harness", "preset") if settings.get(key)), None)


def _not_progress(settings: Settings, option: Option) -> Found | None:
    """Join the rules: the option has one."""
    found = _as_it_is(settings, option)
    return None if found is None else ("|".join(f"(?:{rule})" for rule in found[0]), found[1])


def _nothing(_settings: Settings, _option: Option) -> None:
    """What the key says is about a log of the daemon's."""


_READERS: dict[str, Callable[[Settings, Option], Found | None]] = {
    "stall": _stall, "call": _call, "action": _actions, "idle-action": _idle_action, "preset": _preset,
    "not-progress": _not_progress, "log": _nothing,
}  # fmt: skip
