"""Starting programs: connections, dispositions, refusals in one line, and how each one ended."""

import os
import signal
import subprocess
import sys
import threading

import pytest

import helpers
from longwatch.posix import child as child_module
from longwatch.posix.child import adopt
from longwatch.posix.reactor import Reactor
from longwatch.posix.refusal import explain
from longwatch.posix.spawn import (
    INHERIT,
    MERGED,
    NULL,
    PIPE,
    PTY,
    Launch,
    SpawnError,
    reset_dispositions,
    same_file,
    spawn,
)
from longwatch.posix.spawn_in import spawn_in


def read_all(fd, deadline=10.0):
    """Read a non-blocking descriptor to its end and close it."""
    data = []

    def ended():
        try:
            data.append(os.read(fd, 65536))
        except BlockingIOError:
            return False
        except OSError:
            return True
        return not data[-1]

    helpers.wait_until(ended, deadline, "the end of the stream")
    os.close(fd)
    return b"".join(data)


def finish(child, deadline=10.0):
    """Wait for the leader's end, reap it, and give everything back."""
    helpers.wait_until(lambda: child.peek() is not None, deadline, "the end of the child")
    end = child.reap()
    child.close()
    return end


def run(argv, deadline=10.0, start=spawn, **options):
    """Run a command to its end; return how it ended, and what it wrote on stdout and stderr."""
    child = start(Launch(argv, **options))
    texts = [read_all(fd) for fd in (child.stdout_fd, child.stderr_fd, child.master_fd) if fd is not None]
    return finish(child, deadline), *texts


def refuse(argv, start=spawn, **options):
    """Return the status and the explained line of a start that must fail."""
    launch = Launch(argv, **options)
    before = helpers.descriptors()
    with pytest.raises(SpawnError) as caught:
        start(launch)
    assert helpers.descriptors() <= before
    assert "\n" not in str(caught.value)
    better = explain(caught.value, launch)
    return better.status, str(better)


def test_output_and_code():
    """Both streams and the exit code arrive, each where it belongs."""
    assert run(["sh", "-c", "echo out; echo err >&2; exit 3"]) == ((3, None), b"out\n", b"err\n")


def test_death_by_signal():
    """A signal that ended the child is told as such."""
    assert run(["sh", "-c", "kill -TERM $$"]) == ((None, signal.SIGTERM), b"", b"")


def test_merged_keeps_the_order():
    """With one pipe for both streams the order of the writes holds."""
    script = "for i in 1 2 3 4 5; do echo o$i; echo e$i >&2; done"
    end, out = run(["sh", "-c", script], output=MERGED)
    assert end == (0, None)
    assert out == b"".join(b"o%d\ne%d\n" % (i, i) for i in range(1, 6))


def test_inherited_output(capfd):
    """With inherited output the child writes straight to ours, and we hold nothing."""
    child = spawn(Launch(["echo", "direct"], output=INHERIT))
    assert child.stdout_fd is child.stderr_fd is child.master_fd is None
    assert finish(child) == (0, None)
    assert capfd.readouterr().out == "direct\n"


@pytest.mark.fault("C4")
def test_null_stdin_is_at_its_end():
    """With stdin null the child sees end-of-file at once."""
    assert run(["cat"], stdin=NULL) == ((0, None), b"", b"")


def test_stdin_pipe_is_ours_and_does_not_block():
    """What is written to stdin arrives; a full pipe raises instead of blocking."""
    child = spawn(Launch(["cat"], stdin=PIPE))
    assert not os.get_blocking(child.stdin_fd)
    os.write(child.stdin_fd, b"word")
    os.close(child.stdin_fd)
    child.stdin_fd = None
    assert read_all(child.stdout_fd) == b"word"
    assert read_all(child.stderr_fd) == b""
    assert finish(child) == (0, None)


def test_stdin_from_a_descriptor(tmp_path):
    """Any descriptor can be the child's stdin."""
    (tmp_path / "in").write_text("from file")
    with open(tmp_path / "in") as file:
        assert run(["cat"], stdin=file.fileno())[1] == b"from file"


def test_own_session():
    """The child leads a session and group of its own; on request it stays in ours."""
    show = [sys.executable, "-c", "import os; print(os.getpid() == os.getsid(0) == os.getpgrp())"]
    assert run(show)[1] == b"True\n"
    assert run(show, new_session=False)[1] == b"False\n"


