"""The calls that Python does not wrap, or wraps in a module of its own: prctl(2), tee(2), one of fcntl(2), memmem(3).

`ctypes` costs 2 ms to import, the C module behind it a third of that. It is private to CPython, so a Python
without it, or with another one, gets the package.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PR_SET_CHILD_SUBREAPER = 36
_F_SETPIPE_SZ = 1031

try:
    import _ctypes

    if TYPE_CHECKING:
        _Simple = _ctypes._SimpleCData[int]  # noqa: SLF001
    else:
        _Simple = _ctypes._SimpleCData  # noqa: SLF001

    class _Long(_Simple):
        """A C long, the result of all calls."""

        _type_ = "l"

    class _Char(_Simple):
        """One byte of a buffer, by which its address is known."""

        _type_ = "c"

    class _Function(_ctypes.CFuncPtr):  # type: ignore[misc,name-defined,unused-ignore]
        """A C function that leaves errno where `get_errno` finds it."""

        _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
        _restype_ = _Long

    _get_errno = _ctypes.get_errno
    _handle = _ctypes.dlopen(None, os.RTLD_NOW)  # type: ignore[arg-type]

    def _find(name: str) -> "Callable[..., int] | None":
        try:
            return _Function(_ctypes.dlsym(_handle, name))  # type: ignore[no-any-return,unused-ignore]
        except OSError:
            return None

    _memmem = _find("memmem")

except (ImportError, AttributeError, TypeError):  # pragma: no cover - another Python
    import ctypes

    _library = ctypes.CDLL(None, use_errno=True)
    _get_errno = ctypes.get_errno

    def _find(name: str) -> "Callable[..., int] | None":
        return getattr(_library, name, None)

    _memmem = None


_LINUX = sys.platform == "linux"
_fcntl = _find("fcntl") if _LINUX else None
_tee = _find("tee") if _LINUX else None
CAN_TEE = _tee is not None


def tee(source: int, target: int, size: int, flags: int) -> int:
    """Copy up to `size` bytes from one pipe to another without consuming them; return how many.

    0 means the end of the source. Raises BlockingIOError with SPLICE_F_NONBLOCK when the source is empty or the
    target full, which the kernel does not tell apart, and OSError for the rest.
    """
    assert _tee is not None
    copied = _tee(source, target, size, flags)
    if copied < 0:
        error = _get_errno()
        raise OSError(error, os.strerror(error))
    return copied


def memmem(buffer: bytearray, size: int, needle: bytes) -> int:
    """Return where `needle` begins within the first `size` bytes of a buffer; -1: nowhere.

    The C library's search is half again as fast as the one of bytearray.
    """
    if _memmem is None:
        return buffer.find(needle, 0, size)
    begin = _ctypes.addressof(_Char.from_buffer(buffer))
    found = _memmem(_Long(begin), _Long(size), needle, _Long(len(needle)))
    return found - begin if found else -1


def set_pipe_size(fd: int, size: int) -> bool:
    """Make a pipe hold `size` bytes. False where the kernel cannot, or will not (a quota of all of a user's pipes)."""
    return _fcntl is not None and _fcntl(fd, _F_SETPIPE_SZ, size) > 0


def become_subreaper() -> bool:
    """Have orphans of our tree handed to us instead of to init. False where the kernel cannot, or will not."""
    prctl = _find("prctl") if _LINUX else None
    return prctl is not None and prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
