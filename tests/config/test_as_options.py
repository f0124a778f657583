"""What a file says to a run in the foreground: its keys are options, below flags and variables and above presets."""

from pathlib import Path
from typing import Any

import pytest

from longwatch import presets
from longwatch.config import model
from longwatch.config.as_options import read
from longwatch.errors import UsageError
from longwatch.options import FILE, RUN_OPTIONS, Values, from_environment, of_flags, options_for, parse

#: A key as it stands in the file, and the flags that say the same.
SAME: dict[str, tuple[str, ...]] = {
    'idle = "5m"': ("--idle", "5m"),
    'first = "off"': ("--first", "off"),
    'ceiling = "2h"': ("--ceiling", "2h"),
    'timeout = "90m"': ("--timeout", "90m"),
    'soft = "1h"': ("--soft", "1h"),
    'ask = "5m"': ("--ask", "5m"),
    'linger = "1m"': ("--linger", "1m"),
    'effect = "10m"': ("--effect", "10m"),
    'stall_timeout = "10m"': ("--stall", "10m"),
    'call = "2h"': ("--call", "2h"),
    'calls = { Bash = "30m", Read = "1m" }': ("--call", "Bash=30m", "--call", "Read=1m"),
    'call = "2h"\ncalls = { Bash = "30m" }': ("--call", "2h", "--call", "Bash=30m"),
    'idle_action = "notify"': ("--idle-action", "notify"),
    'idle_action = "restart"': ("--idle-action", "stop"),
    'first_action = "none"\nstall_action = "stop"': ("--action", "first=none", "--action", "stall=stop"),
    'ceiling_action = "restart"': ("--action", "ceiling=stop"),
    "loop = 8": ("--loop", "8"),
    'nudge = "go on"': ("--nudge", "go on"),
    'allow_quiet = "30m"': ("--allow-quiet", "30m"),
    'progress = ["stdout", "file:*.log"]': ("--progress", "stdout", "--progress", "file:*.log"),
    'not_progress = "^spin"': ("--not-progress", "(?:^spin)"),
    'not_progress = ["^spin", "tick$"]': ("--not-progress", "(?:^spin)|(?:tick$)"),
    'effect = "1h"\ncheck = "make -q"': ("--effect", "1h", "--check", "make -q"),
    'poll = "off"': ("--poll", "off"),
    'signal = "INT"': ("--signal", "INT"),
    'kill_after = "3s"': ("--kill-after", "3s"),
    "keep_leftovers = true": ("--keep-leftovers",),
    'before_stop = "git stash"': ("--before-stop", "git stash"),
    "resume_on_limit = true": ("--resume-on-limit",),
    "pty = true": ("--pty",),
    "pty = false": ("--no-pty",),
}
#: Options that have a key of their own name in the file, but say something else there: how much a daemon's log keeps.
ANOTHER = {"log"}
#: Of a setter the name, its word for a window, and what the window is then; the strongest first.
SETTERS = [("flag", "1m"), ("variable", "2m"), ("file", "3m"), ("preset", "12m"), ("default", "5m")]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the place of a file in an empty folder that is ours."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "longwatch.toml"


def told(*words: str, verb: str = "run", **environ: str) -> Values:
    """Return what holds for a command that is given the file."""
    return parse(verb, ["--config", "longwatch.toml", *words, "--", "true"], environ, read)[0]


def said(values: Values) -> dict[str, Any]:
    """Return the options that somebody set, but for the file itself."""
    named = (option.name for option in values.options if values.source(option.name) != "default")
    return {name: values.get(name) for name in named if name != "config"}


@pytest.mark.parametrize("text", SAME)
def test_a_key_is_its_option(text: str, file: Path) -> None:
    """What the file says is what the flags of the same words say, and each value knows that it is the file's."""
    file.write_text(f"[defaults]\n{text}\n")
    values = told()
    assert said(values) == said(parse("run", [*SAME[text], "true"], {})[0])
    assert {values.source(name) for name in said(values)} == {FILE}


