"""Real agents call `longwatch mcp` as the how-to registers it, hang in it, and tell their model what came back."""

import argparse
import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import helpers
from agents import AGENTS, prepare
from scripted_model import ScriptedModel

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(120)]

INSTALLED = Path(os.environ.get("LAB_AGENTS", helpers.ROOT / ".cache" / "agents"))
PAGE = (helpers.ROOT / "docs" / "how-to" / "mcp.md").read_text()
TITLES = {
    "claude": "Claude Code", "codex": "Codex", "copilot": "Copilot CLI", "gemini": "Gemini CLI", "opencode": "OpenCode",
}  # fmt: skip
#: What lets the agent use the tool without asking anybody.
APPROVED = "--allowedTools=Bash,mcp__longwatch__run_command"


def registration(title: str) -> tuple[str, str, str]:
    """Return what the how-to says of an agent: the file (none: a command), the language, and the lines."""
    found = re.search(
        rf"^\*\*{title}\*?\*?.*?(?:`~/([^`]+)`.*?)?^```(\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL
    )
    assert found, title
    return found[1] or "", found[2], found[3].replace("10m", "3s")


def register(name: str, home: Path, env: dict[str, str]) -> None:
    """Do what the how-to says, with a limit of three seconds."""
    place, language, text = registration(TITLES[name])
    if language == "sh":
        env = {**env, "PATH": f"{(INSTALLED / name / AGENTS[name]['program']).parent}:{env['PATH']}"}
        subprocess.run(["sh", "-ec", text], env=env, cwd=home, check=True, stdout=subprocess.DEVNULL)
        return
    file = home / place
    before = file.read_text() if file.exists() else ""
    file.parent.mkdir(parents=True, exist_ok=True)
    if language == "json":
        text = json.dumps({**json.loads(before or "{}"), **json.loads(text)})
    file.write_text(f"{before}\n{text}" if language == "toml" else text)


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """Serve a model that calls the tool once, with a command that prints a word and hangs."""
    with ScriptedModel("mcp-hang") as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.capability("CAP-68", "CAP-71")
@pytest.mark.parametrize("name", TITLES)
def test_a_command_that_hangs_comes_back_to_the_model(name: str, model: ScriptedModel, home: Path) -> None:
    """The next request to the model holds what the command printed and why it ended; the agent ends well."""
    if not (INSTALLED / name / AGENTS[name]["program"]).exists():
        pytest.skip(f"{name} is not installed: tests/lab/agents.py install {name} --into .cache/agents")
    options = argparse.Namespace(
        name=name, agents=INSTALLED, scenario="mcp-hang", plain=False, resume=None, wrapper=[]
    )
    (home / "tmp").mkdir()
    argv, env = prepare(options, home, f"http://127.0.0.1:{model.server_port}")
    env["PATH"] = f"{helpers.LONGWATCH.parent}:{env['PATH']}"
    register(name, home, env)
    subprocess.run(["git", "init", "-q", home / "work"], check=True)
    own = {name: None for name in os.environ if name.startswith(("ANTHROPIC_", "CLAUDE"))}
    words = [APPROVED if word.startswith("--allowedTools") else word for word in argv]
    done = helpers.run_command(words, env={**own, **env}, cwd=home / "work", deadline=90)
    assert done.code == 0, done.err
    told = re.sub(r"[\\ ]", "", json.dumps(model.asked[-1]))
    assert '"termination_reason":"timeout"' in told, done.out[-2000:]
    assert '"stdout":"begunn"' in told
    assert "sh:tooklongerthan3s" in told


def test_each_agent_of_the_how_to_is_known_to_the_lab() -> None:
    """Every registration that the how-to shows can be read, and names a file or is a command."""
    for title in TITLES.values():
        place, language, text = registration(title)
        assert (language == "sh") == (not place)
        assert "longwatch" in text
        assert "3s" in text
