"""Agents under `longwatch run`, as a user starts them: recognised, read, and judged by what they say of themselves."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import helpers
from fake_agents import Claude, Codex, Fake, Step, hang, sleep
from supervised import Run, live, supervise

pytestmark = pytest.mark.long

# So small that a test is over soon, so large that a busy machine is no silence.
IDLE = 900
LOOK = ("--poll", "100ms")
PRINT = ("-p", "Do the steps.")
HURRIED = """#!{python}
import sys
from longwatch import preset_table
from longwatch.cli.main import main
for preset in preset_table.PRESETS:
    for name, window in {windows}.items():
        if name in preset.limits:
            preset.limits[name].window = window
        if name in preset.call:
            preset.call[name].window = window
main(sys.argv)
"""


def run(
    agent: Fake,
    *steps: Step | list[Step],
    flags: tuple[str, ...] = (),
    words: tuple[str, ...] = PRINT,
    **options: Any,
) -> Run:
    """Run an agent to its end under `longwatch run`."""
    env = agent.part(*steps) | options.pop("env", {})
    return supervise(*LOOK, *flags, program=[agent.program, *words], env=env, cwd=agent.work, **options)


@pytest.fixture
def claude(home: Path) -> Claude:
    """Return an agent of the ways of Claude Code."""
    return Claude(home)


@pytest.fixture
def codex(home: Path) -> Codex:
    """Return an agent of the ways of Codex."""
    return Codex(home)


@pytest.fixture
def hurried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the presets have the windows of somebody in a hurry."""
    windows = {"idle": IDLE, "first": 1_500, "linger": IDLE, "": IDLE}
    script = tmp_path / "longwatch"
    script.write_text(HURRIED.format(python=sys.executable, windows=windows))
    script.chmod(0o755)
    monkeypatch.setattr(helpers, "LONGWATCH", script)


def idle(window: int = IDLE) -> tuple[str, ...]:
    """Return the flags of an idle window."""
    return ("--idle", f"{window}ms")


# What silence means


@pytest.mark.fault("A1", "A4")
@pytest.mark.parametrize("kind", [Claude, Codex])
def test_a_long_silent_tool_is_no_silence(kind: type[Claude | Codex], home: Path) -> None:
    """While a tool runs an agent may be silent for several windows, and while it writes records, too."""
    agent = kind(home)
    done = run(
        agent, agent.begins(), agent.says(), agent.calls("c1"), sleep(2.5), agent.gets("c1"),
        *[step for _ in range(4) for step in (agent.says(), sleep(0.5))], agent.over(), flags=idle(),
    )  # fmt: skip
    assert (done.code, done.said) == (0, []), done.err
    told = done.report["agent"]
    assert (told["preset"], told["session"]) == (agent.name, agent.session)
    assert told["counts"] == {
        "records": told["counts"]["records"], "started": 1, "ok": 1, "failed": 0, "retries": 0, "limits": 0,
        "errors": 0, "helpers": 0, "open": 0,
    }  # fmt: skip
    longest = told["longest"][0]
    assert longest["state"] == "call"
    assert longest["ms"] >= 2_000
    assert done.report["progress"]["transcript"]["count"] > 0


@pytest.mark.fault("B4")
@pytest.mark.parametrize("kind", [Claude, Codex])
def test_a_hung_tool_is_named_by_its_budget(kind: type[Claude | Codex], home: Path) -> None:
    """A call that takes longer than its tool may is what a stop names, with what it runs, and how to go on."""
    agent = kind(home)
    tool = {"claude": "Bash", "codex": "exec_command"}[agent.name]
    done = run(
        agent,
        agent.begins(),
        agent.calls("c1"),
        ("tool", ["sleep", "60"]),
        hang(),
        flags=("--call", f"{tool}=1s"),
    )
    assert (done.code, done.reason) == (124, "call"), done.err
    assert f"the call {tool} took 1s (--call {tool}=1s)" in done.said[0]
    assert "`sleep` sleeps" in done.said[1]
    go_on = {"claude": "claude --resume", "codex": "codex resume"}[agent.name]
    assert done.report["resume"] == f"{agent.program.parent}/{go_on} {agent.session}"
    assert f"go on: {done.report['resume']}" in done.said[2]
    assert done.report["survivors"] == []
    assert done.report["agent"]["calls"][0]["tool"] == tool


