"""Faults of other tools, tried on a batch. Those that end it or kill it are in tests/batch."""

import json
import signal
import time
import uuid
from pathlib import Path

import pytest

import helpers
from batches import Plan, sh


@pytest.mark.fault("D2")
@pytest.mark.capability("CAP-37")
def test_only_what_an_item_does_itself_is_its_sign_of_life(tmp_path: Path) -> None:
    """Two in the same folder, one chatty, one silent: only the silent one is acted on."""
    talks = "for i in 1 2 3 4 5 6 7 8; do echo $i | tee -a shared; sleep 0.15; done"
    plan = Plan(
        tmp_path,
        sh("chatty", talks),
        sh("silent", "exec sleep 60"),
        defaults={"idle": "700ms", "cwd": str(tmp_path)},
    )
    plan.run()
    assert plan.lifecycles() == {"chatty": "completed", "silent": "failed_terminal"}
    assert plan.state("silent")["reason"] == "idle"


@pytest.mark.fault("T3")
def test_a_conversation_that_is_not_known_is_begun_anew(tmp_path: Path) -> None:
    """A command that goes on needs an id: without one the item starts afresh, and never with an empty argument."""
    agent = tmp_path / "agent"
    agent.write_text(f'#!/bin/sh\necho "$# args: $*"; {helpers.LONGWATCH} checkpoint half; exit 1\n')
    agent.chmod(0o755)
    plan = Plan(
        tmp_path, {"id": "a", "command": [str(agent), "new"], "resume": [str(agent), "--resume", "{session}"]}
    )
    plan.run()
    plan.run("--resume")
    assert plan.said("a") == ["1 args: new"] * 2
    assert plan.state("a")["attempt"] == 2


@pytest.mark.fault("T3")
@pytest.mark.capability("CAP-45")
def test_a_conversation_is_gone_on_with_in_its_own_folder(tmp_path: Path) -> None:
    """Interrupted, then resumed: by the command that goes on, with the id, in the folder where it was held."""
    session = str(uuid.uuid4())
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        'case "$*" in *--resume*) echo "$* in $PWD"; exit 0;; esac\n'
        f'echo \'{{"type":"system","subtype":"init","session_id":"{session}","cwd":"\'$PWD\'","model":"m"}}\'\n'
        "exec sleep 60\n"
    )
    program.chmod(0o755)
    plan = Plan(tmp_path, {"id": "a", "command": [str(program)], "preset": "claude", "prompt": "do it"})
    with plan.start() as live:
        live.until_log("a", session)
        live.send(signal.SIGTERM)
        live.finish()
    state = plan.state("a")
    assert (state["lifecycle"], state["session"]) == ("interrupted_resumable", session)
    assert plan.run("--resume").code == 0
    (line,) = [line for line in plan.said("a") if " in " in line]
    assert f"--resume {session}" in line
    assert line.endswith(f" in {state['work_dir']}")


@pytest.mark.fault("T3")
def test_a_folder_that_is_gone_is_refused(tmp_path: Path) -> None:
    """Nothing is started anywhere else."""
    plan = Plan(tmp_path, sh("a", "pwd", cwd=str(tmp_path / "gone")))
    done = plan.run()
    assert done.code == 1
    assert f"{tmp_path}/gone: no such folder; an item works where it is told, or not at all" in done.err
    assert not (plan.base / "logs" / "a.log").exists()


def resident(pid: int) -> int:
    """Return the most memory that a process has had, in MB; 0 of one that has ended."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next((int(line.split()[1]) // 1000 for line in text.splitlines() if line.startswith("VmHWM")), 0)


@pytest.mark.fault("O1")
@pytest.mark.capability("CAP-55", "CAP-56")
def test_whoever_floods_us_costs_nobody_else_anything(tmp_path: Path) -> None:
    """Hundreds of megabytes into a small log: our memory stays as it is, it ends well, and the others on time."""
    size = 400_000_000
    plan = Plan(
        tmp_path,
        sh("flood", f"while ! test -e go; do sleep 0.02; done; head -c {size} /dev/zero", cwd=str(tmp_path)),
        *(sh(f"small{n}", "echo done") for n in range(3)),
        jobs=2,
    )
    with plan.start("--heartbeat", "off", env={"LONGWATCH_BATCH_LOG_MAX": "1MiB"}) as live:
        live.until_log("small2", "done")
        before = most = resident(live.process.pid)
        (tmp_path / "go").touch()
        while live.process.poll() is None:
            most = max(most, resident(live.process.pid))
        done = live.finish()
    assert done.code == 0, done.err
    assert most - before < 50
    assert sum(path.stat().st_size for path in (plan.base / "logs").glob("flood.log*")) <= (1 << 20) + 1024
    gone = next(line for line in plan.log("flood").splitlines() if "bytes of this log were discarded" in line)
    assert int(gone.partition(": ")[2].split()[0]) >= size - (1 << 20)


@pytest.mark.fault("T3")
def test_a_reset_that_is_to_come_is_waited_for_by_the_next_run_too(tmp_path: Path) -> None:
    """What a provider wants nothing of is not asked again because somebody wrote --resume."""
    plan = Plan(tmp_path, sh("a", "echo again"), sh("b", "echo b"))
    plan.run("--only", "b")
    state = plan.base / "state" / "a.json"
    later = int(time.time() * 1000) + 3_600_000
    state.write_text(
        json.dumps(
            {
                "schema": 1,
                "id": "a",
                "lifecycle": "interrupted_resumable",
                "attempt": 1,
                "parked_until": later,
            }
        )
    )
    with plan.start("--resume") as live:
        live.until(lambda: (plan.base / "lock").read_text().startswith(str(live.process.pid)))
        assert plan.state("a")["attempt"] == 1
        state.write_text(json.dumps({**json.loads(state.read_text()), "parked_until": 1}))
        live.send(signal.SIGTERM)
        live.finish()
    assert not (plan.base / "logs" / "a.log").exists()
    assert plan.run("--resume").code == 0
    assert plan.said("a") == ["again"]
