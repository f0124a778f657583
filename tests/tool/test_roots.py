"""Where a model may start commands: real paths, judged by what was opened and not by a name."""

import os
from pathlib import Path

import pytest

import helpers
from longwatch.errors import UsageError
from longwatch.tool import roots
from longwatch.tool.roots import Refusal, Roots

pytestmark = pytest.mark.capability("CAP-70")


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """Return a root with a folder, a file, a link that stays inside and one that leads out."""
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "file").write_text("")
    (root / "near").symlink_to("sub")
    (root / "out").symlink_to("/")
    return root


@pytest.mark.parametrize(
    ("cwd", "found"),
    [(None, ""), (".", ""), ("sub", "sub"), ("sub/..", ""), ("near", "sub"), ("out/../{root}", "")],
)
def test_inside(inside: Path, cwd: str | None, found: str) -> None:
    """Inside is what really is below a root, however it is written; the path that is handed on leads there."""
    asked = None if cwd is None else cwd.format(root=str(inside)[1:])
    with Roots([str(inside)]).open(asked) as folder:
        assert folder.real == str(inside / found).rstrip("/")
        assert os.path.samefile(folder.path, folder.real)


def test_absolute_and_second_root(inside: Path, tmp_path: Path) -> None:
    """An absolute path may be in any root; a relative one begins in the first."""
    other = tmp_path / "other"
    other.mkdir()
    found = Roots([str(inside), str(other), str(inside)])
    assert found.paths == (str(inside), str(other))
    with found.open(str(other)) as folder:
        assert folder.real == str(other)
    with pytest.raises(Refusal, match="no such file"):
        found.open("other")


@pytest.mark.parametrize(
    "cwd", ["/", "..", "sub/../..", "out", "out/etc", "/nowhere/at/all", "../rootless", "../no"]
)
def test_outside(inside: Path, cwd: str) -> None:
    """Outside is refused in one line that names the roots, and does not tell what is there."""
    (inside.parent / "rootless").mkdir()
    with pytest.raises(Refusal) as refusal:
        Roots([str(inside)]).open(cwd)
    assert str(refusal.value) == (
        f"cwd {cwd} is outside of what this server may use; name a folder in {inside}"
    )


@pytest.mark.parametrize(
    ("cwd", "message"),
    [
        ("nope", "cwd nope: no such file or directory; make it first, or leave cwd out"),
        ("file", "cwd file: not a directory; name another, or leave cwd out"),
        ("", "cwd '' names no folder; leave it out for "),
        ("a\0b", r"cwd 'a\x00b' names no folder; leave it out for "),
        ("\ud800", r"cwd '\ud800' is no path"),
    ],
)
def test_no_folder(inside: Path, cwd: str, message: str) -> None:
    """What is no folder is refused with what to do next."""
    with pytest.raises(Refusal) as refusal:
        Roots([str(inside)]).open(cwd)
    assert str(refusal.value).startswith(message)


def test_a_link_that_is_swapped_while_we_look(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is the folder that was opened: a link that is changed afterwards changes nothing."""
    real_open = os.open

    def swap(path: str, flags: int) -> int:
        fd = real_open(path, flags)
        (inside / "near").unlink()
        (inside / "near").symlink_to("/etc")
        return fd

    with monkeypatch.context() as patch:
        patch.setattr(roots.os, "open", swap)
        folder = Roots([str(inside)]).open("near")
    with folder:
        assert os.path.samefile(folder.path, inside / "sub")


def test_a_root_that_becomes_a_link(inside: Path) -> None:
    """A root is where it was when the server started, not what its name leads to later."""
    found = Roots([str(inside)])
    inside.rename(inside.parent / "moved")
    inside.symlink_to("/etc")
    with pytest.raises(Refusal, match="outside"):
        found.open()


def test_a_folder_that_is_removed_while_we_look(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is gone by the time it is judged is refused, and nothing stays open."""
    real_open = os.open

    def remove(path: str, flags: int) -> int:
        fd = real_open(path, flags)
        (inside / "sub").rmdir()
        return fd

    before = helpers.descriptors()
    with monkeypatch.context() as patch:
        patch.setattr(roots.os, "open", remove)
        with pytest.raises(Refusal, match="removed just now"):
            Roots([str(inside)]).open("sub")
    assert helpers.descriptors() <= before


def test_without_proc_the_name_is_judged(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a descriptor has no name to be read, the real path of what was asked for counts."""

    def refuse(path: str) -> str:
        raise FileNotFoundError(path)

    found = Roots([str(inside)])
    monkeypatch.setattr(roots.os, "readlink", refuse)
    with found.open("sub") as folder:
        assert folder.path == folder.real == str(inside / "sub")
    monkeypatch.undo()


def test_the_root_of_everything() -> None:
    """The file system itself can be a root."""
    with Roots(["/"]).open("/etc") as folder:
        assert folder.real == os.path.realpath("/etc")


@pytest.mark.parametrize("name", ["nope", "file"])
def test_a_root_that_is_no_folder(inside: Path, name: str) -> None:
    """A root has to be there when the server starts."""
    with pytest.raises(UsageError, match="no such folder; name one that exists"):
        Roots([str(inside / name)])


def test_a_folder_is_given_back(inside: Path) -> None:
    """Leaving the block closes what was held open."""
    before = helpers.descriptors()
    with Roots([str(inside)]).open():
        assert len(helpers.descriptors() - before) == 1
    assert helpers.descriptors() <= before
