"""What a right file comes to: values, who set each, limits with those of the preset, and what people are told."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from longwatch.config.files import Loaded
from longwatch.core.harness import RESIDENT, SCHEDULED, TRIGGERED, Harness
from longwatch.core.spec import HOUR, MINUTE, NOTIFY, SECOND, STOP, LimitSpec
from longwatch.presets import PRESETS


def one(loaded: Loaded) -> Harness:
    """Return the only harness of a file without errors, as it comes out of JSON."""
    assert [str(error) for error in loaded.errors] == []
    (told,) = json.loads(json.dumps(loaded.as_dict()))["harnesses"]
    harness = Harness.of(told)
    assert harness == loaded.harnesses[0]
    return harness


@pytest.mark.capability("CAP-105")
def test_the_table_of_the_seed(read: Any, tmp_path: Path) -> None:
    """`harness` names the program, `args` its arguments; a stall is answered by a restart whatever `restart` says."""
    harness = one(
        read(
            '[harness.claude-src]\nharness = "claude-code"\nargs = ["--remote-control", "--continue"]\nenabled = true\n'
            'stall_timeout = "45m"\nstall_action = "restart"\n'
        )
    )
    assert (harness.command, harness.preset) == (("claude", "--remote-control", "--continue"), "claude")
    assert harness.limits["stall"] == LimitSpec(45 * MINUTE, STOP)
    assert harness.revive == ("stall",)
    assert (harness.kind, harness.enabled, harness.restart, harness.cwd) == (
        RESIDENT,
        True,
        "always",
        str(tmp_path),
    )
    assert harness.setters["stall_timeout"] == "longwatch.toml:5"
    assert harness.setters["preset"] == "longwatch.toml:2"


@pytest.mark.capability("CAP-105")
def test_a_stall_only_notifies_by_default(read: Any) -> None:
    """Off without its key; with it, it tells."""
    assert "stall" not in one(read('[harness.a]\ncommand = "sh"\n')).limits
    harness = one(read('[harness.a]\ncommand = "sh"\nstall_timeout = "45m"\n'))
    assert harness.limits["stall"] == LimitSpec(45 * MINUTE, NOTIFY)
    assert harness.revive == ()


@pytest.mark.capability("CAP-107")
def test_a_stall_that_nobody_can_see_is_told(read: Any) -> None:
    """Without any source of calls the clock runs from the start, and loading says so."""
    loaded = read('[harness.a]\ncommand = "sh"\nstall_timeout = "45m"\n')
    assert [str(warning) for warning in loaded.warnings] == [
        (
            "longwatch.toml:3:1: [harness.a] stall_timeout: no calls of this program can be seen, so it counts from the start of "
            "each run"
        )
    ]


def test_presets_lend_what_nobody_named(read: Any) -> None:
    """A recognised program has its preset's limits; what the file names is the file's, also when it is off."""
    claude = next(preset for preset in PRESETS if preset.name == "claude")
    harness = one(
        read(
            '[harness.a]\ncommand = ["env", "A=1", "claude", "-p", "x"]\nfirst = "off"\ncalls = { Bash = "30m" }\n'
        )
    )
    assert harness.command == ("env", "A=1", "claude", "-p", "x")
    assert set(harness.limits) == {"idle", "linger", "call"}
    assert harness.limits["idle"] == LimitSpec(claude.limits["idle"].window, STOP, sighted=True)
    tools = {tool: setting.window for tool, setting in claude.call.items() if tool}
    assert harness.limits["call"] == LimitSpec(HOUR, STOP, {**tools, "Bash": 30 * MINUTE})
    assert harness.setters == {
        "idle": "preset claude", "linger": "preset claude", "call": "preset claude", "command": "longwatch.toml:2",
        "first": "longwatch.toml:3", "calls": "longwatch.toml:4",
        **{f"calls.{tool}": "preset claude" for tool in tools},
    }  # fmt: skip


def test_none_is_the_way_out(read: Any) -> None:
    """With `none` a known name means nothing; calls have their built-in hour, which only notifies."""
    for word in ("none", "generic", "command"):
        harness = one(read(f'[harness.a]\ncommand = "claude -p x"\nharness = "{word}"\n'))
        assert harness.preset is None
        assert harness.limits == {"call": LimitSpec(HOUR, NOTIFY)}


def test_a_resident_session_does_not_linger(read: Any) -> None:
    """A session goes on after each result, so the preset's linger is not for it; one that ends has it."""
    assert "linger" not in one(read('[harness.a]\ncommand = "claude"\n')).limits
    assert "linger" in one(read('[harness.a]\ncommand = "claude"\nlinger = "1m"\n')).limits
    assert "linger" in one(read('[harness.a]\ncommand = "claude -p x"\nschedule = "@daily"\n')).limits


