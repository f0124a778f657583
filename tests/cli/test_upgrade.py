"""An upgrade under a live run: the package that a run was started from may vanish."""

import shutil
import sys
from pathlib import Path

import pytest

import helpers
import longwatch
from fake_agents import Claude, Fake, sleep
from supervised import live, shell

SCRIPT = """#!{python}
import sys
sys.path.insert(0, {folder!r})
import longwatch
assert longwatch.__file__.startswith({folder!r})
from longwatch.cli.main import main
main(sys.argv)
"""
# Speaks every 100 ms until there is a file to be silent at.
PROGRAM = (
    'count=0; until test -e "$1"; do count=$((count+1)); echo tick $count; sleep 0.1; done; exec sleep 60'
)
# The last word comes after more than a second: everything that a run loads it has loaded by then.
SETTLED = "tick 14"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a copy of the package, and have every run of this test use it."""
    folder = tmp_path / "site"
    package = Path(longwatch.__file__).parent
    shutil.copytree(package, folder / "longwatch")
    script = tmp_path / "longwatch"
    script.write_text(SCRIPT.format(python=sys.executable, folder=str(folder)))
    script.chmod(0o755)
    monkeypatch.setattr(helpers, "LONGWATCH", script)
    return folder


@pytest.mark.slow
@pytest.mark.capability("NEW-20")
@pytest.mark.parametrize("more", [[], ["--pty"], ["--not-progress", "noise"]], ids=["pipes", "pty", "judged"])
def test_the_package_is_deleted_under_a_live_run(folder: Path, tmp_path: Path, more: list[str]) -> None:
    """Whatever a stop needs was loaded before: the limit fires later, and stop, post-mortem and report are complete."""
    silence = tmp_path / "silence"
    with live("--idle", "600ms", *more, program=[*shell(PROGRAM), "sh", silence]) as run:
        run.wait_for(SETTLED)
        shutil.rmtree(folder)
        silence.touch()
        done = run.finish()
    assert done.code == 124, done.err
    assert "Traceback" not in done.err
    assert len(done.said) == 3, done.err
    assert "sleeps" in done.said[1]
    assert done.reason == "idle"
    assert done.report["stopped"]["how"] == "TERM"
    assert "sleeps" in done.report["post_mortem"]["diagnosis"]
    assert done.report["survivors"] == []
    assert done.report["stdout"]["bytes"] > len(SETTLED)


@pytest.mark.slow
@pytest.mark.capability("NEW-20")
def test_the_package_is_deleted_and_the_program_has_to_be_killed(folder: Path, tmp_path: Path) -> None:
    """A stop that climbs to KILL, and leftovers of the program, need nothing that was not loaded before either."""
    silence = tmp_path / "silence"
    program = f"trap '' TERM; setsid sleep 61 & {PROGRAM.replace('exec ', '')}; sleep 60"
    with live("--idle", "600ms", "-k", "200ms", program=[*shell(program), "sh", silence]) as run:
        run.wait_for(SETTLED)
        shutil.rmtree(folder)
        silence.touch()
        done = run.finish()
    assert done.code == 124, done.err
    assert "Traceback" not in done.err
    assert done.report["stopped"]["how"] == "TERM, then KILL"
    assert done.report["survivors"] == []


@pytest.mark.slow
@pytest.mark.capability("NEW-20")
@pytest.mark.parametrize("name", ["claude", "opencode"])
def test_the_package_is_deleted_under_an_agent(folder: Path, home: Path, name: str) -> None:
    """What reads an agent's records was loaded at the start, too: its limit fires later, and the report has it whole."""
    agent = Claude(home) if name == "claude" else Fake(name, home)
    gone = home / "gone"
    begin = agent.begins() if isinstance(agent, Claude) else []
    end = [agent.says(), agent.calls("c1")] if isinstance(agent, Claude) else [("print", "word")]
    env = agent.part(begin, ("print", SETTLED), ("await", str(gone)), end, sleep(60))
    words = ["-p", "x"] if name == "claude" else ["run", "x"]
    flags = ["--call", "Bash=800ms", "--idle", "800ms", "--action", "call=stop", "--poll", "100ms"]
    with live(
        *flags, "--idle-action", "notify", program=[agent.program, *words], env=env, cwd=agent.work
    ) as run:
        run.wait_for(SETTLED)
        run.wait_for_guardian()
        shutil.rmtree(folder)
        gone.touch()
        if name == "opencode":
            helpers.wait_until(lambda: "it goes on" in run.err)
            run.send(15)
        done = run.finish()
    assert "Traceback" not in done.err
    assert "defect" not in done.err
    assert done.report["survivors"] == []
    assert done.report["agent"]["preset"] == name
    assert done.reason == ("call" if name == "claude" else "interrupted"), done.err
    if name == "claude":
        assert done.report["resume"].endswith(f"claude --resume {agent.session}")