def test_work_that_stands_still_is_stopped(claude: Claude) -> None:
    """An agent that neither calls nor says anything in the middle of its turn is idle."""
    done = run(claude, claude.begins(), claude.says(), hang(), flags=idle())
    assert (done.code, done.reason) == (124, "idle"), done.err
    assert "transcript" in done.said[0]


@pytest.mark.fault("C1")
@pytest.mark.parametrize("on_disk", [True, False], ids=["its tool asks", "its stream asks"])
def test_a_question_holds_and_is_told_once(claude: Claude, on_disk: bool) -> None:
    """Nobody is idle who waits for a human; after --ask the human is told, once."""
    waits = {
        "type": "system",
        "subtype": "session_state_changed",
        "session_id": claude.session,
        "state": "requires_action",
    }
    asked, answered = [claude.calls("q1", "AskUserQuestion")], [claude.gets("q1", "yes")]
    if not on_disk:
        asked = [("print", init(claude)), ("print", waits)]
        answered = [("print", waits | {"state": "running"})]
    done = run(
        claude, claude.begins(), claude.says(), asked, sleep(3), answered, claude.says(), claude.over(),
        flags=(*idle(), "--ask", "1s"),
    )  # fmt: skip
    assert done.code == 0, done.err
    assert len(done.said) == 1, done.err
    assert "a question has waited 1s for its answer (--ask 1s)" in done.said[0]
    assert [rung["limit"] for rung in done.report["rungs"]] == ["ask"]
    assert done.report["agent"]["questions"] == []


def init(claude: Claude) -> dict[str, object]:
    """Return the first record of its stream."""
    return {
        "type": "system",
        "subtype": "init",
        "session_id": claude.session,
        "cwd": "/",
        "uuid": "i1",
        "model": "m",
    }


def test_a_usage_limit_is_a_pause(claude: Claude) -> None:
    """Until the provider's stated end silence is expected, and the report says so."""
    until = int(time.time()) + 3_600
    error = {
        "status": 429,
        "message": "usage limit",
        "rateLimits": {"resetsAt": until, "rateLimitType": "five_hour"},
    }
    done = run(
        claude,
        claude.begins(),
        claude.line("system", subtype="api_error", error=error),
        sleep(2.5),
        flags=idle(),
    )
    assert (done.code, done.report["rungs"]) == (0, []), done.err
    limit = done.report["agent"]["limit"]
    assert limit["cls"] == "usage"
    assert limit["until"].startswith(time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(until)))
    assert done.report["pauses"]["parked_ms"] >= 2_000


@pytest.mark.fault("B1")
def test_retries_are_no_progress(codex: Codex) -> None:
    """A stream that says again and again that it tries again stands still; its words are no output either."""
    lines = [
        ("print", {"type": "error", "message": f"Reconnecting... {n}/9 (timeout)"}) for n in range(1, 10)
    ]
    steps = [step for line in lines for step in (line, sleep(0.3))]
    done = run(
        codex, ("print", {"type": "thread.started", "thread_id": codex.session}), codex.streams("turn.started"), *steps,
        hang(), flags=idle(), words=("exec", "--json", "Do the steps."),
    )  # fmt: skip
    assert (done.code, done.reason) == (124, "idle"), done.err
    assert "alive" in done.said[0]
    assert "its last error: " in done.said[1]
    assert done.report["agent"]["counts"]["retries"] >= 2
    assert done.report["agent"]["live"]


@pytest.mark.fault("B1")
def test_retries_in_words_are_no_progress(home: Path) -> None:
    """Gemini tells of its retries in words on stderr alone; other words there are progress."""
    gemini = Fake("gemini", home)
    words = [("say", f"Attempt {n} failed with status 429. Retrying with backoff...") for n in range(20)]
    started = [
        ("print", {"type": "init", "session_id": gemini.session, "timestamp": "2030-01-02T03:04:05.000Z"})
    ]
    others = [step for _ in range(4) for step in (("say", "a warning"), sleep(0.4))]
    retries = [step for word in words for step in (word, sleep(0.2))]
    done = run(gemini, started, others, retries, hang(), flags=idle())
    assert (done.code, done.reason) == (124, "idle"), done.err
    assert done.report["duration_ms"] >= 3 * 400 + IDLE
    assert done.report["agent"]["counts"]["retries"] >= 2


