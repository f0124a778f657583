"""What belongs to a run's processes: the files they write, where they work, and who works beside them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import ending
from longwatch.posix import now
from longwatch.posix.belongings import Belongings, Worker, plays
from longwatch.posix.identity import identity
from longwatch.posix.tree import Tree

HOLD = """
import subprocess, sys, time
if sys.argv[1:] == ["again"]:
    sys.exit(subprocess.call([sys.executable, sys.argv[0]]))
files = [open(name, mode) for name, mode in zip(sys.argv[1::2], sys.argv[2::2])]
print(flush=True)
time.sleep(60)
"""
WRAPPER = ("sh", "-c", '"$0" "$@"; true')


def program(folder: Path, name: str) -> Path:
    """Return a program of this name that holds files open."""
    path = folder / name
    path.write_text(HOLD)
    return path


def start(
    path: Path, *files: object, folder: Path, wrapper: tuple[str, ...] = ()
) -> "subprocess.Popen[bytes]":
    """Start it in a folder and in a session of its own, and wait until it has its files."""
    words = [*wrapper, sys.executable, path, *map(str, files)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, cwd=folder, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


def belongings(process: "subprocess.Popen[bytes]") -> Belongings:
    """Return what belongs to the run that a process leads."""
    who = identity(process.pid)
    assert who is not None
    return Belongings(Tree(who, "none-000000", subreaper=False))


def anything(path: str) -> bool:
    """Want every file."""
    return True


def test_files_open_for_writing(tmp_path: Path) -> None:
    """The files that a process of the run, also a child, holds open for writing are told; what it reads is not."""
    for name in ("read", "write", "append", "both"):
        (tmp_path / name).touch()
    files = [
        tmp_path / "read",
        "r",
        tmp_path / "write",
        "w",
        tmp_path / "append",
        "a",
        tmp_path / "both",
        "r+",
    ]
    with ending(start(program(tmp_path, "agent"), *files, folder=tmp_path, wrapper=WRAPPER)) as process:
        found = belongings(process)
        wanted = [str(tmp_path / name) for name in ("write", "append", "both")]
        assert sorted(set(found.written(anything)) & {str(path) for path in files}) == sorted(wanted)
        assert found.written(lambda path: path.endswith("both")) == [str(tmp_path / "both")]
        assert len(found.members()) == 2
        # The shell is gone, its child is not: that is ended by its group.
        os.killpg(process.pid, 9)


def test_members(tmp_path: Path) -> None:
    """Each process of the run is known with its start on the watch's clock, its folder and its words."""
    path = program(tmp_path, "agent")
    before = now()
    with ending(start(path, folder=tmp_path)) as process:
        (member,) = belongings(process).members()
        assert (member.pid, member.parent, member.folder) == (process.pid, os.getpid(), str(tmp_path))
        assert before - 20 <= member.started <= now()
        assert member.words == [sys.executable, str(path)]
        who = identity(process.pid)
        assert who is not None
        assert member.ticks == who.start
        assert member.plays(["agent"])
        assert not member.plays(["other"])
        assert isinstance(member, Worker)


def test_who_works_beside(tmp_path: Path) -> None:
    """Others of the same program in the same folder are found; ours, other programs and other folders are not."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    agent, other = program(tmp_path, "agent"), program(tmp_path, "other")
    with (
        ending(start(agent, folder=here)) as ours,
        ending(start(agent, folder=here)) as rival,
        ending(start(agent, folder=there)),
        ending(start(other, folder=here)),
    ):
        found = belongings(ours)
        assert [worker.pid for worker in found.beside(["agent"], [str(here)])] == [rival.pid]
        assert list(found.beside(["agent"], [])) == []


@pytest.mark.parametrize("wrapper", [(), WRAPPER], ids=["bare", "wrapped"])
def test_an_agent_that_starts_itself_anew(tmp_path: Path, wrapper: tuple[str, ...]) -> None:
    """A program that has started itself anew, and a wrapper around it, are one worker; ours are none."""
    agent = program(tmp_path, "agent")
    with (
        ending(start(agent, "again", folder=tmp_path, wrapper=wrapper)) as ours,
        ending(start(agent, "again", folder=tmp_path, wrapper=wrapper)) as rival,
    ):
        (worker,) = belongings(ours).beside(["agent"], [str(tmp_path)])
        assert os.getpgid(worker.pid) == rival.pid
        assert worker.words[-1] == "again"
        for process in (ours, rival):
            os.killpg(process.pid, 9)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["/usr/bin/agent", "-p", "go"], True),
        (["agent"], True),
        (["/usr/bin/node", "--max-old-space-size=1", "/x/bin/agent", "go"], True),
        (["/usr/bin/python3.11", "/x/agent"], True),
        (["python3"], False),
        (["timeout", "25", "/x/agent"], False),
        (["python3", "/usr/bin/longwatch", "run", "agent"], False),
        (["vim", "agent"], False),
        (["sh", "-c", "agent -p go"], False),
        ([], False),
    ],
)
def test_which_program(words: list[str], expected: bool) -> None:
    """A program is known by its name among the first words, behind interpreters and wrappers."""
    assert plays(words, ["agent"]) is expected


def test_the_dead_have_nothing(tmp_path: Path) -> None:
    """Of a process that is gone nothing is told, and nothing raised."""
    with ending(start(program(tmp_path, "agent"), folder=tmp_path)) as process:
        found = belongings(process)
    assert found.members() == []
    assert found.written(anything) == []


def test_descriptors_that_may_not_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose descriptors vanish, or are not ours to see, holds nothing that we know of."""
    path = tmp_path / "file"
    with ending(start(program(tmp_path, "agent"), path, "w", folder=tmp_path)) as process:
        found = belongings(process)
        readlink, listdir = os.readlink, os.listdir

        def gone(link: str) -> str:
            if "/fd/" in link:
                raise FileNotFoundError
            return readlink(link)

        with monkeypatch.context() as patch:
            patch.setattr(os, "readlink", gone)
            assert found.written(anything) == []

        def denied(folder: str) -> list[str]:
            if str(folder).endswith("/fd"):
                raise PermissionError
            return listdir(folder)

        monkeypatch.setattr(os, "listdir", denied)
        assert found.written(anything) == []