def test_no_option_is_forgotten() -> None:
    """Every key of `[defaults]` that is an option by its name stands above."""
    keys = {key for text in SAME for key in [line.split()[0] for line in text.splitlines()]}
    options = {str(option.key) for option in RUN_OPTIONS}
    assert options & model.Defaults.model_fields.keys() - ANOTHER - keys == set()


@pytest.mark.parametrize("strongest", range(len(SETTERS)))
def test_the_strongest_setter_wins(strongest: int, file: Path) -> None:
    """A flag wins over a variable, that over the file, that over the preset, that over the built-in."""
    given = dict(SETTERS[strongest:])
    file.write_text("[defaults]\n" + (f'idle = "{given["file"]}"\n' if "file" in given else ""))
    flags = ["--idle", given["flag"]] if "flag" in given else []
    values = told(*flags, **({"LONGWATCH_IDLE": given["variable"]} if "variable" in given else {}))
    if "preset" in given:
        presets.lend(presets.named("claude"), values, ["claude"])
    source, window = SETTERS[strongest]
    assert (values.source("idle"), values.idle) == (source, int(window[:-1]) * 60_000)


def test_entries_stand_for_themselves(file: Path) -> None:
    """A flag for one tool, or for the step of one limit, leaves the others as the file has them."""
    file.write_text(
        '[defaults]\ncall = "2h"\ncalls = { Bash = "30m" }\nfirst_action = "none"\nask_action = "none"\n'
    )
    values = told("--call", "Bash=1m", "--action", "first=stop")
    assert values.call == {"": 7_200_000, "Bash": 60_000}
    assert values.action == {"first": "stop", "ask": "none"}


def test_what_is_the_daemons_is_not_ours(file: Path) -> None:
    """Keys that say where and when a program is started, and what follows its end, mean nothing here."""
    file.write_text(
        '[defaults]\ncwd = "/"\nenv = { A = "b" }\nenabled = false\nrestart = "no"\nhours = "09:00-17:00"\n'
        "max_runs_per_day = 3\nlog = { keep = 7 }\n[daemon]\nmax_concurrent = 2\n"
    )
    assert said(told()) == {}


HARNESSES = """\
[defaults]
idle = "5m"
timeout = "9m"

[harness.claude]
harness = "codex"
idle = "1m"
stall_timeout = "45m"
"""


def test_a_harness_counts_for_a_run_of_its_name(file: Path) -> None:
    """The table that `--name` names counts with the defaults that hold for it, and no other one does."""
    file.write_text(HARNESSES)
    named = said(told("--name", "claude"))
    assert named == {"name": "claude", "idle": 60_000, "stall": 45 * 60_000, "preset": "codex"}
    assert said(told("--name", "other")) == {"name": "other", "idle": 300_000, "timeout": 540_000}
    assert said(parse("run", ["--config", ".", "claude"], {}, read)[0]) == {
        "idle": 300_000,
        "timeout": 540_000,
    }
    file.write_text('[harness.a]\ncommand = "true"\nharness = "none"\n')
    assert said(told("--name", "a"))["preset"] == presets.NONE


def test_each_value_knows_its_line(file: Path) -> None:
    """The place is that of the table that said it."""
    file.write_text(HARNESSES)
    values = told("--name", "claude")
    assert [values.place(name) for name in ("idle", "stall", "preset")] == [
        f"longwatch.toml:{n}" for n in (7, 8, 6)
    ]
    assert told().place("timeout") == "longwatch.toml:3"


def test_a_wrong_variable_leaves_the_file(file: Path) -> None:
    """What the file says holds where the variable says nothing that makes sense."""
    file.write_text('[defaults]\nidle = "3m"\n')
    values = told(LONGWATCH_IDLE="5")
    assert (values.idle, values.source("idle")) == (180_000, FILE)
    assert values.warnings[0].endswith("; file longwatch.toml:2 is used: 3m")


