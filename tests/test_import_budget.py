"""What `longwatch run` loads: importing is what its start costs, and this guards it without a clock."""

import sys
from pathlib import Path

import pytest

import helpers

# Each of them costs between a third and five times of what the bare interpreter's whole start does.
BARRED = {
    "re", "enum", "typing", "functools", "contextlib", "collections", "dataclasses", "subprocess", "json",
    "argparse", "signal", "pathlib", "logging", "asyncio", "threading", "socket", "ctypes", "selectors", "shutil",
    "tempfile", "inspect", "importlib.metadata", "click", "psutil", "pydantic", "sqlite3",
}  # fmt: skip
# Modules of ours, packages included; a module costs 2 % of the interpreter's start, so mind the goal of 1.25 times.
BLINK = 30
LONG = 68


def in_order(*argv: str | Path, **environ: str) -> list[str]:
    """Return what an interpreter imports that runs this, first things first; a program ends as it likes."""
    command = [sys.executable, "-X", "importtime", *argv]
    done = helpers.run_command(command, measured=False, env=environ)
    lines = [line for line in done.err.splitlines() if line.startswith("import time:")]
    return [line.rpartition("|")[2].strip() for line in lines[1:]]


def imported(*argv: str | Path, **environ: str) -> set[str]:
    """Return the same without its order."""
    return set(in_order(*argv, **environ))


@pytest.fixture(scope="module")
def bare() -> set[str]:
    """Return what every interpreter imports here."""
    return imported("-c", "pass")


def run(bare: set[str], *words: str) -> set[str]:
    """Return what `longwatch run` imports beyond that, having made sure that it was measured at all."""
    found = imported(helpers.LONGWATCH, "run", *words) - bare
    assert "longwatch.cli.main" in found
    return found


def blink(bare: set[str], option: str) -> set[str]:
    """Return what a command that ends at once costs; on a busy machine it may take more than the blink."""
    for _ in range(20):
        found = run(bare, option, "--", "true")
        if "longwatch.cli.longrun" not in found:
            return found
    raise AssertionError("no `true` ended within the blink, twenty times")


def of_ours(found: set[str]) -> list[str]:
    """Return the modules of this project."""
    return sorted(name for name in found if name.partition(".")[0] == "longwatch")


@pytest.mark.parametrize("option", ["--no-pty", "--pty"])
def test_a_command_that_is_over_at_once_loads_little(bare: set[str], option: str) -> None:
    """A command that ends at once costs few modules, and none of the expensive ones."""
    found = blink(bare, option)
    assert not found & BARRED
    assert len(of_ours(found)) <= BLINK, of_ours(found)


@pytest.mark.parametrize(
    "words",
    [
        ["--", "sleep", "0.5"],
        ["--pty", "--", "sleep", "0.5"],
        ["--idle", "300ms", "--", "sleep", "60"],
        ["--log", "log", "--idle", "300ms", "--", "sh", "-c", "echo x; sleep 60"],
    ],
    ids=["pipes", "pty", "stopped", "logged"],
)
def test_a_run_that_is_watched_loads_nothing_expensive(
    bare: set[str], words: list[str], tmp_path: Path
) -> None:
    """A run that lives, and one that is stopped, post-mortem and report included, keep to the same rule."""
    found = run(bare, *[str(tmp_path / word) if word == "log" else word for word in words])
    assert not found & BARRED
    assert len(of_ours(found)) <= LONG, of_ours(found)
    assert "longwatch.cli.longrun" in found


def test_a_file_costs_whoever_names_one(bare: set[str], tmp_path: Path) -> None:
    """A file that `--config` names is read before the start, and nothing of it is loaded later; no other is read at all."""
    file = tmp_path / "longwatch.toml"
    file.write_text('[defaults]\nfirst = "1m"\n')
    order = in_order(helpers.LONGWATCH, "run", "--config", file, "--", "sleep", "0.1")
    start = order.index("longwatch.cli.attend")
    assert {"longwatch.config.as_options", "pydantic"} <= set(order[:start])
    assert not (set(order[start:]) - bare) & BARRED
    assert not [name for name in order[start:] if name.startswith(("longwatch.config", "pydantic"))]
    unread = imported(helpers.LONGWATCH, "run", "sleep", "0.1", LONGWATCH_CONFIG=str(file)) - bare
    assert not unread & BARRED
    assert not [name for name in unread if name.startswith("longwatch.config")]


def test_the_tool_loads_nothing_expensive(bare: set[str]) -> None:
    """An agent that starts `longwatch tool` for each command does not pay for what no command needs."""
    for words in (["true"], ["--timeout", "300ms", "--", "sleep", "60"]):
        found = imported(helpers.LONGWATCH, "tool", *words) - bare
        assert "longwatch.tool.command" in found
        assert not found & BARRED


def test_the_package_itself_is_cheap(bare: set[str]) -> None:
    """`import longwatch` loads nothing at all until one of its names is used."""
    assert imported("-c", "import longwatch") - bare == {"longwatch"}
