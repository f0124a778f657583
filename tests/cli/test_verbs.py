"""The group of verbs: what it lists, what it refuses, and how it ends when its output has no reader."""

import os

import pytest

import helpers
from longwatch.cli.verbs import VERBS


def test_help_lists_the_verbs_without_loading_them() -> None:
    """Help names every verb with one line."""
    done = helpers.run_cli("--help")
    assert done.code == 0
    for verb, line in VERBS.items():
        assert verb in done.out
        assert line in done.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["runn"], 'no verb "runn"; did you mean run?'),
        (["staus"], 'no verb "staus"; did you mean status?'),
        (["xyzzy"], 'no verb "xyzzy"; longwatch --help lists them'),
        (["--verison"], "unknown option --verison; did you mean --version?"),
        (["-x"], "unknown option -x; longwatch --help lists all"),
        (["config", "explian"], "config: no such command 'explian'. Did you mean 'explain'?"),
        (["config", "explain", "--jsn"], "config explain: unknown option --jsn; did you mean --json?"),
        (["config", "explain", "web", "extra"], "config explain: got unexpected extra argument (extra)"),
        (["completion"], "completion: SHELL missing; write longwatch completion [OPTIONS] SHELL"),
    ],
)  # fmt: skip
def test_refusals_are_one_line(words: list[str], message: str) -> None:
    """What cannot be understood is one line on stderr and exit status 2."""
    done = helpers.run_cli(*words)
    assert (done.code, done.out, done.err) == (2, "", f"longwatch: {message}\n")


@pytest.mark.parametrize("words", [[], ["config"]])
def test_no_verb_shows_the_help(words: list[str]) -> None:
    """Without a verb the help is shown, as a usage error."""
    done = helpers.run_cli(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Usage: longwatch")


def test_version() -> None:
    """The version is printed with the name."""
    done = helpers.run_cli("--version")
    assert done.code == 0, done.err
    assert done.out.startswith("longwatch 0.")


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`longwatch ... | head` ends quietly, with the status a shell gives to a writer without a reader."""
    argv = ["bash", "-c", f"{helpers.LONGWATCH} config explain | head -n 0; echo ${{PIPESTATUS[0]}}"]
    done = helpers.run_command(argv)
    assert done.out in ("0\n", "141\n")  # 0 when it had written all before head was gone
    assert done.err == ""


def test_a_closed_pipe_ends_quietly() -> None:
    """Where the reader was gone from the start the status is 141, without a word."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = helpers.run_cli("config", "explain", stdout=writer)
    finally:
        os.close(writer)
    assert (done.code, done.err) == (141, "")


def test_a_full_disk_is_told() -> None:
    """Output that cannot be written is a line, not a traceback."""
    with open("/dev/full", "wb") as full:
        done = helpers.run_cli("config", "explain", stdout=full)
    assert (done.code, done.err) == (1, "longwatch: output: No space left on device\n")


def test_closed_stdout_is_no_traceback() -> None:
    """Started without a stdout, a verb has nothing to say and nothing to complain about."""
    done = helpers.run_command(["sh", "-c", f"exec {helpers.LONGWATCH} config explain >&-"])
    assert (done.code, done.err) == (0, "")
