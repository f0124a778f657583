"""A plan with three real agents on three git work trees: one hangs, one meets its provider's limit, one just works."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import helpers
from agents import AGENTS
from test_agents import INSTALLED, Lab, serving

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(300)]

GO_ON = "Continue where you left off."
#: The verb itself, but punctual: a reset in the lab is in seconds, and it is there right at the end of it.
BATCH = """
import sys
from longwatch.core import parking
parking.JITTER = 1
from longwatch.cli.verbs import main
sys.exit(main(["batch", *sys.argv[1:]]))
"""


def item(name: str, argv: list[str], env: dict[str, str | None], **more: Any) -> dict[str, Any]:
    """Return an item that runs an agent; what must not be in its environment is not in ours."""
    added = {key: value for key, value in env.items() if value is not None and os.environ.get(key) != value}
    return {"id": name, "command": argv, "env": added, **more}


@pytest.mark.fault("K6", "T3")
@pytest.mark.capability("CAP-41", "CAP-45", "CAP-53")
def test_three_agents_on_three_trees(home: Path, tmp_path: Path) -> None:
    """The limited one goes on at the reset, the hanging one with --resume, each in its conversation and its tree."""
    for name in ("claude", "codex", "pi"):
        if not (INSTALLED / name / AGENTS[name]["program"]).exists():
            pytest.skip(f"{name} is not installed: tests/lab/agents.py install {name} --into .cache/agents")
    lab = Lab(home)
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.org"]
    subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", "first"], cwd=lab.work, check=True)
    plan = tmp_path / "plan.json"
    env = {key: value for key, value in os.environ.items() if key != "ANTHROPIC_API_KEY"}

    def batch(*words: str) -> helpers.Finished:
        return helpers.run_command(
            [sys.executable, "-c", BATCH, *words],
            env={**{k: None for k in os.environ if k not in env}},
            deadline=150,
        )

    with serving("hang") as hanging, serving("usage-reset:12") as limited, serving("basic") as working:
        prepared = {
            name: lab.prepared(name, model)
            for name, model in (("claude", hanging), ("codex", limited), ("pi", working))
        }
        items = [
            item("hangs", *prepared["claude"], idle="12s", call="10s"),
            item("limited", *prepared["codex"]),
            item("works", *prepared["pi"]),
        ]
        plan.write_text(
            json.dumps({"name": "lab", "base": "b", "defaults": {"git": str(lab.work)}, "item": items})
        )
        done = batch("run", str(plan))
        report = {one["id"]: one for one in json.loads(batch("report", str(plan), "--json").out)["items"]}
        assert {name: one["lifecycle"] for name, one in report.items()} == {
            "hangs": "failed_resumable", "limited": "completed", "works": "completed",
        }, done.err  # fmt: skip
        assert done.code == 1
        assert "limited: met its provider's limit; it goes on at " in done.err
        assert (
            "hangs: failed_resumable, stopped by longwatch: its call limit of 10s was reached by Bash"
            in done.err
        )
        assert "--resume goes on with 1 of 3" in done.out
        assert report["limited"]["attempt"] == 2
        assert len({one["work_dir"] for one in report.values()}) == 3
        assert GO_ON in json.dumps(limited.asked[-1])
        session = report["hangs"]["session"]
        assert session
        again = batch("run", str(plan), "--resume")
        assert again.code == 0, again.err
        report = {one["id"]: one for one in json.loads(batch("report", str(plan), "--json").out)["items"]}
        assert (report["hangs"]["attempt"], report["hangs"]["session"]) == (2, session)
        assert GO_ON in json.dumps(hanging.asked[-1])
        assert report["works"]["attempt"] == 1