def test_before_a_stop_everybody_looks_again(claude: Claude) -> None:
    """A transcript that appeared since the last search saves its agent: nothing is stopped on a look that is not fresh."""
    speaks = [step for _ in range(6) for step in (claude.says(), sleep(0.3))]
    done = run(claude, sleep(0.4), claude.begins(), speaks, flags=idle(1_000))
    assert (done.code, done.reason) == (0, "exited"), done.err


# At a terminal


@pytest.mark.fault("C3")
def test_an_agent_at_its_prompt_is_left_alone(claude: Claude) -> None:
    """Whose turn is over has nothing to do, also while its prompt blinks: for three windows nobody says a word."""
    blinks = ("draw", IDLE * 3 / 1000, "type here")
    done = run(claude, blinks, claude.begins(), claude.over(), blinks, flags=(*idle(), "--pty"), words=())
    assert done.code == 0, done.err
    assert done.said == []
    assert "longwatch" not in done.out


@pytest.mark.fault("B1")
def test_a_spinner_without_records_is_found(claude: Claude) -> None:
    """An agent that hangs in its turn behind a spinner and a running clock is idle: what moves on its screen is masked."""
    steps = [claude.begins(), claude.says(), ("draw", 30.0, "Thinking")]
    done = run(claude, *steps, flags=(*idle(1_500), "--pty"), words=())
    assert (done.code, done.reason) == (124, "idle"), done.err
    assert "screen" in done.err


@pytest.mark.usefixtures("hurried")
def test_at_a_terminal_a_preset_only_notifies(claude: Claude) -> None:
    """Where a human sits before it, what nobody named stops nothing; it is told how it would."""
    steps = [claude.begins(), claude.says(), ("draw", 2.5, "Thinking")]
    done = run(claude, *steps, flags=("--pty",), words=())
    assert done.code == 0, done.err
    told = done.err + done.out
    assert "(preset claude)" in told
    assert "it goes on, name --idle to have it stopped" in told


# Presets


@pytest.mark.capability("NEW-15")
@pytest.mark.usefixtures("hurried")
def test_a_recognised_agent_is_stopped_by_its_preset(claude: Claude) -> None:
    """Without flags the preset's windows act, and everything says whose they are."""
    env = claude.part(claude.begins(), claude.says(), hang())
    with live(
        *LOOK, "--idle-action", "stop", program=["claude", *PRINT], env=env, cwd=claude.work
    ) as started:
        status = started.status()
        done = started.finish()
    assert (done.code, done.reason) == (124, "idle"), done.err
    assert "(preset claude)" in done.said[0]
    assert status["limits"]["idle"]["source"] == "preset"
    assert done.report["resume"] == f"claude --resume {claude.session}"


@pytest.mark.capability("NEW-15")
@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("how", ["flag", "variable", "none"])
def test_what_the_user_says_wins(claude: Claude, how: str) -> None:
    """A window named by flag or variable is the one that counts; with --preset none the program is nobody's."""
    flags = {"flag": ("--idle", "20s"), "none": ("--preset", "none")}.get(how, ())
    env = {"LONGWATCH_IDLE": "20s"} if how == "variable" else {}
    done = run(claude, claude.begins(), claude.says(), sleep(2), flags=flags, env=env)
    assert (done.code, done.said) == (0, []), done.err
    assert (done.report["agent"] is None) == (how == "none")


@pytest.mark.capability("NEW-15")
def test_a_named_preset_adds_its_flags_and_says_so(claude: Claude) -> None:
    """Only under an explicit --preset words are added, shown once with their reason; one that is there already is not."""
    env = claude.part(("print", "hello"))
    said = supervise("--preset", "claude", program=["claude", *PRINT], env=env)
    assert [line.split(": ")[2] for line in said.said] == [
        "preset claude adds --output-format stream-json --verbose",
        *(["preset claude leaves stdin empty"] if len(said.said) > 1 else []),
    ]
    given = supervise(
        "--preset",
        "claude",
        "--stdin",
        "inherit",
        program=["claude", *PRINT, "--output-format", "text"],
        env=env,
    )
    assert (given.said, given.out) == ([], "hello\n")
    plain = supervise(program=["claude", *PRINT], env=env)
    assert (plain.said, plain.out) == ([], "hello\n")


