"""The job scripts that the how-to page shows. SLURM's runs here, with a stand-in of its own command; the others are read."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

import helpers

PAGES = helpers.ROOT / "docs" / "how-to" / "cluster"


@pytest.mark.engine
def test_a_slurm_task_is_requeued_until_it_is_done(tmp_path: Path, longwatch: str) -> None:
    """Warned before its time is over, the item is marked; told to end it ends, is requeued, and its next life completes it."""
    marker = f'{helpers.MARKER} = "{os.environ[helpers.MARKER]}"'
    script = "test -e begun && exit 0; touch begun; echo up; sleep 60"
    (tmp_path / "plan.toml").write_text(
        f'[[item]]\nid = "a"\ncommand = ["true"]\n[[item]]\nid = "b"\nenv = {{ {marker} }}\ncommand = ["sh", "-c", "{script}"]\n'
    )
    (tmp_path / "items.txt").write_text("a\nb\n")
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    scontrol.chmod(0o755)
    env = {
        **os.environ, "SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_JOB_ID": "7",
        "PATH": f"{tmp_path}:{Path(longwatch).parent}:{os.environ['PATH']}",
    }  # fmt: skip
    words = ["bash", str(PAGES / "slurm.sh")]
    plans = tmp_path / ".longwatch" / "longwatch" / "placed" / "plans"

    def lifecycle() -> str:
        (kept,) = plans.glob("*/state/b.json")
        return str(json.loads(kept.read_text())["lifecycle"])

    with subprocess.Popen(words, env=env, cwd=tmp_path) as job:
        helpers.wait_until(lambda: list(plans.glob("*/work/b/begun")), 20)
        job.send_signal(signal.SIGUSR2)
        helpers.wait_until(lambda: lifecycle() == "timed_out_resumable", 20, "the mark")
        job.send_signal(signal.SIGTERM)
        assert job.wait(20) == 75
    assert (tmp_path / "asked").read_text() == "requeue 7_2\n"
    assert subprocess.run(words, env=env, cwd=tmp_path, check=False, timeout=30).returncode == 0
    assert (tmp_path / "asked").read_text() == "requeue 7_2\n"
    assert lifecycle() == "completed"


def test_the_pages_call_what_there_is() -> None:
    """Each job runs the runner in the foreground, with words that it knows."""
    from longwatch.cli.runner import command

    known = {flag for param in command.params for flag in param.opts}
    for name in ("slurm.sh", "kubernetes.yaml", "nomad.hcl"):
        text = (PAGES / name).read_text()
        used = {
            word.strip('",[]')
            for word in text.replace(",", " ").split()
            if word.strip('",[]').startswith("--")
        }
        ours = {flag for flag in used if flag in known}
        assert {"--foreground", "--lease", "--plan", "--item"} <= ours, name
    assert "longwatch probe --folder" in (PAGES / "kubernetes.yaml").read_text()
