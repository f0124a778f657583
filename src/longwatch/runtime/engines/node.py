"""What stands beside a runner on its node: starts it, holds the line that it lives by, and answers for it.

Under Ray it is the state of an actor, on this machine of the bridge. It is killed at any moment: then the line ends.
"""

import json
import os
import select
import socket
import subprocess
import sys
import threading

from longwatch import __version__
from longwatch.core.fencing import margin
from longwatch.posix import now
from longwatch.posix.atomic import replace
from longwatch.posix.identity import boot_id, signal_verified
from longwatch.runtime import runfiles
from longwatch.runtime.engines import protocol, sweeping
from longwatch.runtime.engines.protocol import BUNDLE, EVENTS, OUTPUT, REFUSED, RESULT, EngineError
from longwatch.runtime.runfiles import CONTROL, EXIT, STATE, STOP

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from collections.abc import Mapping
    from typing import Any

    from longwatch.runtime.engines.protocol import Handle, Told
else:
    import _signal

#: How long a runner may take to be there, in seconds: a cold file server is the slowest.
START_LIMIT = 120
#: How long the answer of a runner is waited for before it is called silent, in ms.
ANSWER = 2_000
_FILES = {RESULT: runfiles.RESULT, BUNDLE: runfiles.BUNDLE, EVENTS: runfiles.EVENTS}


def hello() -> "Told":
    """Say who we are, and an instant of the clock that leases here are measured on."""
    return {
        "stamp": now(), "host": os.uname().nodename, "boot": boot_id(), "version": __version__,
        "python": f"{sys.version_info.major}.{sys.version_info.minor}", "node": "",
    }  # fmt: skip


class Placed:
    """One runner, as its node knows it."""

    def __init__(self, folder: str = "") -> None:
        self.folder = folder
        self._line: socket.socket | None = None
        self._lock = threading.Lock()

    # -- the five calls

    def start(
        self, spec: "Mapping[str, Any]", files: "Mapping[str, bytes]", stamp: int, lease: int, *, detached: bool,
    ) -> "Handle":  # fmt: skip
        """Start the runner; its first lease counts from `stamp`. Raises EngineError."""
        if now() >= stamp + lease:
            raise EngineError("it was asked for so late that its lease was over before it began")
        base = spec.get("root") or sweeping.root()
        folder = sweeping.run_folder(base, spec["run"])
        for name, data in files.items():
            self._deliver(os.path.join(base, "plans", spec["key"], "files"), name, data)
        self._run({**spec, "root": base, "until": stamp + lease}, folder, lease, detached=detached)
        self.folder = folder
        return {"folder": folder, "lease": lease, **hello()}

    def renew(self, since: int, stamp: int, lease: int, wait: int) -> "Told":
        """Move the lease to stamp + lease; return what there is since then, after `wait` ms at most if that is nothing."""
        until, deadline = stamp + lease, now() + wait
        self._say(f"renew {until}\n".encode())
        acked = self._await_answer(until)
        while True:
            told = self._told(since, acked=acked)
            left = deadline - now()
            if told["exit"] or told["events"] or not told["held"] or left <= 0 or not self._wait(left):
                return told

    def stop(self, reason: str, origin: str | None, grace: int | None) -> "Told":
        """Ask it to end."""
        told = json.dumps({"reason": reason, "origin": origin, "grace": grace}).encode()
        replace(os.path.join(self.folder, STOP), told)
        return {"heard": self._control(b"stop\n")}

    def read(self, stream: str, offset: int, count: int) -> tuple[int, bytes]:
        """Return bytes of a stream, and where they begin."""
        return read(self.folder, stream, offset, count)

    # -- starting

    def _deliver(self, folder: str, name: str, data: bytes) -> None:
        os.makedirs(folder, 0o700, exist_ok=True)
        replace(os.path.join(folder, os.path.basename(name)), data)

    def _run(self, spec: "Mapping[str, Any]", folder: str, lease: int, *, detached: bool) -> None:
        words = [sys.executable, "-m", "longwatch", "runner", "--spec", "-", "--folder", folder]
        words += ["--lease", f"{lease}ms"]
        line, theirs = (None, None) if detached else socket.socketpair()
        passed = () if theirs is None else (theirs.fileno(),)
        words += ["--live-fd", str(theirs.fileno())] if theirs is not None else []
        try:
            done = subprocess.run(
                words, input=json.dumps(spec).encode(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/",
                pass_fds=passed, timeout=START_LIMIT, check=False, start_new_session=True,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineError(f"the runner could not be started: {error}") from error
        finally:
            if theirs is not None:
                theirs.close()
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit {done.returncode}"]
            raise EngineError(said[-1].removeprefix("longwatch: "), REFUSED)
        self._line = line

    # -- talking to it

    def _say(self, line: bytes) -> None:
        if self._line is None:
            self._control(line)
            return
        try:
            self._line.sendall(line)
        except OSError:
            return  # it is over; its folder says how

    def _control(self, line: bytes) -> bool:
        try:
            descriptor = os.open(
                os.path.join(self.folder, CONTROL), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC
            )
        except OSError:
            return False
        try:
            return os.write(descriptor, line) == len(line)
        except OSError:
            return False
        finally:
            os.close(descriptor)

    def _wait(self, limit: int) -> bool:
        """Wait for news; False where nobody would wake us, and the asker looks again."""
        line = self._line
        if line is None:
            return False
        poll = select.poll()
        poll.register(line, select.POLLIN)
        if poll.poll(limit):
            with self._lock:
                try:
                    return bool(line.recv(4096, socket.MSG_DONTWAIT))
                except BlockingIOError:
                    return True  # another call has taken the news
                except OSError:
                    return False
        return True

    def _await_answer(self, until: int) -> bool:
        """Wait until it says that its lease is so long, or that it is over."""
        deadline = now() + ANSWER
        while now() < deadline:
            state = runfiles.read(self.folder, STATE) or {}
            if (state.get("lease_until") or 0) >= until:
                return True
            if state.get("state") == "ended" or not sweeping.is_held(self.folder):
                return False
            if not self._wait(min(50, deadline - now())):
                select.select((), (), (), 0.01)
        self._fence(state)
        return False

    def _fence(self, state: "Mapping[str, Any]") -> None:
        """End a runner that does not see that its own time is over; then its keeper ends the tree."""
        runner = runfiles.identity_in(state, "runner")
        until = state.get("lease_until")
        if runner is not None and until is not None and now() >= until + margin(0):
            signal_verified(runner, _signal.SIGKILL)

    def _told(self, since: int, *, acked: bool) -> "Told":
        # In this order: what is written before the exit record is seen with it.
        held = sweeping.is_held(self.folder)
        ended = runfiles.read(self.folder, EXIT)
        events, upto = runfiles.events_since(self.folder, since)
        return {
            "acked": acked, "held": held, "exit": ended, "events": events, "since": upto, "stamp": now(),
            "state": runfiles.read(self.folder, STATE), "output": runfiles.extent(self.folder),
        }  # fmt: skip


def read(folder: str, stream: str, offset: int, count: int) -> tuple[int, bytes]:
    """Return bytes of a stream of a run, and where they begin."""
    if stream == OUTPUT:
        return runfiles.read_output(folder, offset, count)
    if stream not in _FILES:
        raise EngineError(f"{stream!r} is no stream; there are {', '.join(protocol.STREAMS)}", REFUSED)
    return offset, runfiles.read_piece(os.path.join(folder, _FILES[stream]), offset, count)[0]
