"""Agents under the library: recognised by their name, read, and judged by what they do rather than by their bytes."""

import os
from pathlib import Path
from typing import Any

import pytest

import longwatch
from fake_agents import Claude, Step, hang, sleep
from longwatch import Limits

IDLE = 0.8


@pytest.fixture
def claude(home: Path) -> Claude:
    """Return an agent of the ways of Claude Code."""
    return Claude(home)


def run(claude: Claude, limits: Limits, *steps: Step | list[Step], **more: Any) -> longwatch.Result:
    """Run an agent that plays a part."""
    env = {
        **os.environ,
        **{name: str(value) for name, value in claude.part(*steps).items()},
        **more.pop("env", {}),
    }
    return longwatch.run([claude.program, "-p", "Do it."], limits, env=env, cwd=claude.work, **more)


@pytest.mark.fault("A1")
def test_a_long_silent_tool_is_no_silence(claude: Claude) -> None:
    """While its call is open an agent may be silent; its conversation, and how to go on, are in the result."""
    done = run(
        claude, Limits(idle=IDLE), claude.begins(), claude.calls("c1"), sleep(2), claude.gets("c1"), claude.over(),
        record=True,
    )  # fmt: skip
    assert done.termination_reason == "exited"
    assert done.agent["session"] == claude.session
    assert done.agent["counts"]["ok"] == 1
    assert done.resume.endswith(f"claude --resume {claude.session}")


def test_what_stands_still_is_stopped(claude: Claude) -> None:
    """Words and records are progress, and after them silence is silence."""
    done = run(claude, Limits(idle=IDLE), claude.begins(), claude.says(), hang())
    assert (done.termination_reason, done.survivors) == ("idle", [])
    assert done.report["progress"]["transcript"]["count"] > 0


def test_at_its_prompt_nothing_is_expected(claude: Claude) -> None:
    """One that works with a human is ready until it is spoken to, whatever its screen shows."""
    env = {
        **os.environ,
        **{name: str(value) for name, value in claude.part(("draw", 0.3, "type"), sleep(1.6)).items()},
    }
    done = longwatch.run([claude.program], Limits(idle=0.5), env=env, cwd=claude.work, pty=True)
    assert (done.termination_reason, done.exit_code) == ("exited", 0)


def test_calls_and_loops_are_seen(claude: Claude) -> None:
    """What only an observer sees has its limits: one call, the same call again."""
    done = run(claude, Limits(call=0.8), claude.begins(), claude.calls("c1"), hang())
    assert done.termination_reason == "call"
    same = [step for n in range(4) for step in (claude.calls(f"d{n}"), claude.gets(f"d{n}", "no"))]
    done = run(claude, Limits(loop=3), claude.begins(), *same, hang())
    assert done.termination_reason == "looping"


def test_what_nobody_has_set_is_the_presets(claude: Claude, monkeypatch: pytest.MonkeyPatch) -> None:
    """The built-in five minutes are for programs that nobody knows; who wants them says so, or switches it off."""
    from longwatch import known, presets

    preset = presets.named("claude")
    left = {"idle": 12, "first": 5, "call": 60}
    for given, changed in [
        (Limits(), {}),
        (Limits(idle="7m", call=0), {"idle": 7, "first": None, "call": None}),
    ]:
        resolved = given.resolve({})
        known.lend(preset, resolved, lingers=False)
        windows = {name: limit.window // 60_000 for name, limit in resolved.specs.items()}
        assert windows == {name: span for name, span in {**left, **changed}.items() if span is not None}
    monkeypatch.setenv("LONGWATCH_PRESET", "none")
    done = run(claude, Limits(idle=IDLE), claude.begins(), claude.calls("c1"), hang())
    assert (done.termination_reason, done.agent) == ("idle", None)
