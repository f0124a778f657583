"""Known programs: how they are recognised, what a named preset adds, how a conversation goes on."""

import shlex

import pytest

from longwatch import UsageError, presets
from longwatch.core.limits import NAMES
from longwatch.options import DEFAULT, FLAG, PRESET, parse
from longwatch.preset_table import PRESETS, SESSION


@pytest.mark.capability("NEW-15")
@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("claude -p x", "claude"),
        ("/usr/local/bin/claude", "claude"),
        ("env A=1 -u B claude", "claude"),
        ("env -i PATH=/bin nohup nice -n 5 claude", "claude"),
        ("npx -y @openai/codex@latest exec hi", "codex"),
        ("npx -p x @anthropic-ai/claude-code", "claude"),
        ("uvx --from pytest==8 pytest -q", "pytest"),
        ("uv run --with x pytest", "pytest"),
        ("uv tool run pytest", "pytest"),
        ("pnpm dlx opencode-ai run hi", "opencode"),
        ("bunx @google/gemini-cli@0.61.0", "gemini"),
        ("cargo +nightly --locked build", "cargo"),
        ("cargo build", "cargo"),
        ("cargo --locked test", "cargo"),
        ("cargo run", None),
        ("npm install", "npm"),
        ("npm start", None),
        ("docker build .", "docker-build"),
        ("docker run -it x", None),
        ("uv sync", None),
        ("env", None),
        ("env A=claude sh", None),
        ("sh -c claude", None),
        ("claudette", None),
    ],
)
def test_recognition(command: str, name: str | None) -> None:
    """A program is known by its name, behind wrappers too; one whose subcommand may run for ever is not."""
    found = presets.recognised(shlex.split(command))
    assert (found and found.name) == name


@pytest.mark.capability("NEW-15")
def test_every_row_says_why() -> None:
    """Every value of every preset has a reason, limits have known names, and no two rows claim the same program."""
    programs = [program for preset in PRESETS for program in preset.programs]
    assert len(set(programs)) == len(programs)
    assert len(set(presets.names())) == len(PRESETS) == 11
    for preset in PRESETS:
        settings = [*preset.limits.values(), *preset.call.values(), *([preset.stdin] if preset.stdin else [])]
        assert all(len(setting.why) > 20 for setting in settings)
        assert set(preset.limits) <= set(NAMES)
        assert all(addition.why and addition.words for addition in preset.additions)
        assert preset.resume is None or SESSION in preset.resume.words


@pytest.mark.parametrize(
    ("word", "name"), [("claude", "claude"), ("claude-code", "claude"), ("pytest", "pytest")]
)
def test_names(word: str, name: str) -> None:
    """A preset has one name; those of its program are understood too."""
    assert presets.named(word).name == name


@pytest.mark.parametrize(
    ("word", "hint"), [("claud", "did you mean claude?"), ("emacs", "presets are claude, codex, copilot")]
)
def test_unknown_names(word: str, hint: str) -> None:
    """A typing error gets the nearest name, anything else the list."""
    with pytest.raises(UsageError, match="no such preset") as caught:
        presets.named(word)
    assert hint in str(caught.value)


@pytest.mark.capability("NEW-15")
@pytest.mark.parametrize(
    ("command", "completed"),
    [
        ("claude -p x", "claude --output-format stream-json --verbose -p x"),
        ("claude", "claude"),  # at its prompt a human reads what it shows
        ("claude -p x --output-format json", "claude -p x --output-format json"),
        ("claude -p x --output-format=json", "claude -p x --output-format=json"),
        ("env A=1 codex exec hi", "env A=1 codex exec --json hi"),
        ("codex -m x exec hi", "codex -m x exec --json hi"),
        ("opencode run hi", "opencode run --format json hi"),
        ("gemini -p x", "gemini -o stream-json -p x"),
    ],
)
def test_what_a_named_preset_adds(command: str, completed: str) -> None:
    """Where it works without a human it is asked for records, unless the user asked for a format."""
    words = shlex.split(command)
    preset = presets.recognised(words)
    assert preset is not None
    made, additions = presets.completed(preset, words)
    assert made == shlex.split(completed)
    assert bool(additions) == (made != words)


