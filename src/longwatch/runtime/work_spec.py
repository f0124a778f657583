"""A workstream as plain values and back: how it travels to where it runs."""

from longwatch.core.batch import Workstream
from longwatch.core.harness import Harness
from longwatch.core.plan import Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SCHEMA = 1
#: What is taken from the environment of the node, beside what the spec says itself.
INHERIT = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER", "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
)  # fmt: skip


def told(work: Workstream) -> "dict[str, Any]":
    """Return a workstream as values that JSON knows."""
    plain = work.as_dict()
    return {**plain, "item": work.item.as_dict(), "harness": work.harness.as_dict()}


def work_of(plain: "Mapping[str, Any]") -> Workstream:
    """Return what `told` gave. Whether and when it is tried again is decided where it came from."""
    values = {**plain, "item": Item(plain["item"]["id"]), "harness": Harness.of(plain["harness"])}
    values["levels"] = tuple((name, tuple(argv)) for name, argv in plain["levels"])
    return Workstream(**values)


def environment(spec: "Mapping[str, Any]", here: "Mapping[str, str]") -> dict[str, str]:
    """Return what the environment of a run begins from: the variables of the node that its spec names, and no others."""
    names = spec.get("inherit", INHERIT)
    return {**{name: here[name] for name in names if name in here}, **spec.get("env", {})}
