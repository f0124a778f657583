"""Agents as harnesses: what is seen of them, when they are stopped, how they go on, and what is remembered of them."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import helpers
from fake_agents import Claude, Codex, Fake, Step, hang, sleep
from harnessed import House, limit
from longwatch.core.harness import SCHEDULED, TRIGGERED, Harness
from longwatch.daemon.agents import Agents
from longwatch.daemon.conversations import Conversation, filled
from longwatch.posix.spawn import SpawnError

PRINT = ("-p", "Do the steps.")
WINDOW = 900
PRESET = {"preset": "preset claude"}


@pytest.fixture
def claude(home: Path) -> Claude:
    """Return an agent of the ways of Claude Code."""
    return Claude(home)


@pytest.fixture
def house(home: Path) -> Iterator[House]:
    """Return where harnesses live."""
    with House(home) as found:
        yield found


def harness(agent: Fake, *steps: Step | list[Step], words: tuple[str, ...] = PRINT, **more: Any) -> Harness:
    """Return a harness of an agent that plays a part."""
    env = {name: str(value) for name, value in agent.part(*steps).items()}
    more = {"preset": agent.name, "cwd": str(agent.work), "grace": 1_000, "limits": {}, **more}
    return Harness("worker", (str(agent.program), *words), env=env, **more)


# Its stall


@pytest.mark.capability("CAP-106", "NEW-10")
@pytest.mark.fault("T3")
def test_one_that_hangs_is_stopped_and_goes_on_with_its_conversation(house: House, claude: Claude) -> None:
    """No call goes well for a window: it is stalled, and its next life is told which conversation to take up."""
    lazy = harness(
        claude,
        claude.begins(),
        claude.calls("c1"),
        claude.gets("c1"),
        hang(),
        limits={"stall": limit(WINDOW)},
    )
    first = house.done(house.start(lazy))
    assert (first.report["termination_reason"], first.report["outcome"]) == ("stalled", "stalled")
    assert first.report["survivors"] == []
    end = first.why_ended
    assert (end.cls, end.session, end.progressed) == (None, claude.session, True)
    start = house.agents.launch(lazy, 2)
    assert start.argv == [
        str(claude.program), "--resume", claude.session, "-p", "Continue where you left off.",
    ]  # fmt: skip
    assert start.environment == {"LONGWATCH_RESUME": claude.session}
    assert start.note == f"attempt 2 goes on with conversation {claude.session}"


@pytest.mark.capability("CAP-107")
def test_talk_is_no_progress_and_a_good_call_is(house: House, claude: Claude) -> None:
    """Who talks without a call that goes well is stalled; the clock stands at the call that the report shows."""
    talk = [step for _ in range(20) for step in (claude.says(), sleep(0.2))]
    chatty = harness(
        claude, claude.begins(), sleep(0.5), claude.calls("c1"), claude.gets("c1"), sleep(0.3),
        claude.calls("c2"), claude.gets("c2", ok=False), *talk, limits={"stall": limit(WINDOW)},
    )  # fmt: skip
    run = house.start(chatty)
    house.done(run)
    fired = next(fact for fact in house.told("limit_fired"))
    assert run.report["termination_reason"] == "stalled"
    assert run.report["agent"]["counts"]["ok"] == 1
    # CAP-108: the instant that is shown is the one that the limit counts from.
    assert run.observation.facts(0)["last_success"] == fired.since
    assert fired.since > run.watch.started


@pytest.mark.capability("CAP-107")
@pytest.mark.fault("A5")
def test_one_that_cannot_be_read_is_only_told_of(house: House, claude: Claude) -> None:
    """An agent of which no record was read in this life may work all the same: nothing stops it for that."""
    dumb = harness(claude, hang(), limits={"stall": limit(300)})
    run = house.start(dumb)
    house.until(lambda: house.told("limit_fired"))
    assert [fact.action for fact in house.told("limit_fired")] == ["notify"]
    facts = run.observation.facts(0)
    assert facts["blind"] == "none of its records was read: claude has written no transcript yet"
    assert not run.stopping
    house.stop(run)


@pytest.mark.capability("CAP-107")
def test_a_program_without_calls_counts_from_its_start_and_says_so(house: House, home: Path) -> None:
    """Where nobody can see a call, a stall is a period of restarts, and the snapshot does not hide it."""
    chatty = Harness(
        "beat", ("sh", "-c", "while echo x; do sleep 0.1; done"), cwd=str(home), grace=500,
        limits={"stall": limit(600)},
    )  # fmt: skip
    run = house.start(chatty)
    assert run.observation.facts(0)["note"] == "no calls of it can be seen: its stall counts from its start"
    house.done(run)
    assert run.report["termination_reason"] == "stalled"
    assert (run.why_ended.cls, run.why_ended.progressed) == (None, False)


@pytest.mark.fault("A5")
def test_every_start_has_its_time_to_begin(house: House, home: Path) -> None:
    """Silence before the first sign is bounded by `first` alone: at a first start, a restart, and for an adopted one."""
    slow = "sleep 1.8; for n in 1 2 3 4 5 6 7 8 9 10; do echo x; sleep 0.1; done"
    limits = {"idle": limit(600), "first": limit(3_600)}
    runs = [
        house.start(Harness(name, ("sh", "-c", slow), cwd=str(home), limits=limits), attempt)
        for name, attempt in (("one", 1), ("two", 2), ("three", 1))
    ]
    begun = time.monotonic()
    house.until(lambda: time.monotonic() > begun + 0.9)
    runs[2] = house.adopt(runs[2])
    for run in runs:
        assert house.done(run).report["termination_reason"] == "exited", run.harness.name
    mute = Harness("mute", ("sleep", "60"), cwd=str(home), limits={"first": limit(500)}, grace=300)
    assert house.done(house.start(mute)).report["termination_reason"] == "first"


@pytest.mark.fault("C3")
@pytest.mark.capability("CAP-106")
@pytest.mark.parametrize("strict", [False, True])
def test_a_finished_turn_is_no_stall(house: House, claude: Claude, strict: bool) -> None:
    """At its prompt with nothing left to do it is ready, neither working nor stalled; unless that is asked for."""
    idle = harness(
        claude, claude.begins(), claude.calls("c1"), claude.gets("c1"), claude.over(), hang(), words=(), pty=True,
        limits={"stall": limit(700), "idle": limit(700)}, stall_when_ready=strict,
    )  # fmt: skip
    run = house.start(idle)
    house.until(lambda: run.observation.session)
    if strict:
        assert house.done(run).report["termination_reason"] == "stalled"
        assert house.agents.launch(idle).argv == [str(claude.program), "--resume", claude.session]
        return
    begun = time.monotonic()
    house.until(lambda: time.monotonic() > begun + 2)
    facts = run.observation.facts(0)
    assert (facts["ready"], facts["asked"], facts["calls"], facts["blind"]) == (True, False, [], None)
    assert house.told("limit_fired") == []
    assert ("turn", False) in run.observation.heard()
    house.stop(run)


@pytest.mark.fault("A5")
def test_an_adopted_agent_stands_where_it_stood(house: House, claude: Claude) -> None:
    """Another supervisor reads it again from its records: the open call, the counts, the conversation, its clocks."""
    go = claude.home / "go"
    busy = harness(
        claude, claude.begins(), claude.calls("c1"), claude.gets("c1"), claude.calls("c2", "Task"),
        ("await", str(go)), claude.gets("c2"), claude.over(), limits={"stall": limit(20_000), "idle": limit(600)},
    )  # fmt: skip
    first = house.start(busy)
    house.until(lambda: house.watch(first) or first.observation.facts(0)["calls"])
    before = first.observation.facts(first.host.now())
    run = house.adopt(first)
    after = run.observation.facts(run.host.now())
    assert after["calls"][0]["tool"] == "Task"
    assert after["calls"][0]["since_ms"] >= before["calls"][0]["since_ms"]
    assert after["model_calls"] == before["model_calls"] == {"ok": 1, "failed": 0}
    # Whoever looks while a file comes up is up to a look late; whoever reads it later is not.
    assert before["last_success"] - 2_000 <= after["last_success"] <= before["last_success"]
    assert run.observation.session == claude.session
    assert [hold.kind for hold in run.watch.holds.all() if hold.kind == "call"] == ["call"]
    begun = time.monotonic()
    house.until(lambda: time.monotonic() > begun + 1.2)
    assert not run.stopping  # the call holds the silence, as it did
    go.touch()
    house.done(run)
    assert (run.report["termination_reason"], run.report["agent"]["counts"]["ok"]) == ("exited", 2)
    log = (house.state / "runs" / run.run_id / "agent.jsonl").read_text().splitlines()
    calls = [json.loads(line)["call"] for line in log if json.loads(line)["kind"] == "tool_call"]
    assert calls == ["c1", "c2"]  # told once, whoever watched


def test_a_codex_call_that_was_open_at_the_adoption_ends(house: House, home: Path) -> None:
    """Its stream numbers calls anew, so the end of one that only the file told of is taken from there."""
    codex, go = Codex(home), home / "go"
    busy = harness(
        codex, codex.begins(), ("print", {"type": "thread.started", "thread_id": codex.session}),
        codex.streams("item.started", id="item_1", type="command_execution", command="make"), codex.calls("c1"),
        ("await", str(go)), codex.streams("turn.started"), codex.streams("item.started", id="item_9", type="reasoning"),
        codex.gets("c1"), hang(), words=("exec", "Do it."),
    )  # fmt: skip
    first = house.start(busy)
    house.until(lambda: house.watch(first) or first.observation.facts(0)["calls"])
    run = house.adopt(first)
    go.touch()
    house.until(lambda: house.watch(run) or not run.observation.facts(0)["calls"])
    assert run.observation.facts(0)["model_calls"] == {"ok": 1, "failed": 0}
    house.stop(run)


# Its loop


@pytest.mark.capability("CAP-127")
@pytest.mark.fault("S1")
def test_the_same_call_with_the_same_result_eight_times_ends_it(house: House, claude: Claude) -> None:
    """It is told first, then stopped; its conversation is not taken up again."""
    same = [
        step for n in range(9) for step in (claude.calls(f"c{n}", cmd="make"), claude.gets(f"c{n}", "no"))
    ]
    looping = harness(claude, claude.begins(), *same, hang())
    run = house.done(house.start(looping))
    assert run.report["termination_reason"] == "looping"
    assert [fact.subject for fact in house.told("limit_fired")] == ["Bash"]
    assert house.agents.launch(looping).argv == list(looping.command)


@pytest.mark.capability("CAP-127")
@pytest.mark.fault("S1")
@pytest.mark.parametrize("what", ["its result", "another call", "a word of the user", "it is switched off"])
def test_what_makes_equal_calls_no_loop(house: House, claude: Claude, what: str) -> None:
    """A changing answer is polling; another call, or the user's word, begins anew."""
    steps: list[Step] = []
    for n in range(10):
        steps += [
            claude.calls(f"c{n}", cmd="make"),
            claude.gets(f"c{n}", str(n) if what == "its result" else "no"),
        ]
        if n == 5 and what == "another call":
            steps += [claude.calls("other", cmd="ls"), claude.gets("other")]
        if n == 5 and what == "a word of the user":
            steps += [claude.told("go on")]
    off = {"setters": {"loop": "longwatch.toml:3"}} if what == "it is switched off" else {}
    run = house.done(house.start(harness(claude, claude.begins(), *steps, claude.over(), **off)))
    assert run.report["termination_reason"] == "exited"
    assert run.report["agent"]["counts"]["started"] >= 10


