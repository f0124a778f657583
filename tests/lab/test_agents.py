"""Real agents under `longwatch run`, through what may happen to them: what each does, and what is made of it.

Each is tried in two ways: recognised by its name, as a user starts it, so that its file alone tells what it does; and
with its preset, which adds the flags by which it prints its records. What was seen stands in the explanation
`agents-seen.md`. Where an agent behaves differently from the others, the tables here say so, and why.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import helpers
from agents import AGENTS, PASSED_ON, prepare
from conftest import FOLDERS
from scripted_model import ScriptedModel
from supervised import Run, read_report

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.timeout(240)]

INSTALLED = Path(os.environ.get("LAB_AGENTS", helpers.ROOT / ".cache" / "agents"))
RECOGNISED, NAMED = "recognised", "named"
NAMES = ("claude", "codex", "gemini", "opencode", "pi", "copilot", "qwen")
#: The seconds in which an agent that is well shows it, on a busy machine; the windows of silence here.
PACE = {"claude": 3, "codex": 3, "pi": 4, "gemini": 6, "copilot": 4, "opencode": 10, "qwen": 12}
#: What it calls the tool that runs a command: in its file, and in its stream if that has another word for it.
SHELL = {
    "claude": "Bash", "codex": "exec_command", "gemini": "run_shell_command", "opencode": "bash", "pi": "bash",
    "copilot": "bash", "qwen": "run_shell_command",
}  # fmt: skip
IN_STREAM = {"codex": "shell"}
#: Starting up is no silence.
STARTING = ("--first", "60s")
#: claude would end a tool after two minutes by itself, and the tests are about patience.
PATIENT = {"BASH_DEFAULT_TIMEOUT_MS": "900000", "BASH_MAX_TIMEOUT_MS": "900000"}
#: Longwatch itself, but right at the end of a limit: it is otherwise up to a minute later, by chance.
PUNCTUAL = """#!{python}
import sys
from longwatch.cli import again, main
again.drawn = lambda: 0
main.main(sys.argv)
"""

both = pytest.mark.parametrize("how", [RECOGNISED, NAMED])
everyone = pytest.mark.parametrize("name", NAMES)


class Lab:
    """Starts agents in one home, each time with a model that plays a scenario."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.work = home / "work"
        (home / "tmp").mkdir()
        subprocess.run(["git", "init", "-q", self.work], check=True)

    def prepared(self, name: str, model: ScriptedModel) -> tuple[list[str], dict[str, str | None]]:
        """Return how an agent is started so that it prints words, and the environment that leads it to the model."""
        options = argparse.Namespace(
            name=name, agents=INSTALLED, scenario="", plain=True, resume=None, wrapper=[]
        )
        argv, env = prepare(options, self.home, f"http://127.0.0.1:{model.server_port}")
        kept = {*PASSED_ON, *FOLDERS, *helpers.COVERAGE, helpers.MARKER}
        return argv, {**{each: None for each in os.environ if each not in kept}, **env, **PATIENT}

    def bare(self, name: str, scenario: str) -> helpers.Finished:
        """Run an agent without longwatch."""
        with serving(scenario) as model:
            argv, env = self.prepared(name, model)
            return helpers.run_command(argv, env=env, cwd=self.work, deadline=100)

    def run(self, name: str, how: str, scenario: str, *flags: str) -> Run:
        """Run an agent to its end under `longwatch run`."""
        report, longwatch = self.home / "report.json", self.home / "longwatch"
        longwatch.write_text(PUNCTUAL.format(python=sys.executable))
        longwatch.chmod(0o755)
        preset = ("--preset", name) if how == NAMED else ()
        with serving(scenario) as model:
            argv, env = self.prepared(name, model)
            words = [longwatch, "run", "--report", report, *flags, *preset, "--", *argv]
            done = helpers.run_command(words, env=env, cwd=self.work, deadline=150)
        return Run(*done, read_report(report))


def serving(scenario: str) -> Any:
    """Serve a scenario meanwhile; gives the model."""
    return _Serving(scenario)


