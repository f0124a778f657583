"""Where the files live: config, state and runtime folders after XDG, and the names inside the state folder.

    STATE/runs/ID/{meta.json,clocks,events.jsonl,report.json,channel}
    STATE/spool/YYYY-MM-DD.jsonl
    STATE/ledger.sqlite3
    STATE/daemons/ID/{lock,daemon.json,intent.json,holds.json,log.jsonl,logs/,payloads/}
    RUNTIME/ID/{api.sock,keeper.sock}    (beside the lock where the machine has no runtime folder)

All folders are made 0700. Only macOS asks `platformdirs`, and only where no XDG variable is set.
"""

import os
import sys
import time
from binascii import crc32

from longwatch.errors import StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LONGEST_NAME = 40
#: Of a folder's name in the id of a daemon: its sockets have to stay short.
_LONGEST_DAEMON = 16
#: What the kernel takes of a Unix socket's path (108 bytes on Linux, 104 on macOS, each with a final zero).
_LONGEST_SOCKET = 103
_SUFFIX = 6
#: Crockford's base32 without the letters that look like digits: six of them are told apart on a phone.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def state(environ: "Mapping[str, str]" = os.environ) -> str:
    """Return the folder of ledger, spool and run folders; it need not exist yet."""
    return _folder(environ, "XDG_STATE_HOME", ".local/state", "user_state_dir")


def config(environ: "Mapping[str, str]" = os.environ) -> str:
    """Return the folder of the user's configuration; it need not exist yet."""
    return _folder(environ, "XDG_CONFIG_HOME", ".config", "user_config_dir")


def runtime(environ: "Mapping[str, str]" = os.environ) -> str | None:
    """Return the folder of sockets and locks; None on a machine that has no runtime folder."""
    base = environ.get("XDG_RUNTIME_DIR", "")
    return os.path.join(base, "longwatch") if os.path.isabs(base) else None


def _folder(environ: "Mapping[str, str]", variable: str, below_home: str, platformdirs_name: str) -> str:
    # The XDG specification: a relative path is invalid and must be ignored.
    base = environ.get(variable, "")
    if os.path.isabs(base):
        return os.path.join(base, "longwatch")
    if sys.platform == "darwin":
        import platformdirs  # noqa: PLC0415

        return str(getattr(platformdirs, platformdirs_name)("longwatch", appauthor=False))
    home = environ.get("HOME") or os.path.expanduser("~")
    return os.path.abspath(os.path.join(home, below_home, "longwatch"))


def ensure(folder: str) -> str:
    """Make a folder and its parents, 0700 each, and return it; an existing one is left as it is.

    Raises StoreError with one line when that is impossible (read-only, full, a file in the way).
    """
    # makedirs gives its mode to the last folder only; XDG wants 0700 for all that we create.
    missing = []
    above = folder
    while not os.path.isdir(above) and above != os.path.dirname(above):
        missing.append(above)
        above = os.path.dirname(above)
    try:
        for name in reversed(missing):
            _mkdir(name)
    except OSError as error:
        raise StoreError(f"{folder}: cannot make this folder: {error.strerror}") from error
    return folder


def _mkdir(folder: str) -> None:
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:  # two runs start on a new machine
        if not os.path.isdir(folder):
            raise


def safe_name(text: str) -> str:
    """Return a run's name as it stands in ids and paths: the basename, safe characters, 40 at most, never empty."""
    base = os.path.basename(text.rstrip("/"))
    kept = "".join(c if c in _SAFE else "-" for c in base)[:_LONGEST_NAME]
    return kept.strip("-.") or "run"


def new_run_id(name: str) -> str:
    """Return NAME-xxxxxx: the name cut to safe characters, six random ones behind it."""
    return safe_name(name) + "-" + "".join(_ALPHABET[byte % 32] for byte in os.urandom(_SUFFIX))


def name_of(run_id: str) -> str:
    """Return the NAME of a run id."""
    return run_id[: -_SUFFIX - 1]


def is_run_id(text: str) -> bool:
    """Whether a text has the form of a run id: only then may it become part of a path."""
    name, dash, suffix = text[: -_SUFFIX - 1], text[-_SUFFIX - 1 : -_SUFFIX], text[-_SUFFIX:]
    return dash == "-" and safe_name(name) == name and all(c in _ALPHABET for c in suffix)


def inner_id(marker: str) -> str:
    """Return the id that a marker `outer/inner` names: the innermost."""
    return marker.rpartition("/")[2]


def runs_folder(state_folder: str) -> str:
    """Return the folder of all run folders."""
    return os.path.join(state_folder, "runs")


def run_folder(state_folder: str, run_id: str) -> str:
    """Return the folder of one run, by its id or its marker. Raises StoreError for what is no id."""
    inner = inner_id(run_id)
    if not is_run_id(inner):
        raise StoreError(f"{run_id!r} is no run id")
    return os.path.join(state_folder, "runs", inner)


def daemon_id(config_file: str) -> str:
    """Return the id of the daemon of a configuration file: its folder's name, and what tells equal names apart."""
    whole = os.path.realpath(config_file)
    return f"{safe_name(os.path.dirname(whole) or 'root')[:_LONGEST_DAEMON]}-{crc32(os.fsencode(whole)):08x}"


def daemon_folder(state_folder: str, daemon: str) -> str:
    """Return the folder of what one daemon remembers."""
    return os.path.join(state_folder, "daemons", daemon)


def sockets(daemon: str, state_folder: str, environ: "Mapping[str, str]" = os.environ) -> str:
    """Return the folder of a daemon's sockets. Raises StoreError where the path of one would be too long."""
    base = runtime(environ)
    folder = daemon_folder(state_folder, daemon) if base is None else os.path.join(base, daemon)
    if not fits_socket(os.path.join(folder, "keeper.sock")):
        raise StoreError(f"{folder}: too long for a socket's path; set XDG_RUNTIME_DIR to a shorter folder")
    return folder


def fits_socket(path: str) -> bool:
    """Whether a path is short enough for a socket."""
    return len(os.fsencode(path)) <= _LONGEST_SOCKET


def rfc3339(milliseconds: int) -> str:
    """Return a wall-clock instant in ms since 1970 as RFC 3339 in UTC with milliseconds."""
    seconds, rest = divmod(milliseconds, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"
