"""The desk: a bounded queue, tries and failures, secrets, reload, and the end of a daemon."""

import json
import os
from typing import Any

import pytest

from longwatch.core import daemon_facts as d
from longwatch.core import service_facts as f
from longwatch.core.redact import Redactor
from longwatch.notify import channels
from longwatch.notify.outbox import QUEUE
from longwatch.notify.settings import Settings
from noticed import MINUTE, SECOND, WALL, Stage, failed, recovered, stalled

SECRET = "sk-ant-0123456789"
ADDRESS = "slack://T0AAAAAAA/B0BBBBBBB/cccccccccccccccccccccccc"


def loop_stopped(name: str = "w", tool: str = "Bash") -> f.LoopStopped:
    """Return a notice that opens nothing."""
    return f.LoopStopped(0, name, f"{name}-1", tool, 8)


def channel(stage: Stage, name: str = "hook") -> dict[str, Any]:
    """Return what status says of a channel."""
    found: dict[str, Any] = {one["channel"]: one for one in stage.desk.snapshot()["channels"]}[name]
    return found


@pytest.mark.capability("CAP-128")
def test_what_a_notice_says() -> None:
    """The document is JSON of version 1 with every key, null where there is nothing to say."""
    stage = Stage()
    stage.tell(
        f.StateChanged(0, "w", "running", "starting", ""), f.RestartPlanned(0, "w", 0, "stall"), wait=0
    )
    stage.tell(stalled(stalls=2))
    assert stage.told == [
        {
            "version": 1, "event": "stalled", "harness": "w", "harnesses": ["w"], "host": os.uname().nodename,
            "state": "running", "title": "w stalled",
            "message": "w stalled: no successful call for 46m (window 45m), 2 stalls in a row; it runs on",
            "cause": None, "hint": "longwatch restart w", "time": "2026-01-01T12:16:43.000Z", "exit_code": None,
            "restarts": 1, "tool": None, "count": 2, "run": "w-1", "idle_ms": 46 * MINUTE,
            "tree": ["10 claude", "11 node"], "still_out": [],
        }
    ]  # fmt: skip


@pytest.mark.capability("CAP-114")
def test_a_stall_for_good_names_the_command_that_helps() -> None:
    """The message says that nothing is done any more, the hint what to type; the file is named if it must be."""
    stage = Stage(config="/etc/my x.toml")
    stage.tell(stalled(action="restart", gave_up=True, stalls=6))
    assert "6 stalls in a row; its stalls are only reported from now on" in stage.told[0]["message"]
    assert "longwatch" not in stage.told[0]["message"]
    assert stage.told[0]["hint"] == "longwatch restart w --config '/etc/my x.toml'"


def test_the_users_own_file_need_not_be_named() -> None:
    """What the verbs find by themselves is left out of the commands; a common one names no harness."""
    stage = Stage(config=f"{os.environ['XDG_CONFIG_HOME']}/longwatch/longwatch.toml")
    stage.tell(stalled())
    stage.tell(failed("a"), failed("b"))
    stage.tell(f.Flapping(0, "c", 3), f.Flapping(0, "d", 3))
    assert [one["hint"] for one in stage.told] == [
        "longwatch restart w",
        "longwatch restart a b",
        "longwatch ls",
    ]


