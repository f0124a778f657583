"""What is wrong with a file: every error at once, each with line, column and what to write instead."""

import builtins
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from longwatch.config.files import load
from longwatch.errors import UsageError


def lines(read: Any, text: str, **environ: str) -> list[str]:
    """Return the errors of a file without its name."""
    loaded = read(text, {"PATH": os.environ["PATH"], **environ})
    return [str(problem).removeprefix("longwatch.toml:") for problem in loaded.errors]


WEB = '[harness.web]\ncommand = ["sh"]\n'
CRON = '[harness.cron]\ncommand = ["sh"]\nschedule = "@daily"\n'
HOOKS = '[web]\nwebhooks = "127.0.0.1:7078"\n'

VALUES = {
    'stal_timeout = "5m"': '1: unknown key "stal_timeout" in [harness.web]; did you mean "stall_timeout"?',
    'idel = "5m"': '1: unknown key "idel" in [harness.web]; did you mean "idle"?',
    'grace = "5s"': '1: unknown key "grace" in [harness.web]; did you mean "kill_after"?',
    'workdir = "/"': '1: unknown key "workdir" in [harness.web]; did you mean "cwd"?',
    'hook = ["/bin/x"]': '1: unknown key "hook" in [harness.web]; it belongs into [notify]',
    "zzzzzz = 1": '1: unknown key "zzzzzz" in [harness.web]; longwatch config schema lists all',
    'idle = "5minutes"': "1: [harness.web] idle = 5minutes: unknown unit minutes; write 5m (units are ms, s, m, h, d)",
    "idle = 5": '1: [harness.web] idle = 5: a bare number is no duration; write "5s" or "5m"',
    "idle = 1": '1: [harness.web] idle = 1: a bare number is no duration; write "1s" or "1m"',
    'idle = "5"': "1: [harness.web] idle = 5: a bare number is no duration; write 5s or 5m",
    "idle = 1.5": '1: [harness.web] idle = 1.5: a bare number is no duration; write "1.5s" or "1.5m"',
    "idle = -1": "1: [harness.web] idle = -1: a duration cannot be negative; write 5s or 5m, or off for no limit",
    'idle = "-1s"': "1: [harness.web] idle = -1s: a duration cannot be negative; write 5s or 5m, or off for no limit",
    "idle = inf": "1: [harness.web] idle = inf: a duration is finite; write off for no limit",
    'idle = "infinity"': "1: [harness.web] idle = infinity: a duration is finite; write off for no limit",
    "idle = nan": "1: [harness.web] idle = nan: no duration; write 5s or 5m, or off for no limit",
    "idle = true": '1: [harness.web] idle = true: no duration; write "5s", or "off" for no limit',
    'idle = ["5m"]': '1: [harness.web] idle = a list: no duration; write "5s", or "off" for no limit',
    'calls = { Bash = "30" }': "11: [harness.web] calls.Bash = 30: a bare number is no duration; write 30s or 30m",
    "calls = 5": "1: [harness.web] calls = 5: a table is wanted here",
    "kill_after = 0": "1: [harness.web] kill_after = 0: a stop has to end; write 1ms to kill at once",
    'signal = "TREM"': "1: [harness.web] signal = TREM: no such signal; did you mean TERM?",
    "signal = true": '1: [harness.web] signal = true: no signal; write "TERM" or 15',
    'pty = "yes"': "1: [harness.web] pty = yes: no yes or no; write true or false, without quotes",
    "loop = 1": "1: [harness.web] loop = 1: no count; write a number from 2 on, or off",
    "loop = true": '1: [harness.web] loop = true: no count; write a number from 2 on, or "off"',
    'intensity = "5"': "1: [harness.web] intensity = 5: no such number; write a whole one from 0 on",
    "max_runs_per_day = 0": "1: [harness.web] max_runs_per_day = 0: no such number; write a whole one from 1 on",
    "daily_cost_usd = -1": "1: [harness.web] daily_cost_usd = -1: no amount of money; write dollars as a number, such as 5 or 0.50",
    'restart = "allways"': '1: [harness.web] restart = allways: no such policy; did you mean "always"?',
    'stall_action = "zzz"\nstall_timeout = "1h"': (
        '1: [harness.web] stall_action = zzz: no such action; write "none" or "notify" or "nudge" or "stop" or "restart"'
    ),
    'progress = ["output", "otput"]': "23: [harness.web] progress = otput: no such source; did you mean output?",
    "progress = []": "1: [harness.web] progress = []: nothing in it; leave the key out",
    'not_progress = "("': "1: [harness.web] not_progress = (: no regular expression: missing ), unterminated subpattern at position 0",
    'hours = "mon-fry 09:00-17:00"': (
        "1: [harness.web] hours = mon-fry 09:00-17:00: no such day: fry; days are mon, tue, wed, thu, fri, sat, sun"
    ),
    'hours = "9-5"': '1: [harness.web] hours = 9-5: no hours of a day; write "mon-fri 09:00-18:00"',
    'hours = "09:00-25:00"': '1: [harness.web] hours = 09:00-25:00: no hours of a day; write "mon-fri 09:00-18:00"',
    'hours = "09:00-09:00"': '1: [harness.web] hours = 09:00-09:00: no hours of a day; write "mon-fri 09:00-18:00"',
    'timezone = "Europe/Berln"\nhours = "09:00-17:00"': (
        "1: [harness.web] timezone = Europe/Berln: no such time zone; did you mean Europe/Berlin?"
    ),
    "env = { X = 5 }": '9: [harness.web] env.X = 5: no text; write "5"',
    'env = { "A=B" = "x" }': "9: [harness.web] env: A=B: no name of a variable; write letters, digits and _",
    "log = { max = 5 }": '9: [harness.web] log.max = 5: a bare number is no size; write "5KiB" or "5MiB"',
    "log = { kep = 3 }": '9: unknown key "kep" in [harness.web.log]; did you mean "keep"?',
    'harness = "cluade"': "1: [harness.web] harness = cluade: no such preset; did you mean claude?",
    'quota_group = "a b"': (
        "1: [harness.web] quota_group = a b: no name; write up to 40 letters, digits, -, _ and ., such as nightly-build"
    ),
    'nudge = ""\npty = true': "1: [harness.web] nudge = '': no text; write one in quotes, with something in it",
}  # fmt: skip