@pytest.mark.capability("NEW-15")
def test_a_named_preset_leaves_an_unneeded_stdin_empty(codex: Codex) -> None:
    """An agent that would read stdin to its end gets none where nothing is in it; what somebody sends, or asks for, stays."""
    codex.program.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:], repr(sys.stdin.read()))\n")
    read, write = os.pipe()
    program = [codex.program, "exec", "x"]
    try:
        empty = supervise("--preset", "codex", program=program, stdin=read)
        os.write(write, b"words")
        os.close(write)
        sent = supervise("--preset", "codex", program=program, stdin=read)
    finally:
        os.close(read)
    assert empty.out == "['exec', '--json', 'x'] ''\n"
    assert "leaves stdin empty" in empty.said[1]
    assert sent.out == "['exec', '--json', 'x'] 'words'\n"
    file = codex.home / "prompt"
    file.write_text("words")
    with file.open() as given:
        assert "'words'" in supervise("--preset", "codex", program=program, stdin=given).out
    variable = supervise(program=program, env={"LONGWATCH_PRESET": "codex"})
    assert "'--json'" in variable.out
    other = supervise(program=["sh", "-c", "echo $0", "exec"], env={"LONGWATCH_PRESET": "codex"})
    assert (other.out, other.said) == ("exec\n", [])


@pytest.mark.capability("NEW-15")
def test_a_wrong_preset_is_one_line() -> None:
    """A name that is none is refused before anything starts, with the nearest; a variable only warns."""
    refused = helpers.run_cli("run", "--preset", "cluade", "--", "echo", "hello")
    assert (refused.code, refused.out) == (125, "")
    assert refused.err == "longwatch: --preset cluade: no such preset; did you mean claude?\n"
    warned = helpers.run_cli("run", "--", "echo", "hello", env={"LONGWATCH_PRESET": "cluade"})
    assert (warned.code, warned.out) == (0, "hello\n")
    assert warned.err.startswith("longwatch: LONGWATCH_PRESET=cluade: no such preset")


def test_a_transcript_needs_a_known_agent(claude: Claude, tmp_path: Path) -> None:
    """Who asks for the transcript of a program that keeps none is told before anything starts; a variable only warns."""
    words = ("--", "sh", "-c", "echo hello")
    for flags in ((), ("--preset", "pytest")):
        done = helpers.run_cli("run", "--progress", "transcript", *flags, *words)
        assert (done.code, done.out) == (125, "")
        assert "sh is none of the agents whose records are read" in done.err
    warned = helpers.run_cli("run", *words, env={"LONGWATCH_PROGRESS": "transcript"})
    assert (warned.code, warned.out) == (0, "hello\n")
    assert "the built-in is used" in warned.err
    (tmp_path / "msgspec.py").write_text("raise ModuleNotFoundError('no', name='msgspec')")
    missing = run(claude, flags=("--progress", "transcript"), env={"PYTHONPATH": str(tmp_path)})
    assert missing.code == 125
    assert "--progress transcript needs the package msgspec" in missing.err


@pytest.mark.capability("NEW-15")
@pytest.mark.usefixtures("hurried")
def test_a_missing_extra_is_named_once(claude: Claude, tmp_path: Path) -> None:
    """Without the package that reads records the run goes on with bytes, and its preset only notifies."""
    (tmp_path / "msgspec.py").write_text("raise ModuleNotFoundError('no', name='msgspec')")
    env = {"PYTHONPATH": str(tmp_path)}
    done = run(claude, claude.begins(), sleep(2), flags=(), env=env)
    assert done.code == 0, done.err
    assert "needs the package msgspec; install it with: pip install" in done.said[0]
    assert "it goes on" in done.said[1]
    assert len(done.said) == 2, done.err
    (tmp_path / "msgspec.py").unlink()
    (tmp_path / "pyte.py").write_text("raise ModuleNotFoundError('no', name='pyte')")
    done = run(claude, claude.begins(), claude.over(), sleep(1), flags=("--pty",), words=(), env=env)
    assert done.code == 0, done.err
    assert "needs the package pyte" in done.err + done.out
    assert done.report["agent"]["counts"]["records"] > 0


