"""`longwatch tool`: one line of JSON, limits of the human's, and a copy on the terminal of whoever watches."""

import json
import os
import signal
import subprocess

import pytest

import helpers
from longwatch.options import options_for, parse
from longwatch.testing import children

FIELDS = ["exit_code", "termination_reason", "duration_ms", "truncated", "stdout", "stderr"]


def tool(*words, **options):
    """Run `longwatch tool`; return its object."""
    done = helpers.run_cli("tool", *words, **options)
    assert (done.code, done.err) == (0, ""), done
    assert done.out.count("\n") == 1
    return json.loads(done.out)


class TestObject:
    """What is printed."""

    @pytest.mark.capability("CAP-63", "CAP-68")
    def test_a_command_that_ends_by_itself(self):
        """Whatever its status is, the exit status is 0 and the object has six fields, in order."""
        found = tool("--", "sh", "-c", "echo out; echo err >&2; exit 3")
        assert list(found) == FIELDS
        assert found["exit_code"] == 3
        assert (found["stdout"], found["stderr"]) == ("out\n", "err\n")

    @pytest.mark.capability("CAP-68")
    def test_a_command_that_cannot_be_started(self):
        """A missing program is a result, and its message says what is missing."""
        found = tool("no-such-program-here")
        assert (found["termination_reason"], found["exit_code"]) == ("spawn_failed", None)
        assert "no-such-program-here" in found["message"]

    @pytest.mark.capability("CAP-59", "CAP-71")
    def test_a_command_that_is_stopped(self):
        """At the limit the whole tree is gone, and what it said is told."""
        found = tool("--timeout", "1s", "--", "sh", "-c", "sleep 30 & echo $!; sleep 30")
        assert list(found) == [*FIELDS, "survivors", "post_mortem", "message", "proof"]
        assert (found["termination_reason"], found["survivors"]) == ("timeout", [])
        assert not helpers.alive(int(found["stdout"]))

    @pytest.mark.capability("CAP-64", "CAP-65")
    def test_a_flood(self):
        """Of a flood the first 256 KiB are told, and it comes to its end."""
        found = tool("--", *children.flood(20_000_000))
        assert (found["exit_code"], found["truncated"], len(found["stdout"])) == (0, True, 262_144)

    def test_idle(self):
        """An idle limit stops a command that says nothing."""
        assert tool("--idle", "300ms", "--", *children.ticks_then_silent())["termination_reason"] == "idle"

    @pytest.mark.capability("CAP-60")
    def test_kill_after(self):
        """The grace can be chosen."""
        found = tool("--timeout", "500ms", "-k", "100ms", "--", *children.ignores_term())
        assert found["duration_ms"] < 1_500

    def test_input(self):
        """A command reads our stdin."""
        assert tool("cat", input="words")["stdout"] == "words"
        assert tool("cat")["stdout"] == ""

    def test_environment(self):
        """None of our options reaches the command."""
        found = tool("env", env={"LONGWATCH_TOOL_TIMEOUT": "5s", "LONGWATCH_TOOL_IDLE": "4s"})
        assert "LONGWATCH_TOOL" not in found["stdout"]
        assert "LONGWATCH_RUN_ID=env-" in found["stdout"]

    def test_nobody_reads_the_result(self):
        """A result that cannot be written is an error of ours, in one line."""
        read, write = os.pipe()
        os.close(read)
        done = helpers.run_cli("tool", "true", stdout=write)
        os.close(write)
        assert (done.code, done.err) == (1, "longwatch: the result could not be written: broken pipe\n")

    def test_a_pipe_that_does_not_block(self):
        """A reader that made our stdout non-blocking and is slow gets the whole line."""
        read, write = os.pipe()
        os.set_blocking(write, False)
        argv = [helpers.LONGWATCH, "tool", "--", *children.flood(200_000)]
        with helpers.ending(subprocess.Popen(argv, stdout=write, stdin=subprocess.DEVNULL)) as popen:
            os.close(write)
            with open(read, "rb") as pipe:
                first = pipe.read(1)
                helpers.wait_until(lambda: popen.poll() is None)
                found = json.loads(first + pipe.read())
            assert popen.wait() == 0
        assert len(found["stdout"]) == 200_000


