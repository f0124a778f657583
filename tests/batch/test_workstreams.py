"""What is kept of workstreams between runs: private, always whole, and never worth a run."""

import json
import os
import select
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from longwatch.posix import atomic
from longwatch.store.workstreams import Workstreams, file_name


@pytest.fixture
def shelf(tmp_path: Path) -> Workstreams:
    return Workstreams(str(tmp_path / "base"))


def state(item: str = "a", lifecycle: str = "running", **more: object) -> dict[str, object]:
    return {"id": item, "lifecycle": lifecycle, "attempt": 1, **more}


@pytest.mark.capability("CAP-43")
def test_what_is_kept_is_private(shelf: Workstreams) -> None:
    """Folders 0700, files 0600, whatever the umask; what was kept comes back, with whether it may be removed."""
    before = os.umask(0)
    try:
        shelf = Workstreams(shelf.base + "-open")
        assert shelf.save(state(lifecycle="completed", exit_code=0))
    finally:
        os.umask(before)
    modes = [
        stat.S_IMODE(os.stat(path).st_mode)
        for path in (shelf.base, os.path.dirname(shelf.path("a")), shelf.path("a"))
    ]
    assert modes == [0o700, 0o700, 0o600]
    found = shelf.load("a")
    assert found is not None
    assert (found["exit_code"], found["cleanup_eligible"], found["schema"]) == (0, True, 1)
    assert found["created_at"] == found["updated_at"]


