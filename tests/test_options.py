"""Options: flags, variables and built-ins of `run` and `timeout`, who wins, and what is refused in which words."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped,unused-ignore]
import pytest

import helpers
from longwatch import option_table
from longwatch.cli.help import help_text
from longwatch.cli.schema import options_schema
from longwatch.core.outcomes import REASONS
from longwatch.errors import UsageError
from longwatch.option_kinds import READERS, convert, describe, signal_name
from longwatch.options import RUN_OPTIONS, child_environment, from_environment, options_for, parse

SCRIPT = helpers.ROOT / "scripts" / "reference.py"
VARIABLES = {option.variable: option for option in RUN_OPTIONS if option.variable}


def given(*words: str, verb: str = "run", **environ: str) -> dict[str, Any]:
    """Return the options that somebody set."""
    values, _ = parse(verb, words, environ)
    return {o.name: values.get(o.name) for o in options_for(verb) if values.source(o.name) != "default"}


def refusal(*words: str, verb: str = "run") -> str:
    """Return the words of a refusal."""
    with pytest.raises(UsageError) as refused:
        parse(verb, words, {})
    return str(refused.value)


# Flags

FLAGS: dict[tuple[str, ...], dict[str, Any]] = {
    ("--idle", "5m"): {"idle": 300_000},
    ("--idle=1h30m",): {"idle": 5_400_000},
    ("--idle", "off"): {"idle": 0},
    ("--idle", "1s", "--idle", "2s"): {"idle": 2_000},
    ("-k5s",): {"kill-after": 5_000},
    ("-k", "5s"): {"kill-after": 5_000},
    ("-vk5s",): {"verbose": True, "kill-after": 5_000},
    ("-s", "INT"): {"signal": 2},
    ("-s", "sigint"): {"signal": 2},
    ("--signal=9",): {"signal": 9},
    ("--pty",): {"pty": True},
    ("--no-pty",): {"pty": False},
    ("--pty", "--no-pty"): {"pty": False},
    ("--no-pty", "--pty"): {"pty": True},
    ("--stdin", "null"): {"stdin": "null"},
    ("--progress", "stdout"): {"progress": ("stdout",)},
    ("--progress", "stdout", "--progress", "file:*.log", "--progress", "stdout"): {
        "progress": ("stdout", "file:*.log")
    },
    ("--exit-code", "idle=75", "--exit-code", "spawn-failed=3", "--exit-code", "idle=76"): {
        "exit-code": {"idle": 76, "spawn_failed": 3}
    },
    ("--idle-action", "nudge", "--nudge", "go on"): {"idle-action": "nudge", "nudge": "go on"},
    ("--log-max", "1MiB"): {"log-max": 1 << 20},
    ("--poll", "off"): {"poll": 0},
    ("--name", "nightly.build-2"): {"name": "nightly.build-2"},
}


@pytest.mark.parametrize("words", FLAGS, ids=" ".join)
def test_flag_is_read(words: tuple[str, ...]) -> None:
    """Flags are read joined or apart, long or short; the last one wins, lists add up."""
    assert given(*words, "--", "true") == FLAGS[words]


REFUSED: dict[tuple[str, ...], str] = {
    ("--idel", "5m"): "unknown option --idel; did you mean --idle?",
    ("--idel=5m",): "unknown option --idel; did you mean --idle?",
    ("--kill", "5m"): "unknown option --kill; did you mean --kill-after?",
    ("-p",): "unknown option -p; longwatch run --help lists all",
    ("-vp",): "unknown option -p; longwatch run --help lists all",
    ("--idle", "5"): "--idle 5: a bare number is no duration; write 5s or 5m",
    ("--idle=5",): "--idle 5: a bare number is no duration; write 5s or 5m",
    ("--idle", "5minutes"): "--idle 5minutes: unknown unit minutes; write 5m (units are ms, s, m, h, d)",
    ("--idle", "-1"): "--idle -1: a duration cannot be negative; write 5s or 5m, or off for no limit",
    ("--idle", "infinity"): "--idle infinity: a duration is finite; write off for no limit",
    ("--idle", ""): "--idle '': no duration; write 5s or 5m, or off for no limit",
    ("--idle",): "--idle needs a value; write --idle DURATION",
    ("-k",): "-k needs a value; write -k DURATION",
    ("-k", "0"): "-k 0: a stop has to end; write 1ms to kill at once",
    ("--pty=yes",): "--pty takes no value; write --pty alone",
    ("-s", "TREM"): "-s TREM: no such signal; did you mean TERM?",
    ("-s", "0"): "-s 0: no such signal; write TERM or 15",
    ("-s", "_DFL"): "-s _DFL: no such signal; write TERM or 15",
    ("-s", "99999"): "-s 99999: no such signal; write TERM or 15",
    ("--stdin", "nul"): "--stdin nul: no such where; did you mean null?",
    ("--idle-action", "restart"): "--idle-action restart: no such action; write stop, nudge, notify or none",
    ("--idle-action", "nudge"): "--idle-action nudge: nothing to type; add --nudge TEXT",
    ("--progress", "stdot"): "--progress stdot: no such source; did you mean stdout?",
    (
        "--progress",
        "cpu",
    ): "--progress cpu: no such source; sources are output, stdout, stderr, screen, transcript and file:GLOB",
    ("--progress", "file:"): "--progress file:: no such source; did you mean file:GLOB?",
    ("--exit-code", "75"): "--exit-code 75: no exit status in it; write REASON=N, such as idle=75",
    ("--exit-code", "idel=75"): "--exit-code idel=75: no such reason; did you mean idle?",
    ("--exit-code", "boredom=1"): f"--exit-code boredom=1: no such reason; reasons are {', '.join(REASONS)}",
    ("--exit-code", "idle=256"): (
        "--exit-code idle=256: no exit status; write a number from 0 to 255 behind idle="
    ),
    ("--name", "a/b"): (
        "--name a/b: no name; write up to 40 letters, digits, -, _ and ., such as nightly-build"
    ),
    ("--log", ""): "--log '': nothing in it; write a FILE",
    ("--log-max", "100"): "--log-max 100: a bare number is no size; write 100KiB or 100MiB",
    ("--call", "5"): "--call 5: a bare number is no duration; write 5s or 5m",
    ("--call", "=5m"): "--call =5m: no tool in it; write TOOL=DURATION, such as Bash=30m",
    ("--call", "1h,Bash=5m"): "--call 1h,Bash=5m: one budget at a time; give the option again for the next",
    ("--loop", "1"): "--loop 1: no count; write a number from 2 on, or off",
    ("--loop", "-1"): "--loop -1: no count; write a number from 2 on, or off",
    ("--action", "stall"): "--action stall: no action in it; write LIMIT=ACTION, such as stall=stop",
    ("--action", "stal=stop"): "--action stal=stop: stal is none; did you mean stall?",
    ("--action", "stall=halt"): "--action stall=halt: halt is none; write one of stop, nudge, notify, none",
    ("--action", "stall=nudge"): "--action stall=nudge: nothing to type; add --nudge TEXT",
    ("--check", "make"): "--check COMMAND: nothing waits for it; add --effect 10m",
}


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_flag_is_refused(words: tuple[str, ...]) -> None:
    """A refusal names the flag and the value, and says what to write instead."""
    assert refusal(*words) == REFUSED[words]


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["claude", "-p", "x"], ["claude", "-p", "x"]),
        (["--idle", "5m", "claude", "-p", "--idle", "x"], ["claude", "-p", "--idle", "x"]),
        (["--", "-weird"], ["-weird"]),
        (["-v", "--", "--", "x"], ["--", "x"]),
        (["-", "x"], ["-", "x"]),
        (["", "x"], ["", "x"]),
        (["\udcff", "x"], ["\udcff", "x"]),
    ],
)
def test_options_end_at_the_command(words: list[str], command: list[str]) -> None:
    """The first operand or `--` ends the options; what follows is the command's own, untouched."""
    assert parse("run", words, {})[1] == command


