"""Folders and ids: where everything is kept, and what may become part of a path."""

import os
import stat
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import folders
import helpers
from longwatch import channel, paths
from longwatch.errors import StoreError
from longwatch.posix.supervisor import lives, supervisor_of


def test_folders_follow_xdg() -> None:
    """Config, state and runtime folders are where XDG says; a relative path there is no path."""
    env = {"XDG_STATE_HOME": "/s", "XDG_CONFIG_HOME": "/c", "XDG_RUNTIME_DIR": "/r", "HOME": "/home/x"}
    assert (paths.state(env), paths.config(env), paths.runtime(env)) == (
        "/s/longwatch",
        "/c/longwatch",
        "/r/longwatch",
    )
    bare = {"XDG_STATE_HOME": "relative", "XDG_RUNTIME_DIR": "relative", "HOME": "/home/x"}
    assert paths.state(bare) == "/home/x/.local/state/longwatch"
    assert paths.config(bare) == "/home/x/.config/longwatch"
    assert paths.runtime(bare) is None
    assert os.path.isabs(paths.state({}))


def test_macos_asks_platformdirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """On macOS the folders are the system's own, unless XDG names them."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert os.path.isabs(paths.config({}))
    assert paths.config({"XDG_CONFIG_HOME": "/c"}) == "/c/longwatch"


def test_folders_are_private(tmp_path: Path) -> None:
    """All folders that we make are 0700, one that is there keeps its rights, and making it twice is fine."""
    (tmp_path / "there").mkdir(mode=0o755)
    wanted = tmp_path / "there" / "a" / "b"
    assert paths.ensure(str(wanted)) == str(wanted)
    assert paths.ensure(str(wanted)) == str(wanted)
    modes = [stat.S_IMODE(folder.stat().st_mode) for folder in (wanted, wanted.parent, wanted.parent.parent)]
    assert modes == [0o700, 0o700, 0o755]


def test_two_that_make_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that appears while we make it is as good as ours; a file in its place is refused with one line."""
    mkdir = os.mkdir

    def both(path: str, mode: int) -> None:
        mkdir(path, mode)
        mkdir(path, mode)

    monkeypatch.setattr(os, "mkdir", both)
    assert paths.ensure(str(tmp_path / "a")) == str(tmp_path / "a")
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot make this folder: File exists"):
        paths.ensure(str(tmp_path / "file"))


@given(st.text(max_size=80))
def test_any_name_makes_an_id(name: str) -> None:
    """Whatever a program is called, its id is safe in a path and has the name's form; two are never the same."""
    run = paths.new_run_id(name)
    assert paths.is_run_id(run)
    assert "/" not in run
    assert paths.name_of(run) == paths.safe_name(name)
    assert len(paths.safe_name(name)) <= 40
    assert run != paths.new_run_id(name)


@pytest.mark.parametrize(
    ("name", "safe"),
    [("/usr/bin/make", "make"), ("npm run x", "npm-run-x"), ("..", "run"), ("", "run"), ("a" * 60, "a" * 40), ("x/", "x")],
)  # fmt: skip
def test_names_are_cut_to_what_is_safe(name: str, safe: str) -> None:
    """A name is the basename with safe characters, 40 at most, and never empty."""
    assert paths.safe_name(name) == safe


@pytest.mark.parametrize(
    "text", ["", "build", "../../etc-abcdef", "a/b-abcdef", "-abcdef", "build-ABCDEF", "b-abcde!", ".-abcdef"]
)
def test_what_is_no_id_becomes_no_path(text: str) -> None:
    """Only what has the form of an id is joined to a path."""
    assert not paths.is_run_id(text)
    if "/" not in text:
        with pytest.raises(StoreError, match="is no run id"):
            paths.run_folder("/s", text)


def test_a_marker_means_the_innermost() -> None:
    """The folder of a nested run is that of the inner id."""
    assert paths.run_folder("/s", "outer-abcdef/inner-123456") == "/s/runs/inner-123456"
    assert paths.inner_id("outer-abcdef") == "outer-abcdef"


def test_the_channel_needs_a_folder(state: Path) -> None:
    """A message reaches a run that has a folder; without one the answer is no, and what fails is one line."""
    assert not channel.channel_append(str(state), "build-abcdef", {"op": "quiet"})
    run = folders.make(state)
    assert channel.channel_append(str(state), "outer-abcdef/" + run.run, {"op": "quiet"})
    assert run.channel() == [{"op": "quiet"}]
    run.close()
    (Path(run.path) / "channel").unlink()
    (Path(run.path) / "channel").mkdir()
    with pytest.raises(StoreError, match="channel: Is a directory"):
        channel.channel_append(str(state), run.run, {"op": "quiet"})


def test_times_are_rfc3339() -> None:
    """Instants are written in UTC with milliseconds."""
    assert paths.rfc3339(0) == "1970-01-01T00:00:00.000Z"
    assert paths.rfc3339(1_767_323_045_078) == "2026-01-02T03:04:05.078Z"


@pytest.mark.fault("H1")
def test_a_reused_pid_is_nobody() -> None:
    """A supervisor is pid, start time and boot: a stranger with its number is not it; elsewhere nobody knows."""
    with helpers.ending(folders.sleeper()) as process:
        own = folders.me()
        about = {"pid": process.pid, "start": own.start, "boot": own.boot, "host": os.uname().nodename}
        assert not lives(about)
        assert lives({**about, "pid": own.pid})
        assert not lives({**about, "pid": own.pid, "boot": "another"})
        assert lives({**about, "host": "elsewhere"})
        assert supervisor_of({**about, "pid": "1"}) is None
        assert not lives({"host": os.uname().nodename})