class _Serving:
    def __init__(self, scenario: str) -> None:
        self._model = ScriptedModel(scenario)
        self._thread = threading.Thread(target=self._model.serve_forever)

    def __enter__(self) -> ScriptedModel:
        self._thread.start()
        return self._model

    def __exit__(self, *_: object) -> None:
        self._model.shutdown()
        self._model.server_close()
        self._thread.join()


@pytest.fixture
def lab(home: Path, request: pytest.FixtureRequest) -> Lab:
    """Return the lab; skip where the test's agent is not installed."""
    name = request.node.callspec.params["name"]
    if not (INSTALLED / name / AGENTS[name]["program"]).exists():
        pytest.skip(f"{name} is not installed: tests/lab/agents.py install {name} --into .cache/agents")
    return Lab(home)


def tool(name: str, how: str) -> str:
    """Return the name of an agent's shell tool."""
    return IN_STREAM.get(name, SHELL[name]) if how == NAMED else SHELL[name]


def stopped(done: Run, reason: str) -> None:
    """Check that a limit ended the run, that nothing is left of it, and that it says how to go on."""
    assert (done.code, done.reason) == (124, reason), done.err
    assert (done.report["survivors"], done.report["leftovers"]["count"]) == ([], 0)
    assert done.report["agent"]["session"] in done.report["resume"]
    assert f"go on: {done.report['resume']}" in done.err


def well(done: Run) -> None:
    """Check that the agent ended by itself, well, and that nobody interfered."""
    assert (done.code, done.reason) == (0, "exited"), done.err
    assert (done.report["rungs"], done.report["survivors"]) == ([], [])
    assert "Done." in done.out


@everyone
@both
def test_basic(name: str, how: str, lab: Lab) -> None:
    """Four calls, of which two fail, and one error of the provider: counted right, its output untouched."""
    done = lab.run(name, how, "basic")
    well(done)
    agent = done.report["agent"]
    counted = {key: agent["counts"][key] for key in ("started", "ok", "failed", "open")}
    assert counted == {"started": 4, "ok": 2, "failed": 2, "open": 0}
    assert agent["live"] == (how == NAMED)
    assert agent["session"] in done.report["resume"]
    if how == RECOGNISED and name != "copilot":  # that one prints how long each step took
        assert done.out == lab.bare(name, "basic").out
        assert done.said == []


@everyone
@both
def test_hang(name: str, how: str, lab: Lab) -> None:
    """A tool that never returns is named by its budget, and ended with all that belongs to it.

    codex and copilot return it after a while by themselves, still running, and their model asks once more.
    """
    if (name, how) == ("gemini", RECOGNISED):
        # Its file has a call only when it is over, so this is silence like any other.
        done = lab.run(name, how, "hang", *STARTING, "--idle", "6s")
        stopped(done, "idle")
    else:
        done = lab.run(name, how, "hang:99", "--call", "6s")
        stopped(done, "call")
        assert f"the call {tool(name, how)} took 6s (--call 6s)" in done.said[-3]
        # Told to end, some still write down that the call is over.
        assert {call["tool"] for call in done.report["agent"]["calls"]} <= {tool(name, how)}
    assert "`tail` sleeps" in done.said[-2]


@everyone
@both
def test_stall_in_mid_stream(name: str, how: str, lab: Lab) -> None:
    """A model that falls silent in mid-sentence is an idle agent, whatever the agent thinks of it."""
    done = lab.run(name, how, "stall-mid-stream", *STARTING, "--idle", f"{max(6, PACE[name])}s")
    stopped(done, "idle")
    assert done.report["agent"]["counts"]["ok"] == 1
    assert "waits for data from 127.0.0.1" in done.said[-2]