@pytest.mark.parametrize("words", [(), ("--",), ("--idle", "5m"), ("-v", "--")])
def test_a_command_is_needed(words: tuple[str, ...]) -> None:
    """Without a command the usage is told."""
    assert refusal(*words) == "run: no command to run; write longwatch run [OPTIONS] -- COMMAND [ARG]..."


@pytest.mark.parametrize("flag", ["--help", "-h", "--version"])
@pytest.mark.parametrize("verb", ["run", "timeout"])
def test_help_needs_nothing_else(flag: str, verb: str) -> None:
    """Asking for help or version ends the reading, whatever follows."""
    values, command = parse(verb, [flag, "--nonsense"], {})
    assert values.help or values.version
    assert command == []


# Variables


@pytest.mark.parametrize("text", [None, "", "  "])
def test_unset_and_empty_variables_are_the_built_in(text: str | None) -> None:
    """A variable that says nothing leaves the built-in, and nobody is warned."""
    values = from_environment({} if text is None else {"LONGWATCH_IDLE": text})
    assert (values.idle, values.source("idle"), values.warnings) == (300_000, "default", [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("garbage", "no duration; write 5s or 5m, or off for no limit"),
        ("-5s", "a duration cannot be negative; write 5s or 5m, or off for no limit"),
        ("5", "a bare number is no duration; write 5s or 5m"),
        ("infinity", "a duration is finite; write off for no limit"),
    ],
)
@pytest.mark.parametrize(("variable", "built_in"), [("LONGWATCH_IDLE", "5m"), ("LONGWATCH_POLL", "1s")])
def test_a_wrong_variable_warns_once(text: str, problem: str, variable: str, built_in: str) -> None:
    """A wrong variable leaves the built-in with one warning that names variable and value."""
    option = VARIABLES[variable]
    for values in (from_environment({variable: text}), parse("run", ["true"], {variable: text})[0]):
        assert values.get(option.name) == option.default
        assert values.source(option.name) == "default"
        assert values.warnings == [f"{variable}={text}: {problem}; the built-in is used: {built_in}"]


