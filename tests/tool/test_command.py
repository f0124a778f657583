"""The command tool with real commands: what a model is told, what it can change (nothing), and who the parent is."""

import asyncio
import inspect
import os
import signal
import sys
import threading

import pytest
import trio

import helpers
from longwatch import CommandTool, UsageError
from longwatch.testing import children

FIELDS = ["exit_code", "termination_reason", "duration_ms", "truncated", "stdout", "stderr"]
CAP = 262_144


def python(*lines):
    """Return the argv of a small program."""
    return [sys.executable, "-c", "\n".join(lines)]


@pytest.fixture
def tool():
    """Return a tool with the defaults."""
    with CommandTool() as made:
        yield made


@pytest.fixture
def short():
    """Return a tool that stops everything soon."""
    with CommandTool(timeout=1) as made:
        yield made


class TestResult:
    """What a model is told."""

    @pytest.mark.capability("CAP-63")
    def test_order_of_the_fields(self, tool):
        """A command that ends by itself is told in six fields, in their order."""
        result = tool(["sh", "-c", "echo out; echo err >&2"])
        assert list(result.as_dict()) == FIELDS
        assert result.as_dict() == {
            "exit_code": 0, "termination_reason": "exited", "duration_ms": result.duration_ms, "truncated": False,
            "stdout": "out\n", "stderr": "err\n",
        }  # fmt: skip
        assert result.ok

    @pytest.mark.capability("CAP-63", "CAP-61")
    def test_a_signal_of_somebody_else(self, tool):
        """A command that somebody else's signal ended has no exit code, and was not stopped by us."""
        result = tool(children.dies(signal.SIGKILL))
        assert list(result.as_dict()) == [*FIELDS, "message"]
        assert (result.exit_code, result.termination_reason) == (None, "signaled")
        assert result.message.endswith("died of signal KILL")
        assert not result.ok

    @pytest.mark.capability("CAP-63")
    def test_a_stop(self, short):
        """A command that was stopped is told with the survivors, none, and what the tree was doing."""
        result = short(["sh", "-c", "sleep 60"])
        told = result.as_dict()
        assert list(told) == [*FIELDS, "survivors", "post_mortem", "message", "proof"]
        assert (result.exit_code, result.termination_reason, result.survivors) == (None, "timeout", [])
        assert "`sleep` sleeps" in told["post_mortem"]["diagnosis"]
        assert sorted(told["post_mortem"]) == ["culprit_pid", "diagnosis", "elsewhere", "lines"]
        assert result.message == "sh: took longer than 1s"

    @pytest.mark.capability("CAP-68")
    def test_a_bad_exit_is_a_result(self, tool):
        """A command that fails is a result like any other."""
        result = tool(["sh", "-c", "exit 3"])
        assert (result.termination_reason, result.exit_code, result.ok) == ("exited", 3, False)
        assert list(result.as_dict()) == FIELDS

    @pytest.mark.capability("CAP-68")
    def test_what_cannot_be_started_is_a_result(self, tool, tmp_path):
        """A missing program, one that cannot be executed and a missing folder are results that name them."""
        (tmp_path / "plain").write_text("x")
        cases = {
            "no-such-program-here": {},
            str(tmp_path / "plain"): {},
            str(tmp_path / "gone"): {"cwd": tmp_path / "gone"},
        }
        for name, options in cases.items():
            result = tool(["true"] if options else [name], **options)
            assert (result.termination_reason, result.exit_code) == ("spawn_failed", None)
            assert list(result.as_dict()) == [*FIELDS, "message"]
            assert name in result.message
            assert "\n" not in result.message
        assert tool(["true"]).ok

    @pytest.mark.parametrize("argv", ["echo hi", [], ["a\0b"]])
    def test_words_that_are_none(self, tool, argv):
        """What is no list of words is refused before anything starts."""
        with pytest.raises(UsageError, match="argv"):
            tool(argv)