class TestLimits:
    """They are the human's."""

    @pytest.mark.capability("CAP-69")
    @pytest.mark.parametrize(
        ("words", "environ", "timeout", "source"),
        [
            (["--timeout", "5s"], {"LONGWATCH_TOOL_TIMEOUT": "9s"}, 5_000, "flag"),
            ([], {"LONGWATCH_TOOL_TIMEOUT": "9s"}, 9_000, "variable"),
            ([], {}, 180_000, "default"),
            ([], {"LONGWATCH_TIMEOUT": "9s"}, 180_000, "default"),
            (["--timeout", "0"], {"LONGWATCH_TOOL_TIMEOUT": "9s"}, 0, "flag"),
            (["--timeout", "off"], {}, 0, "flag"),
            ([], {"LONGWATCH_TOOL_TIMEOUT": "0"}, 0, "variable"),
            ([], {"LONGWATCH_TOOL_TIMEOUT": " "}, 180_000, "default"),
        ],
    )
    def test_flag_then_variable_then_built_in(self, words, environ, timeout, source):
        """The flag wins over the variable, the variable over 180 s; 0 is none."""
        values, command = parse("tool", [*words, "true"], environ)
        assert (values.timeout, values.source("timeout"), command) == (timeout, source, ["true"])

    @pytest.mark.capability("CAP-69")
    @pytest.mark.parametrize(
        ("words", "environ", "line"),
        [
            (["--timeout", "abc"], {}, "--timeout abc: no duration; write 5s or 5m, or off for no limit"),
            (["--timeout", "5"], {}, "--timeout 5: a bare number is no duration; write 5s or 5m"),
            (["--idle=-1s"], {}, "--idle -1s: a duration cannot be negative; write 5s or 5m, or off for no limit"),
            ([], {"TIMEOUT": "abc"}, "LONGWATCH_TOOL_TIMEOUT=abc: no duration; write 5s or 5m, or off for no limit"),
            ([], {"TIMEOUT": "5"}, "LONGWATCH_TOOL_TIMEOUT=5: a bare number is no duration; write 5s or 5m"),
            ([], {"IDLE": "5"}, "LONGWATCH_TOOL_IDLE=5: a bare number is no duration; write 5s or 5m"),
            ([], {"KILL_AFTER": "0"}, "LONGWATCH_TOOL_KILL_AFTER=0: a stop has to end; write 1ms to kill at once"),
            (["--timeot", "5s"], {}, "unknown option --timeot; did you mean --timeout?"),
            (["--root", "/"], {}, "unknown option --root; longwatch tool --help lists all"),
        ],
    )  # fmt: skip
    def test_wrong_words_are_refused(self, words, environ, line, tmp_path):
        """A wrong flag and a wrong variable are told in one line, with status 2, and nothing is started."""
        env = {f"LONGWATCH_TOOL_{name}": text for name, text in environ.items()}
        done = helpers.run_cli("tool", *words, "--", "touch", tmp_path / "file", env=env)
        assert (done.code, done.out, done.err) == (2, "", f"longwatch: {line}\n")
        assert list(tmp_path.iterdir()) == []

    def test_no_command(self):
        """Without a command the usage is told."""
        done = helpers.run_cli("tool", "--timeout", "5s")
        line = "longwatch: tool: no command to run; write longwatch tool [OPTIONS] -- COMMAND [ARG]...\n"
        assert (done.code, done.out, done.err) == (2, "", line)

    @pytest.mark.parametrize("flag", ["--help", "--version"])
    def test_help_and_version(self, flag):
        """Help names every option; both end with 0."""
        done = helpers.run_cli("tool", flag)
        assert done.code == 0
        if flag == "--help":
            assert all(", ".join(option.flags) in done.out for option in options_for("tool"))

    def test_the_variables_of_the_server(self):
        """The server's options have the same variables, and read them in the same way."""
        shared = {option.name: option.variable for option in options_for("mcp")}
        assert {name for name in shared if name not in ("root", "config")} == {
            "timeout",
            "idle",
            "kill-after",
        }
        assert shared["timeout"] == "LONGWATCH_TOOL_TIMEOUT"