def test_a_file_contradicts_nobody(file: Path) -> None:
    """Half of what belongs together may stand in the file and the other half in the flags; alone it means nothing."""
    file.write_text('[defaults]\nidle_action = "nudge"\nfirst_action = "nudge"\ncheck = "make -q"\n')
    values = told()
    assert (values.idle_action, values.warnings) == ("nudge", [])
    assert told("--action", "ask=stop").action == {"first": "nudge", "ask": "stop"}
    with pytest.raises(UsageError, match=r"^--action ask=nudge: nothing to type"):
        told("--action", "ask=nudge")
    file.write_text('[defaults]\nnudge = "go on"\neffect = "1h"\n')
    assert told("--action", "ask=nudge", "--check", "make -q").nudge == "go on"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'idle = "8m"\ntimeout = "5m"\nkill_after = "3s"',
            {"idle": 480_000, "timeout": 300_000, "kill-after": 3_000},
        ),
        ('idle = "8m"\nidle_action = "notify"', {}),
        ('idle = "8m"\nidle_action = "restart"', {"idle": 480_000}),
        ('timeout = "8m"\ntimeout_action = "none"\nfirst = "1m"\npty = true', {}),
    ],
)
@pytest.mark.parametrize("verb", ["tool", "mcp"])
def test_commands_of_a_model(verb: str, text: str, expected: dict[str, int], file: Path) -> None:
    """Of the limits that a tool has those count that may stop: there is nobody who could be told."""
    file.write_text(f"[defaults]\n{text}\n")
    values = of_flags(verb, {"config": "longwatch.toml"}, {}, read)
    assert said(values) == expected
    assert of_flags(verb, {"config": ".", "idle": 1}, {"LONGWATCH_TOOL_IDLE": "2s"}, read).idle == 1
    assert of_flags(verb, {"config": "."}, {"LONGWATCH_TOOL_IDLE": "2s"}, read).idle == 2_000


def test_a_watched_process_takes_its_own_options(file: Path) -> None:
    """What only somebody who starts the program can do is no option of `watch`."""
    file.write_text('[defaults]\nidle = "8m"\npty = true\nnudge = "go on"\n')
    values = of_flags("watch", {"config": "longwatch.toml"}, {}, read)
    assert (said(values), values.pty) == ({"idle": 480_000}, None)


def test_every_error_at_once(file: Path) -> None:
    """All that is wrong is told, each with line, column and the nearest key, also in tables that say nothing here."""
    file.write_text(
        '[defaults]\nidel = "5m"\nkill_after = 3\n[harness.x]\ncommand = "true"\nfirts = "1m"\n[wbe]\n'
    )
    with pytest.raises(UsageError) as refused:
        read(str(file), "run")
    lines = str(refused.value).splitlines()
    assert [line.removeprefix(f"{file}:").split(": ")[0] for line in lines] == ["2:1", "3:1", "6:1", "7:2"]
    hints = ['did you mean "idle"?', 'write "3s" or "3m"', 'did you mean "first"?', "did you mean [web]?"]
    assert [line.endswith(hint) for line, hint in zip(lines, hints, strict=True)] == [True] * 4


def test_a_file_that_was_named_has_to_be_there(file: Path) -> None:
    """Nothing else is taken in its place; a folder stands for the file in it, and `~` for the home folder."""
    with pytest.raises(UsageError, match=r"^--config nope\.toml: no such file"):
        read("nope.toml", "run")
    with pytest.raises(UsageError, match=r"^config \./longwatch\.toml: no such file"):
        read(".", "run", who="config ")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"longwatch\.toml: no text in UTF-8$"):
        read(".", "run")
    file.write_text('[defaults]\nidle = "8m"\n')
    Path("~").expanduser().joinpath("mine.toml").write_text(file.read_text())
    assert read("~/mine.toml", "run") == {"idle": (480_000, "mine.toml:2")}


def test_only_the_flag_names_a_file(file: Path) -> None:
    """Neither a file that lies here nor LONGWATCH_CONFIG sets anything, and no variable stands for the flag."""
    file.write_text('[defaults]\nidle = "8m"\n')
    for verb in ("run", "tool"):
        assert said(parse(verb, ["true"], {"LONGWATCH_CONFIG": str(file)}, read)[0]) == {}
    assert from_environment({"LONGWATCH_CONFIG": str(file)}).source("idle") == "default"
    rows = [
        option
        for verb in ("run", "watch", "tool", "mcp")
        for option in options_for(verb)
        if option.name == "config"
    ]
    assert len(rows) == 4
    assert {(row.variable, row.key) for row in rows} == {(None, None)}