def test_in_a_terminal_presets_only_notify(read: Any) -> None:
    """What the preset says notifies there; what the file names stops."""
    limits = one(read('[harness.a]\ncommand = "claude"\npty = true\nceiling = "9h"\n')).limits
    assert {name: limit.action for name, limit in limits.items()} == {
        "idle": NOTIFY, "first": NOTIFY, "call": NOTIFY, "ceiling": STOP,
    }  # fmt: skip
    assert set(limits["call"].lent) == set(limits["call"].budgets)


def test_a_named_preset_adds_its_flags_once(read: Any) -> None:
    """Only where it is named, and it is said; the same words are not added to those that are there."""
    loaded = read('[harness.a]\nharness = "claude"\nargs = "-p \'do it\'"\n')
    assert one(loaded).command == ("claude", "--output-format", "stream-json", "--verbose", "-p", "do it")
    assert loaded.notes == {"a": ['harness = "claude" adds --output-format stream-json --verbose']}
    assert one(read('[harness.a]\ncommand = "claude -p x"\n')).command == ("claude", "-p", "x")


BOUNDED = {
    'command = "sh"': (HOUR, "each run ends after 1h, for nothing else bounds it (timeout, built-in)"),
    'command = "sh"\nidle = "5m"': (0, "each run is bounded by idle 5m (longwatch.toml:4)"),
    'command = "sh"\nfirst = "5m"': (0, "each run is bounded by first 5m (longwatch.toml:4)"),
    'command = "sh"\ncall = "5m"': (0, "each run is bounded by call 5m (longwatch.toml:4)"),
    'command = "sh"\nceiling = "5h"': (0, "each run is bounded by ceiling 5h (longwatch.toml:4)"),
    'command = "sh"\nidle = "5m"\nidle_action = "notify"': (
        HOUR, "each run ends after 1h, for nothing else bounds it (timeout, built-in)",
    ),
    'command = "sh"\nsoft = "5m"': (HOUR, "each run ends after 1h, for nothing else bounds it (timeout, built-in)"),
    'command = "sh"\ntimeout = "2h"': (2 * HOUR, "each run ends after 2h (longwatch.toml:4)"),
    'command = "sh"\ntimeout = "0"': (0, "nothing ends a run by itself: timeout is off (longwatch.toml:4)"),
    'command = "sh"\ntimeout = "off"\nidle = "1m"': (0, "each run is bounded by idle 1m (longwatch.toml:5)"),
    'command = "pytest"': (0, "each run is bounded by idle 15m (preset pytest), first 5m (preset pytest)"),
    'command = "claude"\npty = true': (HOUR, "each run ends after 1h, for nothing else bounds it (timeout, built-in)"),
}  # fmt: skip


@pytest.mark.capability("CAP-120")
@pytest.mark.parametrize("keys", BOUNDED)
@pytest.mark.parametrize("kind", ["schedule", "trigger"])
def test_the_fixed_time_of_a_run(read: Any, keys: str, kind: str) -> None:
    """A run that ends has an hour only where neither preset nor idle, first, call or ceiling stops it; it is said."""
    told = BOUNDED[keys]
    if kind == "schedule":
        text = f'[harness.a]\nschedule = "@daily"\n{keys}\n'
    else:
        text = f'[harness.a]\nmax_runs_per_day = 9\n{keys}\n[[harness.a.trigger]]\nname = "x"\nkind = "channel"\n'
    loaded = read(text)
    harness = one(loaded)
    assert harness.limits.get("timeout", LimitSpec(0)).window == told[0]
    assert loaded.notes == {"a": [told[1]]}
    assert (harness.kind, harness.on_overlap) == (
        (SCHEDULED, "skip") if kind == "schedule" else (TRIGGERED, "queue")
    )
    assert harness.restart == "no"


@pytest.mark.capability("CAP-126")
def test_a_budget_that_nobody_feeds_is_a_warning(read: Any) -> None:
    """Where no agent says what it costs a budget in USD never acts, and that is said; one in tokens does."""
    loaded = read(
        '[harness.a]\ncommand = "sh"\ndaily_cost_usd = 5\n'
        '[harness.b]\ncommand = "sh"\npreset = "codex"\nmax_cost_usd = 5\nmax_tokens = 9\n'
        '[harness.c]\ncommand = "sh"\npreset = "pi"\nmax_cost_usd = 5\ndaily_cost_usd = 5\n'
    )
    assert [str(warning) for warning in loaded.warnings] == [
        "longwatch.toml:3:1: [harness.a] daily_cost_usd: nobody says what runs of this program cost, so it never holds",
        "longwatch.toml:7:1: [harness.b] max_cost_usd: codex tells its tokens and no costs, so this never acts; max_tokens does",
    ]


