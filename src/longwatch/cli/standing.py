"""What `doctor` looks at beyond the machine: the file, its daemon and keeper, the record of runs, what outlives a log-out."""

import ctypes
import os
import pwd
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cached_property
from typing import TYPE_CHECKING, Any

from longwatch import __version__, paths
from longwatch.cli.machine import FINE, WEAKER, WRONG, Finding, number
from longwatch.config.finding import find
from longwatch.errors import LongwatchError, UsageError
from longwatch.store.ledger import journal_mode
from longwatch.units import format_size

if TYPE_CHECKING:
    from longwatch.api.client import Daemon

LINGER = "/var/lib/systemd/linger"
SYSTEMD = "/run/systemd/system"
#: Each watched transcript and config file takes one; an editor takes thousands.
FEW_WATCHES = 8_192
_DAMAGED = "longwatch runs sets a damaged file aside, and takes over what can be read of it"
#: Paths hold one handle each in the kernel; a daemon needs one instance, and so does every `run` with a transcript.
_INOTIFY = "/proc/sys/fs/inotify"


class Place:
    """The file that is meant, and the daemon that runs it, each asked for once."""

    def __init__(self, config: str | None) -> None:
        self.named = config

    @cached_property
    def path(self) -> str | None:
        """The file; None where there is none. Raises UsageError where one was named that is not there."""
        try:
            return find(self.named, os.environ, os.getcwd())
        except UsageError:
            if self.named is not None:
                raise
            return None

    @cached_property
    def daemon(self) -> "Daemon | Finding":
        """The daemon that listens, or what there is instead."""
        from longwatch.api import client, finding  # noqa: PLC0415 - only what asks a daemon loads it

        if self.path is None:
            return Finding(FINE, "no file, no daemon")
        try:
            return finding.find(self.path, paths.state(), os.environ)
        except client.NoDaemonError:
            return Finding(FINE, f"none runs for {self.path}; longwatch up starts it")
        except LongwatchError as error:
            return Finding(WRONG, str(error))

    @cached_property
    def answer(self) -> "dict[str, Any] | Exception":
        """What the daemon says of itself and its harnesses, or the error that came instead."""
        from longwatch.api.client import DaemonError  # noqa: PLC0415

        assert not isinstance(self.daemon, Finding)
        try:
            return self.daemon.status()
        except DaemonError as error:
            return error

    @property
    def holder(self) -> "dict[str, Any] | None":
        """What a living process that has the lock of this file said of itself when it began."""
        from longwatch.api.finding import running  # noqa: PLC0415

        mine = "" if self.path is None else paths.daemon_id(self.path)
        return next((told for told in running(paths.state()) if told["id"] == mine), None)


def file(place: Place) -> Finding:
    """Read the file as the daemon would."""
    from longwatch.config.files import load  # noqa: PLC0415 - the model takes its time

    if place.path is None:
        return Finding(FINE, "no longwatch.toml here or above; longwatch init writes a first one")
    loaded = load(place.path)
    if loaded.errors:
        many = f"{len(loaded.errors)} errors" if len(loaded.errors) > 1 else str(loaded.errors[0])
        return Finding(WRONG, f"{place.path}: {many}", "longwatch config check")
    return Finding(FINE, f"{place.path}: {_count(len(loaded.harnesses), 'harness', 'harnesses')}")


def daemon(place: Place) -> Finding:
    """Ask the daemon how it is."""
    if isinstance(place.daemon, Finding):
        holder = place.holder
        if place.daemon.status == FINE and holder is not None:
            advice = f"kill {holder['pid']} (its harnesses live on), then longwatch up"
            return Finding(
                WRONG, f"pid {holder['pid']} has the lock of {place.path} and does not listen", advice
            )
        return place.daemon
    if isinstance(place.answer, Exception):
        return Finding(WRONG, str(place.answer))
    told = place.answer.get("daemon") or {}
    text = f"pid {told.get('pid')}, longwatch {told.get('version')}, {place.daemon.path}"
    if told.get("problems"):
        return Finding(WEAKER, f"{text}: {'; '.join(map(str, told['problems']))}")
    if told.get("version") != __version__:
        return Finding(WEAKER, f"{text}; this is {__version__}", "longwatch up --replace")
    return Finding(FINE, text)


