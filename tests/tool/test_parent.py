"""The parent of a tool's commands: one keeper, which nothing can leave, and which may be lost."""

import os
import signal
import subprocess
import sys
import threading

import pytest

import helpers
from longwatch import CommandTool
from longwatch.runtime.kept import Keeper, KeeperError
from longwatch.testing import children

PARENT = ["sh", "-c", "echo $PPID"]
# Leaves the group, the session, and the mark of the environment; its output is closed, so that nothing waits for it.
FUGITIVE = """
import os, sys
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(write, str(os.getpid()).encode())
        null = os.open("/dev/null", os.O_RDWR)
        for fd in range(3): os.dup2(null, fd)
        os.execve("/bin/sleep", ["sleep", "60"], {})
    os._exit(0)
os.wait()
print(os.read(read, 20).decode(), flush=True)
"""


@pytest.fixture
def tool():
    """Return a tool that stops everything soon."""
    with CommandTool(timeout=20) as made:
        yield made


def parent_of(tool):
    """Return the pid of the parent of a tool's commands."""
    return int(tool(PARENT).stdout)


def test_one_keeper_for_all_commands(tool):
    """Commands have one parent, a child of ours that is started with the first of them and ended by `close`."""
    assert helpers.descendants() == []
    keeper = parent_of(tool)
    assert helpers.children(os.getpid()) == [keeper]
    assert parent_of(tool) == keeper
    tool.close()
    assert not helpers.alive(keeper)
    tool.close()


def test_a_tool_that_was_closed_can_be_used_again(tool):
    """The next command starts a keeper anew."""
    first = parent_of(tool)
    tool.close()
    assert first != parent_of(tool)


@pytest.mark.parametrize("then", ["", "import time; time.sleep(60)"])
def test_nothing_leaves_the_tree(then):
    """A process that sheds session, group and environment is ended with the command, by itself or at the limit."""
    with CommandTool(timeout=1) as tool:
        result = tool([sys.executable, "-c", FUGITIVE + then])
        assert result.termination_reason == ("timeout" if then else "exited")
        assert (result.survivors, result.proof) == ([], "subreaper")
        assert not helpers.alive(int(result.stdout))


def test_orphans_of_one_command_are_not_those_of_another(tool):
    """While two run side by side, the end of the one leaves what the other has left behind alone."""
    pids = {}
    begun = threading.Event()

    def show(chunk):
        pids["fugitive"] = int(bytes(chunk))
        begun.set()

    slow = [sys.executable, "-c", FUGITIVE + "import time; time.sleep(2)"]
    thread = threading.Thread(target=lambda: tool(slow, began=lambda live: live.tap("stdout", show)))
    thread.start()
    begun.wait(10)
    assert tool([sys.executable, "-c", FUGITIVE]).termination_reason == "exited"
    assert helpers.alive(pids["fugitive"])
    thread.join()
    assert not helpers.alive(pids["fugitive"])


class TestLost:
    """A keeper may be lost."""

    def test_between_two_calls(self, tool):
        """The next command starts a new one."""
        keeper = parent_of(tool)
        os.kill(keeper, signal.SIGKILL)
        helpers.wait_until(lambda: not helpers.alive(keeper))
        result = tool(["sh", "-c", "echo $PPID; exit 3"])
        assert (result.termination_reason, result.exit_code) == ("exited", 3)
        assert int(result.stdout) != keeper
        assert helpers.stat(keeper) is None or helpers.stat(keeper)[1] != os.getpid()

    def test_during_a_call(self, tool):
        """The command goes on, its output is told, and no exit code is made up."""
        result = tool(
            ["sh", "-c", "sleep 0.4; echo done; exit 3"],
            began=lambda live: os.kill(helpers.stat(live.pid)[1], signal.SIGKILL),
        )
        assert result.stdout == "done\n"
        assert (result.termination_reason, result.exit_code) in (("exited", 3), ("unknown", None))
        assert tool(["echo", "next"]).stdout == "next\n"

    def test_others_go_on(self, tool):
        """A command that was running when the keeper was lost is not disturbed by the next one's keeper."""
        results = []
        begun = threading.Event()

        def began(live):
            keeper = helpers.stat(live.pid)[1]
            os.kill(keeper, signal.SIGKILL)
            helpers.wait_until(lambda: not helpers.alive(keeper))
            begun.set()

        argv = ["sh", "-c", "sleep 0.8; echo done"]
        thread = threading.Thread(target=lambda: results.append(tool(argv, began=began)))
        thread.start()
        assert begun.wait(10)
        assert tool(["echo", "next"]).stdout == "next\n"
        assert thread.is_alive()
        thread.join()
        assert results[0].stdout == "done\n"
        assert results[0].termination_reason in ("exited", "unknown")

    def test_while_it_is_asked(self, tool, monkeypatch):
        """A command that may have been started is not started again: that is a result, and the next call works."""

        def lost(self, launch, run_id=""):
            raise KeeperError("the keeper is gone")

        tool(["true"])
        with monkeypatch.context() as patch:
            patch.setattr(Keeper, "spawn", lost)
            result = tool(["true"])
        assert (result.termination_reason, result.message) == ("spawn_failed", "the keeper is gone")
        assert tool(["true"]).ok

    @pytest.mark.parametrize("where", ["start", "runs"])
    def test_none_can_be_started(self, monkeypatch, where):
        """Where no keeper can be had the tool works without one, and says so."""

        def none(*words, **options):
            raise KeeperError("no keeper here")

        monkeypatch.setattr(Keeper, where, none)
        with CommandTool(timeout=1) as tool:
            assert int(tool(PARENT).stdout) == os.getpid()
            result = tool(["sh", "-c", "sleep 30 & echo $!; sleep 30"], cwd="/")
            assert (result.termination_reason, result.proof) == ("timeout", "group+marker")
            assert not helpers.alive(int(result.stdout))