@pytest.mark.capability("CAP-128")
def test_the_hook_has_five_variables_and_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inherited variables with our prefix go; event, harness, host, state and message are set."""
    monkeypatch.setenv("LONGWATCH_RUN_ID", "outer/inner")
    monkeypatch.setenv("LONGWATCH_IDLE", "5m")
    stage = Stage()
    stage.tell(loop_stopped())
    (command,) = stage.started
    env = command.options["env"]
    assert {name: value for name, value in env.items() if name.startswith("LONGWATCH_")} == {
        "LONGWATCH_EVENT": "loop_stopped",
        "LONGWATCH_HARNESS": "w",
        "LONGWATCH_HOST": os.uname().nodename,
        "LONGWATCH_STATE": "",
        "LONGWATCH_MESSAGE": "w was stopped in a loop: the same call of Bash came 8 times in a row",
    }
    assert env["HOME"] == os.environ["HOME"]
    assert command.argv == ["/bin/hook"]
    assert command.options["limit_ms"] == 15 * SECOND


@pytest.mark.capability("CAP-128")
def test_the_queue_is_bounded_and_what_does_not_fit_is_counted() -> None:
    """Four commands at once, 64 notices waiting or sent; one more is dropped, counted, and may be told again at once."""
    stage = Stage(by_hand=True)
    for number in range(QUEUE):
        stage.tell(loop_stopped(f"h{number}"))
    assert len(stage.running) == 4
    stage.tell(loop_stopped("late"))
    assert stage.desk.snapshot()["queued"] == QUEUE - 4
    assert stage.desk.snapshot()["dropped"] == 1
    assert stage.counts()["loop_stopped", "dropped"] == 1
    stage.running[0].end()
    assert len(stage.running) == 4
    stage.tell(loop_stopped("late"))
    assert stage.desk.snapshot()["dropped"] == 1
    assert stage.desk.snapshot()["queued"] == QUEUE - 4


@pytest.mark.fault("P1")
def test_a_hook_that_fails_twice_is_told_once() -> None:
    """It is tried again after 2 and 8 s; only what succeeds counts as told."""
    stage = Stage(by_hand=True)
    stage.tell(failed())
    stage.running[0].end(1, "busy\n")
    assert stage.desk.snapshot()["open"][0]["told"] is False
    assert channel(stage)["error"] == "exited 1: busy"
    stage.sleep(2 * SECOND - 1)
    assert len(stage.started) == 1
    stage.sleep(1)
    stage.running[0].end(None)
    assert channel(stage)["result"] == "timeout"
    stage.sleep(8 * SECOND)
    stage.running[0].end(0)
    stage.sleep(1 * MINUTE)
    assert len(stage.started) == 3
    assert stage.desk.snapshot()["open"][0]["told"] is True
    assert channel(stage) | {"at": ""} == {
        "channel": "hook",
        "result": "ok",
        "error": None,
        "at": "",
        "undelivered": 0,
    }
    assert stage.counts() == {("failed", "error"): 1, ("failed", "timeout"): 1, ("failed", "ok"): 1}
    assert stage.facts == [d.NotifyDelivered(stage.facts[0].at, "hook")]


@pytest.mark.fault("P1")
def test_a_hook_that_always_fails_is_shown() -> None:
    """After the last try status says so, the cooldown is given back, and the recovery says that nobody knew."""
    stage = Stage(code=3)
    stage.output = "no route\n"
    stage.tell(failed(), wait=1 * MINUTE)
    assert len(stage.started) == 4
    assert channel(stage)["undelivered"] == 1
    assert channel(stage)["result"] == "error"
    assert channel(stage)["error"] == "exited 3: no route"
    assert stage.facts == [d.NotifyFailed(stage.facts[0].at, "hook", "exited 3: no route")]
    stage.tell(failed(), wait=1 * MINUTE)
    assert len(stage.started) == 8
    stage.code = 0
    stage.tell(recovered())
    assert stage.told[-1]["event"] == "recovered"
    assert stage.told[-1]["cause"] == "the notice of it could not be delivered"


def test_no_end_arrives_before_its_trouble() -> None:
    """While the notice of a trouble is tried again the recovery waits; notices about others do not, nor other channels."""
    stage = Stage(by_hand=True, urls=("json://localhost",))
    stage.tell(failed())
    hook, other = stage.running
    other.end()
    hook.end(1)
    stage.tell(recovered(), wait=3100)
    stage.tell(loop_stopped("v"))
    assert [one.told.get("event") for one in stage.started] == [
        "failed",
        None,
        "failed",
        None,
        "loop_stopped",
        None,
    ]
    assert len(stage.running) == 4
    stage.running[0].end()
    assert stage.started[-1].told["event"] == "recovered"


def test_of_two_channels_one_is_enough() -> None:
    """A notice counts as told when any channel has taken it."""
    stage = Stage(by_hand=True, urls=("json://localhost",))
    stage.tell(failed())
    hook, other = stage.running
    hook.end(1)
    other.end()
    assert stage.desk.snapshot()["open"][0]["told"] is True


def test_a_hook_that_cannot_be_started_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is not there fails like any other try, and stops nothing."""
    stage = Stage()

    def refuse(argv: list[str], **_: Any) -> Any:
        raise FileNotFoundError(2, "not found", argv[0])

    monkeypatch.setattr(stage.desk._outbox, "_run_bounded", refuse)
    stage.tell(failed(), wait=1 * MINUTE)
    assert channel(stage)["undelivered"] == 1
    assert channel(stage)["error"].startswith("cannot be started: ")


