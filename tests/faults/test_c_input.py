"""Waiting for a human or for input: named, and never mistaken for thinking."""

import os
import subprocess

import pytest

import helpers
from longwatch.testing import children
from supervised import live, python, shell, supervise


@pytest.mark.fault("C4")
def test_who_waits_at_the_terminal_is_named() -> None:
    """A grandchild that waits for a password on its terminal is the named cause: input wait."""
    script = shell("printf 'Password: '; cat >/dev/null; true")
    reading, writing = os.pipe()
    try:
        run = supervise("--pty", "--idle", "400ms", program=script, stdin=reading)
    finally:
        os.close(reading)
        os.close(writing)
    assert (run.code, run.reason, run.out) == (124, "idle", "Password: ")
    assert "`cat`" in run.report["post_mortem"]["diagnosis"]
    assert "input wait" in run.report["post_mortem"]["diagnosis"]
    assert any("`cat`" in line and "input wait" in line for line in run.said)


@pytest.mark.fault("C4")
def test_who_reads_a_silent_stdin_is_named() -> None:
    """A program that reads a stdin which somebody holds open without a word is the named cause: reading stdin."""
    reading, writing = os.pipe()
    try:
        run = supervise("--idle", "400ms", program=children.reads_stdin(), stdin=reading)
    finally:
        os.close(reading)
        os.close(writing)
    assert (run.code, run.reason) == (124, "idle")
    assert "reading stdin" in run.report["post_mortem"]["diagnosis"]


@pytest.mark.fault("C4")
def test_with_stdin_null_the_end_comes_at_once() -> None:
    """With --stdin null the same program sees the end of its input, whoever holds ours open."""
    reading, writing = os.pipe()
    try:
        run = supervise("--idle", "20s", "--stdin", "null", program=children.reads_stdin(), stdin=reading)
    finally:
        os.close(reading)
        os.close(writing)
    assert (run.code, run.out) == (0, "0\n")


@pytest.mark.fault("C4")
def test_what_is_piped_in_arrives_whole() -> None:
    """A piped stdin is the program's, to the last byte."""
    run = supervise(program=children.reads_stdin(), input=b"x" * 300_000)
    assert (run.code, run.out) == (0, "300000\n")


@pytest.mark.fault("C4")
def test_keys_reach_the_program_and_its_answer_comes_back() -> None:
    """On a terminal a question can be answered: keys are the program's."""
    with helpers.Screen([helpers.LONGWATCH, "run", "sh", "-c", "read word; echo got $word"]) as screen:
        screen.send("hello\n")
        screen.wait_for("got hello")
        assert screen.wait() == 0


@pytest.mark.fault("C4")
def test_a_stdin_that_the_program_closes_harms_nobody() -> None:
    """A program that takes no input ends as it likes, whatever is still written to it."""
    with live(
        "--idle", "20s", program=python("import os", "os.close(0); print('on')"), stdin=subprocess.PIPE
    ) as run:
        done = run.finish()
    assert (done.code, done.out) == (0, "on\n")
