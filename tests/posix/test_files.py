"""Files as signs of progress: idle files, and sources that change or do not."""

import os
import time
from pathlib import Path

import pytest

from longwatch.posix import files
from longwatch.posix.files import FileSource, Walk, file_idle_since, matches, readable

NOW = 1_700_000_000


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that was last written ten seconds ago."""
    path = tmp_path / "file"
    path.write_text("x")
    os.utime(path, (NOW - 10, NOW - 10))
    monkeypatch.setattr(time, "time_ns", lambda: NOW * 1_000_000_000)
    return path


@pytest.mark.capability("CAP-15")
@pytest.mark.parametrize(("seconds", "idle"), [(5, True), (60, False), (10, True), (10.5, False), (0, True)])
def test_a_file_is_idle_from_its_age_on(seconds: float, idle: bool, written: Path) -> None:
    """A file of ten seconds is idle for five, not for sixty, and for exactly ten."""
    assert file_idle_since(written, seconds) is idle
    assert file_idle_since(str(written), seconds) is idle


@pytest.mark.capability("CAP-16")
@pytest.mark.parametrize("seconds", [0, 5])
def test_a_file_from_the_future_is_not_idle(seconds: float, written: Path) -> None:
    """A time that lies ahead says nothing about idleness."""
    os.utime(written, (NOW + 10, NOW + 10))
    assert file_idle_since(written, seconds) is False


@pytest.mark.capability("CAP-16")
def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    """No file, no verdict."""
    with pytest.raises(FileNotFoundError):
        file_idle_since(tmp_path / "none", 5)


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_a_span_that_is_none_is_refused(seconds: float, written: Path) -> None:
    """A negative span, or one that is no number, is the caller's mistake."""
    with pytest.raises(ValueError, match="at least 0 seconds"):
        file_idle_since(written, seconds)


