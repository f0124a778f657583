"""`longwatch suggest`: a synthetic history whose truth is known, and what is proposed from it."""

import json
import os
import sqlite3
import stat
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import corpus
import folders
from longwatch.cli import history, verbs
from longwatch.core.spec import HOUR, MINUTE, SECOND
from longwatch.paths import rfc3339
from longwatch.preset_table import PRESETS

#: Calls the verb, and gives its status, stdout and stderr.
Verb = Callable[..., tuple[int, str, str]]
SECRET = "sk-secret"


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Verb:
    """Call the verb in this process; return status, stdout and stderr."""

    def run(*words: str) -> tuple[int, str, str]:
        status = verbs.main(["suggest", *words])
        return (status, *capfd.readouterr())

    return run


@pytest.fixture(autouse=True)
def no_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sleeps of the machine that tests run on are none of theirs."""
    monkeypatch.setattr("longwatch.cli.asleep.shutil.which", lambda name: None)


def line(kind: str, at: int, session: str, content: object, **more: object) -> str:
    """Return one line of Claude Code, `at` seconds after the begin."""
    stamp = datetime.fromtimestamp(corpus.BEGIN / 1000 + at, UTC).isoformat().replace("+00:00", "Z")
    uid = f"{session}-{at}-{kind}-{json.dumps(content)}"
    told = {
        "type": kind,
        "uuid": uid,
        "sessionId": session,
        "cwd": "/w",
        "timestamp": stamp,
    }
    return json.dumps({**told, "message": {"content": content}, **more})


def session(
    home: Path, name: str, *, idle: int = 20, tools: dict[str, int] | None = None, more: tuple[str, ...] = ()
) -> Path:
    """Write a session: the model is silent for `idle` seconds, then each tool runs for so long."""
    at = idle
    lines = [line("user", 0, name, SECRET), line("assistant", at, name, [{"type": "text", "text": SECRET}])]
    for tool, took in (tools or {}).items():
        use = {"type": "tool_use", "id": f"{name}{tool}", "name": tool, "input": {"command": SECRET}}
        lines.append(line("assistant", at, name, [use]))
        at += took
        result = {"type": "tool_result", "tool_use_id": f"{name}{tool}", "content": SECRET}
        lines.append(line("user", at, name, [result]))
    lines.append(line("assistant", at + 1, name, [{"type": "text", "text": SECRET}], stop="end"))
    path = home / ".claude" / "projects" / "-w" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, *more]) + "\n")
    return path


def many(home: Path) -> None:
    """Write 60 sessions: three have a long silence, three a long run of Bash, six use Edit."""
    for n in range(60):
        tools = {"Bash": 1_900 + n if n < 3 else 200 + n}
        if n >= 54:
            tools["Edit"] = 2
        session(home, f"s-{n:02}", idle=1_000 + n if 10 <= n < 13 else 30 + n, tools=tools)


def states(answer: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the states of the only suggestion."""
    (found,) = answer["suggestions"]
    return {(each["state"], each["tool"]): each for each in found["states"]}


@pytest.mark.capability("NEW-6")
def test_windows_are_proposed_with_their_rate_of_wrong_stops(call: Verb, home: Path) -> None:
    """The smallest round window that is wrong in at most the wanted share, beside the preset's own; what to set."""
    many(home)
    status, out, err = call("--rate", "1/20")
    assert (status, err) == (0, "")
    lines = [" ".join(each.split()) for each in out.splitlines()]
    assert lines == [
        "claude: 60 sessions; a window may be wrong in 1 of 20",
        "STATE SESSIONS SILENCES P50 P99 P99.9 LONGEST PROPOSED WRONG STOPS PRESET",
        "the model worked 60 120 1s 16m50s 16m50s 16m52s 2m 3 of 60 12m",
        "any call 60 66 3m49s 31m40s 31m40s 31m42s 5m 3 of 60 1h",
        "Bash ran 60 60 3m52s 31m40s 31m40s 31m42s 5m 3 of 60 1h",
        "Edit ran 6 6 2s 2s 2s 2s 54 sessions missing - 1h",
        "no sleep of this machine is on record, so a long silence may be one",
        "first: a transcript does not say when its program began, and no run under longwatch that wrote one is on record",
        "set: --idle 2m --call 5m",
        "or: LONGWATCH_IDLE=2m LONGWATCH_CALL=5m",
        "together they would have stopped 6 of 60 sessions wrongly",
        f"mind the preset's idle of 12m: {PRESETS[0].limits['idle'].why}",
        f"mind the preset's call of 1h: {PRESETS[0].call[''].why}",
    ]