@everyone
@both
def test_a_long_silent_tool(name: str, how: str, lab: Lab) -> None:
    """A tool that says nothing for three windows and then returns is work, and is left alone."""
    window = PACE[name]
    done = lab.run(name, how, f"silent-tool:{3 * window + 1}", *STARTING, "--idle", f"{window}s")
    if (name, how) == ("gemini", RECOGNISED):
        # Nothing shows that a tool runs: only its own window (8 minutes) or its preset helps.
        stopped(done, "idle")
        return
    well(done)
    longest = done.report["agent"]["longest"][0]
    assert (longest["state"], longest["tool"]) == ("call", tool(name, how))
    assert longest["ms"] > 2_500 * window


@everyone
@both
def test_the_same_call_again_and_again(name: str, how: str, lab: Lab) -> None:
    """The same call with the same result, five times in a row, is a loop."""
    # gemini ends such a loop by itself at the fifth.
    times = 3 if name == "gemini" else 5
    done = lab.run(name, how, "loop:400", "--loop", str(times))
    if (name, how) == ("gemini", RECOGNISED):
        # It is over before its file is looked at once more.
        assert (done.code, done.report["agent"]["counts"]["started"]) == (0, 4)
        return
    stopped(done, "looping")
    assert f"{tool(name, how)} with the same result {times} times" in done.said[-3]
    assert f"(--loop {times})" in done.said[-3]


# A provider's limit


@everyone
@both
def test_a_limit_that_is_over_soon(name: str, how: str, lab: Lab) -> None:
    """Whoever waits for it is left alone, whoever ends by it goes on in the same conversation, both to a good end.

    Only claude tells that it waits. gemini never says until when, so nobody can go on for it.
    """
    if name == "gemini":
        pytest.skip("gemini ends, and does not say until when: see the limit that lasts")
    done = lab.run(name, how, "usage-reset:6", "--resume-on-limit", *STARTING, "--idle", "20s")
    well(done)
    agent, pauses = done.report["agent"], done.report["pauses"]
    assert done.report["attempt"] == (2 if name == "codex" else 1)
    assert (pauses["parked_ms"] > 4_000) == (name == "claude")
    assert agent["limit"] is None
    assert agent["state"] == "ready"
    if name == "codex":
        parked, resumed = done.said[-2:]
        assert "parked by a usage limit until" in parked
        assert "goes on where it was, attempt 2" in resumed
        # Its own budget is as it was: what came before the limit is in the same conversation.
        assert agent["counts"]["ok"] == 1
    else:
        assert agent["counts"]["ok"] == 2


#: How a limit of two hours looks: what ends the run, its class, what is said of its end. Without a class nobody is told.
LASTING = {
    "claude": ("exited", "rate", "nobody says until when"),
    "codex": ("exited", "usage", "with --resume-on-limit longwatch waits and does it"),
    "gemini": ("exited", "usage", "nobody says until when"),
    "opencode": ("idle", None, ""),
    "pi": ("idle", None, ""),
    "copilot": ("exited", "rate", "nobody says until when"),
    "qwen": ("idle", "rate", "nobody says until when"),
}


@everyone
@both
def test_a_limit_that_lasts(name: str, how: str, lab: Lab) -> None:
    """What ends by it says in its last line what to type; what waits without a word is idle."""
    done = lab.run(name, how, "usage:7200", *STARTING, "--idle", f"{max(6, PACE[name])}s")
    reason, cls, said = LASTING[name]
    agent = done.report["agent"]
    assert done.reason == reason, done.err
    assert done.code == 124 if reason == "idle" else done.code not in (0, 124)
    assert agent["session"] in done.report["resume"]
    assert (agent["limit"] or {}).get("cls") == cls
    if cls is not None:
        last = done.said[-1]
        assert f"ended by a {cls} limit" in last
        assert said in last
        assert done.report["resume"] in last


# On a terminal


def typed(tmux: helpers.Tmux, env: dict[str, str | None], work: Path, command: str) -> None:
    """Have a shell on the terminal run a command in a folder, in an environment."""
    words = " ".join(f"{name}={shlex.quote(value)}" for name, value in env.items() if value is not None)
    tmux.type(f"cd {work}; export {words} TERM=xterm-256color; clear", "Enter")
    tmux.type(f"{command}; echo code=$?", "Enter")