# How it goes on


@pytest.mark.capability("NEW-10")
@pytest.mark.fault("T3")
@pytest.mark.parametrize(
    ("session", "resume", "argv"),
    [
        ("S-1", (), ["claude", "--resume", "S-1", "-p", "Continue where you left off."]),
        ("S-1", ("again", "--id={session}"), ["again", "--id=S-1"]),
        ("", ("again", "{session}"), ["claude", "-p", "Do the steps."]),
        ("--dangerously", ("again", "{session}"), ["claude", "-p", "Do the steps."]),
        ("a b", (), ["claude", "-p", "Do the steps."]),
    ],
)
def test_how_the_next_one_starts(home: Path, session: str, resume: tuple[str, ...], argv: list[str]) -> None:
    """With the conversation's id in its place; an id that is unknown, or no id, is a fresh start and no empty word."""
    agents = Agents(str(home))
    lazy = Harness("worker", ("claude", *PRINT), preset="claude", cwd=str(home), resume=resume)
    agents.conversations.keep(lazy, Conversation(session, "stalled"))
    start = agents.launch(lazy)
    assert start.argv == argv
    assert "" not in start.argv
    if argv[0] == "claude" and resume:
        assert start.note == "starts afresh: its conversation is unknown"
        assert start.environment == {}


