"""The machine goes down under everything at once, and comes back: what was at work goes on, what was done stays done."""

import contextlib
import os
import signal
from pathlib import Path

import pytest

import helpers
from batches import Plan, sh
from daemons import daemon, harness


def power_cut() -> None:
    """End all that the test has started, so that none of it notices the end of another."""
    mark = f"{helpers.MARKER}={os.environ[helpers.MARKER]}"
    while pids := helpers.processes_with(mark):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        helpers.kill_all(pids)
        helpers.wait_until(lambda gone=pids: not any(map(helpers.alive, gone)))


@pytest.mark.capability("CAP-41")
def test_a_batch_that_is_a_harness_goes_on_after_a_reboot(tmp_path: Path) -> None:
    """The next daemon starts it, what is completed is not run again, and the other item begins at its checkpoint."""
    (tmp_path / "p").mkdir()
    longwatch = str(helpers.LONGWATCH)
    plan = Plan(
        tmp_path / "p",
        sh("done", f"echo once >>{tmp_path}/done"),
        sh(
            "half",
            f"echo [$LONGWATCH_CHECKPOINT] >>{tmp_path}/half; {longwatch} checkpoint written && touch {tmp_path}/named;"
            f" until [ -e {tmp_path}/go ]; do sleep 0.05; done",
        ),
    )
    night = harness(
        "night", longwatch, "batch", "run", str(plan.path), "--resume", cwd=str(tmp_path), restart="no"
    )
    with daemon(tmp_path, night) as place:
        helpers.wait_until((tmp_path / "named").exists, 30)
        helpers.wait_until(lambda: plan.item("done")["lifecycle"] == "completed", 30)
        power_cut()
        assert place.process is not None
        place.process.wait(20)
        place.start()
        helpers.wait_until(lambda: (tmp_path / "half").read_text().count("\n") == 2, 30)
        (tmp_path / "go").touch()
        place.until("night", 30, state="stopped")
        assert [run["outcome"] for run in place.ledger() if run["name"] == "night"] == [
            "interrupted",
            "success",
        ]
    assert (tmp_path / "done").read_text() == "once\n"
    assert (tmp_path / "half").read_text() == "[]\n[written]\n"
    assert (plan.item("half")["lifecycle"], plan.item("half")["attempt"]) == ("completed", 2)