@pytest.mark.parametrize(("text", "ms"), [(" 42s ", 42_000), ("0", 0), ("off", 0)])
@pytest.mark.parametrize("variable", ["LONGWATCH_IDLE", "LONGWATCH_POLL"])
def test_a_variable_is_named_and_read(text: str, ms: int, variable: str) -> None:
    """A variable is read with blanks around it, switches off with 0 and off, and is known as the one who set it."""
    option = VARIABLES[variable]
    values = from_environment({variable: text})
    assert (values.get(option.name), values.source(option.name), values.warnings) == (ms, "variable", [])


@pytest.mark.capability("CAP-14")
@pytest.mark.parametrize(("environ", "poll"), [({}, 1_000), ({"LONGWATCH_POLL": "2s"}, 2_000)])
@pytest.mark.parametrize("idle", ["7m", "garbage"])
def test_an_explicit_window_wins_and_the_cadence_stays(environ: dict[str, str], poll: int, idle: str) -> None:
    """An explicit idle window wins over its variable, good or bad; the cadence is still the variable's or built-in."""
    values, _ = parse("run", ["--idle", "9s", "true"], {"LONGWATCH_IDLE": idle, **environ})
    assert (values.idle, values.source("idle")) == (9_000, "flag")
    assert (values.poll, values.source("poll")) == (poll, "variable" if environ else "default")
    assert values.warnings == []


def test_variables_of_every_kind() -> None:
    """Lists are separated by commas, yes and no are 1 and 0."""
    environ = {
        "LONGWATCH_PROGRESS": "stdout, file:*.log",
        "LONGWATCH_EXIT_CODE": "idle=75,first=76",
        "LONGWATCH_PTY": "0",
        "LONGWATCH_KEEP_LEFTOVERS": "1",
        "LONGWATCH_IDLE_ACTION": "notify",
        "LONGWATCH_SIGNAL": "INT",
        "LONGWATCH_LOG_MAX": "1MiB",
    }
    assert given("true", **environ) == {
        "progress": ("stdout", "file:*.log"),
        "exit-code": {"idle": 75, "first": 76},
        "pty": False,
        "keep-leftovers": True,
        "idle-action": "notify",
        "signal": 2,
        "log-max": 1 << 20,
    }