@pytest.mark.parametrize(
    ("command", "resumed"),
    [
        ("claude -p 'do it' --model m", "claude --resume ID -p 'Continue where you left off.' --model m"),
        ("claude --print=x --session-id OLD", "claude --resume ID '--print=Continue where you left off.'"),
        ("claude", "claude --resume ID 'Continue where you left off.'"),
        ("claude -p --model m", "claude --resume ID -p --model m 'Continue where you left off.'"),
        ("claude --model m -p", "claude --resume ID --model m -p 'Continue where you left off.'"),
        ("claude --add-dir a b -p", "claude --resume ID --add-dir a b -p 'Continue where you left off.'"),
        ("claude -c --model m 'do it'", "claude --resume ID --model m 'Continue where you left off.'"),
        ("codex exec -m m -", "codex exec resume ID -m m 'Continue where you left off.'"),
        ("codex exec 'do it' -m m", "codex exec resume ID 'Continue where you left off.' -m m"),
        ("gemini -p 'do it' -m m", "gemini --resume ID -p 'Continue where you left off.' -m m"),
        ("gemini", "gemini --resume ID"),
        ("claude --resume OLD -p x", "claude --resume ID -p 'Continue where you left off.'"),
        ("codex exec --json 'do it'", "codex exec resume ID --json 'Continue where you left off.'"),
        ("codex 'do it' -m m", "codex resume ID 'Continue where you left off.' -m m"),
        ("opencode run --session=OLD hi", "opencode run --session ID 'Continue where you left off.'"),
        ("npx pi hi", "npx pi --session ID 'Continue where you left off.'"),
        ("pytest -q", None),
    ],
)
def test_how_a_conversation_goes_on(command: str, resumed: str | None) -> None:
    """The same command with the conversation's id and another prompt; None where nobody knows how."""
    words = shlex.split(command)
    preset = presets.recognised(words)
    assert preset is not None
    assert presets.resumed(preset, words, "ID") == (resumed and shlex.split(resumed))
    assert presets.resumed(preset, words, "") is None


@pytest.mark.parametrize(
    ("command", "resumed"),
    [
        ("claude --model m 'do it'", "claude --resume ID --model m"),
        ("claude", "claude --resume ID"),
        ("claude --print=x", "claude --resume ID --print"),
        ("claude -p x", "claude --resume ID -p"),
        ("codex 'do it'", "codex resume ID"),
        ("opencode run hi", "opencode run --session ID"),
    ],
)
def test_a_conversation_that_is_only_opened_again(command: str, resumed: str) -> None:
    """Who waited to be spoken to is not told to go on, nor what it was told at first."""
    words = shlex.split(command)
    preset = presets.recognised(words)
    assert preset is not None
    assert presets.resumed(preset, words, "ID", None) == shlex.split(resumed)


@pytest.mark.parametrize(
    ("command", "headless"),
    [("claude -p x", True), ("claude", False), ("codex exec x", True), ("npx codex", False)],
)
def test_without_a_human(command: str, headless: bool) -> None:
    """Whether anybody is there to be asked is seen from the arguments."""
    words = shlex.split(command)
    preset = presets.recognised(words)
    assert preset is not None
    assert presets.is_headless(preset, words) is headless


@pytest.mark.parametrize(
    ("command", "session", "line"),
    [
        ("claude -p 'a secret'", "ID", "claude --resume ID"),
        ("env KEY=secret /opt/claude -p x", "ID", "/opt/claude --resume ID"),
        ("npx -y @openai/codex exec x", "ID", "codex resume ID"),
        ("'/my tools/claude'", "a;b", "'/my tools/claude' --resume 'a;b'"),
        ("opencode run hi", "ses_1", "opencode --session ses_1"),
        ("pytest", "ID", None),
        ("claude", "", None),
    ],
)
def test_what_a_human_types_to_go_on(command: str, session: str, line: str | None) -> None:
    """The program and the conversation, for a shell; nothing else of the old command line, for that may be secret."""
    words = shlex.split(command)
    preset = presets.recognised(words)
    assert preset is not None
    assert presets.to_type(preset, words, session) == line
    assert line is None or shlex.split(line)[-1] == session


@pytest.mark.parametrize(
    ("command", "talks"),
    [
        ("claude -p --input-format stream-json", True),
        ("claude -p --input-format=stream-json", True),
        ("claude -p --input-format text --output-format stream-json", False),
    ],
)
def test_who_is_talked_to_while_it_runs_does_not_linger(command: str, talks: bool) -> None:
    """A conversation has a result for each turn, and stays after it."""
    values, argv = parse("run", shlex.split(command), {})
    presets.lend(presets.named("claude"), values, argv)
    assert presets.is_conversation(argv) is talks
    assert values.source("linger") == (DEFAULT if talks else PRESET)


def test_a_named_window_of_silence_does_not_wait_for_a_first_sign() -> None:
    """Where somebody named `--idle` it counts from the start, so a preset lends no limit that would hold it."""
    values, argv = parse("run", ["--idle", "5m", "--call", "Bash=1m", "claude"], {})
    lent = presets.lend(presets.named("claude"), values, argv)
    assert (values.source("idle"), values.source("first")) == (FLAG, DEFAULT)
    assert "Bash" not in lent
    assert values.call["Bash"] == 60_000
    assert presets.lend(presets.named("pytest"), values, argv) == ()
