"""Variables are read through the option table, or they stand here with a reason: nothing reads one in passing."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import ROOT
from longwatch import Limits
from longwatch.core import spec
from longwatch.option_table import OPTIONS, PREFIXES

SOURCE = ROOT / "src" / "longwatch"
#: What is read outside the table: (module, variable) and why.
ALLOWED = {
    ("cli/quiet.py", "LONGWATCH_RUN_ID"): "whose run it is: set by a supervisor, never by a user",
    ("cli/stop.py", "LONGWATCH_RUN_ID"): "likewise",
    ("cli/longrun.py", "LONGWATCH_RUN_ID"): "likewise",
    ("cli/waiting.py", "LONGWATCH_RUN_ID"): "likewise",
    ("session.py", "LONGWATCH_RUN_ID"): "likewise",
    ("cli/hook.py", "LONGWATCH_RUN_ID"): "likewise",
    ("cli/checkpoint.py", "LONGWATCH_RUN_ID"): "likewise",
    ("cli/items.py", "LONGWATCH_RUN_ID"): "likewise",
    ("runtime/running.py", "LONGWATCH_RUN_ID"): "likewise",
    (
        "work/nested.py",
        "LONGWATCH_TREE_ID",
    ): "where a batch is inside of others: set by a batch for its items",
    ("work/nested.py", "LONGWATCH_TREE_DEPTH"): "likewise",
    ("work/nested.py", "LONGWATCH_TREE_MAX_DEPTH"): "likewise; whoever sets it cannot ask for more than 32",
    ("work/nested.py", "LONGWATCH_TREE_MAX_SESSIONS"): "likewise",
    (
        "observe/places.py",
        "HOME",
    ): "where agents keep their records, unless their own variables say otherwise",
    ("cli/verbs.py", "_LONGWATCH_COMPLETE"): "the shell's question for completions, as click names it",
    ("cli/render.py", "NO_COLOR"): "a convention of the terminal",
    ("cli/tool.py", "NO_COLOR"): "likewise",
    ("paths.py", "XDG_STATE_HOME"): "where the user keeps state",
    ("paths.py", "XDG_CONFIG_HOME"): "where the user keeps settings",
    ("paths.py", "XDG_RUNTIME_DIR"): "where sockets go",
    ("paths.py", "HOME"): "where all of them are by default",
    ("posix/files.py", "TMPDIR"): "where temporary files go",
    ("config/finding.py", "LONGWATCH_CONFIG"): "which file verbs and daemon mean; no value of the file",
    ("config/variables.py", "?name"): "what ${NAME} stands for in a file: the user names it",
    ("cli/unit.py", "?name"): "what a unit hands on of the caller's shell: PATH and LANG",
    ("cli/unit.py", "XDG_CONFIG_HOME"): "where systemd looks for a user's units",
    ("daemon/app.py", "?name"): "marks of a run that started the daemon are taken out",
    ("daemon/calendar.py", "TZ"): "the zone of this machine, where a schedule names none",
    ("daemon/systemd.py", "?name"): "the manager's address; taken out, so that no child can speak for us",
    ("known.py", "LONGWATCH_PRESET"): "the way out of presets for the library, which has no word for it",
    ("cli/batch_engine.py", "LONGWATCH_BATCH_LEASE"): "how long an item goes on without its submitter",
    ("runtime/engines/ray_driver.py", "RAY_ADDRESS"): "Ray's own, in the process that speaks to it",
    ("runtime/engines/ray_driver.py", "RAY_AUTH_MODE"): "likewise: whether a cluster asks for a token",
}


class Reads(ast.NodeVisitor):
    """Collects what a module reads of the environment: `environ[...]`, `environ.get(...)`, `in environ`, getenv."""

    def __init__(self, constants: dict[str, str]) -> None:
        self.constants = constants
        self.found: list[str] = []

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """`os.environ["X"]`."""
        if isinstance(node.ctx, ast.Load) and environment(node.value):
            self.note(node.slice)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """`os.environ.get("X")`, `os.getenv("X")`, `_folder(environ, "X", ...)`."""
        function = node.func
        if isinstance(function, ast.Attribute) and (
            function.attr == "getenv" or (function.attr in ("get", "pop") and environment(function.value))
        ):
            self.note(node.args[0])
        elif isinstance(function, ast.Name) and len(node.args) > 1 and environment(node.args[0]):
            name = node.args[1]
            if isinstance(name, ast.Constant) and str(name.value).isupper():
                self.note(name)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """`"X" in os.environ`."""
        if isinstance(node.ops[0], ast.In | ast.NotIn) and environment(node.comparators[0]):
            self.note(node.left)
        self.generic_visit(node)

    def note(self, name: ast.expr) -> None:
        """Resolve a literal or a constant of a module; anything else is a name that nobody can check."""
        if isinstance(name, ast.Constant):
            self.found.append(str(name.value))
        elif isinstance(name, ast.Name):
            self.found.append(self.constants.get(name.id, f"?{name.id}"))


def environment(node: ast.expr) -> bool:
    """Whether an expression is the environment, or a mapping that stands for it."""
    return (isinstance(node, ast.Attribute) and node.attr == "environ") or (
        isinstance(node, ast.Name) and node.id == "environ"
    )


def constants() -> dict[str, str]:
    """Return all module constants that are texts, by name."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                for target in node.targets:
                    if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                        found[target.id] = node.value.value
    return found


