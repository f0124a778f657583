"""`longwatch checkpoint`: named points from which the work goes on."""

import json
from pathlib import Path

import pytest

from helpers import run_cli
from longwatch import paths


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    del home
    folder = Path(paths.run_folder(paths.state(), "job-abcdef"))
    folder.mkdir(parents=True)
    monkeypatch.setenv("LONGWATCH_RUN_ID", "outer-123456/job-abcdef")
    return folder


@pytest.mark.capability("CAP-48")
def test_a_name_reaches_the_run(run: Path) -> None:
    """The supervisor finds it in the run's channel, the newest last."""
    for name in ("after-implementation", "review.2"):
        done = run_cli("checkpoint", name)
        assert (done.code, done.out, done.err) == (0, "", "")
    told = [json.loads(line) for line in (run / "channel").read_text().split("\n") if line]
    assert [(one["op"], one["name"]) for one in told] == [
        ("checkpoint", "after-implementation"),
        ("checkpoint", "review.2"),
    ]


@pytest.mark.capability("CAP-48")
@pytest.mark.parametrize("name", ["", "two words", "a/b", "x" * 65, "näme"])
def test_what_is_no_name_is_refused(run: Path, name: str) -> None:
    """One line, and nothing is told."""
    done = run_cli("checkpoint", name)
    assert done.code == 2
    assert "write a name of letters, digits" in done.err
    assert done.err.count("\n") == 1
    assert not (run / "channel").exists()


def test_outside_of_a_run_it_means_nothing() -> None:
    """It says so, and how it would know."""
    done = run_cli("checkpoint", "here")
    assert done.code == 1
    assert "LONGWATCH_RUN_ID is not set" in done.err


def test_a_run_without_a_folder_learns_nothing(monkeypatch: pytest.MonkeyPatch, run: Path) -> None:
    """Waited for as long as a young run takes to make one, then said."""
    run.rmdir()
    monkeypatch.setenv("LONGWATCH_RUN_ID", "job-abcdef")
    done = run_cli("checkpoint", "here")
    assert done.code == 1
    assert "the run has no folder" in done.err
