"""The alarm: one descriptor that is readable when one of many files may have changed."""

import select
import shutil
from types import SimpleNamespace

import pytest

pytest.importorskip("inotify_simple")

from inotify_simple import flags

from longwatch.observe.alarm import Alarm


@pytest.fixture
def alarm():
    """Return an alarm of the test's own."""
    made = Alarm()
    yield made
    made.close()


def rings(alarm):
    """Whether the descriptor is readable now."""
    return bool(select.select([alarm], [], [], 0)[0])


def test_nothing_happens(alarm, tmp_path):
    """As long as nothing is written the descriptor is silent."""
    assert alarm.watch(str(tmp_path / "file"))
    assert not rings(alarm)
    assert alarm.changed() == set()


def test_what_changed(alarm, tmp_path):
    """Appearing, growing, being replaced and going ring for the file, and only for a watched one."""
    path, other = tmp_path / "file", tmp_path / "other"
    assert alarm.watch(str(path))
    assert alarm.watch(str(tmp_path / "second"))
    for change in (
        path.touch,
        lambda: path.write_text("one\n"),
        lambda: other.write_text("x") and other.rename(path),
        path.unlink,
    ):
        change()
        assert rings(alarm)
        assert alarm.changed() == {str(path)}
        assert not rings(alarm)
    other.touch()
    assert alarm.changed() == set()


def test_a_folder_that_goes_and_comes(alarm, tmp_path):
    """A folder that is gone rings for its files; it can be watched anew when it is there again."""
    path = tmp_path / "folder/file"
    assert not alarm.watch(str(path))
    path.parent.mkdir()
    assert alarm.watch(str(path))
    shutil.rmtree(path.parent)
    assert alarm.changed() == {str(path)}
    path.parent.mkdir()
    assert alarm.watch(str(path))
    path.touch()
    assert alarm.changed() == {str(path)}


def test_too_much_at_once(alarm, tmp_path, monkeypatch):
    """When the kernel lost count every file may have changed; a watch that nobody knows rings for none."""
    paths = {str(tmp_path / name) for name in "ab"}
    for path in paths:
        assert alarm.watch(path)
    lost = SimpleNamespace(wd=-1, mask=flags.Q_OVERFLOW, name="")
    unknown = SimpleNamespace(wd=99, mask=flags.IGNORED, name="")
    for event, expected in ((unknown, set()), (lost, paths)):
        monkeypatch.setattr(
            alarm, "_inotify", SimpleNamespace(read=lambda timeout, e=event: [e], close=lambda: None)
        )
        assert alarm.changed() == expected
    monkeypatch.undo()
