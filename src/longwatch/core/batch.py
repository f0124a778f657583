"""What a workstream of a batch is: what deciding needs of it, how it runs, what it works on. Plain values."""

from longwatch.core.harness import Harness
from longwatch.core.plan import Item
from longwatch.core.record import Plain
from longwatch.core.workstream import CONTINUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: The kind of a harness that is an item of a batch.
ITEM = "item"


def changed(harness: Harness, **values: object) -> Harness:
    """Return a harness with other values; all that is not named is shared."""
    new = object.__new__(Harness)
    for name in Harness.__slots__:
        setattr(new, name, values.get(name, getattr(harness, name)))
    return new


class Workstream(Plain):
    """One item of a plan, resolved.

    `harness` is how it runs (its name is the id), `item` what it waits for. With `git` (a folder or an address of a
    repository) it works in a tree on `branch`, begun from `base`; else in the harness's folder, or where `cwd` is empty
    in one of its own. `prompt` reaches it as `prompt_by` says. `result` where its answer is read from a file that it
    is told. `levels` are commands to try in turn where one fails by its exit status: names and their argvs. `labels`
    and `cpus` say where it may run beyond this machine; `values_from` who set what.
    """

    __slots__ = (
        "base", "branch", "cpus", "description", "git", "harness", "item", "labels", "levels", "policy", "prompt",
        "prompt_by", "result", "values_from",
    )  # fmt: skip

    def __init__(
        self, item: Item, harness: Harness, *, policy: str = CONTINUE, git: str | None = None, branch: str = "",
        base: str = "", prompt: str | None = None, prompt_by: str = "argv", result: bool = False,
        levels: "tuple[tuple[str, tuple[str, ...]], ...]" = (), description: str = "", cpus: float = 1,
        labels: "Mapping[str, str] | None" = None, values_from: "Mapping[str, str] | None" = None,
    ) -> None:  # fmt: skip
        self.item = item
        self.harness = harness
        self.policy = policy
        self.git = git
        self.branch = branch
        self.base = base
        self.prompt = prompt
        self.prompt_by = prompt_by
        self.result = result
        self.levels = levels
        self.description = description
        self.cpus = cpus
        self.labels = dict(labels or {})
        self.values_from = dict(values_from or {})

    @property
    def id(self) -> str:
        """The item's id."""
        return self.item.id
