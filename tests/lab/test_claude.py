"""A real agent, Claude Code, under `longwatch run`, against a scripted model on loopback."""

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from string import Template

import pytest

import helpers
from agents import AGENTS
from scripted_model import ScriptedModel

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(120)]

INSTALLED = helpers.ROOT / ".cache" / "agents"
CLAUDE = AGENTS["claude"]
PRINT = ["-p", "Do the steps.", "--model", "claude-sonnet-4-5", "--allowedTools=Bash,Agent"]
# It would end a tool after two minutes by itself, and the tests are about patience.
PATIENT = {"BASH_DEFAULT_TIMEOUT_MS": "900000", "BASH_MAX_TIMEOUT_MS": "900000"}
ONBOARDED = {
    "hasCompletedOnboarding": True,
    "theme": "dark",
    "customApiKeyResponses": {"approved": ["scripted"]},
}
# Switched on and off by private mode numbers; a visible cursor (25) and wrapping (7) are how a terminal starts.
MODE = re.compile(rb"\x1b\[\?([0-9;]+)([hl])")
AT_START = {7, 25}


@pytest.fixture
def claude() -> str:
    """Return the path of the agent; skip where it is not installed."""
    program = INSTALLED / "claude" / CLAUDE["program"]
    if not program.exists():
        pytest.skip("claude is not installed: `make test-lab` tries to")
    return str(program)


@pytest.fixture
def work(home: Path) -> Path:
    """Return the agent's work tree, in a home where it asks no first questions."""
    folder = home / "work"
    subprocess.run(["git", "init", "-q", folder], check=True)
    trusted = {"projects": {str(folder): {"hasTrustDialogAccepted": True}}}
    (home / ".claude.json").write_text(json.dumps(ONBOARDED | trusted))
    return folder


@contextlib.contextmanager
def model(scenario: str) -> Iterator[dict[str, str | None]]:
    """Serve the scenario meanwhile; give the environment that leads the agent to it, and to nothing else."""
    with ScriptedModel(scenario) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        own = {name: None for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE"))}
        try:
            yield {**own, **{k: Template(v).substitute(url=url) for k, v in CLAUDE["env"].items()}, **PATIENT}
        finally:
            server.shutdown()
            thread.join()


def notices(text: str) -> list[str]:
    """Return the lines that longwatch wrote."""
    return [line for line in text.splitlines() if line.startswith("longwatch")]


def left_on(raw: bytes) -> set[int]:
    """Return the terminal's private modes that are not as they were at the start, once all was written."""
    modes = {int(number): kind == b"h" for found, kind in MODE.findall(raw) for number in found.split(b";")}
    return {mode for mode, is_on in modes.items() if is_on != (mode in AT_START)}


@pytest.mark.parametrize("scenario", ["basic", "silent-tool:12"])
def test_a_run_that_goes_well_is_left_alone(claude: str, scenario: str, tmp_path: Path) -> None:
    """An agent that works, silently for a while or not, ends as it would without us and leaves nothing."""
    agent = [sys.executable, helpers.ROOT / "tests/lab/agents.py", "run", "claude", scenario]
    options = ["--agents", INSTALLED, "--into", tmp_path]
    wrapper = ["--", helpers.LONGWATCH, "run", "--idle", "30s", "--"]
    done = helpers.run_command([*agent, *options, *wrapper], deadline=60)
    result = json.loads(done.out)
    assert (result["exit"], result["left_running"]) == (0, []), (tmp_path / "stderr").read_text()
    assert '"result":"Done."' in (tmp_path / "stdout").read_text()


@pytest.mark.timeout(900)
def test_eleven_silent_minutes_of_a_tool_are_none(claude: str, work: Path) -> None:
    """Without flags an agent whose tool says nothing for eleven minutes is left alone: its call is open."""
    with model("silent-tool:660") as env:
        done = helpers.run_cli("run", claude, *PRINT, env=env, cwd=work, deadline=840)
    assert (done.code, done.out) == (0, "Done.\n"), done.err
    assert notices(done.err) == []


def test_a_hang_is_stopped_whole(claude: str, work: Path, tmp_path: Path) -> None:
    """A tool that never ends is stopped with the agent; the report says why and what it was."""
    report = tmp_path / "report.json"
    with model("hang") as env:
        options = ["--call", "Bash=5s", "--report", str(report)]
        done = helpers.run_cli("run", *options, claude, *PRINT, env=env, cwd=work, deadline=60)
    assert done.code == 124, done.err
    assert len(notices(done.err)) == 3, done.err
    found = json.loads(report.read_text())
    assert (found["termination_reason"], found["survivors"]) == ("call", [])
    assert found["resume"] == f"{claude} --resume {found['agent']['session']}"
    assert "tail" in json.dumps(found["post_mortem"])


def test_full_screen_leaves_the_terminal_as_it_was(
    claude: str, work: Path, tmp_path: Path, tmux: helpers.Tmux
) -> None:
    """The full-screen interface opens in a terminal, is stopped, and leaves neither settings nor modes behind."""
    raw = tmp_path / "raw"
    tmux.record(raw)
    with model("textonly") as env:
        words = [f"{name}={shlex.quote(value)}" for name, value in env.items() if value is not None]
        # As a program that nobody knows: an agent at its prompt is left alone.
        command = f"{helpers.LONGWATCH} run --preset none --idle 5s {claude} --model claude-sonnet-4-5"
        tmux.type(f"cd {work}; export {' '.join(words)}", "Enter")
        tmux.type(f"stty -g >{tmp_path}/before; {command}; echo code=$?; stty -g >{tmp_path}/after", "Enter")
        tmux.wait_for("Claude Code", 20)
        assert tmux.show("#{alternate_on}") == "1"
        tmux.wait_for("code=124", 40)
    helpers.wait_until((tmp_path / "after").exists)
    tmux.type("echo typed; echo done.", "Enter")
    tmux.wait_for("\ndone.")
    assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()
    assert tmux.show("#{alternate_on} #{mouse_any_flag} #{cursor_flag}") == "0 0 1"
    assert left_on(raw.read_bytes()) == set()
