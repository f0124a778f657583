"""The public names: pinned, real, lazily loaded, and shown as what they are imported as."""

import ast
import importlib.util
import inspect
import sys
from types import ModuleType

import pytest

import helpers
import longwatch
from helpers import ROOT

NAMES = [
    "CallReached",
    "CeilingReached",
    "CommandTool",
    "FirstReached",
    "IdleReached",
    "LimitReached",
    "Limits",
    "LongwatchError",
    "Result",
    "RunFailed",
    "TimeoutReached",
    "UsageError",
    "file_idle_since",
    "guard",
    "run",
    "run_async",
    "watch",
]


def test_names_are_pinned():
    """A public name comes or goes on purpose only."""
    assert longwatch.__all__ == NAMES == sorted(NAMES)
    assert set(NAMES) <= set(dir(longwatch))


@pytest.mark.parametrize("name", NAMES)
def test_names_are_real(name):
    """Each name leads to something with a docstring, and a class says where to import it from."""
    found = getattr(longwatch, name)
    assert found.__name__ == name
    assert inspect.getdoc(found)
    if inspect.isclass(found):
        assert found.__module__ == "longwatch"


def test_unknown_names():
    """A name that is none is the error that Python makes of it."""
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        longwatch.runn  # noqa: B018


def test_star_import():
    """`from longwatch import *` gives the public names and nothing else."""
    space = {}
    exec("from longwatch import *", space)
    assert sorted(space.keys() - {"__builtins__"}) == NAMES


def test_loading_is_lazy():
    """The package alone loads nothing, and a blocking program never loads an event loop."""
    code = (
        "import sys; before = set(sys.modules); import longwatch\n"
        "print(sorted(set(sys.modules) - before)); longwatch.run(['true'])\n"
        "print('asyncio' in sys.modules, 'trio' in sys.modules)"
    )
    done = helpers.run_command([sys.executable, "-c", code], measured=False)
    assert done.out.splitlines() == ["['longwatch']", "False False"], done.err


def test_version():
    """The version is that of the distribution."""
    from importlib.metadata import version

    assert longwatch.__version__ == version("longwatch")


def test_what_is_measured_is_there() -> None:
    """No measurement asks a module for a name that has moved away: they run too seldom to find that out by themselves."""
    missing = []
    for path in [*ROOT.glob("bench/**/*.py"), *ROOT.glob("scripts/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("longwatch"):
                module = importlib.import_module(node.module or "")
                missing += [
                    f"{path.name}: {node.module}.{each.name}"
                    for each in node.names
                    if not _has(module, each.name)
                ]
    assert missing == []


def _has(module: ModuleType, name: str) -> bool:
    if hasattr(module, name):
        return True
    return hasattr(module, "__path__") and importlib.util.find_spec(f"{module.__name__}.{name}") is not None
