"""The library for one process, with real ones: `run`, `watch`, and what both promise the program that hosts them."""

import asyncio
import gc
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest

import helpers
import longwatch
from longwatch import IdleReached, Limits, RunFailed, TimeoutReached, UsageError
from longwatch.config.as_options import read
from longwatch.testing import children

IDLE = 0.4


def python(*lines):
    """Return the argv of a small program."""
    return [sys.executable, "-c", "\n".join(lines)]


def folders(state):
    """Return the run folders in a state folder; one that is still being made has another name."""
    return [path.parent for path in (state / "runs").glob("[!.]*/meta.json")]


class TestOutcome:
    """How a run ended is a value."""

    @pytest.mark.capability("CAP-17")
    @pytest.mark.parametrize("code", [0, 3])
    def test_exit_status(self, code):
        """A program that ends by itself has its own status and both streams, and no limit is named."""
        result = longwatch.run(
            python(f"import sys; print('out'); print('err', file=sys.stderr); sys.exit({code})")
        )
        assert (result.termination_reason, result.exit_code, result.signal) == ("exited", code, None)
        assert (result.stdout, result.stderr, result.returncode) == ("out\n", "err\n", code)
        assert (result.limit, result.stopped, result.survivors) == (None, None, [])
        assert result.ok == (code == 0)

    @pytest.mark.capability("CAP-17", "CAP-61")
    def test_death_by_a_signal_of_somebody_else(self):
        """A program that another one's signal ended was not stopped by us, limits or not."""
        result = longwatch.run(children.dies(signal.SIGKILL), Limits(timeout=30))
        assert (result.termination_reason, result.exit_code, result.signal) == ("signaled", None, "KILL")
        assert (result.returncode, result.outcome, result.limit) == (137, "failed", None)
        with pytest.raises(RunFailed, match="died of signal KILL"):
            result.check()

    @pytest.mark.capability("CAP-2")
    def test_silence_is_stopped(self):
        """A silent program is stopped at the window; what it said is kept, and `check` raises."""
        result = longwatch.run(children.ticks_then_silent(3), Limits(idle=IDLE))
        assert (result.termination_reason, result.outcome, result.returncode) == ("idle", "failed", 124)
        assert result.stdout.split() == ["tick", "0", "tick", "1", "tick", "2"]
        assert result.limit["window_ms"] == 400
        assert result.idle_ms >= 400
        assert result.stopped["how"] == "TERM"
        assert result.post_mortem["diagnosis"]
        with pytest.raises(TimeoutError) as caught:
            result.check()
        assert type(caught.value) is IdleReached
        assert caught.value.partial.stdout == result.stdout

    @pytest.mark.capability("CAP-61")
    def test_exit_just_before_the_limit(self):
        """Who ends by himself before the limit was not stopped by it."""
        result = longwatch.run(["sleep", "0.3"], Limits(timeout=3))
        assert (result.termination_reason, result.exit_code) == ("exited", 0)

    @pytest.mark.capability("CAP-62")
    def test_exit_0_in_answer_to_our_signal(self):
        """A program that answers our TERM with status 0 was stopped all the same, and may say its last words."""
        result = longwatch.run(children.handles_term(0), Limits(timeout=1))
        assert (result.termination_reason, result.exit_code, result.outcome) == ("timeout", 0, "timed_out")
        assert result.stdout == "ready\nbye\n"
        with pytest.raises(TimeoutReached):
            result.check()

    @pytest.mark.capability("CAP-60")
    def test_term_then_kill(self):
        """Who ignores TERM is killed after the grace, no sooner."""
        result = longwatch.run(children.ignores_term(), Limits(idle=0.6, grace=0.3))
        assert (result.termination_reason, result.signal) == ("idle", "KILL")
        assert result.stopped["how"] == "TERM, then KILL"
        assert 300 <= result.stopped["ms"] < 5_000

    @pytest.mark.capability("CAP-59")
    def test_the_whole_tree_is_stopped(self):
        """A cap ends the program and what it started in the background."""
        argv = ["sh", "-c", "sleep 30 & echo $!; sleep 30"]
        result = longwatch.run(argv, Limits(timeout=0.2))
        assert result.termination_reason == "timeout"
        assert result.duration_ms < 10_000
        helpers.wait_until(lambda: not helpers.alive(int(result.stdout)))

    def test_first_limit(self):
        """A program that never says anything can be stopped before the idle window would."""
        result = longwatch.run(children.silent(), Limits(first=0.3))
        assert result.termination_reason == "first"
        with pytest.raises(longwatch.FirstReached):
            result.check()

    def test_soft_limit_and_notice_stop_nothing(self):
        """A soft limit and an idle limit that only notes leave the run alone, and are told in `rungs`."""
        result = longwatch.run(["sleep", "0.5"], Limits(idle=0.2, idle_action="notify", soft=0.1))
        assert (result.termination_reason, result.exit_code) == ("exited", 0)
        assert [rung["limit"] for rung in result.rungs] == ["soft", "idle"]


