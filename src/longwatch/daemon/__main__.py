"""`python -m longwatch.daemon`: be the supervisor of one file's harnesses. `longwatch up` starts it.

--config PATH    the file
--ready-fd N     a descriptor that gets one line of JSON when all is up, or when it cannot be: {"ready": true, ...}
                 or {"error": TEXT, "status": N}; closed then
--foreground     say what happens on stderr, too
--replace        have the daemon that runs by this file let go of everything first, and go on in its place
"""

import gc
import os
import sys
import time

from longwatch.daemon.app import App, ConfigError
from longwatch.daemon.lock import Taken
from longwatch.daemon.replace import replaced
from longwatch.errors import LongwatchError
from longwatch.jsonlean import dumps
from longwatch.posix.sink import Sink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import NoReturn

_FLAGS = ("--config", "--ready-fd", "--foreground", "--replace")
_VALUED = ("--config", "--ready-fd")


def main(argv: "Sequence[str]") -> "NoReturn":
    """Run until the end of the daemon, and exit."""
    # What is loaded by now stays for good: no collection has to look through it again while a kill is due.
    gc.freeze()
    # Nor does the loop wait 5 ms, as is usual, until the thread that writes the ledger lets it go on.
    sys.setswitchinterval(0.0005)
    words = _words(argv)
    ready = int(words["--ready-fd"]) if "--ready-fd" in words else -1
    if ready >= 0:
        os.set_inheritable(ready, False)
    say = _to_stderr() if "--foreground" in words else None
    try:
        app = _locked(words["--config"], say, replace="--replace" in words)
        try:
            app.start()
        except BaseException:
            app.close()
            raise
    except LongwatchError as error:
        _tell(ready, {"error": str(error), "status": 2 if isinstance(error, ConfigError) else 1})
        if ready < 0 or say is not None:
            sys.stderr.write(f"longwatch: {error}\n")
        sys.exit(2 if isinstance(error, ConfigError) else 1)
    standing = app.standing()
    told = {"ready": True, "socket": os.path.join(app.sockets, "api.sock"), **standing}
    _tell(ready, {**told, "harnesses": len(app.supervisor.services)})
    sys.exit(app.run())


def _locked(config: str, say: "Callable[[str], object] | None", *, replace: bool) -> App:
    """Take the lock; with `replace` have its holder let go of it first."""
    if not replace:
        return App(config, say=say)
    for _ in range(3):
        try:
            return App(config, say=say)
        except Taken as taken:
            replaced(config, taken)
    return App(config, say=say)


def _tell(fd: int, told: "dict[str, object]") -> None:
    if fd < 0:
        return
    try:
        os.write(fd, dumps(told).encode() + b"\n")
        os.close(fd)
    except OSError:
        pass  # who started us has gone


def _to_stderr() -> "Callable[[str], object]":
    sink = Sink(2)

    def say(text: str) -> None:
        moment = time.strftime("%H:%M:%S")
        sink.write(memoryview(f"longwatch {moment} {text}\n".encode()))

    return say


def _words(argv: "Sequence[str]") -> dict[str, str]:
    found: dict[str, str] = {}
    words = list(argv)
    while words:
        flag = words.pop(0)
        if flag not in _FLAGS or (flag in _VALUED and not words):
            sys.stderr.write(f"longwatch.daemon: {flag}: write {' '.join(_FLAGS)}\n")
            sys.exit(2)
        found[flag] = words.pop(0) if flag in _VALUED else ""
    if "--config" not in found:
        sys.stderr.write("longwatch.daemon: --config is missing\n")
        sys.exit(2)
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