@pytest.mark.capability("CAP-119", "CAP-126")
def test_times_and_budgets(read: Any) -> None:
    """Schedules, hours in one spelling, holds and budgets."""
    harness = one(
        read(
            '[harness.a]\ncommand = "sh"\nschedule = ["0 2 * * mon-fri", "@every 10m", "TZ=Europe/Berlin  0 8 * * *"]\n'
            'hours = ["Mon-Wed,Fri 9:00-17:30", "22:00-06:00", "sat-mon 00:00-24:00"]\ntimezone = "Europe/Berlin"\n'
            'on_hold = "skip"\ncatch_up = true\nkeep_runs = 3\non_overlap = "replace"\nmax_runs_per_day = 4\n'
            'daily_cost_usd = 5\nmax_cost_usd = 0.5\nharness = "claude"\nmax_tokens = 100\n'
        )
    )
    assert harness.schedule == ("0 2 * * mon-fri", "@every 10m", "TZ=Europe/Berlin 0 8 * * *")
    assert harness.hours == ("mon,tue,wed,fri 09:00-17:30", "22:00-06:00", "mon,sat,sun 00:00-24:00")
    assert (harness.timezone, harness.on_hold, harness.keep_runs) == ("Europe/Berlin", "skip", 3)
    assert (harness.on_overlap, harness.catch_up) == ("replace", 36_525 * 24 * HOUR)
    assert harness.budgets == {
        "max_runs_per_day": 4, "daily_cost_usd": 5.0, "max_cost_usd": 0.5, "max_tokens": 100,
    }  # fmt: skip


def test_defaults_count_where_they_mean_something(read: Any) -> None:
    """The own value wins; env, calls and log are joined; what means nothing on a kind is let go."""
    loaded = read(
        '[defaults]\nidle = "5m"\nstall_timeout = "45m"\nstall_action = "restart"\ntimeout = "2h"\nenv = { A = "1", B = "1" }\n'
        'log = { max = "1MiB", keep = 9 }\nrestart = "on-failure"\non_hold = "skip"\n'
        '[harness.stays]\ncommand = "sh"\nidle = "off"\nenv = { B = "2" }\nlog = { keep = 2 }\n'
        '[harness.ends]\ncommand = "sh"\nschedule = "@daily"\n'
    )
    assert loaded.errors == ()
    stays, ends = loaded.harnesses
    assert (set(stays.limits), stays.revive, stays.restart) == ({"stall", "call"}, ("stall",), "on-failure")
    assert (stays.env, stays.log) == ({"A": "1", "B": "2"}, {"max": 1 << 20, "keep": 2})
    assert (set(ends.limits), ends.restart, ends.on_hold) == ({"idle", "timeout", "call"}, "no", "skip")
    assert (stays.setters["restart"], ends.setters["idle"]) == ("longwatch.toml:8", "longwatch.toml:2")


def test_the_rest_of_a_table(read: Any) -> None:
    """Signals, spans, sizes and texts arrive in the units of the core."""
    harness = one(
        read(
            '[harness.a]\ncommand = "sh"\nsignal = "SIGINT"\nkill_after = "1s"\npty = true\nnudge = "go on"\nready = "listening"\n'
            'not_progress = ["^ping", "pong$"]\nprogress = ["stdout", "file:*.log", "stdout"]\neffect = "30m"\ncheck = "git status"\n'
            'poll = "5s"\nidle = "1m"\nidle_action = "nudge"\nstop_command = "bye"\nbefore_stop = "save"\nquota_group = "team"\n'
            'limit_patterns = "quota until (?P<reset>.*)"\nallow_quiet = "off"\nkeep_leftovers = true\nrestart = "unless-stopped"\n'
            'intensity = 0\nperiod = "1h"\nallow_control = true\nrecord_args = true\nresume_on_limit = false\nloop = "off"\n'
            'cwd = "~"\nenabled = false\n'
        )
    )
    told = harness.as_dict()
    assert told["cwd"] == os.path.expanduser("~")
    expected = {
        "signal": 2, "grace": SECOND, "pty": True, "nudge": "go on", "ready": "listening", "not_progress": ["^ping", "pong$"],
        "sources": ["stdout", "file:*.log"], "check": "git status", "poll": 5 * SECOND, "stop_command": "bye",
        "before_stop": "save", "quota_group": "team", "limit_patterns": ["quota until (?P<reset>.*)"], "allow_quiet": 0,
        "keep_leftovers": True, "restart": "unless-stopped", "intensity": 0, "period": HOUR, "allow_control": True,
        "record_args": True, "resume_on_limit": False, "loop": 0, "enabled": False,
    }  # fmt: skip
    assert {key: told[key] for key in expected} == expected
    assert harness.limits["idle"] == LimitSpec(MINUTE, "nudge")
    assert harness.limits["effect"] == LimitSpec(30 * MINUTE, NOTIFY)