@pytest.mark.capability("CAP-43")
@pytest.mark.fault("R2")
def test_killed_at_any_moment_the_old_file_or_the_new_one_stands(shelf: Workstreams) -> None:
    """Kill -9 in the middle of busy writing, again and again: the file always loads."""
    writer = (
        "import sys; from longwatch.store.workstreams import Workstreams\n"
        "shelf = Workstreams(sys.argv[1])\n"
        "for number in range(10**9):\n"
        "    shelf.save({'id': 'a', 'lifecycle': 'running', 'attempt': number, 'padding': 'x' * 9000})\n"
        "    if number == 0: print(flush=True)\n"
    )
    seen = -1
    for _ in range(8):
        with subprocess.Popen([sys.executable, "-c", writer, shelf.base], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            for _ in range(3):
                found = shelf.load("a")
                assert found is not None
                seen = max(seen, found["attempt"])
            process.send_signal(signal.SIGKILL)
        assert len(json.dumps(shelf.load("a"))) > 9000
    assert shelf.notes == []


@pytest.mark.capability("CAP-44")
def test_a_missing_file_is_a_fresh_start_without_a_word(shelf: Workstreams) -> None:
    """Nothing is known of an item that never ran."""
    assert shelf.load("a") is None
    assert shelf.notes == []


@pytest.mark.capability("CAP-44")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "Expecting"), ("\0" * 40, "Expecting"), ("[]", "no state"), ('{"id": "b"}', "that of b"),
        ('{"id": "a", "lifecycle": "odd"}', "unknown"), ('{"id": "a", "schema": 2}', "newer"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_said_aloud_and_set_aside(shelf: Workstreams, content: str, why: str) -> None:
    """A fresh start, with an error that names the file and where it went; nothing is overwritten."""
    Path(shelf.path("a")).write_text(content)
    assert shelf.load("a") is None
    (note,) = shelf.notes
    assert note.startswith(f"ERROR {shelf.path('a')} is damaged")
    assert why in note
    aside = note.split("set aside as ")[1].split(",")[0]
    assert Path(aside).read_text() == content
    assert shelf.save(state())


@pytest.mark.capability("CAP-44")
def test_a_state_that_cannot_be_written_is_said_and_costs_nothing_else(shelf: Workstreams) -> None:
    """The run goes on; what stood before still stands."""
    assert shelf.save(state(attempt=1))
    os.mkdir(f"{shelf.path('a')}.{os.getpid()}.new")
    assert not shelf.save(state(attempt=2))
    assert shelf.notes[0].startswith(f"ERROR {shelf.path('a')}: ")
    found = shelf.load("a")
    assert found is not None
    assert found["attempt"] == 1


def test_a_file_that_cannot_be_read_is_a_fresh_start(shelf: Workstreams) -> None:
    """A folder in the way: said, and not set aside."""
    os.mkdir(shelf.path("a"))
    assert shelf.load("a") is None
    assert "starts afresh" in shelf.notes[0]
    assert shelf.items() == []


def test_all_items_come_back_in_their_order(shelf: Workstreams) -> None:
    """Oldest first; what is no state is left out, a forgotten one too, and its log stays."""
    for name in ("b", "a", "c"):
        shelf.save(state(name))
    Path(shelf.log("c")).write_text("said\n")
    shelf.forget("c")
    shelf.forget("c")
    (Path(shelf.base) / "state" / "odd.json").write_text("{")
    assert [found["id"] for found in shelf.items()] == ["a", "b"]
    assert Path(shelf.log("c")).read_text() == "said\n"


def test_ids_never_share_a_file(shelf: Workstreams) -> None:
    """Whatever an id is made of, its files are its own and lie below the base."""
    ids = ["a/b", "a.b", "a b", "..", ".", "", "ä", "a~2f~b", "~2e~"]
    names = {file_name(item) for item in ids}
    assert len(names) == len(ids)
    assert all("/" not in name for name in names)
    assert all(os.path.dirname(shelf.work(item)) == os.path.join(shelf.base, "work") for item in ids)


def test_a_folder_that_cannot_be_synced_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems refuse to sync a folder: the file is there all the same."""
    real, synced = os.fsync, []

    def sync(descriptor: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        if synced[-1]:
            raise OSError(22, "Invalid argument")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    atomic.replace(str(tmp_path / "file"), b"x")
    assert (tmp_path / "file").read_bytes() == b"x"
    assert synced == [False, True]
    atomic.replace(str(tmp_path / "file"), b"y", durable=False)
    assert synced == [False, True]


@pytest.mark.capability("CAP-43")
def test_states_are_kept_beside_the_loop(shelf: Workstreams) -> None:
    """They are on the disk when that is told, many at once; a newer state is never replaced by an older one."""
    told: list[str] = []
    for number in range(20):
        shelf.save_beside(state(f"i{number}", "completed"), lambda number=number: told.append(f"i{number}"))  # type: ignore[misc]
    assert shelf.save(state("i3", "running"), durable=False)
    assert json.loads(Path(shelf.path("i3")).read_text())["lifecycle"] == "running"
    ready = select.poll()
    ready.register(shelf.fileno(), select.POLLIN)
    while len(told) < 20:
        assert ready.poll(5_000)
        shelf.collect()
    assert sorted(told) == sorted(f"i{number}" for number in range(20))
    assert [item["lifecycle"] for item in shelf.items()].count("completed") == 19
    shelf.close()
    shelf.collect()


@pytest.mark.capability("CAP-44")
def test_one_that_cannot_be_kept_is_told_all_the_same(shelf: Workstreams) -> None:
    """The run goes on; an error says what is not kept."""
    told: list[bool] = []
    os.mkdir(shelf.path("a"))
    shelf.save_beside(state("a"), lambda: told.append(True))
    ready = select.poll()
    ready.register(shelf.fileno(), select.POLLIN)
    assert ready.poll(5_000)
    shelf.collect()
    assert told == [True]
    assert "ERROR" in shelf.notes[0]
    shelf.close()


def test_whoever_only_reads_changes_nothing(shelf: Workstreams) -> None:
    """A damaged state stays where it is, for whoever runs the plan; a base that is not there is empty."""
    Path(shelf.path("a")).write_text("{")
    reader = Workstreams(shelf.base, read=True)
    assert reader.load("a") is None
    assert Path(shelf.path("a")).read_text() == "{"
    gone = Workstreams(shelf.base + "-gone", read=True)
    assert gone.load("a") is None
    assert not os.path.exists(gone.base)