@pytest.mark.usefixtures("hurried")
def test_without_a_transcript_nobody_is_stopped(claude: Claude) -> None:
    """An agent none of whose records was ever found may be at work: what nobody named notifies, and says why."""
    done = run(claude, sleep(2.5))
    assert done.code == 0, done.err
    assert len(done.said) == 1, done.err
    assert "none of its records was read: claude has written no transcript yet" in done.said[0]
    named = run(claude, hang(), flags=idle())
    assert (named.code, named.reason) == (124, "idle")


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("where", ["in its files", "in its stream", "of a hook"])
def test_a_reader_that_is_broken_does_not_cost_the_supervision(
    claude: Claude, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect of ours in reading records is told once; bytes count on, and a named window still stops."""
    broken = tmp_path / "longwatch-broken"
    breaks = "from longwatch.observe import agent\nagent.Standing.heard = lambda *_: 1 / 0\nmain(sys.argv)\n"
    broken.write_text(Path(helpers.LONGWATCH).read_text().replace("main(sys.argv)\n", breaks))
    broken.chmod(0o755)
    monkeypatch.setattr(helpers, "LONGWATCH", broken)
    message = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_use_id": "c1"}
    (tmp_path / "message").write_text(json.dumps(message))
    hook = ["sh", "-c", f"{broken} hook <{tmp_path}/message; sleep 60"]
    steps = {
        "in its files": claude.begins(),
        "in its stream": [("print", init(claude)), ("print", "word")],
        "of a hook": [sleep(1.2), ("tool", hook)],
    }[where]
    done = run(claude, steps, hang(), flags=idle(2_000))
    assert (done.code, done.reason) == (124, "idle"), done.err
    assert [line for line in done.said if "a defect of longwatch" in line] == done.said[:1], done.err
    assert "ZeroDivisionError" in done.said[0]
    assert done.report["agent"]["counts"]["records"] == 0


def test_words_are_left_alone(claude: Claude) -> None:
    """An agent that prints words, not records, is judged by its bytes, as any program."""
    words = [step for n in range(30) for step in (("print", f"line {n}"), sleep(0.05))]
    done = run(claude, words, ("print", "{}"), sleep(0.5), flags=idle(), words=())
    assert (done.code, done.said) == (0, []), done.err
    assert done.report["progress"]["stdout"]["count"] >= 20
    assert not done.report["agent"]["live"]


# The end


@pytest.mark.capability("NEW-8")
@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("failed", [False, True])
def test_who_is_done_and_stays_is_stopped_with_its_own_status(claude: Claude, failed: bool) -> None:
    """After its final result an agent that does not end is ended, and the result decides whether that was a success."""
    result = {
        "type": "result", "subtype": "success", "is_error": failed, "session_id": claude.session, "uuid": "r1",
        "result": "Done.",
    }  # fmt: skip
    done = run(claude, claude.begins(), ("print", init(claude)), ("print", result), hang())
    assert (done.code, done.reason) == (int(failed), "lingered"), done.err
    assert done.report["outcome"] == ("failed" if failed else "success")
    assert "finished 900ms ago, and still there (preset claude)" in done.said[0]


@pytest.mark.capability("NEW-8")
@pytest.mark.usefixtures("hurried")
def test_the_end_of_a_turn_is_the_result_of_who_works_alone(codex: Codex) -> None:
    """Without a stream the transcript says that it is done; one that a human talks to stays as long as it likes."""
    steps = [codex.begins(), codex.says(), codex.over()]
    done = run(codex, *steps, hang(), words=("exec", "Do the steps."))
    assert (done.code, done.reason) == (0, "lingered"), done.err
    stays = run(codex, *steps, sleep(2), words=())
    assert (stays.code, stays.said) == (0, []), stays.err


# Whose records, and which


@pytest.mark.fault("D2")
def test_a_neighbour_is_no_sign_of_life(home: Path) -> None:
    """Of two agents in one directory each is judged by its own records: the one that hangs is stopped."""
    mine, other = Claude(home), Claude(home)
    busy = [step for _ in range(40) for step in (other.says(), sleep(0.1))]
    with live(
        *LOOK, *idle(), program=["claude", *PRINT], env=other.part(other.begins(), busy), cwd=other.work
    ) as beside:
        done = run(mine, mine.begins(), mine.says(), hang(), flags=idle())
        goes_on = beside.process.poll() is None
        assert beside.finish().code == 0, beside.err
    assert goes_on
    assert (done.code, done.reason) == (124, "idle"), done.err
    assert [Path(file["path"]).stem for file in done.report["agent"]["files"]] == [mine.session]


@pytest.mark.fault("D1")
def test_a_helper_at_work_is_its_parent_at_work(claude: Claude) -> None:
    """While a helper writes its own records its silent parent is alive, and what it calls is open."""
    works = [step for _ in range(6) for step in (claude.helper_says("h1"), sleep(0.4))]
    done = run(
        claude, claude.begins(), claude.calls("t1", "Task"), works, claude.gets("t1"), claude.over(),
        flags=(*idle(), "--stall", "20s"),
    )  # fmt: skip
    assert (done.code, done.said) == (0, []), done.err
    assert {file["why"] for file in done.report["agent"]["files"]} == {"registry", "helper"}


@pytest.mark.fault("D1")
def test_the_last_error_of_a_helper_is_part_of_the_cause(claude: Claude) -> None:
    """A helper that died of a rate limit leaves a quiet parent: the stop says what happened to it."""
    broken = claude.helper(
        "h1", "assistant", isApiErrorMessage=True, apiErrorStatus=500,
        message={"id": "e", "content": [{"type": "text", "text": "API Error: 500 went away"}], "stop_reason": "stop_sequence"},
    )  # fmt: skip
    done = run(
        claude, claude.begins(), claude.calls("t1", "Task"), claude.helper_says("h1"), broken, hang(),
        flags=("--stall", "1500ms", "--action", "stall=stop"),
    )  # fmt: skip
    assert (done.code, done.reason) == (124, "stalled"), done.err
    assert "its last error: its helper: API Error: 500 went away" in done.said[1]


@pytest.mark.capability("OBS-8")
def test_records_that_nobody_knows_are_signs_of_life(claude: Claude) -> None:
    """The next release of an agent writes what no dialect knows: it is alive by it, does not move, and breaks nothing."""
    steps = [step for _ in range(20) for step in (claude.record(type="brand-new", n=1), sleep(0.2))]
    done = run(claude, claude.begins(), claude.says(), *steps, hang(), flags=idle())
    assert (done.code, done.reason) == (124, "idle"), done.err
    assert "alive" in done.said[0]
    assert "Traceback" not in done.err


@pytest.mark.capability("NEW-1")
def test_a_lost_transcript_says_so(claude: Claude, tmp_path: Path) -> None:
    """When its files are gone an agent is not taken for silent, and the events tell it."""
    gone = tmp_path / "gone"
    env = claude.part(
        claude.begins(),
        claude.says(),
        sleep(1.5),
        ("forget", str(claude.file)),
        sleep(2),
        ("touch", str(gone)),
    )
    with live(
        *LOOK,
        "--idle",
        "3s",
        "--progress",
        "transcript",
        program=["claude", *PRINT],
        env=env,
        cwd=claude.work,
    ) as started:
        helpers.wait_until(gone.exists, 15)
        done = started.finish()
    assert done.code == 0, done.err


# The streams of others


def test_a_stream_and_a_file_of_one_agent_are_one(codex: Codex) -> None:
    """What is printed and written counts once, though the two give the calls different names."""
    item = {"id": "item_1", "type": "command_execution", "command": "make"}
    done = run(
        codex, ("print", {"type": "thread.started", "thread_id": codex.session}), codex.begins(),
        codex.streams("turn.started"), codex.streams("item.started", **item), codex.calls("c1"), sleep(2.0),
        codex.gets("c1"), codex.streams("item.completed", **item, status="completed", exit_code=0),
        ("print", {"type": "turn.completed"}), codex.over(), flags=idle(), words=("exec", "--json", "Do the steps."),
    )  # fmt: skip
    assert (done.code, done.said) == (0, []), done.err
    counts = done.report["agent"]["counts"]
    assert (counts["started"], counts["ok"], counts["open"]) == (1, 1, 0)
    assert done.out.count("\n") == 5


@pytest.mark.parametrize("name", ["gemini", "opencode"])
def test_a_stream_alone_is_enough(home: Path, name: str) -> None:
    """An agent whose files are not found is read by what it prints: its open call excuses, its result ends it."""
    agent = Fake(name, home)
    stamp = "2030-01-02T03:04:05.000Z"
    gemini = [
        ("print", {"type": "init", "session_id": "s1", "timestamp": stamp}),
        (
            "print",
            {"type": "tool_use", "tool_id": "c1", "tool_name": "run_shell_command", "timestamp": stamp},
        ),
        sleep(2.0),
        (
            "print",
            {"type": "tool_result", "tool_id": "c1", "status": "success", "output": "", "timestamp": stamp},
        ),
        ("print", {"type": "result", "status": "success", "timestamp": stamp}),
    ]
    part = {"id": "p1", "type": "text", "text": "word"}
    opencode = [
        ("print", {"type": "text", "sessionID": "ses_1", "timestamp": 1893553445000, "part": part}),
        ("print", {"type": "step_finish", "sessionID": "ses_1", "timestamp": 1893553445000,
                   "part": {"id": "p2", "type": "step-finish", "reason": "stop"}}),
        sleep(2.0),
    ]  # fmt: skip
    words = {"gemini": PRINT, "opencode": ("run", "Do the steps.")}[name]
    done = run(agent, {"gemini": gemini, "opencode": opencode}[name], flags=idle(), words=words)
    assert (done.code, done.said) == (0, []), done.err
    told = done.report["agent"]
    assert told["result_ok"]
    assert told["live"]
    assert told["counts"]["started"] == (1 if name == "gemini" else 0)


# While it runs


def test_the_run_folder_shows_how_the_agent_stands(claude: Claude, state: Path, tmp_path: Path) -> None:
    """Who looks at a live run sees its conversation and its open call, and what it did is kept line by line."""
    go = tmp_path / "go"
    env = claude.part(
        claude.begins(), claude.calls("c1"), ("await", str(go)), claude.gets("c1"), claude.over()
    )
    with live(*LOOK, program=["claude", *PRINT], env=env, cwd=claude.work) as started:
        folder = Path(
            helpers.wait_until(lambda: next(iter((state / "runs").glob("claude-*/agent.json")), None), 10)
        ).parent

        def shown() -> dict[str, Any]:
            found: dict[str, Any] = json.loads((folder / "agent.json").read_text())
            return found

        helpers.wait_until(lambda: shown()["calls"], 10)
        told = shown()
        go.touch()
        done = started.finish()
    assert (told["session"], told["state"], told["calls"][0]["tool"]) == (claude.session, "call", "Bash")
    assert json.loads((folder / "meta.json").read_text())["preset"] == "claude"
    kinds = [json.loads(line)["kind"] for line in (folder / "agent.jsonl").read_text().splitlines()]
    assert kinds[0] == "session_start"
    assert "tool_result" in kinds
    assert done.report["agent"]["calls"] == []


def test_an_agent_that_already_runs_is_read(claude: Claude, tmp_path: Path) -> None:
    """`watch` reads the transcript of a process that it did not start, and knows what was open before."""
    env = claude.part(
        claude.begins(), claude.says(), claude.calls("c1"), ("touch", str(tmp_path / "open")), hang()
    )
    beside = subprocess.Popen(
        [claude.program, *PRINT], env=helpers.environment(env), cwd=claude.work, start_new_session=True
    )
    with helpers.ending(beside) as process:
        helpers.wait_until((tmp_path / "open").exists)
        report = tmp_path / "report.json"
        done = helpers.run_cli("watch", "--pid", str(process.pid), *LOOK, "--call", "1s", "--report", report)
        process.wait()
    assert done.code == 124, done.err
    assert "the call Bash took 1s" in done.err
    assert json.loads(report.read_text())["agent"]["session"] == claude.session