@pytest.mark.fault("R3")
@pytest.mark.parametrize("text", VALUES)
def test_a_wrong_value_is_refused(read: Any, text: str) -> None:
    """Misspelt keys, units, words and numbers: one line each, at the key, with what to write."""
    assert lines(read, WEB + text + "\n") == [f"3:{VALUES[text]}"]


@pytest.mark.fault("R3")
@pytest.mark.parametrize("text", ['idle = "0"', "idle = 0", 'idle = "off"'])
def test_off_is_off(read: Any, text: str) -> None:
    """Zero and off switch a limit off, and mean nothing else."""
    loaded = read(WEB + text)
    assert loaded.errors == ()
    assert "idle" not in loaded.harnesses[0].limits


CONTRADICTIONS = {
    WEB + 'stall_action = "restart"': '3:1: [harness.web] stall_action: nothing for it to do; add stall_timeout = "45m"',
    WEB + 'stall_timeout = "off"\nstall_action = "restart"': (
        '4:1: [harness.web] stall_action: nothing for it to do; add stall_timeout = "45m"'
    ),
    CRON + 'stall_timeout = "45m"': (
        "4:1: [harness.cron] stall_timeout beside schedule: a scheduled program ends by itself and is bounded by timeout"
    ),
    CRON + 'stall_action = "notify"': (
        "4:1: [harness.cron] stall_action beside schedule: a scheduled program ends by itself and is bounded by timeout"
    ),
    '[harness.t]\ncommand = ["sh"]\nstall_timeout = "45m"\n[[harness.t.trigger]]\nname = "x"\nkind = "channel"': (
        "3:1: [harness.t] stall_timeout beside trigger: a triggered program ends by itself and is bounded by timeout"
    ),
    WEB + 'timeout = "1h"': (
        "3:1: [harness.web] timeout without schedule or trigger: a resident program has no end to wait for; use idle, or "
        "ceiling for a bound of time"
    ),
    WEB + 'on_overlap = "skip"': (
        "3:1: [harness.web] on_overlap without schedule or trigger: only schedule and trigger start a second run"
    ),
    WEB + "keep_runs = 5": "3:1: [harness.web] keep_runs without schedule or trigger: only schedule and trigger make runs",
    WEB + 'on_hold = "skip"': (
        "3:1: [harness.web] on_hold without schedule or trigger: only schedule and trigger have firings to hold"
    ),
    WEB + 'catch_up = "1h"': "3:1: [harness.web] catch_up without schedule or trigger: only a schedule can be missed",
    CRON + 'restart = "always"': "4:1: [harness.cron] restart beside schedule: its next start is the retry",
    CRON + 'idle = "5m"\nidle_action = "restart"': (
        "5:1: [harness.cron] idle_action: restart: the next firing of a scheduled program is the retry; write stop"
    ),
    WEB + 'first_action = "stop"': '3:1: [harness.web] first_action: nothing for it to do; add first = "45m"',
    WEB + 'idle = "5m"\nidle_action = "nudge"': '4:1: [harness.web] idle_action: nudge: nothing to type; add nudge = "..."',
    WEB + 'nudge = "go on"': "3:1: [harness.web] nudge: nothing to type into; add pty = true",
    WEB + 'progress = "screen"': "3:1: [harness.web] progress: screen: it has no terminal; add pty = true",
    WEB + 'progress = "transcript"': (
        '3:1: [harness.web] progress: transcript: nobody can read one of this program; add harness = "claude" if it is one'
    ),
    WEB + 'check = "git status"': '3:1: [harness.web] check: nothing waits for it; add effect = "30m"',
    WEB + 'timezone = "Europe/Berlin"': (
        "3:1: [harness.web] timezone: no time of day to read in it; add hours or schedule"
    ),
    WEB + "stall_when_ready = true": (
        '3:1: [harness.web] stall_when_ready: nothing for it to hold; add stall_timeout = "45m"'
    ),
    WEB + 'restart = "no"\nintensity = 3': '4:1: [harness.web] intensity: nothing to count: restart = "no"',
    WEB + 'soft = "2h"\nceiling = "1h"': "3:1: [harness.web] soft: 2h: the run is over by then: ceiling 1h (longwatch.toml:4)",
    CRON + 'soft = "2h"': "4:1: [harness.cron] soft: 2h: the run is over by then: timeout 1h (built-in)",
    WEB + "max_tokens = 5": (
        '3:1: [harness.web] max_tokens: nobody counts those of this program; add harness = "claude" if it is one'
    ),
    WEB + 'resume = ["sh", "{sesion}"]': (
        "3:1: [harness.web] resume: {sesion}: no such placeholder; {session} is the only one"
    ),
    WEB + 'resume = ["sh", "{session}"]': (
        "3:1: [harness.web] resume: nobody tells the id of a conversation of this program, so {session} stays empty"
    ),
    WEB + 'args = ["x"]': "3:1: [harness.web] args: the arguments stand in command already; keep one of them",
    '[harness.a]\nargs = ["x"]\npreset = "none"': '1:10: [harness.a] has no command; write command = ["claude", "-p", "..."]',
    '[harness.a]\nharness = "claude"\npreset = "claude"': "3:1: [harness.a] preset: the same as harness; keep one of them",
    "[harness.a]\npty = true": '1:10: [harness.a] has no command; write command = ["claude", "-p", "..."]',
    "[harness.a]\ncommand = []": '2:1: [harness.a] command = a list: no program in it; write ["claude", "-p", "..."]',
    '[harness.a]\ncommand = "sh \'x"': (
        "2:1: [harness.a] command = sh 'x: no closing quotation; write a list of words in its place"
    ),
    '[harness.a]\ncommand = ["sh", 5]': "2:1: [harness.a] command = 5: no word of a command; write it in quotes",
    '[harness."a b"]\ncommand = "sh"': (
        '1:10: [harness."a b"]: a b: no name; write up to 40 letters, digits, -, _ and ., such as nightly-build'
    ),
    '[harness]\ncommand = "sh"': (
        "2:1: [harness] command: a harness has a table of its own; write [harness.NAME] with command = ... in it"
    ),
    "harness = 5": "1:1: harness = 5: write [harness.NAME]",
    '[default]\nidle = "5m"\n' + WEB: "1:2: unknown table [default]; did you mean [defaults]?",
    '[agent]\ncommand = "sh"\n' + WEB: "1:2: unknown table [agent]; did you mean [harness.agent]?",
    "[zzzzzz]\n" + WEB: "1:2: unknown table [zzzzzz]; tables are [defaults], [daemon], [notify], [web] and [harness.NAME]",
    'idel = "5m"\n' + WEB: '1:1: unknown key "idel" outside of a table; "idle" stands in [defaults] or [harness.NAME]',
    "zzzzzz = 1\n" + WEB: '1:1: unknown key "zzzzzz" outside of a table; every key stands in a table',
    "daemon = 5\n" + WEB: "1:1: [daemon] = 5: a table is wanted here",
    '[defaults]\ncommand = "sh"\n' + WEB: '2:1: unknown key "command" in [defaults]; it belongs into [harness.NAME]',
    CRON.replace("@daily", "@dayly"): "3:1: [harness.cron] schedule = @dayly: no such time; did you mean @daily?",
    CRON.replace("@daily", "@every 10ms"): (
        "3:1: [harness.cron] schedule = @every 10ms: no span of a schedule; write whole seconds, as in @every 30m"
    ),
    CRON.replace("@daily", "0 0 30 2 *"): "3:1: [harness.cron] schedule = 0 0 30 2 *: no cron line: bad day-of-month",
    CRON.replace("@daily", "0 0 1"): (
        '3:1: [harness.cron] schedule = 0 0 1: no cron line; write five fields, minute first ("30 2 * * *"), or "@every 30m"'
    ),
    CRON.replace("@daily", "TZ=Nope/Zz 0 0 1 * *"): (
        "3:1: [harness.cron] schedule = Nope/Zz: no such time zone; write one such as Europe/Berlin"
    ),
    WEB + '[daemon]\nretention = "1h"': "4:1: [daemon] retention = 1h: write 1d or more",
    WEB + '[daemon]\nledger_max = "1MiB"': "4:1: [daemon] ledger_max = 1MiB: write 16MiB or more",
    WEB + '[notify]\nhook = "sh x"': "4:1: [notify] hook = sh x: not the whole path of a program; begin it with /",
    WEB + '[notify]\nhook = "/bin/sh"\nevents = ["faild"]': '5:11: [notify] events = faild: no such event; did you mean "failed"?',
    WEB + '[notify]\nevents = ["failed"]': (
        '4:1: [notify] events: nobody is told; add hook = ["/..."] or urls = ["${NAME}"]'
    ),
    WEB + '[notify]\nhook = "/bin/sh"\ntimeout = "10m"': "5:1: [notify] timeout = 10m: write 1s to 5m",
    WEB + '[notify]\nhook = "/bin/sh"\ncooldown = "25h"': "5:1: [notify] cooldown = 25h: write at most 1d, or off",
    WEB + '[notify]\ndead_man = "ftp://x"': '4:1: [notify] dead_man = ftp://x: no address of the web; write "https://..."',
    WEB + '[notify]\ndead_man_every = "1m"': (
        '4:1: [notify] dead_man_every: nothing is asked for; add dead_man = "https://..."'
    ),
    WEB + '[web]\nlisten = "127.0.0.1:7077"': (
        '4:1: [web] listen: needs a token; add token_file = "..." or token = "${NAME}"'
    ),
    WEB + '[web]\nlisten = "7077"\ntoken = "${HOME}"': '4:1: [web] listen = 7077: no address; write "127.0.0.1:7077"',
    WEB + '[web]\nwebhooks = "0.0.0.0:7078"': (
        "4:1: [web] webhooks = 0.0.0.0:7078: open to other machines; add allow_remote = true if that is meant"
    ),
    WEB + "[web]\nallow_remote = true": '4:1: [web] allow_remote: nothing listens; add listen = "0.0.0.0:7077"',
    WEB + '[web]\ntoken = "${HOME}"': '4:1: [web] token: nothing listens; add listen = "127.0.0.1:7077"',
    WEB + '[web]\nlisten = "127.0.0.1:7077"\ntoken_file = "nope"': "5:1: [web] token_file = TMP/nope: No such file or directory",
    WEB + '[[harness.web.trigger]]\nname = "x"': (
        '3:15: [[harness.web.trigger]]: anybody could send it; add verify = "github" and secret = "${NAME}"',
        '3:15: [[harness.web.trigger]]: no address for webhooks; add webhooks = "127.0.0.1:7078" to [web]',
    ),
    HOOKS + WEB + '[[harness.web.trigger]]\nname = "x"\nverify = "github"\nsecret = "hunter22"': (
        '8:1: [[harness.web.trigger]] secret: a secret does not stand in the file; write "${NAME}", and NAME=... into env_file'
    ),
    WEB + '[[harness.web.trigger]]\nkind = "channel"': '3:15: [[harness.web.trigger]] has no name; write name = "..."',
    WEB + '[[harness.web.trigger]]\nname = "x"\nkind = "channel"\nverify = "github"': (
        "6:1: [[harness.web.trigger]] verify: only webhooks prove where they come from"
    ),
    WEB + '[[harness.web.trigger]]\nname = "x"\nkind = "channel"\n[[harness.web.trigger]]\nname = "x"\nkind = "channel"': (
        "7:1: [[harness.web.trigger]] name = x: there is one of that name"
    ),
    WEB + '[[harness.web.trigger]]\nname = "x"\nkind = "channel"\nrate = 60': (
        '6:1: [[harness.web.trigger]] rate = 60: no rate; write "60/min"'
    ),
    WEB + '[[harness.web.trigger]]\nname = "x"\nkind = "channel"\nmax_body = "26MiB"': (
        "6:1: [[harness.web.trigger]] max_body = 26MiB: write at most 25MiB"
    ),
    WEB + "trigger = 5": "3:1: [harness.web] trigger = 5: write tables [[harness.web.trigger]]",
}  # fmt: skip