class TestOutput:
    """What is kept of it."""

    @pytest.mark.capability("CAP-64")
    @pytest.mark.parametrize("size", [0, 1, CAP - 1, CAP, CAP + 1, 300_000, 3_000_000])
    @pytest.mark.parametrize("stream", ["stdout", "stderr"])
    def test_the_first_256_kib_are_kept(self, tool, size, stream):
        """Of each stream the first 262,144 bytes are kept; it is truncated from one byte more on."""
        result = tool(python(f"import sys; sys.{stream}.write('b' + 'x' * {size - 1} if {size} else '')"))
        assert result.ok
        assert len(getattr(result, stream)) == min(size, CAP)
        assert result.truncated == (size > CAP)
        assert getattr(result, stream)[:1] == ("b" if size else "")

    @pytest.mark.capability("CAP-65")
    def test_both_streams_overflow(self, tool):
        """A command that writes far more than is kept, to both streams, still comes to its end."""
        result = tool(
            python(
                "import os",
                "for _ in range(200): os.write(1, b'o' * 100_000); os.write(2, b'e' * 100_000)",
                "os._exit(7)",
            )
        )
        assert (result.termination_reason, result.exit_code, result.truncated) == ("exited", 7, True)
        assert (result.stdout, result.stderr) == ("o" * CAP, "e" * CAP)

    def test_a_size_of_ones_own(self):
        """How much is kept can be chosen, also nothing; a character that the limit cut is left out."""
        with CommandTool(max_bytes=5) as tool:
            result = tool(["printf", "%s", "grüße"])
            assert (result.stdout, result.truncated) == ("grü", True)
            assert tool(["printf", "%s", "grün"]).as_dict()["truncated"] is False
        with CommandTool(max_bytes=0) as tool:
            assert (tool(["echo"]).stdout, tool(["echo"]).truncated, tool(["true"]).truncated) == (
                "",
                True,
                False,
            )

    def test_bytes_that_are_no_text(self, tool):
        """Bytes that are no UTF-8 become marks, at the end too."""
        mark = "\N{REPLACEMENT CHARACTER}"
        assert tool(["printf", r"a\377b\303"]).stdout == f"a{mark}b{mark}"


