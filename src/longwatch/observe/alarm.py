"""Wakes whoever follows many files: one inotify descriptor for all of them, asleep while nothing is written.

An alarm only makes a look come sooner. It hears nothing of what other machines write on a network file system, and a
user's watches are limited, so a slow round of looks stays behind it. `run`, which looks when a limit comes due, does
without: the package looks for the C library by starting programs, and after its start `run` may load nothing.
"""

import os
from collections.abc import Iterable

from inotify_simple import INotify, flags

_MASK = flags.MODIFY | flags.CREATE | flags.MOVED_TO | flags.DELETE | flags.ONLYDIR


class Alarm:
    """Watches the folders of files; its descriptor is readable when one of the files may have changed."""

    def __init__(self) -> None:
        self._inotify = INotify(nonblocking=True)
        self._folders: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._paths: set[str] = set()

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return int(self._inotify.fileno())

    def watch(self, path: str) -> bool:
        """Ring when the file changes, appears or goes. False where that cannot be had: then only looking helps."""
        folder = os.path.dirname(path)
        if folder not in self._watches:
            try:
                watch = int(self._inotify.add_watch(folder, _MASK))
            except OSError:
                return False
            self._watches[folder] = watch
            self._folders[watch] = folder
        self._paths.add(path)
        return True

    def changed(self) -> Iterable[str]:
        """Return the watched files that may have changed since the last call. Never blocks.

        All of them when the kernel lost count. A folder that is gone is not watched any more: `watch` anew.
        """
        found: set[str] = set()
        for event in self._inotify.read(timeout=0):
            if event.mask & flags.Q_OVERFLOW:
                return set(self._paths)
            folder = self._folders.get(event.wd, "")
            if event.mask & flags.IGNORED:
                self._forget(event.wd)
                found |= {path for path in self._paths if os.path.dirname(path) == folder}
            else:
                found.add(f"{folder}/{event.name}")
        return found & self._paths

    def close(self) -> None:
        """Give the descriptor back."""
        self._inotify.close()

    def _forget(self, watch: int) -> None:
        folder = self._folders.pop(watch, None)
        if folder is not None:
            del self._watches[folder]