@pytest.mark.capability("NEW-6")
def test_nothing_is_proposed_from_too_few_sessions(call: Verb, home: Path) -> None:
    """How many are missing is said, and which rate those that are there can tell; no flag is named."""
    many(home)
    status, out, _ = call()
    assert status == 0
    assert "2940 sessions missing" in out
    assert "too few: to tell 1 of 1000 takes 3000 sessions; these carry --rate 1/20\n" in out
    assert "--idle" not in out
    assert "wrongly" not in out
    for n in range(5, 60):
        (home / ".claude/projects/-w" / f"s-{n:02}.jsonl").unlink()
    assert call()[1].endswith("takes 3000 sessions\n")


def test_a_tool_that_differs_has_a_budget_of_its_own(call: Verb, home: Path) -> None:
    """Only then it has one; a variable has room for one window, so it is a flag."""
    for n in range(6):
        session(home, f"s-{n}", tools={"Bash": 700, "Read it": 4})
    _, out, _ = call("--rate", "0.5")
    assert (
        "set: --idle 30s --call 12m --call 'Read it=30s'\nor:  LONGWATCH_IDLE=30s LONGWATCH_CALL=12m\n" in out
    )
    _, out, _ = call("--rate", ".5", "--json")
    answer = json.loads(out)
    (found,) = answer["suggestions"]
    assert (answer["schema"], answer["rate"], found["preset"], found["sessions"]) == (1, 0.5, "claude", 6)
    assert found["flags"] == ["--idle", "30s", "--call", "12m", "--call", "Read it=30s"]
    assert found["environment"] == {"LONGWATCH_IDLE": "30s", "LONGWATCH_CALL": "12m"}
    assert (found["stopped_together"], found["left_out"]["by_hand"]) == (0, 0)
    assert states(answer)["call", "Bash"] == {
        "state": "call", "tool": "Bash", "limit": "call", "sessions": 6, "silences": 6, "p50_ms": 700_000,
        "p99_ms": 700_000, "p999_ms": 700_000, "longest_ms": 700_000, "window_ms": 12 * MINUTE, "stopped": 0,
        "missing_sessions": 0, "preset_ms": HOUR,
    }  # fmt: skip


def test_only_the_most_used_tools_are_listed(call: Verb, home: Path) -> None:
    """The rest is counted, and in the JSON; a tool whose name draws is shown harmless."""
    session(home, "s", tools={**{f"tool{n}": 2 for n in range(12)}, "\x1b[31m": 3})
    _, out, _ = call()
    assert "and 3 tools more; --json has them" in out
    assert "\x1b" not in out
    assert len(states(json.loads(call("--json")[1]))) == 15


def test_nothing_of_what_was_said_is_shown(call: Verb, home: Path) -> None:
    """Names of tools, counts and spans, never words."""
    many(home)
    (home / ".claude/projects/-w/broken.jsonl").write_text(SECRET)
    for words in ([], ["--json"], ["--rate", "1/2"]):
        assert all(SECRET not in text for text in call(*words)[1:])


# -- what is not counted


def test_what_is_not_counted_is_said(call: Verb, home: Path) -> None:
    """Nights, the provider's pauses, a human's hand and questions to a human are counted apart."""
    pause = {"type": "system", "subtype": "api_error", "retryInMs": 600_000, "retryAttempt": 1}
    session(
        home, "s", tools={"AskUserQuestion": 900},
        more=(
            line("assistant", 30_000, "s", [{"type": "text", "text": "a"}]),
            line("system", 30_001, "s", "", **pause),
            line("assistant", 30_500, "s", [{"type": "text", "text": "b"}]),
            line("user", 31_000, "s", "next"),
            line("user", 31_060, "s", "[Request interrupted by user]"),
        ),
    )  # fmt: skip
    _, out, _ = call()
    assert (
        "not counted: 1 of 6h and more, 1 that the provider asked for, 2 that a human ended, 1 in calls that ask a human"
        in out
    )