@pytest.mark.parametrize(
    ("last", "more", "resumed"),
    [
        (Conversation("S-1", "cancelled"), {}, True),
        (Conversation("S-1", ""), {}, True),  # its machine went down with it
        (Conversation("S-1", "exited", over=True), {}, False),
        (Conversation("S-1", "stalled"), {"cwd": "/"}, False),
        (Conversation("S-1", "stalled"), {"preset": "codex", "command": ("codex", "exec", "x")}, False),
        (Conversation("S-1", "timeout"), {"kind": SCHEDULED}, False),
        (Conversation("S-1", "exited", limited=True), {"kind": SCHEDULED}, True),
        (Conversation("S-1", "exited", limited=True), {"kind": TRIGGERED}, False),
    ],
)
@pytest.mark.fault("T3")
def test_when_it_goes_on(home: Path, last: Conversation, more: dict[str, Any], resumed: bool) -> None:
    """A conversation is taken up where it was held and not finished; a firing is a task of its own."""
    agents = Agents(str(home))
    known = {"command": ("claude", *PRINT), "preset": "claude", "cwd": str(home)}
    agents.conversations.keep(Harness("worker", **known), last)
    assert agents.launch(Harness("worker", **{**known, **more})).resumed is resumed


@pytest.mark.fault("T3")
def test_a_folder_that_is_gone_is_a_refusal(home: Path) -> None:
    """Nothing is started in another folder than the harness's own."""
    with pytest.raises(SpawnError, match="/gone: no such folder to work in"):
        Agents(str(home)).launch(Harness("worker", ("true",), cwd=f"{home}/gone"))


