"""What becomes of a plan: its report, and the removal of what nobody needs any more."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from batches import Plan, called, sh
from helpers import LONGWATCH


def git(folder: Path | str, *words: str) -> str:
    """Run git in a folder; return what it said."""
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with one commit on trunk."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "nobody")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "nobody@example.org")
    folder = tmp_path / "repository"
    git(tmp_path, "init", "--quiet", "-b", "trunk", str(folder))
    git(folder, "commit", "--quiet", "--allow-empty", "-m", "first")
    return folder


COMMIT = "echo done > {0}; git add .; git commit --quiet -m {0}; "


def cleanup(plan: Plan, *flags: str) -> "tuple[int, dict[str, str], str]":
    """Clean up after a plan; return the status, what became of each item, and the last line."""
    done = called(plan.folder, "batch", "cleanup", str(plan.path), *flags)
    *lines, last = done.out.splitlines() or [done.err]
    return done.code, dict(line.partition(": ")[::2] for line in lines), last


@pytest.mark.capability("CAP-53", "CAP-54", "CAP-41")
def test_what_is_merged_and_over_is_removed(tmp_path: Path, repository: Path) -> None:
    """Both are needed: who is over but not merged stays, and who is merged but not over; a dry run changes nothing."""
    (tmp_path / "p").mkdir()
    plan = Plan(
        tmp_path / "p",
        sh("merged", COMMIT.format("merged")),
        sh("alone", COMMIT.format("alone")),
        sh("halfway", f"{LONGWATCH} checkpoint half; exit 1"),
        sh("edits", "echo x > uncommitted"),
        defaults={"git": str(repository)},
    )
    assert plan.run().code == 1
    git(repository, "merge", "--quiet", "longwatch/merged")
    report = plan.report()
    items = {item["id"]: item for item in report["items"]}
    assert {name for name, item in items.items() if item["cleanup_eligible"]} == {"merged", "alone", "edits"}
    assert items["alone"]["branch"] == "longwatch/alone"
    assert items["halfway"]["checkpoint"] == "half"
    assert (items["halfway"]["exit_code"], items["halfway"]["lifecycle"]) == (1, "failed_resumable")
    assert all(item["runtime_ms"] >= 0 and os.path.exists(item["log"]) for item in items.values())
    assert report["counts"] == {"completed": 3, "failed_resumable": 1}
    folder = Path(items["merged"]["work_dir"])

    status, told, last = cleanup(plan, "--dry-run")
    assert (status, folder.exists()) == (0, True)
    assert told["merged"].startswith(f"would remove {folder} (")
    assert last.endswith(f"would be freed; logs stay in {plan.base}/logs")
    status, told, last = cleanup(plan)
    assert (status, folder.exists()) == (0, False)
    assert told["merged"].startswith(f"removed {folder}")
    assert told["alone"] == "stays: longwatch/alone is not merged into trunk"
    assert told["halfway"] == "stays: it is failed_resumable"
    assert told["edits"] == "stays: it holds changes that are in no commit"
    assert git(repository, "branch", "--list", "longwatch/merged") == ""
    assert plan.said("merged") == []
    assert os.path.exists(plan.base / "logs" / "merged.log")
    assert plan.report()["freed_bytes"] > 0

    status, told, _ = cleanup(plan, "--abandon", "halfway")
    assert told["halfway"].startswith("removed ")
    assert plan.state("halfway")["lifecycle"] == "abandoned"
    assert git(repository, "branch", "--list", "longwatch/halfway") != ""
    # What was given up is not taken up again.
    assert "halfway: would not be run: abandoned" in plan.run("--resume", "--dry-run").out


@pytest.mark.capability("CAP-54")
def test_folders_that_are_no_trees(tmp_path: Path) -> None:
    """Of an item that is over its own folder goes; one that the plan has named is nobody's to remove."""
    (tmp_path / "mine").mkdir()
    plan = Plan(tmp_path, sh("own", "touch x"), sh("named", "touch y", cwd=str(tmp_path / "mine")))
    plan.run()
    folder = Path(plan.state("own")["work_dir"])
    state = plan.base / "state" / "own.json"
    before = state.read_text()
    state.write_text(json.dumps({**json.loads(before), "work_dir": str(tmp_path / "mine")}))
    assert cleanup(plan)[1]["own"] == f"stays: {tmp_path}/mine is no folder of ours"
    state.write_text(before)
    status, told, _ = cleanup(plan)
    assert (status, list(told), folder.exists()) == (0, ["own"], False)
    assert (tmp_path / "mine" / "y").exists()
    assert cleanup(plan)[1] == {}


@pytest.mark.capability("CAP-54")
def test_what_there_is_not_is_said(tmp_path: Path) -> None:
    """A plan that was never run, an item that it does not have: one line each, and nothing is made."""
    plan = Plan(tmp_path, sh("a", "exit 0"))
    done = called(tmp_path, "batch", "report", str(plan.path))
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert "was never run" in done.err
    assert not plan.base.exists()
    plan.run()
    status, _, last = cleanup(plan, "--abandon", "b")
    assert (status, last) == (4, f"longwatch: b is no item of {plan.path}\n")


@pytest.mark.capability("CAP-53", "CAP-54")
def test_a_report_is_0_where_all_are_completed(tmp_path: Path) -> None:
    """Else 1; it is also kept beside the states, for programs."""
    plan = Plan(tmp_path, sh("a", "exit 0"), sh("b", "test -e go", cwd=str(tmp_path)))
    plan.run()
    assert called(tmp_path, "batch", "report", str(plan.path)).code == 1
    (tmp_path / "go").touch()
    plan.run("--only", "b")
    assert called(tmp_path, "batch", "report", str(plan.path)).code == 0
    kept = json.loads((plan.base / "report.json").read_text())
    assert [item["lifecycle"] for item in kept["items"]] == ["completed", "completed"]


@pytest.mark.capability("CAP-45")
def test_a_tree_is_gone_on_with(tmp_path: Path, repository: Path) -> None:
    """The second attempt finds the first one's files on the same branch; a folder that is gone is a new beginning."""
    (tmp_path / "p").mkdir()
    script = (
        f"ls; echo $LONGWATCH_ATTEMPT-$LONGWATCH_CHECKPOINT; touch here; {LONGWATCH} checkpoint half; exit 1"
    )
    plan = Plan(tmp_path / "p", sh("a", script, git=str(repository), branch="mine", base="trunk"))
    plan.run()
    plan.run("--resume")
    assert plan.said("a") == ["1-", "here", "2-half"]
    state = plan.state("a")
    assert (state["branch"], state["base"], state["base_commit"]) == (
        "mine",
        "trunk",
        git(repository, "rev-parse", "trunk"),
    )
    subprocess.run(["rm", "-rf", state["work_dir"]], check=True)
    assert "is gone; it begins anew" in plan.run("--resume").err
    assert plan.said("a")[3:] == ["3-"]


@pytest.mark.capability("CAP-58")
def test_a_place_that_cannot_be_made_is_the_items_failure(tmp_path: Path) -> None:
    """No repository: its own line, and the others run."""
    plan = Plan(tmp_path, sh("a", "exit 0", git=str(tmp_path)), sh("b", "exit 0"))
    done = plan.run()
    assert done.code == 1
    assert f"a: failed_terminal, {tmp_path}: no git repository" in done.err
    assert plan.lifecycles() == {"a": "failed_terminal", "b": "completed"}