@pytest.mark.capability("CAP-132")
@pytest.mark.fault("O4")
def test_no_secret_leaves_by_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the document, the variables, the environment, the error in status or what is kept: neither token nor address."""
    monkeypatch.setenv("TOKEN", SECRET)
    stage = Stage(
        code=1,
        secrets=(SECRET, "two words", "first\nsecond"),
        urls=(ADDRESS,),
        dead_man="https://hc.example/uuid-1234",
    )
    broken = f"{SECRET[:8]}\x1b{SECRET[8:]} two\n\twords"
    stage.output = f"could not post {broken} {SECRET} to {ADDRESS}: {ADDRESS[-24:]}\n"
    stage.tell(
        stalled(tree=(f"10 claude --key {SECRET}", "11 two\twords")),
        f.GaveUp(0, "v", "alike", f"{broken} and {ADDRESS} and https://hc.example/uuid-1234 first\nsecond"),
        wait=2 * MINUTE,
    )
    hooks = [one for one in stage.started if one.argv == ["/bin/hook"]]
    everything = json.dumps([
        [[one.argv, one.options["env"], one.options["stdin"].decode()] for one in hooks],
        [[one.argv, one.options["env"]] for one in stage.started],
        stage.desk.snapshot(), stage.kept, repr(stage.facts),
    ])  # fmt: skip
    assert len(hooks) == 8
    for secret in (SECRET, "two words", "first second", ADDRESS, ADDRESS[-24:], "uuid-1234"):
        assert secret not in everything, secret
    assert "[redacted]" in everything
    assert "TOKEN" not in hooks[0].options["env"]


@pytest.mark.fault("O4")
def test_a_secret_that_is_cut_by_what_is_kept_of_output_is_gone() -> None:
    """Of a long output the last 2 KiB are kept, and never the second half of a secret that began before."""
    stage = Stage(code=1, secrets=(SECRET,))
    stage.output = SECRET[5:] + "\n" + "x" * 5000 + "\nthe end"
    stage.tell(failed())
    error = channel(stage)["error"]
    assert error.endswith("x the end")
    assert SECRET[5:] not in error
    assert 1900 < len(error) <= 2048 + len("exited 1: ")
    stage.output = SECRET[5:] * 300
    stage.sleep(3 * SECOND)
    assert channel(stage)["error"] == "exited 1"


def test_a_notice_is_one_line_without_control_characters() -> None:
    """Whatever a program printed, a notice of it has no escape, no line break and no end."""
    stage = Stage()
    stage.tell(f.GaveUp(0, "w", "alike", "\x1b[31mred\x1b[0m\r\n\tand\u2028so\u202eon \ud800" + "y" * 5000))
    cause = stage.told[0]["cause"]
    assert cause.startswith("[31mred[0m and soon yyy")
    assert cause.isprintable()
    assert len(cause) == 1000
    assert cause.endswith("…")


def test_an_address_is_never_an_argument() -> None:
    """Apprise is told by stdin: address, title, a body of lines and its kind."""
    stage = Stage(hook=(), urls=(ADDRESS, ADDRESS.replace("T0A", "T1A"), "json://localhost"))
    stage.tell(stalled())
    assert [one["channel"] for one in stage.desk.snapshot()["channels"]] == [
        "apprise:slack", "apprise:slack:2", "apprise:json",
    ]  # fmt: skip
    (one, *_) = stage.started
    assert ADDRESS not in " ".join(one.argv)
    assert one.argv[-2:] == ["-m", "longwatch.notify.by_apprise"]
    told = one.told
    assert told.pop("url") == ADDRESS
    assert told == {
        "title": f"w stalled ({os.uname().nodename})",
        "body": "w stalled: no successful call for 46m (window 45m); it runs on\n10 claude\n11 node\nlongwatch restart w",
        "kind": "failure",
    }
    stage.tell(recovered())
    assert stage.told[-1]["kind"] == "success"


@pytest.mark.parametrize("missing", [True, False])
def test_a_missing_package_is_named_at_load(missing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses without apprise are a problem from the start, with the command that installs it; no address, none."""
    monkeypatch.setattr(channels, "apprise_is_missing", lambda: missing)
    problems = Stage(urls=(ADDRESS,)).desk.problems
    assert bool(problems) == missing
    assert all("pip install 'longwatch[all]'" in text for text in problems)
    assert Stage().desk.problems == []


