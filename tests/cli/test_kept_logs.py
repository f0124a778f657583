"""A log that is kept, by itself: whose run it is of, and how soon somebody who follows it is woken."""

import os
from pathlib import Path

import pytest
from click.exceptions import Exit

from longwatch import paths
from longwatch.cli import following
from longwatch.cli.following import LOOK, SURE, Waker
from longwatch.cli.kept import Kept, Section, of_any
from longwatch.runtime.marks import ended, mark, started

ONE, TWO = "web-aaaaaa", "web-bbbbbb"


def line(text: str) -> bytes:
    return mark(text, 1_900_000_000_000) + b"\n"


def test_a_log_is_of_the_run_that_started_last(tmp_path: Path) -> None:
    """Also where that began in a file which was rotated away since; one that is of a single run is of that."""
    log = tmp_path / "web.log"
    kept = Kept("web", str(log))
    assert kept.last_run is None
    (tmp_path / "web.log.1").write_bytes(line(started(ONE, 1)) + b"x\n")
    log.write_bytes(b"only output\n")
    assert kept.last_run == ONE
    log.write_bytes(line(started(TWO, 1)) + b"x\n")
    assert kept.last_run == TWO
    assert Kept("web", str(log), ONE).last_run == ONE
    assert (kept.told, Kept("web", "", ONE).told) == ({"harness": "web"}, {"harness": "web", "run": ONE})


def test_one_run_is_cut_out_of_a_log_of_several() -> None:
    """Its lines and those of ours about it, whole, wherever the chunks end; nothing behind its end."""
    whole = b"".join(
        [line(started(ONE, 1)), b"one\n", line(ended(ONE, "exited 0")), b"between\n", line(started(TWO, 1)), b"two\nhalf"]
    )  # fmt: skip
    for size in (1, 7, len(whole)):
        section = Section(ONE, shared=True)
        got = b"".join(
            part for at in range(0, len(whole), size) for part in section.feed(whole[at : at + size])
        )
        assert got == line(started(ONE, 1)) + b"one\n" + line(ended(ONE, "exited 0"))
        assert (section.seen, section.over, section.flush()) == (True, True, b"")
    section = Section(TWO, shared=True)
    assert b"".join(section.feed(whole)) == line(started(TWO, 1)) + b"two\n"
    assert (section.over, section.flush()) == (False, b"half")


def test_a_run_that_another_one_follows_is_over() -> None:
    """Its end was lost, as with a machine that went down."""
    section = Section(ONE, shared=True)
    assert b"".join(section.feed(line(started(ONE, 1)) + line(started(TWO, 1)) + b"two\n")) == line(
        started(ONE, 1)
    )
    assert section.over


def test_a_file_of_one_run_is_passed_on_as_it_is() -> None:
    """Nothing has to wait for the end of its line; its end is seen all the same."""
    section = Section(ONE, shared=False)
    assert (list(section.feed(b"hal")), section.seen, section.over) == ([b"hal"], True, False)
    end = b"f\n" + line(ended(ONE, "exited 0"))
    assert (list(section.feed(end)), section.over, section.flush()) == ([end], True, b"")


@pytest.mark.parametrize(("alarmed", "pause"), [(True, SURE), (False, LOOK)])
def test_who_is_not_woken_looks_more_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alarmed: bool, pause: int
) -> None:
    """Where the kernel tells of changes a look now and then is enough."""
    if not alarmed:
        monkeypatch.setattr(following, "_alarm", lambda: None)
    (tmp_path / "log").touch()
    with Waker(str(tmp_path / "log")) as waker:
        assert waker._pause == pause


def test_a_descriptor_that_was_dropped_wakes_nobody(tmp_path: Path) -> None:
    """Until it is added again; one that never was added may be dropped."""
    reading, writing = os.pipe()
    try:
        os.write(writing, b"x")
        with Waker(str(tmp_path / "log")) as waker:
            waker.drop(reading)
            waker.add(reading)
            assert waker.wait(0) == {reading}
            waker.drop(reading)
            assert waker.wait(0) == set()
            waker.add(reading)
            assert waker.wait(0) == {reading}
    finally:
        os.close(reading)
        os.close(writing)


def logs(state: Path, daemon: str) -> Path:
    """Return the folder of a daemon's logs."""
    folder = Path(paths.daemon_folder(str(state), daemon)) / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_a_name_that_several_files_have_is_refused(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both are named; one that a single file has is found whichever that is."""
    assert of_any("web") is None
    for daemon in ("one", "two"):
        (logs(state, daemon) / "web.log").touch()
    (logs(state, "two").parent / "daemon.json").write_text('{"config": "/h/two/longwatch.toml"}')
    with pytest.raises(Exit) as over:
        of_any("web")
    assert over.value.exit_code == 2
    files = "one, /h/two/longwatch.toml"
    assert f"web is a harness of several files; name one with --config: {files}" in capsys.readouterr().err
    (logs(state, "three") / "job.log.1").touch()
    assert of_any("job") == Kept(
        "job", str(Path(paths.daemon_folder(str(state), "three")) / "logs" / "job.log")
    )


def test_a_harness_with_a_file_for_each_run_means_the_newest(state: Path) -> None:
    """A run is found by its id: in a file of its own, or in the one that its harness has for all."""
    folder = logs(state, "one")
    (folder / "job").mkdir()
    for age, run in enumerate(("job-bbbbbb", "job-aaaaaa")):
        (folder / "job" / f"{run}.log").touch()
        os.utime(folder / "job" / f"{run}.log", (1_000 - age, 1_000 - age))
    newest, older = (str(folder / "job" / f"{run}.log") for run in ("job-bbbbbb", "job-aaaaaa"))
    assert of_any("job") == Kept("job", newest, "job-bbbbbb")
    assert of_any("job-aaaaaa") == Kept("job", older, "job-aaaaaa")
    (folder / "web.log").touch()
    assert of_any("web-aaaaaa") == Kept("web", str(folder / "web.log"), "web-aaaaaa", shared=True)
    for word in ("", "job/x", ".job", "j" * 201, "other-aaaaaa"):
        assert of_any(word) is None