def reads() -> Iterator[tuple[str, str]]:
    """Yield every variable that a module reads by name."""
    known = constants()
    for path in sorted(SOURCE.rglob("*.py")):
        visitor = Reads(known)
        visitor.visit(ast.parse(path.read_text()))
        yield from ((str(path.relative_to(SOURCE)), name) for name in visitor.found)


# `options` reads what the table says; `paths._folder` and `limits` look up names that they are given.
THROUGH_THE_TABLE = {
    ("options.py", "?variable"),
    ("paths.py", "?variable"),
    ("options.py", "LONGWATCH_RUN_ID"),
}


@pytest.mark.capability("CAP-103")
def test_no_variable_is_read_in_passing() -> None:
    """A direct read outside the option table is refused unless its reason is written down; old reasons go."""
    found = set(reads()) - THROUGH_THE_TABLE
    assert found - set(ALLOWED) == set()
    assert set(ALLOWED) - found == set()


@pytest.mark.parametrize(
    "line",
    ['os.environ["X"]', 'os.environ.get("X")', 'os.getenv("X")', '"X" in os.environ', 'environ.get("X", "")', "os.environ.get(NAME)"],
)  # fmt: skip
def test_the_audit_sees_every_way_to_read(line: str) -> None:
    """However a variable is read, it is found."""
    visitor = Reads({"NAME": "X"})
    visitor.visit(ast.parse(line))
    assert visitor.found == ["X"]


def test_what_is_heeded_stands_in_the_reference() -> None:
    """The page of variables names every one that is read, by the table or in passing."""
    page = (ROOT / "docs" / "reference" / "environment.md").read_text()
    names = {option.variable for option in OPTIONS if option.variable} | {name for _, name in ALLOWED}
    assert {name for name in names if f"`{name}`" not in page and name[0] not in "_?"} == set()


@pytest.mark.capability("CAP-103")
def test_no_two_options_share_a_variable() -> None:
    """Each variable belongs to one row, says what it does, and begins as its verb's variables do."""
    rows = [option for option in OPTIONS if option.variable]
    assert len({option.variable for option in rows}) == len(rows)
    assert all(option.help and option.why for option in rows)
    assert all(
        any(str(o.variable).startswith(PREFIXES[verb]) for verb in o.verbs if verb in PREFIXES) for o in rows
    )


@pytest.mark.capability("CAP-103")
def test_defaults_are_the_constants() -> None:
    """What the registry says to be the built-in is what the code uses where nobody says anything."""
    defaults = {(verb, option.name): option.default for option in OPTIONS for verb in option.verbs}
    assert defaults["run", "allow-quiet"] == spec.ALLOW_QUIET == spec.Spec({}).allow_quiet
    assert defaults["run", "kill-after"] == spec.GRACE == spec.Spec({}).grace
    guard = Limits().resolve({}, "guard").specs
    assert {name: limit.window for name, limit in guard.items() if name != "soft"} == {
        name: default
        for (verb, name), default in defaults.items()
        if verb == "guard" and name in guard and default
    }
    assert Limits().resolve({}).specs["idle"].window == defaults["run", "idle"]


def test_the_source_is_found() -> None:
    """The audit looks at the package, not at nothing."""
    assert len(list(reads())) > len(ALLOWED)
    assert Path(SOURCE / "options.py").exists()