class TestSignals:
    """Whoever interrupts us still gets the result."""

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_interrupted(self, number):
        """A signal stops the tree; the object is printed, and we end by that signal."""
        argv = [helpers.LONGWATCH, "tool", "--", "sh", "-c", "sleep 60 & echo $! >&2; echo partial; sleep 60"]
        read, write = os.pipe()
        with helpers.ending(
            subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=write, stdin=subprocess.DEVNULL)
        ) as popen:
            os.close(write)
            os.close(read)
            helpers.wait_until(lambda: len(helpers.descendants(popen.pid)) >= 3)
            below = helpers.descendants(popen.pid)
            popen.send_signal(number)
            out, _ = popen.communicate(timeout=15)
        found = json.loads(out)
        assert popen.returncode == -number
        assert (found["termination_reason"], found["stdout"], found["survivors"]) == (
            "interrupted",
            "partial\n",
            [],
        )
        assert found["message"] == "sh: stopped: a signal reached longwatch"
        assert not [pid for pid in below if helpers.alive(pid)]

    def test_killed(self):
        """When an agent kills us hard, the command and all that it started end too."""
        argv = [helpers.LONGWATCH, "tool", "--", "sh", "-c", "sleep 60 & sleep 60"]
        with helpers.ending(
            subprocess.Popen(argv, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        ) as popen:
            # The keeper, the shell, and two that sleep.
            below = helpers.wait_until(lambda: len(found := helpers.descendants(popen.pid)) == 4 and found)
            popen.kill()
        helpers.wait_until(lambda: not [pid for pid in below if helpers.alive(pid)])

    def test_ctrl_c_at_a_terminal(self):
        """The key stops the command once, and the shell's loop around us would end too."""
        argv = [helpers.LONGWATCH, "tool", "--", *children.handles_term()]
        with helpers.Screen(argv) as screen:
            screen.wait_for("ready")
            screen.send("\x03")
            assert screen.wait() == -signal.SIGINT
            assert '"termination_reason": "interrupted"' in screen.raw.decode()


class TestDisplay:
    """The copy for whoever watches."""

    @pytest.mark.capability("CAP-66", "CAP-67")
    def test_on_a_terminal(self, tmp_path):
        """A terminal on stderr shows both streams between two lines; stdout has the object and nothing else."""
        script = (
            f"exec {helpers.LONGWATCH} tool -- sh -c 'echo out; echo err >&2; kill -9 $$' >{tmp_path}/object"
        )
        status, raw = helpers.pty_run(["sh", "-c", script])
        assert status == 0
        first, *middle, last = raw.decode().replace("\r\n", "\n").splitlines()
        assert first.rpartition(" ")[0] == "longwatch: sh: started, pid"
        assert last.rpartition(" after ")[0] == "\x1b[0mlongwatch: sh: signal KILL"
        assert "".join(sorted(middle)) == "\x1b[0m\x1b[33merr\x1b[2mout"
        assert json.loads((tmp_path / "object").read_text())["stdout"] == "out\n"

    @pytest.mark.capability("CAP-66")
    def test_a_flood_is_bounded_for_the_eye_only(self, tmp_path):
        """Of a flood that is over within a second 64 KiB are shown, and 256 KiB kept."""
        script = f"exec {helpers.LONGWATCH} tool -- head -c 1000000 /dev/zero >{tmp_path}/object"
        status, raw = helpers.pty_run(["sh", "-c", script])
        assert status == 0
        assert (
            0 < raw.count(b"?") <= 64 << 10
            or json.loads((tmp_path / "object").read_text())["duration_ms"] > 1_000
        )
        assert len(json.loads((tmp_path / "object").read_text())["stdout"]) == 262_144
        assert b" bytes not shown" in raw

    def test_no_colour(self):
        """With NO_COLOR nothing is coloured."""
        _, raw = helpers.pty_run([helpers.LONGWATCH, "tool", "--", "echo", "word"], env={"NO_COLOR": "1"})
        assert b"word\r\nlongwatch: echo: exit 0 after " in raw
        assert b"\x1b" not in raw

    def test_a_terminal_is_not_read(self):
        """Nobody types for a model: at a terminal a command that reads meets the end at once."""
        status, raw = helpers.pty_run([helpers.LONGWATCH, "tool", "--timeout", "20s", "--", "cat"])
        assert status == 0
        assert b'"termination_reason": "exited"' in raw