def test_what_is_not_there_now_is_a_warning(read: Any) -> None:
    """A folder or program that may come later does not stop the load, and is said."""
    loaded = read('[harness.a]\ncommand = "nowhere-to-be-found"\ncwd = "/nowhere/at/all"\n')
    assert loaded.errors == ()
    assert [str(warning) for warning in loaded.warnings] == [
        "longwatch.toml:2:1: [harness.a] command: nowhere-to-be-found: no such program now",
        "longwatch.toml:3:1: [harness.a] cwd: /nowhere/at/all: no such folder now; it cannot be started without it",
    ]
    assert [str(warning) for warning in read("").warnings] == [
        "longwatch.toml: no [harness.NAME] in it: nothing to run"
    ]


@pytest.mark.capability("CAP-121", "CAP-128", "CAP-123")
def test_daemon_notify_and_web(read: Any, tmp_path: Path) -> None:
    """The tables of the daemon arrive as its parts take them, secrets filled in."""
    (tmp_path / "token").write_text("0123456789abcdef\n")
    (tmp_path / "token").chmod(0o600)
    loaded = read(
        '[daemon]\nretention = "1d"\nledger_max = "16MiB"\nmax_concurrent = 4\ndaily_cost_usd = 9\n'
        '[notify]\nhook = ["/bin/sh", "-c", "cat"]\nurls = "${URL}"\nevents = ["failed"]\ncooldown = "off"\ntimeout = "1s"\n'
        'dead_man = "https://ping.example/${KEY}"\ndead_man_every = "1m"\n'
        '[web]\nlisten = "127.0.0.1:7077"\ntoken_file = "token"\norigins = "https://a"\nwebhooks = "[::1]:7078"\n'
        '[harness.a]\ncommand = "sh"\n[[harness.a.trigger]]\nname = "push"\nverify = "forgejo"\nsecret = "${KEY}"\nrate = "6/min"\n'
        '[[harness.a.trigger]]\nname = "by-hand"\nkind = "channel"\n',
        {"URL": "json://u:p@h", "KEY": "hunter22", "PATH": "/bin"},
    )
    assert loaded.errors == loaded.warnings == ()
    told = json.loads(json.dumps(loaded.as_dict()))
    assert told["daemon"] == {
        "retention": 24 * HOUR,
        "ledger_max": 16 << 20,
        "max_concurrent": 4,
        "daily_cost_usd": 9.0,
    }
    assert told["notify"] == {
        "hook": ["/bin/sh", "-c", "cat"], "urls": ["json://u:p@h"], "events": ["failed"], "cooldown": 0, "timeout": 1000,
        "dead_man": "https://ping.example/hunter22", "dead_man_every": 60_000,
    }  # fmt: skip
    push = {"verify": "gitea", "secret": "hunter22", "rate": 6, "max_body": 1 << 20}
    hook = {"harness": "a", "trigger": "push", **push}
    assert told["web"] == {
        "listen": "127.0.0.1:7077", "token": "0123456789abcdef", "allow": False, "origins": ["https://a"],
        "hooks": {"listen": "[::1]:7078", "allow": False, "triggers": [hook]},
    }  # fmt: skip
    assert told["harnesses"][0]["triggers"] == [
        {"name": "push", "kind": "webhook", **push},
        {"name": "by-hand", "kind": "channel", "rate": 60, "max_body": 1 << 20},
    ]
    assert told["secrets"] == ["0123456789abcdef", "hunter22", "json://u:p@h"]


@pytest.mark.capability("CAP-132")
def test_doors_that_others_can_open_are_told(read: Any, tmp_path: Path) -> None:
    """A token that others can read, one that is none, and an address in the file are told; no value is repeated."""
    (tmp_path / "token").write_text("short")
    loaded = read(
        '[web]\nlisten = "127.0.0.1:1"\ntoken_file = "token"\n[notify]\nurls = ["tgram://hunter22/5"]\nhook = "/bin/nope"\n'
        '[harness.a]\ncommand = "sh"\n'
    )
    assert "tgram://hunter22/5" in loaded.secrets
    (error,) = loaded.errors
    assert str(error).endswith("/token: no token of 16 characters or more in it")
    told = [str(warning) for warning in loaded.warnings]
    mode = stat.S_IMODE((tmp_path / "token").stat().st_mode)
    assert told == [
        f"longwatch.toml:3:1: [web] token_file: others can read {tmp_path}/token (mode {mode:04o}); chmod 600 {tmp_path}/token",
        'longwatch.toml:5:1: [notify] urls: such an address is a secret; write "${NAME}", and NAME=... into env_file',
        "longwatch.toml:6:1: [notify] hook: /bin/nope: no such program now",
    ]