def test_a_flag_replaces_a_variable_list() -> None:
    """A list on the command line does not add to the variable's."""
    assert given("--progress", "stderr", "true", LONGWATCH_PROGRESS="stdout,screen") == {
        "progress": ("stderr",)
    }


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("LONGWATCH_PTY", "maybe"),
        ("LONGWATCH_EXIT_CODE", "first=76,idle=999"),
        ("LONGWATCH_PROGRESS", "stdout,,stderr"),
        ("LONGWATCH_IDLE_ACTION", "nudge"),
        ("LONGWATCH_SIGNAL", "x"),
        ("LONGWATCH_NAME", "a b"),
    ],
)
def test_a_wrong_variable_of_any_kind_leaves_the_built_in(variable: str, text: str) -> None:
    """A wrong variable never stops a run, whatever is wrong about it, and no part of it is taken."""
    option = VARIABLES[variable]
    values, command = parse("run", ["true"], {variable: text})
    assert command == ["true"]
    assert (values.get(option.name), values.source(option.name)) == (option.default, "default")
    assert [variable in warning for warning in values.warnings] == [True]


def test_timeout_reads_no_variables() -> None:
    """`longwatch timeout` is GNU timeout: only its command line counts."""
    values, _ = parse("timeout", ["5", "true"], {"LONGWATCH_KILL_AFTER": "3s", "LONGWATCH_SIGNAL": "x"})
    assert (values.kill_after, values.signal, values.warnings) == (0, 15, [])


def test_child_environment() -> None:
    """A child gets none of our options, the run's id below the outer one's, and its attempt."""
    environ = dict.fromkeys(VARIABLES, "x") | {
        "PATH": "/bin",
        "LONGWATCH_RUN_ID": "outer-1",
        "LONGWATCH_ATTEMPT": "9",
    }
    assert child_environment(environ, "inner-2", 3) == {
        "PATH": "/bin",
        "LONGWATCH_RUN_ID": "outer-1/inner-2",
        "LONGWATCH_ATTEMPT": "3",
    }
    assert child_environment({}, "only-1") == {"LONGWATCH_RUN_ID": "only-1", "LONGWATCH_ATTEMPT": "1"}


# GNU timeout's grammar

TIMEOUT: dict[tuple[str, ...], dict[str, Any]] = {
    ("-k", "1.5", "-s", "KILL"): {"kill-after": 1_500, "signal": 9},
    ("-k1m", "-s0"): {"kill-after": 60_000, "signal": 0},
    ("--kill=3", "--sig=9", "--pres", "--fore"): {
        "kill-after": 3_000,
        "signal": 9,
        "preserve-status": True,
        "foreground": True,
    },
    ("-pfv",): {"preserve-status": True, "foreground": True, "verbose": True},
    ("-k", "infinity"): {"kill-after": 0},
}


@pytest.mark.parametrize("words", TIMEOUT, ids=" ".join)
def test_timeout_flags(words: tuple[str, ...]) -> None:
    """GNU's flags, their numbers and unique beginnings of their names."""
    assert given(*words, "5", "sleep", "9", verb="timeout") == TIMEOUT[words]


def test_timeout_operands() -> None:
    """Duration and command stay as they are, the command's flags too."""
    assert parse("timeout", ["-v", "5", "ls", "-v"], {})[1] == ["5", "ls", "-v"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            [],
            "timeout: DURATION and COMMAND missing; write longwatch timeout [OPTIONS] DURATION COMMAND [ARG]...",
        ),
        (["5"], "timeout: COMMAND missing; write longwatch timeout [OPTIONS] DURATION COMMAND [ARG]..."),
        (["--ver", "5", "x"], "--ver could be --verbose or --version; write it out"),
        (["--idle", "5", "x"], "unknown option --idle; longwatch timeout --help lists all"),
        (
            ["-k", "x", "5", "x"],
            "-k x: no time interval; write a number, with s, m, h or d behind it if you like",
        ),
    ],
)
def test_timeout_refusals(words: list[str], text: str) -> None:
    """What GNU timeout refuses is refused, with what to write."""
    assert refusal(*words, verb="timeout") == text


# The table


def test_names_flags_and_kinds_of_the_table() -> None:
    """Within a verb no name or flag stands twice, every kind can be read, every group is shown, every default argued."""
    for verb in ("run", "timeout"):
        options = options_for(verb)
        flags = [flag for option in options for flag in option.flags]
        assert len(set(flags)) == len(flags)
        assert len({option.name for option in options}) == len(options)
    for option in option_table.OPTIONS:
        assert option.kind in READERS
        assert option.group in option_table.GROUPS
        assert option.help
        assert option.why or not option.key


