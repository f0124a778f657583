"""What `doctor` looks at: one function per finding. Each tries the thing itself instead of reading versions."""

import errno
import fcntl
import os
import platform
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from typing import NamedTuple

from longwatch import paths
from longwatch.posix import libc
from longwatch.units import format_size

FINE, WEAKER, WRONG = "fine", "weaker", "wrong"
PIPE = 1 << 20
PAGE = os.sysconf("SC_PAGE_SIZE")
#: Three pipes or a terminal, a pidfd and a log: what one supervised program takes of us.
DESCRIPTORS_PER_RUN = 5
FEW_DESCRIPTORS = 64
#: _IOWR(0xFF, 11, 64 bytes): the kernel fills in what it knows of the process.
_PIDFD_GET_INFO, _PIDFD_INFO_SIZE = 0xC040FF0B, 64


class Finding(NamedTuple):
    """What a check found: fine, weaker or wrong; the detail; what to do next (None: nothing)."""

    status: str
    detail: str
    next: str | None = None


def python() -> Finding:
    """Look at the interpreter."""
    text = f"{platform.python_implementation()} {platform.python_version()} ({sys.executable})"
    if sys.version_info >= (3, 14):
        return Finding(WEAKER, f"{text}: newer than what longwatch is tested with")
    return Finding(FINE, text)


def system() -> Finding:
    """Look at the operating system."""
    text = f"{platform.system()} {platform.release()}"
    if platform.system() == "Linux":
        return Finding(FINE, text)
    return Finding(WEAKER, f"{text}: best effort", "on Linux a stop is a proof")


def pidfd() -> Finding:
    """Try to open a descriptor for a process."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        return Finding(
            WEAKER, f"not available ({_reason(error)}): ends are noticed by signal", "needs Linux 5.3"
        )
    return Finding(FINE, "ends are noticed without polling")


def pidfd_info() -> Finding:
    """Ask a process descriptor about its process."""
    try:
        with _closing(os.pidfd_open(os.getpid())) as descriptor:
            fcntl.ioctl(descriptor, _PIDFD_GET_INFO, bytearray(_PIDFD_INFO_SIZE))
    except (AttributeError, OSError) as error:
        return Finding(
            WEAKER, f"not available ({_reason(error)}): an exit code that another reaper took stays unknown"
        )
    return Finding(FINE, "exit codes that another reaper took can be asked for")


def subreaper() -> Finding:
    """Ask to be handed the orphans of our tree, which this process never has."""
    if libc.become_subreaper():
        return Finding(FINE, "no process of a run can leave its tree")
    return Finding(WEAKER, "refused: a stop rests on process groups and a marker in the environment")


def tee_and_splice() -> Finding:
    """Move a byte from pipe to pipe inside the kernel."""
    try:
        with _pipe() as (source, feed), _pipe() as (end, target):
            os.write(feed, b"x")
            works = libc.CAN_TEE and libc.tee(source, target, 1, 0) == os.splice(source, target, 1) == 1
            os.read(end, 2)
    except (AttributeError, OSError) as error:
        return Finding(
            WEAKER, f"not available ({_reason(error)}): a flood of output is copied through memory"
        )
    return Finding(FINE if works else WEAKER, "a flood of output passes at kernel speed")


def children_files() -> Finding:
    """Look for the kernel's list of a process' children."""
    if os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        return Finding(FINE, "a tree is walked from its root")
    return Finding(WEAKER, "no /proc/PID/task/TID/children: all processes are looked at instead")


def cgroup_kill() -> Finding:
    """Look for a control group that is ours to kill."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="replace") as file:
            own = [line.rstrip("\n")[3:] for line in file if line.startswith("0::")]
    except OSError as error:
        return Finding(WEAKER, f"no control groups ({_reason(error)})")
    folder = os.path.normpath("/sys/fs/cgroup" + own[0]) if own else ""
    if not os.path.exists(os.path.join(folder, "cgroup.kill")):
        return Finding(WEAKER, "no cgroup v2 with cgroup.kill here; a stop does not need it")
    if not os.access(folder, os.W_OK):
        return Finding(WEAKER, f"{folder} is not delegated to this user; a stop does not need it")
    return Finding(FINE, folder)