def test_no_descriptor_leaks_into_the_child():
    """The child holds nothing but its three standard descriptors, however many others we hold."""
    reactor, other = Reactor(), spawn(Launch(["sleep", "60"], stdin=PIPE))
    script = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:4])"
    out = run([sys.executable, "-c", script])[1]
    # The fourth is the listing itself.
    assert out == b"[0, 1, 2, 3]\n"
    reactor.close()
    os.kill(other.pid, signal.SIGKILL)
    assert finish(other) == (None, signal.SIGKILL)
    os.close(other.stdout_fd)
    os.close(other.stderr_fd)


@pytest.mark.fault("G4")
@pytest.mark.capability("NEW-19")
def test_dispositions_and_mask():
    """From a parent that ignores CHLD, PIPE, HUP and INT and blocks TERM: the code is known, HUP and INT stay
    ignored, the rest is reset, and nothing is blocked.
    """
    script = (
        "import signal\n"
        "from longwatch.posix.reactor import Reactor\n"
        "from longwatch.posix.spawn import *\n"
        "for s in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGHUP, signal.SIGINT, signal.SIGXFSZ):\n"
        "    signal.signal(s, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD])\n"
        "reset_dispositions()\n"
        "c = spawn(Launch(['sh', '-c', STATUS], output='inherit'))\n"
        "r = Reactor(); r.add(c.pidfd, lambda: None); r.poll(10000)\n"
        "print(c.reap())\n"
    )
    # By the shell's own means: while it forks, a shell blocks everything for a moment.
    script = script.replace("STATUS", repr('while read -r l; do echo "$l"; done < /proc/$$/status; exit 7'))
    out = subprocess.check_output([sys.executable, "-c", script], text=True)
    fields = dict(line.split(":", 1) for line in out.splitlines() if line.startswith("Sig"))
    # The C library keeps two for itself above 31.
    ignored = {n for n in range(1, 32) if int(fields["SigIgn"], 16) >> (n - 1) & 1}
    assert ignored == {signal.SIGHUP, signal.SIGINT}
    assert int(fields["SigBlk"], 16) == 0
    assert out.endswith("(7, None)\n")


@pytest.mark.fault("G3", "G4")
def test_a_code_that_was_lost_is_never_zero():
    """With CHLD ignored the kernel throws codes away: it is asked by the pidfd, or the code is unknown, never 0."""
    script = (
        "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "from longwatch.posix.reactor import Reactor\n"
        "from longwatch.posix.spawn import *\n"
        "c = spawn(Launch(['sh', '-c', 'read x; exit 7'], output='inherit', stdin='pipe'))\n"
        "import os; os.write(c.stdin_fd, b'go\\n')\n"
        "r = Reactor(); r.add(c.pidfd, lambda: None); r.poll(10000)\n"
        "print(c.peek(), c.reap())\n"
    )
    out = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert out in ("(7, None) (7, None)\n", "(None, None) (None, None)\n")


@pytest.mark.fault("G3")
def test_a_code_that_somebody_else_took():
    """A careless wait for any child takes the status; the answer is the kernel's or unknown."""
    child = spawn(Launch(["sh", "-c", "exit 9"], output=INHERIT))
    os.waitpid(child.pid, 0)
    assert finish(child) in ((9, None), (None, None))


def test_gone_before_anybody_looked(monkeypatch):
    """A child that was reaped elsewhere before we had a pidfd has ended in an unknown way."""
    child = spawn(Launch(["true"], output=INHERIT))
    os.close(child.pidfd)
    child.pidfd = None
    os.waitpid(child.pid, 0)
    assert finish(child) == (None, None)


def test_unknown_where_the_kernel_does_not_tell(monkeypatch):
    """A kernel that cannot be asked makes it unknown."""
    monkeypatch.setattr(child_module, "_PIDFD_GET_INFO", 0xC040FF7F)
    child = spawn(Launch(["true"], output=INHERIT))
    os.waitpid(child.pid, 0)
    assert finish(child) == (None, None)


def test_peek_leaves_the_leader_unreaped():
    """Until it is reaped the leader stays a zombie, and so pins its group; reaping twice gives the same answer."""
    child = spawn(Launch(["true"], output=INHERIT))
    helpers.wait_until(lambda: child.peek() is not None)
    assert helpers.stat(child.pid)[0] == "Z"
    assert child.identity.pid == child.pid
    assert child.reap() == child.reap() == (0, None)
    assert helpers.stat(child.pid) is None
    child.close()


