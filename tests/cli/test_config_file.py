"""`longwatch config check` and `explain NAME`: what is wrong with a file, and who set what in it."""

import json
import os
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped,unused-ignore]
import pytest
import tomli

import helpers
from longwatch.config.described import schema
from longwatch.config.finding import find
from longwatch.errors import UsageError

GOOD = """\
[defaults]
idle = "5m"

[harness.web]
command = ["sh", "-c", "echo hi"]
calls = { Bash = "30m" }

[harness.nightly]
command = "claude -p 'do it'"
schedule = "@daily"
idle = "off"
env = { KEY = "hunter22hunter22" }

[[harness.nightly.trigger]]
name = "by-hand"
kind = "channel"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that commands are started in, with an agent on PATH that does nothing."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "claude").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "claude").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.delenv("LONGWATCH_CONFIG", raising=False)
    return tmp_path


def run(*words: str) -> tuple[int, str, str]:
    """Return status and output of `longwatch config ...`."""
    done = helpers.run_cli("config", *words)
    return done.code, done.out, done.err


def test_a_good_file(folder: Path) -> None:
    """It is counted, and what bounds each run is said; as JSON for programs."""
    (folder / "longwatch.toml").write_text(GOOD)
    (folder / "deep").mkdir()
    assert run("check") == (
        0,
        ("longwatch.toml: ok, 2 harnesses (1 resident, 1 scheduled)\n"
        "  nightly: each run is bounded by call 1h (preset claude)\n"),
        ("longwatch.toml:6:1: [harness.web] calls: no calls, questions and results of this program can be seen; it never acts "
        "(warning)\n"),
    )  # fmt: skip
    code, out, err = run("check", "--json", str(folder))
    told = json.loads(out)
    assert (code, err, told["ok"], told["errors"], len(told["warnings"])) == (0, "", True, [], 1)
    assert told["harnesses"] == [
        {"name": "web", "kind": "resident"},
        {"name": "nightly", "kind": "scheduled"},
    ]


@pytest.mark.fault("R3")
def test_a_bad_file(folder: Path) -> None:
    """Every error is a line, the status 1; as JSON each has its place."""
    (folder / "longwatch.toml").write_text('[harness.web]\ncommand = "sh"\nstal_timeout = "5m"\nidle = 5\n')
    lines = (
        'longwatch.toml:3:1: unknown key "stal_timeout" in [harness.web]; did you mean "stall_timeout"?\n'
        'longwatch.toml:4:1: [harness.web] idle = 5: a bare number is no duration; write "5s" or "5m"\n'
    )
    assert run("check") == (1, "", lines)
    code, out, _ = run("check", "--json")
    told = json.loads(out)
    assert (code, told["ok"], [error["line"] for error in told["errors"]]) == (1, False, [3, 4])
    assert run("explain", "web")[::2] == (
        2,
        f"longwatch: {folder}/{lines.splitlines()[0]} (and 1 more; longwatch config check)\n",
    )


def test_explain_a_harness(folder: Path) -> None:
    """Each value with who set it: a line of the file, a preset, or nobody; a variable's value is not shown."""
    (folder / "longwatch.toml").write_text(GOOD)
    _, out, _ = run("explain", "nightly")
    heads = [line for line in out.splitlines() if not line.startswith(" ")]
    assert "idle: off (longwatch.toml:11); built-in off" in heads
    assert "linger: 30s (preset claude); built-in off" in heads
    assert "call: 1h (preset claude); built-in 1h, notify" in heads
    assert "env: KEY (longwatch.toml:12); built-in unset" in heads
    assert "timeout: off (built-in)" in heads
    assert "trigger: by-hand (longwatch.toml:14); built-in unset" in heads
    assert "hunter22" not in out
    assert not any(head.startswith("stall_timeout") for head in heads)
    assert "hooks and telemetry, takes seconds" in " ".join(out.split())
    assert run("explain", "web.idle")[1].splitlines()[0] == "idle: 5m (longwatch.toml:2); built-in off"
    assert run("explain", "web.calls")[1].splitlines()[0].startswith("calls: Bash = 30m (longwatch.toml:6)")
    told = json.loads(run("explain", "nightly.linger", "--json")[1])
    assert (told["schema"], told["harness"], len(told["options"])) == (1, "nightly", 1)
    assert told["options"][0] | {"why": ""} == {
        "name": "linger", "value": "30s", "source": "preset claude", "default": "off", "why": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["wep"], "wep: no such harness in longwatch.toml; did you mean web?"),
        (["zzzzz.idle"], "zzzzz: no such harness in longwatch.toml; there are: web, nightly"),
        (["web.idel"], "idel: no such key of a resident harness; did you mean idle?"),
        (
            ["web.timeout"],
            "timeout: no such key of a resident harness; longwatch config explain web lists all",
        ),
        (["web", "--preset", "claude"], "config explain: a harness has its own preset; leave --preset out"),
        (["--config", "x"], "--config x: no such file; longwatch init writes a first one"),
    ],
)
def test_wrong_words(folder: Path, words: list[str], line: str) -> None:
    """Wrong names and words are told in one line with the nearest."""
    (folder / "longwatch.toml").write_text(GOOD)
    assert run("explain", *words) == (2, "", f"longwatch: {line}\n")


def test_editors_are_told_the_same(folder: Path) -> None:
    """The schema takes the file that is good, and refuses what the check refuses."""
    printed = json.loads(run("schema")[1])
    assert printed == schema()
    jsonschema.Draft202012Validator.check_schema(printed)
    check = jsonschema.Draft202012Validator(printed)
    assert list(check.iter_errors(tomli.loads(GOOD))) == []
    wrong: list[dict[str, Any]] = [
        {"harness": {"a": {"command": "sh", "idel": "5m"}}}, {"harness": {"a": {"command": "sh", "idle": 5}}},
        {"harness": {"a": {"command": "sh", "restart": "allways"}}}, {"daemon": {"retention": 5}}, {"zzz": {}},
    ]  # fmt: skip
    assert [each for each in wrong if check.is_valid(each)] == []


def test_which_file_is_meant(folder: Path) -> None:
    """The named one, the variable's, the nearest upwards, the user's; a named one has to be there."""
    own = folder / "config" / "longwatch" / "longwatch.toml"
    deep = folder / "a" / "b"
    deep.mkdir(parents=True)
    own.parent.mkdir(parents=True)
    environ = {"XDG_CONFIG_HOME": str(folder / "config")}
    with pytest.raises(UsageError, match=f"no longwatch.toml here or above, and no {own}; longwatch init"):
        find(None, environ, str(deep))
    own.touch()
    assert find(None, environ, str(deep)) == str(own)
    (folder / "longwatch.toml").touch()
    assert find(None, environ, str(deep)) == str(folder / "longwatch.toml")
    (deep.parent / "longwatch.toml").touch()
    assert find(None, environ, str(deep)) == str(deep.parent / "longwatch.toml")
    assert find(None, environ | {"LONGWATCH_CONFIG": str(own)}, str(deep)) == str(own)
    assert find("../../longwatch.toml", environ | {"LONGWATCH_CONFIG": str(own)}, str(deep)) == os.path.join(
        str(deep), "../../longwatch.toml"
    )
    assert find("..", environ, str(deep)) == os.path.join(str(deep), "..", "longwatch.toml")
    with pytest.raises(UsageError, match=r"^--config .*/nope: no such file"):
        find("nope", environ, str(deep))
    with pytest.raises(UsageError, match=r"^LONGWATCH_CONFIG=.*/nope: no such file"):
        find(None, environ | {"LONGWATCH_CONFIG": "nope"}, str(deep))