def test_the_look_for_the_package_loads_nothing() -> None:
    """The supervisor finds out whether apprise is there without importing it."""
    assert channels.apprise_is_missing() is False


def test_a_reload_keeps_what_was_told_and_what_waits() -> None:
    """Cooldowns and open troubles stay; other events, another hook and other secrets apply; a channel that is gone is left."""
    stage = Stage(by_hand=True, urls=("json://localhost",))
    stage.tell(failed(), loop_stopped("v"))
    assert len(stage.running) == 4
    stage.tell(f.IntentLost(0, "u", ""))
    stage.desk.reload(
        {"hook": ["/bin/other"], "events": ["failed", "recovered", "loop_stopped"]}, Redactor(["recovery"])
    )
    for command in list(stage.running):
        command.end()
    assert [one.argv[0] for one in stage.started].count("/bin/other") == 1
    assert len(stage.started) == 5
    stage.running[0].end()
    stage.tell(failed(), loop_stopped("v"), f.IntentLost(0, "t", ""))
    assert stage.running == []
    stage.tell(recovered())
    assert stage.running[0].told["event"] == "recovered"
    assert [one["channel"] for one in stage.desk.snapshot()["channels"]] == ["hook"]


@pytest.mark.fault("P1")
def test_the_next_daemon_knows_what_was_told() -> None:
    """Open troubles and cooldowns outlive a daemon: no second notice of the same, and the end is told."""
    before = Stage()
    before.tell(failed(), stalled("v"), loop_stopped("u"))
    after = Stage(state=before.kept[-1], now=before.now + 5 * SECOND)
    assert after.desk.snapshot()["open"] == before.desk.snapshot()["open"]
    after.tell(failed(), stalled("v"), loop_stopped("u"))
    assert after.events == []
    after.tell(recovered("v"), recovered())
    assert after.events == ["recovered"]
    assert after.told[0]["harnesses"] == ["v", "w"]
    rebooted = Stage(state=before.kept[-1], now=500)
    rebooted.desk._wall = lambda: WALL + before.now + 20 * MINUTE
    assert rebooted.desk.snapshot()["open"] != []


@pytest.mark.fault("P1")
def test_a_notice_on_its_way_outlives_the_daemon() -> None:
    """What was not delivered when a daemon ended is sent by the next one, as it was."""
    before = Stage(by_hand=True)
    before.tell(failed())
    after = Stage(state=before.kept[-1], now=before.now)
    after.sleep(1)
    assert after.told == before.told
    after.sleep(2 * SECOND)
    assert after.kept[-1]["unsent"] == []
    elsewhere = Stage(state=before.kept[-1], now=before.now, hook=(), urls=("json://localhost",))
    elsewhere.sleep(2 * SECOND)
    assert elsewhere.started == []
    assert elsewhere.desk.state()["unsent"] == []


def test_what_an_earlier_daemon_left_may_be_damaged() -> None:
    """A state that is not one is a problem that is shown, and no more."""
    for state in ({"x": 1}, {"stamps": [[1]], "incidents": [], "unsent": []}, {"stamps": [], "incidents": [{}]},
                  {"stamps": [], "incidents": [], "unsent": [["hook", 7]]}):  # fmt: skip
        stage = Stage(state=state)
        assert "cannot be read" in stage.desk.problems[0]
        stage.tell(failed())
        assert stage.events == ["failed"]