class TestSpawnFailure:
    """A program that cannot be started is a result."""

    @pytest.mark.capability("CAP-21")
    def test_missing_program(self):
        """A missing program is named, with a shell's status for it."""
        result = longwatch.run(["no-such-program-here", "x"])
        assert (result.termination_reason, result.returncode, result.outcome) == (
            "spawn_failed",
            127,
            "failed",
        )
        assert "no-such-program-here" in result.message
        assert "\n" not in result.message
        assert (result.exit_code, result.stdout, result.report["stdout"]) == (None, "", None)
        with pytest.raises(RunFailed, match="no-such-program-here"):
            result.check()

    @pytest.mark.capability("CAP-21")
    @pytest.mark.parametrize("pty", [False, True])
    def test_not_executable(self, tmp_path, pty):
        """A file without execute permission, and a folder, are 126 and named."""
        (tmp_path / "file").write_text("x")
        for path in (tmp_path / "file", tmp_path):
            result = longwatch.run([path], pty=pty)
            assert (result.termination_reason, result.returncode) == ("spawn_failed", 126)
            assert str(path) in result.message

    @pytest.mark.parametrize("pty", [False, True])
    def test_missing_folder(self, tmp_path, pty):
        """A working directory that is not there is named, not the program."""
        missing = tmp_path / "gone"
        result = longwatch.run(["true"], cwd=missing, pty=pty)
        assert (result.termination_reason, result.returncode) == ("spawn_failed", 126)
        assert str(missing) in result.message

    @pytest.mark.parametrize("output", ["capture", "pass"])
    def test_nothing_stays_open(self, output):
        """A start that fails leaves no descriptor."""
        longwatch.run(["no-such-program-here"], input="x", output=output)
        before = helpers.descriptors()
        for pty in (False, True):
            longwatch.run(["no-such-program-here"], input="x", output=output, pty=pty)
        assert helpers.descriptors() <= before

    @pytest.mark.parametrize("argv", ["echo hi", b"echo", [], ["echo", "a\0b"], ()])
    def test_words_that_are_none(self, argv):
        """What is no list of words is refused before anything starts."""
        with pytest.raises(UsageError, match="argv"):
            longwatch.run(argv)

    @pytest.mark.parametrize(
        "options",
        [
            {"env": {"A": "x\0"}},
            {"env": {"A=B": "x"}},
            {"env": {"": "x"}},
            {"env": {"A": 5}},
            {"cwd": "a\0b"},
            {"cwd": 5},
            {"input": "\ud800"},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("keeper", [False, True])
    def test_words_that_no_program_can_be_given(self, options, keeper):
        """What the kernel would refuse, or cannot be told, is named before anything starts; nothing stays open."""
        before = helpers.descriptors()
        with pytest.raises(UsageError, match=next(iter(options))):
            longwatch.run(["true"], keeper=keeper, **options)
        with pytest.raises(UsageError, match="argv"):
            longwatch.run(["true", "\ud800"], keeper=keeper)
        assert helpers.descriptors() <= before

    def test_wrong_output(self):
        """A word for `output` that is none names the two that are."""
        with pytest.raises(UsageError, match="'capture' or 'pass'"):
            longwatch.run(["true"], output="print")


class TestStreams:
    """What goes in and comes out."""

    @pytest.mark.capability("CAP-11")
    def test_lossy_decoding(self):
        """Bytes that are no text become marks, raise nothing, and are progress."""
        argv = python(
            "import sys, time",
            "for _ in range(4): sys.stdout.buffer.write(b'\\xff\\xfe'); sys.stdout.flush(); time.sleep(0.2)",
            "time.sleep(60)",
        )
        result = longwatch.run(argv, Limits(idle=IDLE))
        assert result.stdout == "\N{REPLACEMENT CHARACTER}" * 8
        assert result.progress["stdout"]["count"] >= 3
        assert result.duration_ms >= 900

    def test_much_in_while_much_comes_out(self):
        """1 MB of input and 1 MB of output at once block nobody, and the middle of the output is named as a gap."""
        argv = python(
            "import sys",
            "sys.stdout.write('first\\n' + 'y' * (1 << 20) + '\\n'); sys.stdout.flush()",
            "print(len(sys.stdin.buffer.read()), 'last')",
        )
        result = longwatch.run(argv, Limits(idle=20), input=b"x" * (1 << 20))
        assert result.check().stdout.startswith("first\nyyy")
        assert result.stdout.endswith("y\n1048576 last\n")
        assert result.report["stdout"]["bytes"] == 6 + (1 << 20) + 1 + 13
        assert result.report["stdout"]["truncated"]
        assert 320 << 10 < len(result.stdout) < 321 << 10

    def test_text_goes_in_as_utf_8(self):
        """A text is written as UTF-8."""
        assert longwatch.run(["cat"], input="über\n").stdout == "über\n"

    def test_nothing_to_read(self):
        """Without input a program that reads meets the end at once."""
        assert longwatch.run(["cat"], Limits(idle=20)).check().stdout == ""

    def test_environment_is_whole(self):
        """A given environment is all there is, but for the run's id and attempt; our options are taken out."""
        env = {"PATH": os.environ["PATH"], "WORD": "1", "LONGWATCH_IDLE": "5m", helpers.MARKER: "x"}
        found = dict(line.split("=", 1) for line in longwatch.run(["env"], env=env).stdout.splitlines())
        assert found.pop("LONGWATCH_RUN_ID").startswith("env-")
        assert found == {
            "PATH": os.environ["PATH"],
            "WORD": "1",
            "LONGWATCH_ATTEMPT": "1",
            helpers.MARKER: "x",
        }

    def test_a_run_inside_a_run_carries_both_marks(self, monkeypatch):
        """Also an environment without our mark gets it, so that the outer run can find the inner one's processes."""
        monkeypatch.setenv("LONGWATCH_RUN_ID", "outer-abcdef")
        for env in (None, {"PATH": os.environ["PATH"]}):
            result = longwatch.run(["sh", "-c", "echo $LONGWATCH_RUN_ID"], env=env)
            assert result.stdout == f"outer-abcdef/{result.run}\n"

    def test_working_directory(self, tmp_path):
        """The program starts in its folder, a relative one too, and ours stays what it was."""
        before = os.getcwd()
        assert longwatch.run(["pwd"], cwd=tmp_path).stdout == f"{tmp_path}\n"
        (tmp_path / "prog").write_text("#!/bin/sh\npwd\n")
        (tmp_path / "prog").chmod(0o755)
        assert longwatch.run(["./prog"], cwd=tmp_path).stdout == f"{tmp_path}\n"
        assert longwatch.run(["pwd"], cwd="/", pty=True).stdout == "/\r\n"
        assert os.getcwd() == before

    def test_terminal(self):
        """With a terminal of its own the program has one everywhere, of a sane size; `stdout` is what it got."""
        result = longwatch.run(["sh", "-c", "tty; stty size; echo err >&2"], pty=True)
        name, *rest = result.check().stdout.split("\r\n")
        assert name.startswith("/dev/")
        assert rest == ["24 80", "err", ""]
        assert result.merged
        assert result.stderr == ""
        assert longwatch.run(["tty"], pty=True, input="").stdout == "not a tty\r\n"

    def test_a_terminal_nobody_types_at(self):
        """A program that waits for a key is stopped, and the post-mortem says what it waited for."""
        result = longwatch.run(["cat"], Limits(idle=IDLE), pty=True)
        assert result.termination_reason == "idle"
        assert "terminal" in result.post_mortem["diagnosis"]

    @pytest.mark.capability("CAP-72")
    def test_an_escaped_process_cannot_hang_the_run(self):
        """A grandchild in a session of its own that holds the pipe delays the return by the drain, and is stopped."""
        argv = python(
            "import os, time",
            "if os.fork() == 0: os.setsid(); time.sleep(30); os._exit(0)",
            "print('done', flush=True); os._exit(0)",
        )
        result = longwatch.run(argv)
        assert (result.termination_reason, result.exit_code, result.stdout) == ("exited", 0, "done\n")
        assert result.leftovers["count"] == 1
        assert result.duration_ms < 5_000

    def test_pass(self):
        """With `pass` both streams also come out of our own descriptors, unchanged, and are captured."""
        code = (
            "import longwatch, sys\n"
            "r = longwatch.run(['sh', '-c', 'printf out; printf err >&2'], output='pass')\n"
            "assert (r.stdout, r.stderr) == ('out', 'err')"
        )
        done = helpers.run_command([sys.executable, "-c", code])
        assert (done.code, done.out, done.err) == (0, "out", "err")

    def test_pass_to_nobody(self):
        """A reader of ours that has gone away costs the program nothing: its output is still captured."""
        code = (
            "import longwatch, sys\n"
            "r = longwatch.run(['sh', '-c', 'echo one; sleep 0.2; echo two'], output='pass')\n"
            "sys.exit(r.stdout != 'one\\ntwo\\n' or r.exit_code)"
        )
        read, write = os.pipe()
        os.close(read)
        done = helpers.run_command([sys.executable, "-c", code], stdout=write)
        os.close(write)
        assert (done.code, done.err) == (0, "")


class TestRecord:
    """What stays on the disk."""

    def test_nothing_by_default(self, state, home):
        """Without `record` nothing at all is written."""
        before = sorted(home.rglob("*"))
        longwatch.run(["true"])
        longwatch.run(children.silent(), Limits(idle=0.2))
        longwatch.run(["no-such-program-here"])
        assert sorted(home.rglob("*")) == before
        assert not state.exists()

    def test_record(self, state):
        """With `record` a run leaves a folder with its report, and a line of history."""
        result = longwatch.run(["sh", "-c", "echo word", "--secret=x"], record=True)
        [folder] = folders(state)
        assert folder.name == result.run
        assert {"meta.json", "events.jsonl", "report.json"} <= {path.name for path in folder.iterdir()}
        assert '"termination_reason":"exited"' in (folder / "report.json").read_text().replace(" ", "")
        [spool] = (state / "spool").iterdir()
        [line] = spool.read_text().strip().split("\n")
        assert result.run in line
        assert "--secret" in line
        assert "--secret=x" not in line + (folder / "meta.json").read_text()

    def test_stop_ends_the_run_and_not_its_host(self, state):
        """`longwatch stop` ends a recorded run, proven, and leaves the program that called us alone."""
        results = []

        def work():
            results.append(longwatch.run(children.silent(), Limits(idle=5), record=True))

        thread = threading.Thread(target=work)
        thread.start()
        [folder] = helpers.wait_until(lambda: folders(state))
        done = helpers.run_cli("stop", folder.name)
        thread.join()
        assert (done.code, done.err) == (0, "")
        assert "stopped by TERM" in done.out
        assert (results[0].termination_reason, results[0].origin) == ("cancelled", "explicit")

    def test_a_failed_start_is_history(self, state):
        """A program that could not be started leaves a line, and no folder."""
        result = longwatch.run(["no-such-program-here"], record=True)
        [spool] = (state / "spool").iterdir()
        assert result.run in spool.read_text()
        assert folders(state) == []

    def test_unwritable_state(self, state):
        """Where nothing can be kept the run goes on, and a warning says so at the line of the call."""
        state.parent.mkdir(parents=True)
        state.write_text("in the way")
        with pytest.warns(UserWarning, match="longwatch") as caught:
            result = longwatch.run(["echo", "word"], record=True)
        assert result.check().stdout == "word\n"
        assert {warning.filename for warning in caught} == {__file__}


def test_what_fled_from_a_run_inside_a_run_is_found(monkeypatch, tmp_path):
    """A nested run's processes carry both ids, and by them the inner run finds what left session and parents."""
    monkeypatch.setenv("LONGWATCH_RUN_ID", "outer-1")
    script = f"(setsid sh -c 'echo $$ >{tmp_path}/pid; exec sleep 60' >/dev/null 2>&1 &) ; until [ -s {tmp_path}/pid ]; do sleep 0.02; done"
    result = longwatch.run(["sh", "-c", script], Limits(idle=30))
    assert result.leftovers["count"] == 1
    assert result.survivors == []
    assert not helpers.alive(int((tmp_path / "pid").read_text()))


class TestKeeper:
    """A program below a keeper of its own."""

    # Sheds its session, its group and its environment, and says its pid.
    FUGITIVE = (
        "import os, sys",
        "read, write = os.pipe()",
        "if os.fork() == 0:",
        "    os.setsid()",
        "    if os.fork() == 0:",
        "        os.write(write, str(os.getpid()).encode())",
        "        null = os.open('/dev/null', os.O_RDWR)",
        "        for fd in range(3): os.dup2(null, fd)",
        "        os.execve('/bin/sleep', ['sleep', '60'], {})",
        "    os._exit(0)",
        "os.wait(); print(os.read(read, 20).decode(), os.getppid(), flush=True)",
    )

    @pytest.mark.parametrize("host", ["blocking", "asyncio"])
    def test_nothing_can_leave(self, host):
        """A process that sheds all its marks is found and ended, and the report says what that rests on."""
        argv = python(*self.FUGITIVE)
        if host == "blocking":
            result = longwatch.run(argv, keeper=True)
        else:
            result = asyncio.run(longwatch.run_async(argv, keeper=True))
        fugitive, keeper = map(int, result.check().stdout.split())
        assert (result.proof, result.survivors, result.leftovers["count"]) == ("subreaper", [], 1)
        assert keeper != os.getpid()
        assert not helpers.alive(fugitive)
        assert not helpers.alive(keeper)
        assert longwatch.run(["true"]).proof == "group+marker"

    def test_a_limit(self):
        """A limit stops it as it stops any program; a terminal, an input and a folder are passed on."""
        result = longwatch.run(children.silent(), Limits(idle=IDLE), keeper=True)
        assert (result.termination_reason, result.signal, result.proof) == ("idle", "TERM", "subreaper")
        assert longwatch.run(["cat"], input="in", keeper=True).stdout == "in"
        assert (
            longwatch.run(["sh", "-c", "pwd; test -t 1"], cwd="/", pty=True, keeper=True).check().stdout
            == "/\r\n"
        )

    def test_what_cannot_be_started(self, monkeypatch):
        """A missing program is a result as ever; without a keeper nothing is started, since its proof was asked for."""
        result = longwatch.run(["no-such-program-here"], keeper=True)
        assert (result.termination_reason, result.returncode) == ("spawn_failed", 127)
        assert "no-such-program-here" in result.message
        monkeypatch.setattr(sys, "executable", "")
        result = longwatch.run(["true"], keeper=True)
        assert (result.termination_reason, result.returncode) == ("spawn_failed", 125)
        assert "keeper" in result.message


class TestWatch:
    """A process that subprocess started."""

    def test_pipes(self):
        """Both pipes are read, the status is the process's own, and `returncode` is set."""
        argv = ["sh", "-c", "echo out; echo err >&2; exit 6"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as popen:
            result = longwatch.watch(popen)
            assert (result.termination_reason, result.exit_code, result.returncode) == ("exited", 6, 6)
            assert (result.stdout, result.stderr) == ("out\n", "err\n")
            assert popen.returncode == 6
            assert popen.communicate() == ("", "")

    def test_merged_pipe(self):
        """One pipe for both streams is one stream."""
        argv = ["sh", "-c", "echo out; echo err >&2"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as popen:
            assert longwatch.watch(popen).stdout == "out\nerr\n"

    def test_silence_is_stopped_with_its_tree(self):
        """At the idle limit the process ends with what it started, and `returncode` says by which signal."""
        argv = ["sh", "-c", "sleep 60 & echo $!; wait"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as popen:
            result = longwatch.watch(popen, Limits(idle=IDLE))
            assert (result.termination_reason, popen.returncode) == ("idle", -signal.SIGTERM)
            assert not helpers.alive(int(result.stdout))

    def test_a_stubborn_grandchild_in_our_own_group(self):
        """What is left of a tree that we cannot find by a session of its own is ended as well."""
        inner = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
        outer = python(
            "import subprocess, sys, time",
            f"print(subprocess.Popen([sys.executable, '-c', {inner!r}]).pid, flush=True); time.sleep(60)",
        )
        with subprocess.Popen(outer, stdout=subprocess.PIPE) as popen:
            result = longwatch.watch(popen, Limits(idle=0.6, grace=0.3))
            assert result.termination_reason == "idle"
            assert result.survivors == []
            assert not helpers.alive(int(result.stdout.split()[0]))

    def test_without_pipes(self):
        """Without a pipe silence says nothing, so only time can stop it."""
        with subprocess.Popen(children.silent()) as popen:
            result = longwatch.watch(popen, Limits(idle=0.1, first=0.1, timeout=0.5))
            assert (result.termination_reason, result.stdout, popen.returncode) == ("timeout", "", -15)

    def test_ended_already(self):
        """A process that somebody has waited for cannot be watched; one that has merely ended can."""
        with subprocess.Popen(["false"]) as popen:
            helpers.wait_until(lambda: not helpers.alive(popen.pid))
            result = longwatch.watch(popen)
            assert result.exit_code == 1
            assert result.duration_ms < 5_000
            with pytest.raises(UsageError, match="has ended already"):
                longwatch.watch(popen)

    def test_waited_for_in_another_thread(self):
        """Somebody else's wait takes nothing away: the end is noticed, and its status is right or unknown."""
        with subprocess.Popen(["sh", "-c", "sleep 0.3; exit 4"], stdout=subprocess.PIPE) as popen:
            thread = threading.Thread(target=popen.wait)
            thread.start()
            result = longwatch.watch(popen, Limits(timeout=20))
            thread.join()
            assert (result.termination_reason, result.exit_code) in (("exited", 4), ("unknown", None))


class TestHost:
    """What the program that hosts us keeps."""

    def test_nothing_of_the_host_is_touched(self):
        """Signal handlers, the wake-up descriptor and descriptors are as before, also after a stop."""
        longwatch.run(["true"])
        gc.collect()  # what earlier tests left open goes now, and is not counted
        signals, before = [signal.getsignal(number) for number in range(1, 32)], helpers.descriptors()
        wakeup = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(wakeup)
        longwatch.run(children.silent(), Limits(idle=0.2))
        longwatch.run(["true"], pty=True)
        longwatch.run(["true"], input="x")
        assert [signal.getsignal(number) for number in range(1, 32)] == signals
        assert helpers.descriptors() <= before
        assert signal.set_wakeup_fd(-1) == wakeup

    def test_children_of_the_host_are_left_alone(self):
        """We wait for our own process only: the host's other children keep their status."""
        other = subprocess.Popen(["sh", "-c", "exit 7"])
        longwatch.run(["sleep", "0.2"])
        assert other.wait() == 7

    def test_threads(self):
        """Two threads run programs at the same time."""
        results = {}

        def work(name):
            results[name] = longwatch.run(["sh", "-c", f"echo {name}; sleep 0.5"])

        threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
        started = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {name: result.check().stdout for name, result in results.items()} == {
            "one": "one\n",
            "two": "two\n",
        }
        spans = [result.duration_ms for result in results.values()]
        assert time.monotonic() - started < sum(spans) / 1000

    def test_ignored_chld(self):
        """Where the host ignores CHLD the kernel collects our child: its status is asked for, and never taken for 0."""
        code = (
            "import longwatch, signal, subprocess\n"
            "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
            "for argv in 10 * [['sh', '-c', 'exit 5']] + [['sh', '-c', 'sleep 0.2; exit 5']]:\n"
            "    r = longwatch.run(argv)\n"
            "    assert r.duration_ms < 2000, r.report\n"
            "    assert (r.termination_reason, r.exit_code) in (('exited', 5), ('unknown', None)), r.report\n"
            "    assert not r.ok\n"
            "with subprocess.Popen(['sh', '-c', 'sleep 0.2; exit 5']) as popen:\n"
            "    r = longwatch.watch(popen)\n"
            "    assert (r.termination_reason, r.exit_code) in (('exited', 5), ('unknown', None)), r.report\n"
            "r = longwatch.run(['sleep', '60'], longwatch.Limits(idle=0.2))\n"
            "assert r.termination_reason == 'idle', r.report\n"
        )
        done = helpers.run_command([sys.executable, "-c", code])
        assert (done.code, done.err) == (0, "")

    def test_no_descriptor_left(self):
        """Where no descriptor is left for a start the run says so and keeps none."""
        code = (
            "import longwatch, os, resource\n"
            "longwatch.run(['true'])\n"
            "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
            "held = []\n"
            "try:\n"
            "    while True: held.append(os.open('/dev/null', os.O_RDONLY))\n"
            "except OSError: pass\n"
            "for spare in range(12):\n"
            "    if spare: os.close(held.pop())\n"
            "    try: said = longwatch.run(['true']).termination_reason\n"
            "    except OSError as error: said = error.strerror\n"
            "    probe = []\n"
            "    try:\n"
            "        while True: probe.append(os.open('/dev/null', os.O_RDONLY))\n"
            "    except OSError: pass\n"
            "    for fd in probe: os.close(fd)\n"
            "    assert len(probe) == spare, (spare, len(probe), said)\n"
            "    print(said)\n"
        )
        done = helpers.run_command([sys.executable, "-c", code])
        assert (done.code, done.err) == (0, ""), done.out
        assert done.out.splitlines()[-1] == "exited"
        assert "Too many open files" in done.out or "spawn_failed" in done.out


class TestInterrupted:
    """An exception that comes from outside stops the tree first."""

    SCRIPT = (
        "import longwatch, sys, {module}\n"
        "async def main(): await longwatch.run_async(*words, output='pass')\n"
        "words = sys.argv[1:], longwatch.Limits(idle=60, grace=60)\n"
        "try: {call}\n"
        "except KeyboardInterrupt: print('interrupted', flush=True)\n"
    )
    CALLS = {
        "sys": "longwatch.run(*words, output='pass')",
        "asyncio": "asyncio.run(main())",
        "trio": "trio.run(main)",
    }

    def host(self, argv, module="sys"):
        """Start a program that runs another one, and wait until that one is ready."""
        script = self.SCRIPT.format(module=module, call=self.CALLS[module])
        popen = subprocess.Popen(
            [sys.executable, "-c", script, *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        assert popen.stdout.readline().startswith("ready")
        return popen

    @pytest.mark.parametrize("module", CALLS)
    def test_ctrl_c_stops_the_tree_and_is_raised(self, module):
        """KeyboardInterrupt reaches the caller after the program has cleaned up and is gone."""
        with helpers.ending(self.host(children.handles_term(), module)) as popen:
            below = helpers.descendants(popen.pid)
            popen.send_signal(signal.SIGINT)
            assert popen.communicate(timeout=15) == ("bye\ninterrupted\n", "")
            assert not [pid for pid in below if helpers.alive(pid)]

    def test_a_second_ctrl_c_kills(self):
        """Who cannot wait for the grace presses again: then the tree is killed."""
        argv = python(
            "import os, signal, time",
            "signal.signal(signal.SIGTERM, lambda *_: os.write(1, b'asked\\n'))",
            "print('ready', flush=True); time.sleep(60)",
        )
        with helpers.ending(self.host(argv)) as popen:
            below = helpers.descendants(popen.pid)
            popen.send_signal(signal.SIGINT)
            assert popen.stdout.readline() == "asked\n"
            popen.send_signal(signal.SIGINT)
            assert popen.communicate(timeout=4) == ("interrupted\n", "")
            assert not [pid for pid in below if helpers.alive(pid)]

    def test_exception_of_a_handler(self):
        """Any exception of a signal handler does the same."""

        class Enough(Exception):
            pass

        def handler(number, frame):
            raise Enough

        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(Enough):
                longwatch.run(children.silent(), Limits(idle=30))
        finally:
            signal.signal(signal.SIGALRM, before)
        assert helpers.descendants() == []


def test_memory_is_bounded():
    """A program that floods costs no more memory than head and tail."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = longwatch.run(children.flood(200 << 20), Limits(idle=20))
    assert result.report["stdout"]["bytes"] == 200 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 << 10


class TestFile:
    """A file that `config` names."""

    @pytest.fixture(autouse=True)
    def file(self, tmp_path, monkeypatch):
        """Return a file whose only limits are those of this test, in a folder that is ours."""
        monkeypatch.chdir(tmp_path)
        path = tmp_path / "longwatch.toml"
        path.write_text(
            '[defaults]\nidle = "400ms"\nkill_after = "7s"\nnudge = "go on"\nrestart = "always"\n'
        )
        return path

    @pytest.mark.parametrize("config", ["longwatch.toml", "."])
    def test_its_limits_hold(self, config):
        """A limit of `[defaults]` stops, as one that was given does."""
        result = longwatch.run(children.ticks_then_silent(), config=config)
        assert (result.termination_reason, result.limit["window_ms"]) == ("idle", 400)

    def test_every_way_to_run_knows_it(self, file):
        """The coroutine and the watch of a process take the same file; a path may be an object."""
        result = asyncio.run(longwatch.run_async(children.ticks_then_silent(), config=file))
        assert result.limit["window_ms"] == 400
        with subprocess.Popen(
            children.ticks_then_silent(), stdout=subprocess.PIPE, start_new_session=True
        ) as popen:
            assert longwatch.watch(popen, config=file).limit["window_ms"] == 400

    def test_who_is_asked_first(self, monkeypatch, file):
        """What was given wins over a variable, that over the file, and that over the built-in."""
        monkeypatch.setenv("LONGWATCH_FIRST", "2m")
        file.write_text('[defaults]\nidle = "1m"\nfirst = "1m"\nsoft = "1m"\nloop = 3\nkill_after = "7s"\n')
        found = Limits(idle=3).resolve(told=read(str(file), "run"))
        windows = {name: limit.window for name, limit in found.specs.items()}
        assert windows == {"idle": 3_000, "first": 120_000, "soft": 60_000}
        assert (found.loop, found.grace, found.complaints) == (3, 7_000, [])
        assert found.named == {"idle", "first", "soft", "loop", "grace"}

    def test_steps_and_budgets(self, file):
        """A limit does at most what the file says; who types nothing tells instead of a nudge, and a restart stops."""
        file.write_text(
            '[defaults]\nidle_action = "nudge"\nfirst = "1m"\nfirst_action = "none"\nstall_timeout = "1m"\n'
            'stall_action = "restart"\ncall = "2h"\ncalls = { Bash = "30m", Read = "1m" }\n'
        )
        found = Limits(call={"Bash": 5}).resolve(told=read(str(file), "run")).specs
        steps = {name: limit.action for name, limit in found.items()}
        assert steps == {"idle": "notify", "first": "none", "stall": "stop", "call": "stop"}
        assert (found["call"].window, found["call"].budgets) == (
            7_200_000,
            {"": 7_200_000, "Bash": 5_000, "Read": 60_000},
        )
        assert Limits(idle_action="stop").resolve(told=read(str(file), "run")).specs["idle"].action == "stop"

    def test_a_wrong_file(self, file):
        """All that is wrong with it is raised at once, and nothing is started; so is a file that is not there."""
        file.write_text('[defaults]\nidel = "5m"\nkill_after = 3\n')
        with pytest.raises(UsageError) as refused:
            longwatch.run(["touch", "started"], config=file)
        assert [line.partition(": ")[0] for line in str(refused.value).splitlines()] == [
            f"{file}:2:1",
            f"{file}:3:1",
        ]
        with pytest.raises(UsageError, match=r"^config nope\.toml: no such file"):
            asyncio.run(longwatch.run_async(["touch", "started"], config="nope.toml"))
        assert not os.path.exists("started")

    def test_no_file_is_read_unasked(self, monkeypatch, file):
        """Neither one that lies here nor the one of the daemon's variable; and nothing that reads one is loaded."""
        file.write_text("wrong")
        monkeypatch.setenv("LONGWATCH_CONFIG", str(file))
        assert longwatch.run(["true"]).ok
        loaded = "import longwatch, sys; longwatch.run(['true']); print('pydantic' in sys.modules)"
        assert helpers.run_command([sys.executable, "-c", loaded]).out == "False\n"