def test_a_hole_in_a_command_line_is_refused() -> None:
    """Whoever fills a template without an id is told, and gets no words."""
    with pytest.raises(ValueError, match="'' is no conversation"):
        filled(("again", "{session}"), "")


@pytest.mark.capability("NEW-10")
def test_conversations_are_remembered_over_a_crash(house: House, claude: Claude) -> None:
    """As soon as it is known which one it is, it stands on the disk, whatever becomes of us and of the program."""
    run = house.start(harness(claude, claude.begins(), claude.says(), hang()))
    house.until(lambda: house.watch(run) or run.observation.session)
    told = json.loads((house.folder / "agents.json").read_text())
    assert told["conversations"]["worker"]["session"] == claude.session
    assert (house.folder / "agents.json").stat().st_mode & 0o077 == 0
    assert Agents(str(house.folder)).launch(run.harness).resumed
    house.stop(run)
    again = Agents(str(house.folder))
    assert again.conversations.of("worker").reason == "cancelled"
    again.forget("worker")
    assert not Agents(str(house.folder)).launch(run.harness).resumed


@pytest.mark.parametrize(
    ("words", "limited", "said"), [(PRINT, False, True), ((), False, False), ((), True, True)], ids=str
)
@pytest.mark.capability("NEW-10")
def test_who_is_told_to_go_on(
    house: House, claude: Claude, words: tuple[str, ...], limited: bool, said: bool
) -> None:
    """Who had nothing left to do is only opened again; one without a prompt, or that a limit ended, is told to go on."""
    content = [{"type": "text", "text": "You've hit your limit"}]
    refusal = claude.line(
        "assistant", message={"id": "e", "content": content}, isApiErrorMessage=True, error="rate_limit", apiErrorStatus=429
    )  # fmt: skip
    steps = [refusal, ("exit", 1)] if limited else [claude.over(), hang()]
    run = house.start(harness(claude, claude.begins(), *steps, words=words, pty=not words))
    if limited:
        assert house.done(run).why_ended.cls in ("rate", "usage")
    else:
        house.until(lambda: house.watch(run) or run.observation.agent.counts["records"] > 1)
        house.stop(run)
    start = house.agents.launch(run.harness)
    assert start.argv[1:3] == ["--resume", claude.session]
    assert ("Continue where you left off." in start.argv) is said


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"conversations": {"worker": {"what": 1}}}', '{"conversations": 1}']
)
def test_a_file_that_cannot_be_read_is_no_reason_to_fail(home: Path, text: str) -> None:
    """Then conversations start afresh, and what was no JSON is set aside and said."""
    (home / "agents.json").write_text(text)
    said: list[str] = []
    agents = Agents(str(home), said.append)
    assert not agents.launch(Harness("worker", ("true",), cwd=str(home))).resumed
    assert bool(said) == (text in ("{", "[]"))