def welcome(lab: Lab) -> None:
    """Let claude ask no first questions."""
    trusted = {"projects": {str(lab.work): {"hasTrustDialogAccepted": True}}}
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": ["scripted"]},
    }
    (lab.home / ".claude.json").write_text(json.dumps(known | trusted))


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_what_it_says_to_type_goes_on(name: str, lab: Lab, tmux: helpers.Tmux) -> None:
    """The command of the report opens the conversation that was stopped, where it was."""
    done = lab.run(name, RECOGNISED, "hang", "--call", "2s")
    stopped(done, "call")
    welcome(lab)
    with serving("textonly") as model:
        _, env = lab.prepared(name, model)
        # Else it leaves a server behind, for all that are to come.
        more = " --no-daemon" if name == "codex" else ""
        typed(tmux, env, lab.work, done.report["resume"] + more)
        if name == "codex":
            tmux.wait_for("Trust and continue", 20)
            tmux.type("Enter")
        shown = tmux.wait_for("Now I am going to do the next step", 20)
        assert "Do the steps." in shown
        tmux.type("C-c")
        tmux.type("C-c")
        tmux.wait_for("code=", 20)


def full_screen(lab: Lab, tmux: helpers.Tmux, model: ScriptedModel, *flags: str, prompt: str = "") -> Path:
    """Open claude's full-screen interface under `longwatch run`; return where the report will be."""
    welcome(lab)
    (program, *_), env = lab.prepared("claude", model)
    report = lab.home / "report.json"
    words = [
        program,
        "--model",
        "claude-sonnet-4-5",
        "--allowedTools=Bash",
        *(["--", prompt] if prompt else []),
    ]
    argv = [str(helpers.LONGWATCH), "run", "--report", str(report), *flags, "--", *words]
    typed(tmux, env, lab.work, shlex.join(argv))
    tmux.wait_for("Claude Code", 20)
    return report


def status() -> dict[str, Any]:
    """Return what `ls` tells of the only run."""
    told = json.loads(helpers.run_cli("ls", "--json").out or "{}")
    runs: list[dict[str, Any]] = told.get("runs", [])
    return runs[0] if runs else {}


@pytest.mark.parametrize("name", ["claude"])
def test_at_its_prompt_nothing_is_expected(name: str, lab: Lab, tmux: helpers.Tmux) -> None:
    """A full screen that waits for its human is ready, and alive after three windows without a change."""
    with serving("textonly") as model:
        report = full_screen(lab, tmux, model, *STARTING, "--idle", "2s")
        helpers.wait_until(lambda: (status().get("progress_ms_ago") or 0) > 6_500, 60, "a quiet screen")
        seen = status()
        assert (seen["state"], seen["agent"]["state"]) == ("held: ready", "ready")
        tmux.type("C-c")
        tmux.type("C-c")
        tmux.wait_for("code=0", 20)
    done = read_report(report)
    assert (done["termination_reason"], done["rungs"]) == ("exited", [])


@pytest.mark.parametrize("name", ["claude"])
@pytest.mark.parametrize(
    ("scenario", "flags", "reason", "state"),
    [
        ("stall-mid-stream", ("--idle", "6s"), "idle", "working"),
        ("hang", ("--call", "6s"), "call", "call"),
    ],
    ids=["a model that fell silent", "a tool that hangs"],
)
def test_a_spinner_hides_nothing(
    name: str, scenario: str, flags: tuple[str, ...], reason: str, state: str, lab: Lab, tmux: helpers.Tmux
) -> None:
    """Behind a spinner that keeps turning, and a clock that keeps counting, the one or the other is found."""
    with serving(scenario) as model:
        report = full_screen(lab, tmux, model, *STARTING, *flags, prompt="Do the steps.")
        tmux.wait_for("code=124", 40)
    done = read_report(report)
    assert (done["termination_reason"], done["survivors"]) == (reason, [])
    assert done["agent"]["state"] == state
    assert done["agent"]["session"] in done["resume"]
    # All the while it drew.
    assert done["progress"]["stdout"]["count"] > 3 * done["progress"]["screen"]["count"]