def test_sleeps_of_the_machine(call: Verb, home: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system's journal and runs under longwatch know of sleeps takes silences out."""
    session(home, "s", idle=3_600, tools={"Bash": 3_600})
    _, out, _ = call()
    assert "the model worked  1         2" in out
    begin = corpus.BEGIN
    entries = [
        {"MESSAGE_ID": "8811e6df2a8e40f58a94cea26f8ebf14", "__REALTIME_TIMESTAMP": str(begin * 1_000)},
        {"MESSAGE_ID": "6bbd95ee977941e497c48be27c254128", "__REALTIME_TIMESTAMP": str((begin + MINUTE) * 1_000)},
        {"MESSAGE_ID": "8811e6df2a8e40f58a94cea26f8ebf14", "__REALTIME_TIMESTAMP": str((begin + HOUR // 2) * 1_000)},
        {"MESSAGE_ID": "6bbd95ee977941e497c48be27c254128"},
        [],
    ]  # fmt: skip
    journal = home / "journalctl"
    said = "".join(json.dumps(entry) + "\n" for entry in entries)
    journal.write_text(
        f"#!{sys.executable}\nimport sys\nopen({str(home / 'asked')!r}, 'w').write(' '.join(sys.argv))\nprint({said!r} + 'x')\n"
    )
    journal.chmod(journal.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("longwatch.cli.asleep.shutil.which", lambda name: str(journal))
    _, out, _ = call("--since", "900d")
    assert "not counted: 1 while the machine slept" in out
    assert "no sleep" not in out
    assert "--since=@" in (home / "asked").read_text()
    monkeypatch.setattr("longwatch.cli.asleep.shutil.which", lambda name: str(home / "gone"))
    run = folders.ended(state)
    events = [
        {"event": "lapse", "at": rfc3339(begin + 2 * HOUR), "span": 10 * MINUTE},
        {"event": "lapse", "at": rfc3339(begin + MINUTE), "span": 2 * SECOND},
        {"event": "run_ended", "at": rfc3339(begin)},
    ]
    with (state / "runs" / run / "events.jsonl").open("a") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)
    _, out, _ = call()
    assert "not counted: 1 while the machine slept" in out


# -- where it is read


def test_the_first_record_of_runs(call: Verb, home: Path, state: Path) -> None:
    """Runs under longwatch tell when the program began whose session it is."""
    for n in range(6):
        session(home, f"s-{n}")
        began = rfc3339(corpus.BEGIN - 40 * SECOND)
        folders.ended(state, started_at=began, agent=folders.standing(session=f"s-{n}"))
    folders.ended(state, agent=None)
    _, out, _ = call("--rate", "1/2")
    assert (
        "before the first record  6         6         40s  40s  40s    40s      45s       0 of 6       5m"
        in out
    )
    assert "set: --idle 30s --first 45s\n" in out
    assert "first: a transcript" not in out


def test_a_ledger_that_cannot_be_read(call: Verb, home: Path, state: Path) -> None:
    """Then nothing is known of runs, and the sessions are read all the same."""
    session(home, "s")
    state.mkdir(parents=True)
    with sqlite3.connect(state / "ledger.sqlite3") as ledger:
        ledger.executescript(f"PRAGMA application_id = {0x6C776C64}; PRAGMA user_version = 99")
    ledger.close()
    status, out, err = call()
    assert (status, out.startswith("claude: 1 sessions")) == (0, True)
    assert err.startswith("longwatch: when runs began is not known: ")


def test_since(call: Verb, home: Path) -> None:
    """Only sessions that were written to within the span count."""
    session(home, "new")
    old = session(home, "old")
    long_ago = time.time() - 10 * 86_400
    os.utime(old, (long_ago, long_ago))
    assert call("--since", "9d")[1].startswith("claude: 1 sessions")
    assert call("--since", "11d")[1].startswith("claude: 2 sessions")


def test_broken_files_are_named_once_and_skipped(call: Verb, home: Path) -> None:
    """What cannot be read is one line on stderr each, and the rest is used."""
    good = session(home, "good", tools={"Bash": 5})
    torn = session(home, "torn", more=("{rotten",))
    nothing = good.with_name("nothing.jsonl")
    nothing.write_bytes(b"\x00\xff not one\nline of it\n")
    good.with_name("empty.jsonl").touch()
    folder = good.with_name("folder.jsonl")
    folder.mkdir()
    helper = good.parent / "good" / "subagents" / "agent-a.jsonl"
    helper.mkdir(parents=True)
    status, out, err = call()
    assert (status, out.startswith("claude: 2 sessions")) == (0, True)
    assert sorted(err.splitlines()) == sorted([
        f"longwatch: {folder}: Is a directory",
        f"longwatch: {helper}: Is a directory",
        f"longwatch: {nothing}: 2 lines are no records",
        f"longwatch: {torn}: 1 lines are no records",
    ])  # fmt: skip


def test_helpers_work_for_their_agent(call: Verb, home: Path) -> None:
    """What a helper does in its own file ends the silence of its agent, and is no session of its own."""
    path = session(home, "s", idle=600)
    helper = path.parent / "s" / "subagents" / "agent-a.jsonl"
    helper.parent.mkdir(parents=True)
    told = line("assistant", 400, "s", [{"type": "text", "text": "x"}], isSidechain=True, agentId="a")
    helper.write_text(told + "\n")
    answer = json.loads(call("--json")[1])
    assert states(answer)["working", ""]["longest_ms"] == 400 * SECOND
    assert answer["suggestions"][0]["sessions"] == 1


def database(home: Path) -> Path:
    """Make opencode's database where opencode has it."""
    folder = home / ".local" / "share" / "opencode"
    folder.mkdir(parents=True)
    path = corpus.database(folder)
    with sqlite3.connect(path) as connection:
        connection.executescript("""
            ALTER TABLE session ADD COLUMN directory text DEFAULT '/w';
            ALTER TABLE session ADD COLUMN time_updated integer DEFAULT 5;
        """)
    connection.close()
    return path


def test_a_database(call: Verb, home: Path) -> None:
    """The conversations of a database are read as files are; a damaged one is named."""
    path = database(home)
    status, out, _ = call("--preset", "opencode")
    assert (status, out.startswith("opencode: 1 sessions")) == (0, True)
    with sqlite3.connect(path) as connection:
        connection.executescript("ALTER TABLE event RENAME COLUMN type TO kind")
    connection.close()
    status, out, err = call("--preset", "opencode")
    assert (status, out) == (1, "")
    assert err.startswith(f"longwatch: {path}: no such column: type\n")


def test_every_agent_has_its_own(call: Verb, home: Path) -> None:
    """Each agent with a history gets its own page; one is chosen by its preset."""
    session(home, "s")
    database(home)
    assert [word.split(":")[0] for word in call()[1].split("\n\n")] == ["claude", "opencode"]
    assert call("--preset", "claude-code")[1].startswith("claude: 1 sessions")
    assert "opencode" not in call("--preset", "claude")[1]


def test_several_processes_say_the_same(call: Verb, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is much to read, it is shared out, and nothing changes by that."""
    many(home)
    alone = call("--json", "--rate", "1/20")
    monkeypatch.setattr(history, "MANY", 0)
    monkeypatch.setattr(history, "_processors", lambda: 2)
    assert call("--json", "--rate", "1/20") == alone


def test_no_history(call: Verb, home: Path) -> None:
    """Where there is none it is said where was looked."""
    places = f"{home}/.claude, "
    status, out, err = call()
    assert (status, out) == (1, "")
    assert err.startswith(f"longwatch: no sessions in {places}")
    assert err.count("\n") == 1
    os.utime(session(home, "s"), (1, 1))
    assert call("--preset", "claude", "--since", "1h")[2] == (
        f"longwatch: no sessions within this span in {home}/.claude\n"
    )


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--rate", "0"], "--rate 0: it is a share of sessions; write 1/1000 or 0.001"),
        (["--rate", "1/0"], "--rate 1/0: it is a share of sessions; write 1/1000 or 0.001"),
        (["--rate", "3/2"], "--rate 3/2: it is a share of sessions; write 1/1000 or 0.001"),
        (["--rate", "1e-9999999"], "--rate 1e-9999999: it is a share of sessions; write 1/1000 or 0.001"),
        (["--preset", "cluade"], "--preset cluade: no such preset; did you mean claude?"),
        (
            ["--preset", "pytest"],
            "--preset pytest: it keeps no records, and of its runs only the last silence is on record",
        ),
        (["--since", "30"], "--since 30: a bare number is no duration; write 30s or 30m"),
    ],
)
def test_refusals(words: list[str], error: str, call: Verb) -> None:
    """What a user can do wrong ends as one line that says what to do."""
    assert call(*words) == (2, "", f"longwatch: {error}\n")


def test_a_missing_package_is_named(call: Verb, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its package the verb says which, and how to get it."""
    for name in [
        name
        for name in sys.modules
        if name.startswith(
            ("longwatch.learn.sessions", "longwatch.observe.dialects", "longwatch.cli.history")
        )
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("longwatch.cli.history", raising=False)
    monkeypatch.setitem(sys.modules, "msgspec", None)
    status, _, err = call()
    assert (status, err) == (
        2,
        "longwatch: suggest needs the package msgspec; install it with: pip install 'longwatch[all]'\n",
    )