def open_files() -> Finding:
    """Count the descriptors we may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return Finding(FINE, "no limit")
    text = f"{soft} descriptors, enough for about {soft // DESCRIPTORS_PER_RUN} programs at once"
    if soft < FEW_DESCRIPTORS:
        return Finding(WRONG, text, f"ulimit -n {min(1024, hard) if hard > 0 else 1024}")
    return Finding(FINE, text)


def pipes() -> Finding:
    """Make a pipe of 1 MiB, and count how many this user may have."""
    quota = number("/proc/sys/fs/pipe-user-pages-soft")
    if quota is None:
        return Finding(WEAKER, "the system's own size: no quota to read")
    many = f"{quota * PAGE // PIPE} of 1 MiB fit this user's quota" if quota else "no quota"
    if os.geteuid() == 0:
        many += " (root is exempt)"
    try:
        with _pipe() as (end, _):
            fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, PIPE)
    except OSError as error:
        advice = "close programs that hold pipes, or raise fs.pipe-user-pages-soft and fs.pipe-max-size"
        return Finding(WEAKER, f"{many}, but one of 1 MiB was refused now ({_reason(error)})", advice)
    return Finding(FINE, many)


def state_folder() -> Finding:
    """Look at ledger, spool, run folders and logs."""
    return _folder(paths.state())


def config_folder() -> Finding:
    """Look at the user's configuration."""
    return _folder(paths.config())


def runtime_folder() -> Finding:
    """Look at the place of sockets and locks."""
    folder = paths.runtime()
    return (
        Finding(WEAKER, "XDG_RUNTIME_DIR is not set: sockets go to the state folder")
        if not folder
        else _folder(folder)
    )


def packages() -> Finding:
    """Look at what is installed of the extra `all` and of what every verb needs."""
    needed, extra = _requirements(None), _requirements("all")
    have = {name: _version(name) for name in (*needed, *extra)}
    text = ", ".join(f"{name} {version or 'missing'}" for name, version in have.items())
    if any(have[name] is None for name in needed):
        return Finding(WRONG, text, install_command("longwatch"))
    if any(have[name] is None for name in extra):
        return Finding(WEAKER, text, install_command("longwatch[all]"))
    return Finding(FINE, text)


def install_command(what: str) -> str:
    """Return the command with which the installer in use installs `what`: pip, uv, pipx or a uv tool."""
    if f"{os.sep}pipx{os.sep}" in sys.prefix:
        return f"pipx install --force '{what}'"
    if f"{os.sep}uv{os.sep}tools{os.sep}" in sys.prefix:
        return f"uv tool install '{what}'"
    if _installer() == "uv":
        return f"uv pip install --python {sys.executable} '{what}'"
    return f"{sys.executable} -m pip install '{what}'"


def _installer() -> str:
    with suppress(metadata.PackageNotFoundError):
        return (metadata.distribution("longwatch").read_text("INSTALLER") or "pip").strip()
    return "pip"


def _requirements(extra: str | None) -> list[str]:
    """Return the names that longwatch itself requires, or those that an extra adds."""
    try:
        rows = metadata.requires("longwatch") or []
    except metadata.PackageNotFoundError:
        return []
    found = []
    for row in rows:
        words, _, marker = row.partition(";")
        wanted = "extra" not in marker if extra is None else f'extra == "{extra}"' in marker.replace("'", '"')
        if wanted:
            end = next((at for at, c in enumerate(words) if c in "<>=!~ [("), len(words))
            found.append(words[:end])
    return found


def _version(name: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


def _folder(folder: str) -> Finding:
    if os.path.isdir(folder):
        size = format_size(_size_of(folder))
        if os.access(folder, os.W_OK | os.X_OK):
            return Finding(FINE, f"{folder}, {size}")
        return Finding(
            WRONG,
            f"{folder}, {size}: not writable",
            f"chmod u+rwx {folder}, or choose another by XDG variables",
        )
    above = folder
    while not os.path.exists(above):
        above = os.path.dirname(above)
    if os.path.isdir(above) and os.access(above, os.W_OK | os.X_OK):
        return Finding(FINE, f"{folder}, not made yet")
    return Finding(
        WRONG, f"{folder} cannot be made: {above} is not a writable folder", f"make {above} writable"
    )


def _size_of(folder: str) -> int:
    size = 0
    for at, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(at, name)).st_size
    return size


def number(path: str) -> int | None:
    """Return the number in a file of the kernel; None where there is none."""
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno:
        return errno.errorcode.get(error.errno, str(error.errno))
    return "no such call"


@contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    try:
        yield reader, writer
    finally:
        os.close(reader)
        os.close(writer)
