"""Files that are replaced as a whole: whoever reads, at whatever moment somebody is killed, finds the old one or the new."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def replace(path: str, data: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Put `data` in the place of a file, or make it. Raises OSError, and then the old one stands.

    `durable`: it outlives the machine as well, which costs two syncs; without it only every process.
    """
    begun = _written(path, data, mode, durable=durable)
    _renamed(begun, path)
    if durable:
        sync_folder(os.path.dirname(path) or ".")


def replace_several(folder: str, files: "Mapping[str, bytes]", *, mode: int = 0o600) -> dict[str, OSError]:
    """Do so durably for several files of one folder, with a single sync of that; return those that failed, and why."""
    failed: dict[str, OSError] = {}
    for name, data in files.items():
        path = os.path.join(folder, name)
        try:
            _renamed(_written(path, data, mode, durable=True), path)
        except OSError as error:
            failed[name] = error
    sync_folder(folder)
    return failed


def _written(path: str, data: bytes, mode: int, *, durable: bool) -> str:
    """Write the new file beside the old one; return its path."""
    begun = f"{path}.{os.getpid()}.new"
    descriptor = os.open(begun, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        _unlink(begun)
        raise
    return begun


def _renamed(begun: str, path: str) -> None:
    try:
        os.rename(begun, path)
    except OSError:
        _unlink(begun)
        raise


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # it never came to be


def sync_folder(folder: str) -> None:
    """Make a rename last. Some network file systems refuse it, and have no better."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