@pytest.mark.parametrize(
    "option", [o for o in RUN_OPTIONS if o.default is not None], ids=lambda option: option.name
)
def test_what_is_described_can_be_read(option: option_table.Option) -> None:
    """A built-in is written as a user would write it."""
    text = describe(option, option.default)
    if text == "off" and option.kind == "flag":
        assert option.default is False
    else:
        assert convert(option, text) == option.default


def test_values_have_attributes() -> None:
    """Values are attributes with underscores; what is no option is no attribute."""
    values = from_environment({})
    assert values.log_max == 100 << 20
    assert not hasattr(values, "stalls")


def test_signals_without_a_name() -> None:
    """A number without a name is told as it is."""
    assert (signal_name(15), signal_name(6), signal_name(45)) == ("TERM", "ABRT", "45")


def test_the_front_loads_little() -> None:
    """Reading a command line without values loads nothing slow, and not even how values are read."""
    code = (
        "import sys; before = set(sys.modules); from longwatch.options import parse; parse('run', ['true'], {});"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = helpers.run_command([sys.executable, "-c", code], measured=False)
    ours = {"longwatch", "longwatch.core", "longwatch.core.record", "longwatch.errors", "longwatch.option_table",
            "longwatch.options"}  # fmt: skip
    assert set(done.out.split()) <= ours, done.err


@pytest.mark.parametrize("verb", ["run", "timeout"])
def test_help_names_every_option(verb: str) -> None:
    """Help is made from the table and fits a terminal of 80 columns."""
    text = help_text(verb)
    for option in options_for(verb):
        assert ", ".join(option.flags) in text
    assert max(map(len, text.splitlines())) <= 80


# The reference pages


def reference(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the generator of the reference pages."""
    return subprocess.run(
        [sys.executable, SCRIPT, *words], capture_output=True, text=True, timeout=30, check=False
    )


def test_every_option_stands_in_the_reference(tmp_path: Path) -> None:
    """Each option, variable and termination reason appears in the generated pages."""
    assert reference("--folder", tmp_path).returncode == 0
    options, environment = (tmp_path / "options.md").read_text(), (tmp_path / "environment.md").read_text()
    for option in option_table.OPTIONS:
        assert f"### `{', '.join(option.flags) or option.variable}" in options
        assert option.why in options
    for variable in VARIABLES:
        assert f"`{variable}`" in environment
        assert f"`{variable}`" in options
    for reason in REASONS:
        assert f"`{reason}`" in options


@pytest.mark.capability("CAP-103")
def test_drift_of_the_reference_is_noticed(tmp_path: Path) -> None:
    """--check passes on what was just made, and names a page that was changed or lost."""
    reference("--folder", tmp_path)
    assert reference("--check", "--folder", tmp_path).returncode == 0
    (tmp_path / "options.md").write_text("old")
    (tmp_path / "environment.md").unlink()
    done = reference("--check", "--folder", tmp_path)
    assert done.returncode == 1
    assert [Path(line.split()[0]).name for line in done.stderr.splitlines()] == [
        "options.md",
        "environment.md",
    ]


def test_reference_is_up_to_date() -> None:
    """The pages in docs are those that the table makes."""
    done = reference("--check")
    assert done.returncode == 0, done.stderr


# The schema


def test_schema_takes_what_the_parser_takes() -> None:
    """The schema of options takes each built-in and refuses what the parser refuses."""
    schema = json.loads(json.dumps(options_schema()))
    check = jsonschema.Draft202012Validator(schema)
    check.check_schema(schema)
    check.validate({key: row["default"] for key, row in schema["properties"].items() if "default" in row})
    check.validate(
        {"idle": "1h30m", "exit_code": {"idle": 75}, "progress": ["file:*.log"], "pty": True, "soft": "off"}
    )
    for wrong in (
        {"idel": "5m"}, {"idle": 5}, {"idle": "5"}, {"idle": "5minutes"}, {"idle": "-5s"}, {"idle": ""},
        {"kill_after": "0"}, {"exit_code": {"idle": 256}}, {"exit_code": {"idel": 1}}, {"progress": ["cpu"]},
        {"log_max": "100"}, {"name": "a/b"}, {"stdin": "nul"},
    ):  # fmt: skip
        assert not check.is_valid(wrong), wrong