def test_reaping_a_running_child_is_refused():
    """Nothing here ever waits."""
    child = spawn(Launch(["sleep", "60"], output=INHERIT))
    assert child.peek() is None
    with pytest.raises(RuntimeError):
        child.reap()
    os.kill(child.pid, signal.SIGKILL)
    finish(child)


def test_stopped():
    """A leader in a job-control stop is seen as such, again and again, until it goes on."""
    child = spawn(Launch(["sleep", "60"], output=INHERIT))
    assert not child.stopped()
    os.kill(child.pid, signal.SIGSTOP)
    helpers.wait_until(child.stopped)
    assert child.stopped()
    os.kill(child.pid, signal.SIGCONT)
    helpers.wait_until(lambda: not child.stopped())
    os.kill(child.pid, signal.SIGKILL)
    finish(child)


def test_large_pipes_are_few():
    """Pipes hold 1 MiB while the budget lasts, and a closed child gives its share back."""
    left = child_module.large_pipes.left
    child = spawn(Launch(["true"]))
    assert child_module.large_pipes.left == left - 2
    read_all(child.stdout_fd)
    read_all(child.stderr_fd)
    finish(child)
    assert child_module.large_pipes.left == left


def test_many_children_stay_within_the_pipe_budget(monkeypatch):
    """The budget once spent, further children get ordinary pipes and work as well."""
    import fcntl

    monkeypatch.setattr(child_module.large_pipes, "left", 3)
    children = [spawn(Launch(["echo", str(n)])) for n in range(4)]
    sizes = [fcntl.fcntl(c.stdout_fd, fcntl.F_GETPIPE_SZ) for c in children]
    assert sizes[0] == 1 << 20
    assert sizes[-1] < 1 << 20
    for n, child in enumerate(children):
        assert read_all(child.stdout_fd) == b"%d\n" % n
        read_all(child.stderr_fd)
        finish(child)
    assert child_module.large_pipes.left == 3


def test_a_pipe_of_one_mebibyte_takes_a_burst():
    """A child can write 1 MB and exit before anybody reads."""
    child = spawn(Launch([sys.executable, "-c", "import os; os.write(1, b'x' * 1000000)"]))
    helpers.wait_until(lambda: child.peek() is not None)
    assert len(read_all(child.stdout_fd)) == 1_000_000
    read_all(child.stderr_fd)
    finish(child)


class TestRefusals:
    """Each start that fails is one line, with the status that a shell would give."""

    @pytest.fixture
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        return tmp_path

    def test_not_on_path(self):
        """A name that is nowhere is 127."""
        assert refuse(["no-such-program"]) == (127, "no-such-program: not found on PATH")

    def test_in_this_folder_but_not_on_path(self, folder):
        """A program of that name in this folder is pointed out."""
        (folder / "tool").write_text("#!/bin/sh\n")
        (folder / "tool").chmod(0o755)
        status, line = refuse(["tool"], env={"PATH": "/usr/bin"})
        assert (status, line) == (127, "tool: not found on PATH; the one in this folder is ./tool")

    def test_no_such_path(self):
        """A path that leads nowhere is 127."""
        assert refuse(["/no/such/program"]) == (127, "/no/such/program: not found")

    def test_directory(self, folder):
        """A directory is 126, and called one."""
        (folder / "dir").mkdir()
        assert refuse(["./dir"]) == (126, "./dir: is a directory")

    def test_not_executable(self, folder):
        """A file without the x bit is 126."""
        (folder / "script").write_text("echo")
        assert refuse(["./script"]) == (126, "./script: not executable (try chmod +x)")
        assert refuse(["script"], env={"PATH": str(folder)}) == (126, "script: not executable (try chmod +x)")

    def test_missing_interpreter(self, folder):
        """The missing interpreter of a script is named, a carriage return included."""
        (folder / "script").write_text("#!/no/such/interp -x\n")
        (folder / "script").chmod(0o755)
        assert refuse(["./script"]) == (127, "./script: its interpreter '/no/such/interp' does not exist")
        (folder / "script").write_text("#!/bin/sh\r\n")
        assert refuse(["./script"]) == (127, "./script: its interpreter '/bin/sh\\r' does not exist")

    def test_too_long(self):
        """Arguments that the kernel refuses are 126."""
        status, line = refuse(["echo", "x" * 3_000_000])
        assert (status, line) == (126, "echo: arguments and environment are too long for the kernel")

    def test_no_command(self):
        """Nothing to run is a refusal too."""
        assert refuse([""]) == (127, "there is no command to run")
        assert refuse([]) == (127, "there is no command to run")

    @pytest.mark.parametrize("start", [spawn, spawn_in])
    def test_no_such_folder(self, start):
        """A working directory that is not there is named."""
        status, line = refuse(["true"], start=start, cwd="/no/such/folder")
        assert (status, line) == (126, "/no/such/folder: no such file or directory")

    def test_from_a_threaded_program(self, folder):
        """The start that changes no directory of ours refuses the same."""
        (folder / "dir").mkdir()
        (folder / "script").write_text("#!/no/such/interp\n")
        (folder / "script").chmod(0o755)
        cwd = str(folder)
        assert refuse(["nope"], start=spawn_in, cwd=cwd) == (127, "nope: not found on PATH")
        assert refuse(["./dir"], start=spawn_in, cwd=cwd) == (126, "./dir: is a directory")
        assert refuse(["./script"], start=spawn_in, cwd=cwd)[0] == 127


