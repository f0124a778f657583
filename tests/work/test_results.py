"""Prompts on their way in, answers on their way out."""

import os
from pathlib import Path

import pytest

from helpers import descriptors
from longwatch import Limits, UsageError, run
from longwatch.work import results
from longwatch.work.results import ARGV, FILE, STDIN, ask, read


@pytest.mark.capability("CAP-22")
@pytest.mark.parametrize(
    ("argv", "way", "preset", "asked", "stdin"),
    [
        (("claude",), ARGV, "claude", ("claude", "-p", "do it"), None),
        (("claude", "--verbose"), STDIN, "claude", ("claude", "--verbose", "-p"), b"do it"),
        (("codex",), ARGV, "codex", ("codex", "exec", "do it"), None),
        (("codex",), STDIN, "codex", ("codex", "exec", "-"), b"do it"),
        (("agent", "--task={prompt}", "x"), ARGV, None, ("agent", "--task=do it", "x"), None),
        (("agent",), STDIN, None, ("agent",), b"do it"),
        (("agent",), FILE, None, ("agent",), None),
    ],
)
def test_each_way_of_asking(
    argv: tuple[str, ...], way: str, preset: str | None, asked: tuple[str, ...], stdin: bytes | None
) -> None:
    """An argument, stdin, or a file; NULs, which no argument can hold, are removed."""
    found = ask(argv, "do\0 it", way, preset)
    assert (found.argv, found.stdin) == (asked, stdin)
    assert ask(argv, None, way, preset).argv == argv


def test_who_cannot_be_asked_is_refused() -> None:
    """A program that nobody knows, a way that there is not."""
    with pytest.raises(UsageError, match=r"write \{prompt\} in its command"):
        ask(("agent",), "x")
    with pytest.raises(UsageError, match="did you mean 'stdin'"):
        ask(("agent",), "x", "sdtin")
    with pytest.raises(UsageError, match="write argv, stdin, file"):
        ask(("agent",), "x", "pigeon")


@pytest.mark.capability("CAP-22", "CAP-56")
def test_a_long_prompt_and_long_output_do_not_wait_for_each_other() -> None:
    """A megabyte in while a megabyte comes out, on both streams."""
    asked = ask(
        ("sh", "-c", "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2; wc -c"),
        "x" * 1_000_000,
        STDIN,
    )
    result = run(asked.argv, Limits(idle=20), input=asked.stdin)
    assert result.exit_code == 0
    assert result.stdout.endswith("1000000\n")
    assert result.report["stderr"]["bytes"] == 1_000_000


@pytest.mark.capability("CAP-23")
def test_only_a_plain_file_with_text_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No link, no folder, no pipe, nothing empty, nothing too long, no bytes that are no text."""
    answer = tmp_path / "answer"
    answer.write_text("gut ✓\n")
    assert read(str(answer)) == "gut ✓\n"
    (tmp_path / "link").symlink_to(answer)
    (tmp_path / "empty").touch()
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    os.mkfifo(tmp_path / "pipe")
    before = descriptors()
    for name in ("link", "empty", "bytes", "pipe", "missing", "."):
        assert read(str(tmp_path / name)) is None
    monkeypatch.setattr(results, "LONGEST", 7)
    assert read(str(answer)) is None
    answer.write_text("1234567")
    assert read(str(answer)) == "1234567"
    assert descriptors() <= before


def test_what_no_program_can_be_given_is_taken_out_of_a_prompt() -> None:
    """NULs, and halves of characters as JSON can write them; all else is left alone."""
    assert results.clean("a\0b \ud800 \u2713\n") == "ab ? \u2713\n"
