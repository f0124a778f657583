"""Which daemons live, and where the one of a file listens: each says so itself in a file of its folder."""

import json
import os
from collections.abc import Mapping

from longwatch.api.client import UP, Answer, Daemon
from longwatch.api.failures import NoDaemonError
from longwatch.errors import StoreError
from longwatch.paths import daemon_folder, daemon_id, sockets
from longwatch.posix.supervisor import lives


def find(config_file: str, state: str, environ: Mapping[str, str] = os.environ) -> "Daemon":
    """Return the daemon of a configuration file. Raises NoDaemonError where there is none."""
    name = daemon_id(config_file)
    told = _told(os.path.join(daemon_folder(state, name), "daemon.json"))
    path = told.get("socket")
    if not isinstance(
        path, str
    ):  # it says so itself, for its environment may have been another one than ours
        try:
            path = os.path.join(sockets(name, state, environ), "api.sock")
        except StoreError as error:
            raise NoDaemonError(str(error)) from error
    daemon = Daemon(path)
    if told and not lives(told):
        raise NoDaemonError(f"the daemon of {config_file} has ended; {UP}")
    try:
        daemon.connect().close()
    except NoDaemonError:
        raise NoDaemonError(f"no daemon runs for {config_file}; {UP}") from None
    return daemon


def running(state: str) -> list[Answer]:
    """Return what the daemons of this user that live say of themselves: `id`, `config`, `pid`, `socket`."""
    folder = os.path.dirname(daemon_folder(state, "x"))
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    found = [(name, _told(os.path.join(folder, name, "daemon.json"))) for name in names]
    return [{"id": name, **told} for name, told in found if told and lives(told)]


def file_of(daemon: str, state: str) -> str:
    """Return the configuration file of a daemon, living or not, by its id; the id itself where none is written down."""
    return str(_told(os.path.join(daemon_folder(state, daemon), "daemon.json")).get("config") or daemon)


def _told(path: str) -> Answer:
    try:
        with open(path, "rb") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