@pytest.mark.parametrize("start", [spawn, spawn_in])
def test_script_without_a_first_line(tmp_path, start):
    """A script without `#!` is run by the shell, as shells do."""
    script = tmp_path / "script"
    script.write_text("echo shell $1; exit 4\n")
    script.chmod(0o755)
    assert run([str(script), "word"], start=start, cwd=str(tmp_path))[:2] == ((4, None), b"shell word\n")


def test_a_later_folder_may_have_a_better_one(tmp_path):
    """As in a shell, a file on PATH that must not be executed gives way to the next."""
    for name, mode in (("a", 0o644), ("b", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_text("#!/bin/sh\necho $0\n")
        (tmp_path / name / "tool").chmod(mode)
    path = f"{tmp_path}/a:{tmp_path}/b"
    assert run(["tool"], env={"PATH": path})[1] == f"{tmp_path}/b/tool\n".encode()


def test_path_is_the_childs():
    """The program is searched on the PATH that the child will have, not on ours."""
    assert refuse(["true"], env={"PATH": "/nowhere"})[0] == 127


@pytest.mark.parametrize("start", [spawn, spawn_in])
@pytest.mark.parametrize("output", ["pipes", "merged", "pty"])
def test_working_directory(tmp_path, start, output):
    """The child starts in its directory, relative programs are found there, and ours has not changed."""
    before = os.getcwd()
    (tmp_path / "tool").write_text("#!/bin/sh\npwd -P; tty <&1 >/dev/null && echo tty\n")
    (tmp_path / "tool").chmod(0o755)
    out = run(["./tool"], start=start, cwd=str(tmp_path), output=output)[1]
    lines = out.decode().split()
    assert lines[0] == os.path.realpath(tmp_path)
    assert ("tty" in lines) == (output == "pty")
    assert os.getcwd() == before


@pytest.mark.parametrize("stdin", [NULL, PIPE, INHERIT])
def test_start_in_a_folder_connects_alike(tmp_path, stdin):
    """The start for threaded programs gives the same connections, reaped by us alone."""
    child = spawn_in(Launch(["sh", "-c", "echo out; echo err >&2; exit 5"], cwd=str(tmp_path), stdin=stdin))
    assert read_all(child.stdout_fd) == b"out\n"
    assert read_all(child.stderr_fd) == b"err\n"
    assert helpers.wait_until(child.peek) == (5, None)
    # Another Popen would collect leftovers of dropped ones.
    subprocess.run(["true"], check=True)
    assert finish(child) == (5, None)


@pytest.mark.fault("N1")
def test_pty_end_is_no_error():
    """A child on a PTY that prints a word and exits 3: the word arrives, the end is an end, the code is 3."""
    end, out = run(["sh", "-c", "echo word; exit 3"], output=PTY)
    assert (end, out) == ((3, None), b"word\r\n")


@pytest.mark.fault("N3")
@pytest.mark.parametrize(("size", "shown"), [((33, 101), b"33 101"), (None, b"24 80")])
def test_pty_has_its_size_before_the_start(size, shown):
    """The first thing the child sees is the size that it was given, or 24x80 when nobody knows one."""
    assert run(["stty", "size"], output=PTY, size=size)[1] == shown + b"\r\n"


def test_pty_is_the_controlling_terminal():
    """The child can open /dev/tty, and all three descriptors are the terminal."""
    script = "echo via >/dev/tty; test -t 0 && test -t 1 && test -t 2 && echo all"
    assert run(["sh", "-c", script], output=PTY)[1] == b"via\r\nall\r\n"


def test_pty_with_null_stdin():
    """On a PTY stdin can be null all the same."""
    assert run(["sh", "-c", "cat; test -t 0 || echo no tty; tty <&1"], output=PTY, stdin=NULL)[1].startswith(
        b"no tty"
    )


def test_pty_copies_settings():
    """The child's terminal begins with the settings of the given one."""
    import termios

    master, slave = os.openpty()
    settings = termios.tcgetattr(slave)
    settings[6][termios.VERASE] = b"\x08"
    settings[0] |= 0o40000  # IUTF8, which the module does not name
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    out = run(["stty", "-a"], output=PTY, like=slave)[1]
    assert b"erase = ^H" in out
    assert b" iutf8" in out
    # What is no terminal is no error.
    assert run(["true"], output=PTY, like=os.open(os.devnull, os.O_RDONLY))[0] == (0, None)
    os.close(master)
    os.close(slave)


def test_master_does_not_leak_and_hangs_up():
    """Our master is closed in the child, so that closing ours hangs the terminal up."""
    child = spawn(Launch(["sleep", "60"], output=PTY))
    os.close(child.master_fd)
    assert finish(child) == (None, signal.SIGHUP)


class TestAdopt:
    """A process that somebody else started can be watched like one of ours."""

    def test_popen(self):
        """The owner's poll reaps; his pipe stays blocking, and what comes through it can be read by us."""
        with subprocess.Popen(["sh", "-c", "echo word; exit 6"], stdout=subprocess.PIPE) as popen:
            child = adopt(popen.pid, popen.stdout.fileno(), reaper=popen.poll)
            assert read_all(child.stdout_fd) == b"word\n"
            assert os.get_blocking(popen.stdout.fileno())
            assert finish(child) == (6, None)
            assert popen.returncode == 6

    def test_popen_killed(self):
        """A signal's negative return code becomes a signal."""
        with subprocess.Popen(["sleep", "60"]) as popen:
            child = adopt(popen.pid, reaper=popen.poll)
            assert child.peek() is None
            popen.kill()
            assert finish(child) == (None, signal.SIGKILL)

    def test_no_child_of_ours(self):
        """A stranger's end is noticed; how it ended the kernel tells or nobody knows."""
        with subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE) as popen:
            pid = int(popen.stdout.readline())
            child = adopt(pid)
            assert child.peek() is None
            assert not child.stopped()
            os.kill(pid, signal.SIGKILL)
            assert finish(child) in ((None, signal.SIGKILL), (None, None))

    def test_nobody(self):
        """A pid that is free is refused."""
        popen = subprocess.Popen(["true"])
        popen.wait()
        with pytest.raises(ProcessLookupError):
            adopt(popen.pid)

    def test_socket(self):
        """What cannot be opened anew is shared, and made non-blocking."""
        import socket

        ours, theirs = socket.socketpair()
        with ours, theirs, subprocess.Popen(["echo", "x"], stdout=theirs) as popen:
            child = adopt(popen.pid, ours.fileno(), reaper=popen.poll)
            assert helpers.wait_until(lambda: finish(child)) == (0, None)
            assert os.read(child.stdout_fd, 10) == b"x\n"
            os.close(child.stdout_fd)


def test_same_file(tmp_path):
    """Two descriptors of one pipe's end, terminal or file are the same; others and closed ones are not."""
    one, two = os.pipe()
    copy = os.dup(two)
    assert same_file(two, copy)
    other = os.open(tmp_path / "x", os.O_CREAT | os.O_WRONLY)
    assert not same_file(two, other)
    for fd in (one, two, copy, other):
        os.close(fd)
    assert not same_file(copy, two)


def test_threads_may_start_programs_in_folders(tmp_path):
    """Several threads start programs in different folders at once, and each lands where it should."""
    found = {}

    def start(name):
        (tmp_path / name).mkdir()
        found[name] = run(["pwd"], start=spawn_in, cwd=str(tmp_path / name))[1].decode().strip()

    threads = [threading.Thread(target=start, args=(f"d{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {f"d{n}": str(tmp_path / f"d{n}") for n in range(6)}


def test_reset_dispositions_is_harmless_here():
    """Nothing blocked, CHLD at its default: resetting changes nothing."""
    reset_dispositions()
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
