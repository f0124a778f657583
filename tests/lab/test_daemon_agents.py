"""Two real agents as residents of a real daemon: one hangs, one meets its provider's limit, and both come back.

Nobody touches anything meanwhile: the daemon stops the one that hangs, waits for the reset of the other, and either goes
on in the conversation that it had.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import helpers
from agents import AGENTS
from test_agents import INSTALLED, Lab, serving

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(240)]

GO_ON = "Continue where you left off."
#: The daemon itself, but quick: a reset may be in seconds, and it is there right at the end of it.
DAEMON = """
import sys
from longwatch.core import parking, quota, service_ends
service_ends.HARNESS = parking.Terms(8 * 24 * 3_600_000, 0, 2_000, 4_000, guess=True)
parking.JITTER = quota.JITTER = 1
from longwatch.daemon.__main__ import main
main(sys.argv[1:])
"""


@contextmanager
def daemon(config: Path, env: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Run a daemon meanwhile; gives what it said when it was ready. At the end it stops everything."""
    ready, told = os.pipe()
    words = [sys.executable, "-c", DAEMON, "--config", config, "--ready-fd", str(told), "--foreground"]
    with open(config.with_suffix(".log"), "wb") as log:
        process = subprocess.Popen(words, env=env, stderr=log, stdin=subprocess.DEVNULL, pass_fds=(told,))
        os.close(told)
        try:
            with open(ready) as file:
                yield json.loads(file.readline())
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)
    assert process.returncode == 0, config.with_suffix(".log").read_text()


def harness(name: str, argv: list[str], env: dict[str, str | None], work: Path, **keys: Any) -> str:
    """Return a harness as a file has it; a text of JSON is one of TOML."""
    table = {"command": argv, "cwd": str(work), "restart": "on-failure", **keys}
    added = {key: value for key, value in env.items() if value is not None and os.environ.get(key) != value}
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    lines += [f"[harness.{name}.env]", *(f"{key} = {json.dumps(value)}" for key, value in added.items())]
    return "\n".join([f"[harness.{name}]", *lines, ""])


def reports(state: Path, name: str) -> list[dict[str, Any]]:
    """Return the reports of all runs of a harness that are over, the oldest first."""
    found = [json.loads(path.read_text()) for path in state.glob(f"longwatch/runs/{name}-*/report.json")]
    return sorted(found, key=lambda report: report["started_at"])


def asked(model: Any) -> str:
    """Return all that was said to a model last."""
    return json.dumps(model.asked[-1])


@pytest.mark.fault("K6", "T3")
@pytest.mark.capability("NEW-10", "NEW-11", "CAP-125")
def test_one_hangs_and_one_is_limited_and_both_come_back(home: Path) -> None:
    """The one that hangs is stalled and revived, the limited one comes back by itself at the reset: where they were."""
    for name in ("claude", "codex"):
        if not (INSTALLED / name / AGENTS[name]["program"]).exists():
            pytest.skip(f"{name} is not installed: tests/lab/agents.py install {name} --into .cache/agents")
    lab = Lab(home)
    state = Path(os.environ["XDG_STATE_HOME"])
    with serving("hang") as hanging, serving("usage-reset:12") as limited:
        one, its_env = lab.prepared("claude", hanging)
        two, other_env = lab.prepared("codex", limited)
        config = home / "longwatch.toml"
        config.write_text(
            harness("one", one, its_env, lab.work, stall_timeout="8s", stall_action="restart")
            + harness("two", two, other_env, lab.work)
        )
        env = {key: value for key, value in os.environ.items() if key != "ANTHROPIC_API_KEY"}
        with daemon(config, env) as standing:
            assert standing["ready"] is True, standing
            for name in ("one", "two"):
                helpers.wait_until(
                    lambda name=name: len(reports(state, name)) == 2, 120, f"the second end of {name}"
                )  # fmt: skip
    first, second = reports(state, "one")
    assert (first["termination_reason"], first["outcome"]) == ("stalled", "stalled")
    assert (first["survivors"], [call["tool"] for call in first["agent"]["calls"]]) == ([], ["Bash"])
    assert (second["termination_reason"], second["exit_code"]) == ("exited", 0)
    assert second["agent"]["session"] == first["agent"]["session"]
    assert GO_ON in asked(hanging)
    assert "Do the steps." in asked(hanging)

    first, second = reports(state, "two")
    assert (first["termination_reason"], first["agent"]["limit"]["cls"]) == ("exited", "usage")
    assert (second["termination_reason"], second["exit_code"]) == ("exited", 0)
    assert second["agent"]["session"] == first["agent"]["session"]
    assert second["started_at"] >= first["agent"]["limit"]["until"]
    assert GO_ON in asked(limited)
    assert "Do the steps." in asked(limited)