def test_a_conversation_that_is_not_there_any_more_is_let_go(house: House, claude: Claude) -> None:
    """The next start is a fresh one where the agent would not take the old one up."""
    broken = harness(claude, ("say", "No conversation found"), ("exit", 1))
    house.agents.conversations.keep(broken, Conversation("S-1", "stalled"))
    assert "S-1" in house.agents.launch(broken).argv
    run = house.start(broken)
    house.done(run)
    assert run.why_ended.last_error == "No conversation found"
    assert house.agents.launch(broken).argv == list(broken.command)


@pytest.mark.capability("NEW-10")
def test_what_the_next_one_is_told(house: House, home: Path) -> None:
    """Its number and the conversation are in its environment, also of a program that nobody knows."""
    told = Harness(
        "plain", ("sh", "-c", "env | grep LONGWATCH_ >told"), cwd=str(home), resume=("sh", "-c", "env >told; : {session}")
    )  # fmt: skip
    house.agents.conversations.keep(told, Conversation("S-1", "idle"))
    house.done(house.start(told, 3))
    lines = (home / "told").read_text().splitlines()
    assert {"LONGWATCH_ATTEMPT=3", "LONGWATCH_RESUME=S-1"} <= set(lines)


# What it takes


def test_only_agents_load_what_reading_agents_takes(home: Path) -> None:
    """A supervisor without an agent has none of it; with one all of it is there before anything runs."""
    script = (
        "import sys; from longwatch.daemon.agents import Agents; from longwatch.core.harness import Harness\n"
        "agents = Agents(sys.argv[1]); heavy = {'msgspec', 'longwatch.observe.agent', 'pyte'}\n"
        "agents.configure([Harness('a', ('true',)), Harness('b', ('cargo', 'test'), preset='cargo')])\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "agents.configure([Harness('a', ('claude',), preset='claude', pty=True)])\n"
        "assert heavy <= set(sys.modules)\n"
        "assert not {'asyncio', 'pydantic', 'click', 'subprocess'} & set(sys.modules)\n"
    )
    done = helpers.run_command([sys.executable, "-c", script, str(home)])
    assert done.code == 0, done.err


def test_a_pattern_that_is_none_is_said_and_left_out(home: Path) -> None:
    """The other harnesses, and the rest of this one, work all the same."""
    said = Agents(str(home)).configure([Harness("worker", ("true",), limit_patterns=("(",))])
    assert said == [
        "worker: limit_patterns: '(' is no regular expression: missing ), unterminated subpattern at position 0"
    ]