class TestEnd:
    """Nothing outlives the program that made the tool."""

    def test_close_ends_what_runs(self, tool):
        """A command that runs when the tool is closed is told as cancelled."""
        results = []
        begun = threading.Event()
        argv = ["sh", "-c", "echo partial; sleep 60"]

        def began(live):
            live.tap("stdout", lambda chunk: begun.set())

        thread = threading.Thread(target=lambda: results.append(tool(argv, began=began)))
        thread.start()
        assert begun.wait(10)
        tool.close()
        thread.join()
        assert [(r.termination_reason, r.stdout, r.survivors) for r in results] == [
            ("cancelled", "partial\n", [])
        ]

    def test_a_program_that_is_killed(self):
        """When the program is killed hard, its commands and their keeper end."""
        script = (
            "import longwatch, os\n"
            "def began(live): print(live.pid, flush=True)\n"
            "longwatch.CommandTool()(['sh', '-c', 'sleep 60 & sleep 60'], began=began)"
        )
        argv = [sys.executable, "-c", script]
        with helpers.ending(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)) as popen:
            command = int(popen.stdout.readline())
            keeper = helpers.stat(command)[1]
            helpers.wait_until(lambda: len(helpers.descendants(command)) == 2)
            below = [keeper, command, *helpers.descendants(command)]
            popen.kill()
            popen.wait()
        helpers.wait_until(lambda: not [pid for pid in below if helpers.alive(pid)])

    def test_a_tool_that_is_forgotten(self):
        """A program that never closes its tool, and one that drops it, leaves no keeper behind."""
        tool = CommandTool()
        keeper = parent_of(tool)
        del tool
        helpers.wait_until(lambda: not helpers.alive(keeper))
        script = "import longwatch\nprint(longwatch.CommandTool()(['sh', '-c', 'echo $PPID']).stdout)"
        done = helpers.run_command([sys.executable, "-W", "error", "-c", script], measured=False)
        assert (done.code, done.err) == (0, "")
        helpers.wait_until(lambda: not helpers.alive(int(done.out)))

    def test_after_a_fork(self):
        """A forked process has a keeper of its own, and that of its parent stays."""
        script = (
            "import longwatch, os\n"
            "tool = longwatch.CommandTool()\n"
            "ask = lambda: int(tool(['sh', '-c', 'echo $PPID']).stdout)\n"
            "first = ask()\n"
            "if os.fork() == 0:\n"
            "    assert ask() != first\n"
            "    tool.close()\n"
            "    os._exit(0)\n"
            "assert os.wait()[1] == 0\n"
            "assert ask() == first\n"
        )
        done = helpers.run_command([sys.executable, "-c", script])
        assert (done.code, done.err) == (0, "")

    def test_nothing_is_held_open(self):
        """After many commands, and the close, there are as many descriptors as before."""
        with CommandTool() as tool:
            tool(["true"])
        before = helpers.descriptors()
        with CommandTool(timeout=1) as tool:
            for _ in range(20):
                tool(["true"])
            tool(["no-such-program-here"])
            tool(children.silent())
        assert helpers.descriptors() <= before