def keeper(place: Place) -> Finding:
    """Look for the process that the harnesses are children of."""
    if isinstance(place.daemon, Finding) or isinstance(place.answer, Exception):
        return Finding(FINE, "not asked: no daemon answers")
    pid = (place.answer.get("daemon") or {}).get("keeper_pid")
    if pid is None:
        return Finding(
            WEAKER, "there is none: harnesses are watched by identity, their exit codes stay unknown"
        )
    if not os.path.exists(f"/proc/{pid}"):
        return Finding(WRONG, f"pid {pid} is gone", "longwatch restart the harnesses that matter")
    return Finding(FINE, f"pid {pid}: harnesses outlive the daemon")


def linger(_place: Place) -> Finding:
    """See whether what the user started outlives the user's last session."""
    user = pwd.getpwuid(os.getuid()).pw_name
    if not os.path.isdir(SYSTEMD):
        return Finding(FINE, "no systemd: nobody ends what outlives a log-out")
    if os.geteuid() == 0 or os.path.exists(os.path.join(LINGER, user)):
        return Finding(FINE, f"what {user} runs outlives a log-out")
    return Finding(
        WEAKER, f"all that {user} runs may end with the last log-out", f"loginctl enable-linger {user}"
    )


def inotify(_place: Place) -> Finding:
    """Make an instance, and read how many watches there may be."""
    watches, instances = number(f"{_INOTIFY}/max_user_watches"), number(f"{_INOTIFY}/max_user_instances")
    if watches is None:
        return Finding(WEAKER, "not here: transcripts are looked at now and then")
    text = f"{watches} watches, {instances} instances for this user"
    fd = ctypes.CDLL(None).inotify_init1(os.O_CLOEXEC)
    if fd < 0:
        return Finding(WEAKER, f"{text}, and none is left", "sysctl fs.inotify.max_user_instances=1024")
    os.close(fd)
    if watches < FEW_WATCHES:
        return Finding(WEAKER, f"{text}: few beside an editor", "sysctl fs.inotify.max_user_watches=524288")
    return Finding(FINE, text)


def ledger(_place: Place) -> Finding:
    """Look at SQLite, and at the file of past runs as it is."""
    wanted = journal_mode(sqlite3.sqlite_version_info)
    text = f"SQLite {sqlite3.sqlite_version}, journal {wanted}"
    path = os.path.join(paths.state(), "ledger.sqlite3")
    if not os.path.exists(path):
        return Finding(FINE, f"{text}, no ledger yet")
    size = format_size(os.path.getsize(path))
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1)) as db:
            (mode,) = db.execute("PRAGMA journal_mode").fetchone()
            (good,) = db.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        return Finding(WRONG, f"{text}; {path}, {size}: {error}", _DAMAGED)
    if good != "ok":
        return Finding(WRONG, f"{text}; {path}, {size}: {good}", _DAMAGED)
    return Finding(FINE, f"{text}; {path}, {size}, {'write-ahead' if mode == 'wal' else 'rollback'} journal")


def notices(place: Place) -> dict[str, Finding]:
    """Have the daemon send a test by every channel; return how each went."""
    from longwatch.api.client import DaemonError  # noqa: PLC0415

    if isinstance(place.daemon, Finding):
        return {"notices": place.daemon._replace(status=WRONG)}
    try:
        told = place.daemon.notify_test()
    except DaemonError as error:
        return {"notices": Finding(WRONG, str(error))}
    if not told.get("channels"):
        return {
            "notices": Finding(
                WRONG,
                str(told.get("error") or "no channel"),
                'in the file: [notify], then hook = ["/path/of/a/command"]',
            )
        }
    return {f"notify {one['channel']}": _delivered(one) for one in told["channels"]}


def _delivered(told: "dict[str, Any]") -> Finding:
    took = f" in {told['ms']} ms" if "ms" in told else ""
    if told.get("ok"):
        return Finding(FINE, f"delivered{took}")
    return Finding(WRONG, f"{told.get('result') or 'error'}{took}: {told.get('error')}")


def _count(many: int, one: str, several: str) -> str:
    return f"{many} {one if many == 1 else several}"


#: What is looked at, in the order in which it is told.
CHECKS: dict[str, Callable[[Place], Finding]] = {
    "file": file, "daemon": daemon, "keeper": keeper, "linger": linger, "inotify": inotify, "ledger": ledger,
}  # fmt: skip
