"""`longwatch init`: the first file is right, its comments are true, and nothing of yours is overwritten."""

import re
from pathlib import Path

import jsonschema  # type: ignore[import-untyped,unused-ignore]
import pytest
import tomli

import helpers
from longwatch.cli import init
from longwatch.config.described import schema
from longwatch.config.files import Loaded, load
from longwatch.core.spec import MINUTE, NOTIFY, STOP
from longwatch.preset_table import PRESETS

AGENTS = [preset for preset in PRESETS if preset.dialect]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder with a PATH that has all known agents on it."""
    (tmp_path / "bin").mkdir()
    for preset in AGENTS:
        (tmp_path / "bin" / preset.programs[0]).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / preset.programs[0]).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def uncommented(text: str) -> str:
    """Return a file with every example in use."""
    return re.sub(r"^#(?=[a-z\[])", "", text, flags=re.MULTILINE)


def good(text: str, path: str) -> Loaded:
    """Return what a text comes to; nothing may be wrong or doubtful in it."""
    Path("longwatch.toml").write_text(text)
    loaded = load("longwatch.toml", {"PATH": path, "HOME": "/"})
    # Not every machine has a logger.
    doubts = [warning for warning in loaded.warnings if "[notify] hook" not in str(warning)]
    assert [str(problem) for problem in (*loaded.errors, *doubts)] == []
    assert list(jsonschema.Draft202012Validator(schema()).iter_errors(tomli.loads(text))) == []
    return loaded


def test_a_file_for_the_agents_that_are_here(folder: Path) -> None:
    """Each has a table; the first runs, the others wait; a stall is told, and nothing else stops them."""
    path = f"{folder}/bin:/usr/bin:/bin"
    done = helpers.run_cli("init", env={"PATH": path})
    names = [preset.name for preset in AGENTS]
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"wrote longwatch.toml: {', '.join(names)}",
        "next: longwatch config check, then longwatch up",
    ]
    loaded = good((folder / "longwatch.toml").read_text(), path)
    assert [harness.name for harness in loaded.harnesses] == names
    assert [harness.enabled for harness in loaded.harnesses] == [True] + [False] * (len(names) - 1)
    for harness in loaded.harnesses:
        assert (harness.preset, harness.pty, harness.kind) == (harness.name, True, "resident")
        assert harness.limits["stall"].window == 45 * MINUTE
        assert {limit.action for limit in harness.limits.values()} == {NOTIFY}


def test_every_example_in_it_is_right(folder: Path) -> None:
    """With each "#" before a key taken away the file is right too, and does what the comments say."""
    path = f"{folder}/bin:/usr/bin:/bin"
    for found in (AGENTS, [], AGENTS[1:2]):
        loaded = good(uncommented(init.text(found)), path)
        (nightly,) = [harness for harness in loaded.harnesses if harness.kind == "scheduled"]
        assert nightly.schedule == ("0 2 * * mon-fri",)
        assert nightly.limits["timeout"].window == 120 * MINUTE
        for harness in loaded.harnesses:
            if harness.preset and harness.kind == "resident":
                assert (harness.revive, harness.limits["stall"].action) == (("stall",), STOP)


def test_without_an_agent_it_is_an_example(folder: Path) -> None:
    """A harmless one, that runs as it is."""
    done = helpers.run_cli("init", "first.toml", env={"PATH": "/usr/bin:/bin"})
    assert done.out.splitlines() == [
        "wrote first.toml: an example, for no known agent is on PATH",
        "next: longwatch config check first.toml, then longwatch up --config first.toml",
    ]
    (clock,) = good((folder / "first.toml").read_text(), "/usr/bin:/bin").harnesses
    assert (clock.name, clock.enabled, clock.limits["idle"].window) == ("clock", True, MINUTE)
    checked = helpers.run_cli("config", "check", "first.toml", env={"PATH": "/usr/bin:/bin"})
    assert (checked.code, checked.out) == (0, "first.toml: ok, 1 harness (1 resident)\n")


def test_nothing_is_overwritten(folder: Path) -> None:
    """A file that is there, a link and a folder are left alone; --force replaces a file."""
    (folder / "longwatch.toml").write_text("mine")
    (folder / "link").symlink_to("nowhere")
    for name in ("longwatch.toml", "link", "bin"):
        done = helpers.run_cli("init", name)
        assert (done.code, done.err) == (
            2,
            f"longwatch: init: {name} is there already; --force replaces it\n",
        )
    assert (folder / "longwatch.toml").read_text() == "mine"
    assert helpers.run_cli("init", "bin", "--force").code == 2
    assert helpers.run_cli("init", "--force").code == 0
    assert (folder / "longwatch.toml").read_text() != "mine"
    missing = helpers.run_cli("init", "no/such/folder/x.toml")
    assert (missing.code, missing.err) == (
        1,
        "longwatch: no/such/folder/x.toml: cannot be written: no such file or directory\n",
    )