@pytest.mark.capability("CAP-105", "CAP-119", "CAP-120", "CAP-121", "CAP-128")
@pytest.mark.parametrize("text", CONTRADICTIONS)
def test_a_contradiction_is_refused(read: Any, text: str, tmp_path: Path) -> None:
    """A key that could mean nothing where it stands, or that needs another, stops the load."""
    wanted = CONTRADICTIONS[text]
    expected = [wanted] if isinstance(wanted, str) else list(wanted)
    assert lines(read, text, HOME="/root") == [line.replace("TMP", str(tmp_path)) for line in expected]


SYNTAX = {
    "[harness.x]\nidle = 5m\n": '2:9: idle = 5m: a text stands in quotes; write idle = "5m"',
    "[harness.x]\nidle = off # for now\n": '2:8: idle = off: a text stands in quotes; write idle = "off"',
    '[harness.x]\ncommand = ["a"\nidle = "5m"\n': "3:1: unclosed array",
    "[harness.x]\n[harness.x]\n": "2:11: [harness.x] stands twice; join them",
    'idle = "5m': "1:11: unterminated string",
}


@pytest.mark.fault("R3")
@pytest.mark.parametrize("text", SYNTAX)
def test_broken_toml_is_placed(read: Any, text: str) -> None:
    """A file that is no TOML says where it stops being one; a text without quotes says so."""
    assert lines(read, text) == [SYNTAX[text]]