class TestStop:
    """The whole tree, soon, and the next call works."""

    @pytest.mark.capability("CAP-59", "CAP-71")
    def test_the_tree_is_stopped_and_the_next_call_works(self):
        """A cap of 200 ms ends the command and its background child; what it said is returned, and one goes on."""
        with CommandTool(timeout=0.2) as tool:
            result = tool(["sh", "-c", "sleep 30 & echo $!; echo partial >&2; sleep 30"])
            assert (result.termination_reason, result.stderr) == ("timeout", "partial\n")
            assert result.duration_ms < 10_000
            assert not helpers.alive(int(result.stdout))
            assert tool(["echo", "next"]).stdout == "next\n"

    @pytest.mark.capability("CAP-60")
    @pytest.mark.slow
    def test_term_then_kill_after_a_second(self, short):
        """A command that ignores TERM is dead a second after the cap."""
        result = short(children.ignores_term())
        assert (result.termination_reason, result.exit_code, result.stdout) == ("timeout", None, "ready\n")
        assert 2_000 <= result.duration_ms < 5_000

    @pytest.mark.capability("CAP-60", "CAP-62")
    def test_who_heeds_term_may_clean_up(self, short):
        """A command that answers TERM says its last words; even with status 0 it was stopped by the cap."""
        result = short(children.handles_term(0))
        assert (result.termination_reason, result.exit_code, result.stdout) == ("timeout", 0, "ready\nbye\n")
        assert not result.ok

    @pytest.mark.capability("CAP-60")
    def test_a_stopped_command_hears_term(self, short):
        """A command in a job-control stop is continued, so that it can clean up."""
        result = short(["sh", "-c", "trap 'echo bye; exit 5' TERM; kill -STOP $$"])
        assert (result.termination_reason, result.exit_code, result.stdout) == ("timeout", 5, "bye\n")

    @pytest.mark.capability("CAP-61")
    def test_an_end_just_before_the_cap(self, short):
        """A command that ends by itself before the cap was not stopped by it."""
        assert short(["sleep", "0.3"]).as_dict()["termination_reason"] == "exited"

    @pytest.mark.capability("CAP-72")
    def test_an_escaped_process_cannot_hang_the_call(self, tool):
        """A grandchild in a session of its own that holds the pipe delays the return by the drain, and is stopped."""
        result = tool(
            python(
                "import os, time",
                "pid = os.fork()",
                "if pid == 0: os.setsid(); time.sleep(30); os._exit(0)",
                "print(pid, flush=True); os._exit(0)",
            )
        )
        assert (result.termination_reason, result.exit_code, result.survivors) == ("exited", 0, [])
        assert result.duration_ms < 5_000
        assert not helpers.alive(int(result.stdout))

    def test_idle(self):
        """With an idle window silence stops a command, however much time it has; without one it does not."""
        with CommandTool(timeout=None, idle="300ms") as tool:
            result = tool(children.ticks_then_silent(3))
            assert (result.termination_reason, result.stdout.count("tick")) == ("idle", 3)
        with CommandTool(timeout=0) as tool:
            assert tool(["sleep", "0.3"]).ok

    def test_grace(self):
        """The grace can be chosen; without one KILL comes at once."""
        with CommandTool(timeout=0.5, grace=None) as tool:
            assert tool(children.ignores_term()).duration_ms < 1_500

    def test_an_exception_stops_the_tree_first(self, tool):
        """What is raised meanwhile goes on when the command and its tree are gone; so does an error of a callback."""

        def handler(number, frame):
            raise KeyboardInterrupt

        seen = []
        before = signal.signal(signal.SIGALRM, handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            with pytest.raises(KeyboardInterrupt):
                tool(children.silent(), began=lambda live: seen.append(live.pid))
        finally:
            signal.signal(signal.SIGALRM, before)

        def fail(live):
            seen.append(live.pid)
            raise LookupError

        with pytest.raises(LookupError):
            tool(children.silent(), began=fail)
        assert len(seen) == 2
        assert not [pid for pid in seen if helpers.alive(pid)]


class TestAuthority:
    """Limits belong to whoever made the tool."""

    @pytest.mark.capability("CAP-70")
    @pytest.mark.parametrize("name", ["__call__", "run_async", "begin"])
    def test_no_call_takes_a_limit(self, tool, name):
        """What a call takes says what to run, and nothing about how long."""
        parameters = [p for p in inspect.signature(getattr(CommandTool, name)).parameters if p != "self"]
        assert parameters == ["argv", "input", "cwd", "began"]
        for limit in ("timeout", "idle", "grace", "max_bytes"):
            with pytest.raises(TypeError, match=limit):
                getattr(tool, name)(["true"], **{limit: 5})

    @pytest.mark.parametrize(
        ("words", "text"),
        [
            ({"timeout": "5"}, "timeout 5: a bare number is no duration; write 5s or 5m"),
            ({"idle": "abc"}, "idle abc: no duration; write 5s or 5m, or off for no limit"),
            ({"grace": "1x"}, "grace 1x: unknown unit x; .*"),
            ({"max_bytes": -1}, "max_bytes -1: write a number of bytes, such as 262144"),
            ({"max_bytes": True}, "max_bytes True: .*"),
            ({"max_bytes": "1KiB"}, "max_bytes '1KiB': .*"),
        ],
    )
    def test_limits_that_are_none(self, words, text):
        """A wrong limit is refused when the tool is made."""
        with pytest.raises(UsageError, match=f"^{text}$"):
            CommandTool(**words)

    def test_the_environment_has_no_say(self, monkeypatch):
        """The object has what it was given; the variables are those of the verbs, and no command sees them."""
        monkeypatch.setenv("LONGWATCH_TOOL_TIMEOUT", "1ms")
        monkeypatch.setenv("LONGWATCH_TOOL_IDLE", "garbage")
        with CommandTool() as tool:
            found = tool(["env"])
        assert found.ok
        assert "LONGWATCH_TOOL" not in found.stdout

    def test_a_file_has_one_if_it_is_named(self, monkeypatch, tmp_path):
        """What a file says holds where no argument does: none of it by itself, and of a wrong one nothing."""
        monkeypatch.chdir(tmp_path)
        file = tmp_path / "longwatch.toml"
        file.write_text('[defaults]\nidle = "300ms"\nkill_after = "3s"\n')
        silent = [*children.ticks_then_silent(1, seconds=0.8)]
        with CommandTool(config=file) as tool:
            assert tool(silent).termination_reason == "idle"
        for words in ({}, {"config": file, "idle": None}):
            with CommandTool(timeout=60, **words) as tool:
                assert tool(silent).ok
        file.write_text('[defaults]\nidel = "300ms"\n')
        with pytest.raises(UsageError, match=r'^longwatch\.toml:2:1: unknown key "idel"'):
            CommandTool(config="longwatch.toml")


class TestWords:
    """Where it starts, and what it reads."""

    def test_input(self, tool):
        """A text is read as UTF-8, much of it too; without any there is nothing to read."""
        assert tool(["cat"], input="grün").stdout == "grün"
        assert tool(children.reads_stdin(), input=b"x" * 1_000_000).stdout == "1000000\n"
        assert tool(["cat"]).as_dict()["stdout"] == ""

    def test_folders(self, tmp_path):
        """A command starts in the tool's folder, or in its own, which may be below the tool's."""
        (tmp_path / "below").mkdir()
        with CommandTool(cwd=tmp_path) as tool:
            assert tool(["pwd"]).stdout == f"{tmp_path}\n"
            assert tool(["pwd"], cwd="below").stdout == f"{tmp_path}/below\n"
            assert tool(["pwd"], cwd="/").stdout == "/\n"
        with CommandTool() as tool:
            assert tool(["pwd"], cwd=tmp_path).stdout == f"{tmp_path}\n"

    def test_environment(self):
        """An environment that is given is all there is, but for the run's id and attempt."""
        with CommandTool(env={"PATH": os.environ["PATH"], "WORD": "1", helpers.MARKER: "x"}) as tool:
            found = dict(line.split("=", 1) for line in tool(["env"]).stdout.splitlines())
        assert found.pop("LONGWATCH_RUN_ID").startswith("env-")
        assert sorted(found) == sorted(["LONGWATCH_ATTEMPT", helpers.MARKER, "PATH", "WORD"])


class TestAtOnce:
    """Several threads and tasks."""

    def test_threads(self, tool):
        """Calls of several threads run side by side, and each has its own result."""
        results = {}

        def work(name):
            results[name] = tool(["sh", "-c", f"echo {name}; sleep 0.4"])

        threads = [threading.Thread(target=work, args=(str(number),)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert {name: result.stdout for name, result in results.items()} == {
            str(number): f"{number}\n" for number in range(8)
        }

    def test_asyncio(self, short):
        """Tasks of one loop call it side by side: one is stopped by its cap, the other is not."""

        async def main():
            return await asyncio.gather(
                short.run_async(["sh", "-c", "echo one; sleep 60"]), short.run_async(["cat"], input="two")
            )

        one, two = asyncio.run(main())
        assert (one.termination_reason, one.stdout) == ("timeout", "one\n")
        assert (two.termination_reason, two.stdout) == ("exited", "two")

    def test_trio(self, short):
        """It works in a trio loop as well, a missing program too."""

        async def main():
            return await short.run_async(["sleep", "60"]), await short.run_async(["no-such-program-here"])

        one, two = trio.run(main)
        assert (one.termination_reason, two.termination_reason) == ("timeout", "spawn_failed")

    def test_a_cancellation_stops_the_tree(self, tool):
        """A cancelled call stops its command first; others go on."""

        async def main():
            begun = asyncio.Event()
            pids = []

            def began(live):
                pids.append(live.pid)
                begun.set()

            task = asyncio.create_task(tool.run_async(children.silent(), began=began))
            other = asyncio.create_task(tool.run_async(["sh", "-c", "sleep 0.6; echo other"]))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not helpers.alive(pids[0])
            return await other

        assert asyncio.run(main()).stdout == "other\n"


class TestLive:
    """A command that runs can be shown."""

    def test_live(self, tool):
        """Whoever shows a command knows its pid, how long it runs, and what comes; a silent one is idle since its start."""
        chunks = []
        lives = []

        def began(live):
            lives.append(live)
            assert helpers.alive(live.pid)
            assert (live.bytes, live.idle_ms >= 0) == (0, True)
            live.tap("stderr", lambda chunk: chunks.append(bytes(chunk)))

        tool(["sh", "-c", "echo out; sleep 0.2; echo err >&2"], began=began)
        [live] = lives
        assert live.bytes == 8
        assert live.elapsed_ms - live.idle_ms >= 200
        assert b"".join(chunks) == b"err\n"

    def test_nothing_began(self, tool):
        """Of a command that cannot be started there is nothing to show."""
        tool(["no-such-program-here"], began=pytest.fail)
