"""Files as signs of progress: how long one was not written, and whether any of a pattern changed."""

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: One look at a pattern goes no further than so many entries of folders.
MOST = 10_000


def file_idle_since(path: str | os.PathLike[str], idle_seconds: float) -> bool:
    """Return whether a file was last written at least `idle_seconds` ago.

    A file whose time lies in the future (another machine's clock, a restored backup) was not idle. Raises OSError
    when there is no such file or it cannot be looked at: that is no verdict. Raises ValueError for a negative span
    or one that is no number.
    """
    if not idle_seconds >= 0:
        raise ValueError(f"an idle span is at least 0 seconds, not {idle_seconds}")
    age = time.time_ns() - os.stat(path).st_mtime_ns
    return age >= 0 and age >= idle_seconds * 1e9


def readable(data: bytes) -> int:
    """Return a descriptor that gives these bytes and then the end, however many: nobody has to feed it."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("longwatch", os.MFD_CLOEXEC)
    else:  # pragma: no cover - macOS
        path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"longwatch-{os.urandom(8).hex()}")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink(path)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


class FileSource:
    """Watches the files of `file:PATTERN` for changes; `*`, `?` and `**` mean what they mean in a shell.

    What is there at the start is the baseline and says nothing: the source is `seen` once something changed after
    it. A new file counts, and any other size, time or inode of one that was there (so does a truncation, and a file
    put in another's place); a file that goes does not.
    """

    __slots__ = ("_marks", "_newest", "name", "pattern", "seen")

    def __init__(self, source: str) -> None:
        self.name = source
        self.pattern = os.path.abspath(os.path.expanduser(source.removeprefix("file:")))
        self.seen = False
        self._marks: set[int] = set()
        self._newest = 0
        try:
            self._look()
        except OSError:
            return  # not there yet, or not readable yet: so much the less has been seen

    def sample(self) -> bool:
        """Return whether anything changed since the last look.

        Raises OSError while files that were seen are all gone, or the pattern's folders may not be read.
        """
        changed = self._look()
        self.seen = self.seen or changed
        return changed

    def _look(self) -> bool:
        walk = Walk(self.pattern)
        marks, newest = set(), 0
        for path in walk:
            try:
                found = os.stat(path)
            except FileNotFoundError:
                continue
            marks.add(hash((path, found.st_ino, found.st_size, found.st_mtime_ns)))
            newest = max(newest, found.st_mtime_ns)
        if not marks and walk.denied is not None:
            raise walk.denied
        if not marks and self.seen:
            raise FileNotFoundError(f"nothing matches {self.pattern} any more")
        # Of a folder too large to be looked through, each look may meet other files: only the newest time is sure.
        changed = newest > self._newest if walk.left <= 0 else not marks <= self._marks
        self._marks, self._newest = marks, newest
        return changed


class Walk:
    """Yields the paths that match a pattern, looking at `most` entries of folders at most.

    Afterwards `left` is 0 when there were more, and `denied` the error of a folder that may not be read, if any.
    """

    __slots__ = ("denied", "left", "pattern")

    def __init__(self, pattern: str, most: int = MOST) -> None:
        self.pattern = pattern
        self.left = most
        self.denied: OSError | None = None

    def __iter__(self) -> "Iterator[str]":
        parts = [part for part in self.pattern.split("/") if part]
        if parts[-1:] == ["**"]:
            parts.append("*")
        return self._below("/" if self.pattern.startswith("/") else "", parts)

    def _below(self, folder: str, parts: list[str]) -> "Iterator[str]":
        part, rest = parts[0], parts[1:]
        if part == "**":
            yield from self._below(folder, rest)
            for entry in self._entries(folder):
                if entry.name[0] != "." and entry.is_dir(follow_symlinks=False):
                    yield from self._below(entry.path + "/", parts)
        elif "*" not in part and "?" not in part:
            path = folder + part
            if rest:
                yield from self._below(path + "/", rest)
            else:
                yield path
        else:
            for entry in self._entries(folder):
                if not matches(entry.name, part):
                    continue
                if not rest:
                    yield entry.path
                elif entry.is_dir():
                    yield from self._below(entry.path + "/", rest)

    def _entries(self, folder: str) -> "Iterator[os.DirEntry[str]]":
        try:
            entries = os.scandir(folder or ".")
        except PermissionError as error:
            self.denied = error
            return
        except (FileNotFoundError, NotADirectoryError):
            return
        with entries:
            for entry in entries:
                if self.left <= 0:
                    return
                self.left -= 1
                yield entry


def matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern of `*` and `?`; as in a shell, a leading dot must be written."""
    if name.startswith(".") and not pattern.startswith("."):
        return False
    at = here = 0
    star, resume = -1, 0
    while at < len(name):
        if here < len(pattern) and pattern[here] == "*":
            star, resume = here, at
            here += 1
        elif here < len(pattern) and pattern[here] in ("?", name[at]):
            here += 1
            at += 1
        elif star >= 0:  # let the last star take one more
            resume += 1
            here, at = star + 1, resume
        else:
            return False
    return pattern[here:].strip("*") == ""