@pytest.mark.fault("R3")
def test_all_errors_come_at_once(read: Any) -> None:
    """Each harness and table is read whatever is wrong with the others, in the order of the lines."""
    text = (
        WEB
        + 'idel = 1\nidle = "5x"\nrestart = "no"\nperiod = "5m"\n'
        + CRON
        + 'stall_timeout = "x"\n[web]\nlisten = 5\n'
    )
    found = lines(read, text)
    assert [line.split(": ")[0] for line in found] == ["3:1", "4:1", "6:1", "10:1", "10:1", "12:1", "12:1"]


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A folder and a text in another encoding are told in one line."""
    with pytest.raises(UsageError, match="Is a directory"):
        load(str(tmp_path))
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="no text in UTF-8"):
        load(str(tmp_path / "x"))


def test_without_the_grammar_errors_have_no_place(read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the extra is missing all errors are there, with table and key, only without their lines."""
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("tree_sitter"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    loaded = read(WEB + "idle = 5")
    assert [str(error) for error in loaded.errors] == [
        'longwatch.toml: [harness.web] idle = 5: a bare number is no duration; write "5s" or "5m"'
    ]


def compiled(path: Path) -> tuple[int, dict[str, Any], str]:
    """Return what the daemon's question is answered with."""
    argv = [sys.executable, "-m", "longwatch.config.compiled", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout), done.stderr


def test_the_daemon_is_told(tmp_path: Path) -> None:
    """The child prints one document: errors with their places and 1, or what the file comes to and 0."""
    path = tmp_path / "longwatch.toml"
    path.write_text(WEB + "idle = 5\n")
    message = '[harness.web] idle = 5: a bare number is no duration; write "5s" or "5m"'
    error = {"file": str(path), "line": 3, "column": 1, "message": message}
    assert compiled(path) == (1, {"schema": 1, "config": str(path.resolve()), "errors": [error]}, "")
    path.write_text(WEB)
    code, document, stderr = compiled(path)
    assert (code, [h["name"] for h in document["harnesses"]], stderr) == (0, ["web"], "")
    assert set(document) == {
        "schema", "config", "harnesses", "daemon", "notify", "web", "warnings", "notes", "files", "secrets",
    }  # fmt: skip
    path.unlink()
    error = {"file": str(path), "line": 0, "column": 0, "message": "No such file or directory"}
    assert compiled(path)[1]["errors"] == [error]