def test_a_loop_that_flaps_writes_no_state_for_nothing() -> None:
    """Facts that change nothing of what is known are not kept; what changes is, once a second."""
    stage = Stage()
    for _ in range(20):
        stage.tell(
            f.RestartPlanned(0, "w", 0, "exit"),
            f.StateChanged(0, "w", "running", "starting", ""),
            wait=SECOND,
        )
    assert stage.kept == []
    stage.tell(failed(), failed("v"), wait=10 * SECOND)
    assert 1 <= len(stage.kept) <= 4


def test_the_end_sends_what_waits_and_no_more() -> None:
    """At the end what is gathered is sent at once; nothing new is heard, nothing is tried again, what failed is kept."""
    stage = Stage(by_hand=True)
    ended: list[int] = []
    stage.desk.heard(failed())
    stage.desk.heard(loop_stopped("v"))
    stage.desk.close(lambda: ended.append(stage.now))
    stage.desk.heard(failed("u"))
    assert [one.told["harness"] for one in stage.running] == ["w", "v"]
    stage.running[0].end(1)
    stage.running[0].end(0)
    assert ended == [stage.now]
    assert [told["harness"] for _, told in stage.kept[-1]["unsent"]] == ["w"]
    stage.sleep(1 * MINUTE)
    assert len(stage.started) == 2
    assert len(ended) == 1


def test_the_end_is_bounded() -> None:
    """A hook that hangs holds up the end for 5 s; then it is ended, and its notice kept."""
    stage = Stage(by_hand=True)
    ended: list[int] = []
    stage.desk.heard(failed())
    stage.desk.close(lambda: ended.append(stage.now))
    command = stage.running[0]
    stage.sleep(5 * SECOND - 1)
    assert ended == []
    stage.sleep(1)
    assert len(ended) == 1
    assert command.cancelled
    assert len(stage.kept[-1]["unsent"]) == 1
    idle = Stage()
    idle.desk.close(lambda: ended.append(0))
    assert ended[1:] == [0]


def test_a_test_passes_every_rule() -> None:
    """A test is sent whatever `events` and cooldown say, and answers for each channel."""
    stage = Stage(by_hand=True, events=(), urls=("json://localhost",))
    answers: list[dict[str, Any]] = []
    for _ in range(2):
        stage.desk.test(None, answers.append)
        hook, other = stage.running
        assert hook.told["event"] == "test"
        stage.sleep(30)
        hook.end(None, "half")
        assert len(answers) % 2 == _
        other.end(0)
    assert answers[0] == answers[1]
    assert answers[0] == {
        "ok": False,
        "channels": [
            {"channel": "hook", "ok": False, "result": "timeout", "error": "took longer than 15s and was stopped; it said: half", "ms": 30},
            {"channel": "apprise:json", "ok": True, "result": "ok", "error": None, "ms": 30},
        ],
    }  # fmt: skip
    stage.desk.test("hook", answers.append)
    stage.running[0].end()
    assert answers[2]["ok"] is True
    assert len(answers[2]["channels"]) == 1


def test_a_test_of_nothing_says_so() -> None:
    """Without a channel, or without that one, the answer is an error that says what there is."""
    answers: list[dict[str, Any]] = []
    Stage(hook=()).desk.test(None, answers.append)
    Stage().desk.test("mail", answers.append)
    assert [one["error"] for one in answers] == [
        "no channel; add [notify] hook or urls",
        "no channel mail; there are: hook",
    ]


def test_without_a_channel_nothing_is_opened() -> None:
    """Nothing is gathered, opened or counted for nobody; what is known of harnesses is, for the day of a reload."""
    stage = Stage(hook=())
    stage.tell(f.RestartPlanned(0, "w", 0, "exit"), failed())
    assert stage.desk.snapshot()["open"] == []
    stage.desk.reload(Settings(hook=("/bin/hook",)), Redactor(()))
    stage.tell(f.Flapping(0, "w", 3))
    assert stage.told[0]["restarts"] == 1
    assert stage.told[0]["state"] == "failed"