@pytest.mark.parametrize("fallback", [False, True])
def test_bytes_are_given_to_a_reader_with_their_end(fallback: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of bytes can be read from the descriptor, then the end, and no file stays."""
    if fallback:
        monkeypatch.delattr(os, "memfd_create")
    data = os.urandom(100_000)
    fd = readable(data)
    with open(fd, "rb") as file:
        assert file.read() == data
        assert os.fstat(fd).st_nlink == 0 or not fallback


# Sources


@pytest.mark.fault("B7")
def test_a_file_that_nobody_writes_is_never_seen(tmp_path: Path) -> None:
    """A heartbeat file that is missing or was there all along says nothing, and is no error."""
    (tmp_path / "old").write_text("from before")
    for name in ("old", "none", "*.none", "folder/none"):
        source = FileSource(f"file:{tmp_path}/{name}")
        assert [source.sample() for _ in range(3)] == [False] * 3
        assert not source.seen
        assert source.name == f"file:{tmp_path}/{name}"


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("more")


def truncate(path: Path) -> None:
    os.truncate(path, 0)


def touch(path: Path) -> None:
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


def replace(path: Path) -> None:
    other = path.with_name(".new")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(0, path.stat().st_mtime_ns))
    other.rename(path)


def add(path: Path) -> None:
    path.with_name("b.log").write_text("")


@pytest.mark.parametrize("change", [append, truncate, touch, replace, add])
def test_every_way_of_writing_is_a_change(change: object, tmp_path: Path) -> None:
    """Growth, truncation, a newer time, replacement, and a new file count once each, from the start on."""
    path = tmp_path / "a.log"
    path.write_text("some")
    source = FileSource(f"file:{tmp_path}/*.log")
    change(path)  # type: ignore[operator]
    assert source.sample() is True
    assert source.seen
    assert source.sample() is False


def test_a_file_that_goes_is_no_change_until_all_are_gone(tmp_path: Path) -> None:
    """Removing files is no progress; when none is left that was seen, the source cannot be read."""
    source = FileSource(f"file:{tmp_path}/*.log")
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text("x")
    assert source.sample() is True
    (tmp_path / "a.log").unlink()
    assert source.sample() is False
    (tmp_path / "b.log").unlink()
    with pytest.raises(FileNotFoundError, match=r"nothing matches .*/\*\.log any more"):
        source.sample()
    (tmp_path / "b.log").write_text("y")
    assert source.sample() is True


def test_a_folder_that_may_not_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A forbidden folder is told apart from an empty one, and does not hide what else can be read."""
    (tmp_path / "open").mkdir()
    (tmp_path / "shut").mkdir()
    real = os.scandir

    def scandir(path: str) -> object:
        if path.rstrip("/").endswith("shut"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError):
        FileSource(f"file:{tmp_path}/shut/*").sample()
    both = FileSource(f"file:{tmp_path}/*/*")
    (tmp_path / "open" / "file").write_text("x")
    assert both.sample() is True


def test_of_a_folder_too_large_only_newer_files_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where not all entries are looked at, meeting others than last time is no change; a newer file is."""
    monkeypatch.setattr(files, "Walk", lambda pattern: Walk(pattern, 3))
    for number in range(5):
        (tmp_path / f"{number}.log").write_text("x")
        os.utime(tmp_path / f"{number}.log", (NOW, NOW))
    source = FileSource(f"file:{tmp_path}/*.log")
    assert source.sample() is False
    met = list(Walk(f"{tmp_path}/*.log", 3))
    assert len(met) == 3
    Path(met[0]).unlink()
    assert source.sample() is False
    os.utime(met[1], (NOW + 1, NOW + 1))
    assert source.sample() is True


def test_a_relative_pattern_and_the_home_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pattern means the folder we were in when it was given, and `~` the user's home."""
    monkeypatch.chdir(tmp_path)
    source = FileSource("file:out/*.txt")
    home = FileSource("file:~/beat")
    monkeypatch.chdir("/")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.txt").write_text("x")
    assert source.sample() is True
    Path("~/beat").expanduser().write_text("x")
    assert home.sample() is True


# Patterns


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a.log", ["a.log"]),
        ("missing", ["missing"]),
        ("*.log", ["a.log"]),
        ("?.log", ["a.log"]),
        ("sub/*", ["sub/deep", "sub/x.log"]),
        ("*/*.log", ["sub/x.log"]),
        ("**/*.log", ["a.log", "sub/deep/y.log", "sub/x.log"]),
        ("**/deep/*", ["sub/deep/y.log"]),
        ("sub/**", ["sub/deep", "sub/deep/y.log", "sub/x.log"]),
        (".*", [".hidden"]),
        ("a.log/*", []),
        ("none/*", []),
    ],
)
def test_patterns_mean_what_they_mean_in_a_shell(pattern: str, found: list[str], tmp_path: Path) -> None:
    """`*` and `?` stay within a name and skip hidden ones, `**` is any depth, links are not followed by it."""
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    for name in ("a.log", "sub/x.log", "sub/deep/y.log", ".hidden/z.log"):
        (tmp_path / name).write_text("")
    assert sorted(os.path.relpath(path, tmp_path) for path in Walk(f"{tmp_path}/{pattern}")) == found


@pytest.mark.parametrize(
    ("name", "pattern", "match"),
    [
        ("abc", "abc", True),
        ("abc", "a*c", True),
        ("abcbc", "a*bc", True),
        ("abcb", "a*bc", False),
        ("abc", "***", True),
        ("abc", "ab?d", False),
        ("abc", "ab", False),
        ("ab", "abc", False),
        ("a[1]", "a[1]", True),
        ("a" * 40, "*a" * 20 + "b", False),
        (".a", "*", False),
        (".a", ".?", True),
    ],
)
def test_names_match_patterns(name: str, pattern: str, match: bool) -> None:
    """Stars take as little as they can and as much as they must, in bounded time."""
    assert matches(name, pattern) is match
