"""Motion without effect: much is said, and nothing of the work changes."""

import subprocess
from pathlib import Path

import pytest

from longwatch.core.spec import MINUTE, SECOND
from longwatch.runtime.checks import Rounds, fingerprint
from supervised import shell, supervise

CHATTY = "while :; do echo still thinking; sleep 0.05; done"


def work(*words: str, script: str, cwd: Path):
    """Run a chatty program under an effect limit that stops."""
    return supervise("--idle", "off", "--action", "effect=stop", *words, program=shell(script), cwd=cwd)


@pytest.mark.fault("S2")
def test_a_chatty_program_that_changes_nothing(tmp_path: Path) -> None:
    """Words are no work: past the window without a changed file it is acted on, and the reason says so."""
    (tmp_path / "kept").write_text("a")
    run = work("--effect", "1500ms", script=CHATTY, cwd=tmp_path)
    assert (run.code, run.reason) == (124, "effect")
    assert "nothing changed for 1s500ms (--effect 1s500ms)" in run.said[0]


@pytest.mark.fault("S2")
@pytest.mark.parametrize(
    "change",
    [
        "n=$(( (n + 1) % 10 )); printf %s $n >file",  # another text of equal length
        "touch new; rm new; mkdir -p d; rmdir d; touch x; [ -e y ] && mv y z || mv x y",
    ],
    ids=["rewritten", "moved"],
)
def test_a_program_that_changes_files_is_at_work(change: str, tmp_path: Path) -> None:
    """Whatever changes of the files, names, times or sizes, is an effect."""
    script = f"n=0; i=0; while [ $i -lt 60 ]; do echo x; {change}; i=$((i + 1)); sleep 0.05; done"
    run = work("--effect", "1500ms", script=script, cwd=tmp_path)
    assert (run.code, run.reason) == (0, "exited")


@pytest.mark.fault("S2")
def test_the_users_check_decides(tmp_path: Path) -> None:
    """With a check the files do not count; what it prints does."""
    counter = tmp_path / "counter"
    counter.write_text("")
    busy = f"while :; do echo x; echo x >>{tmp_path}/noise; sleep 0.05; done"
    run = work("--effect", "1500ms", "--check", f"cat {counter}", script=busy, cwd=tmp_path)
    assert (run.code, run.reason) == (124, "effect")
    moving = f"i=0; while [ $i -lt 50 ]; do echo x; echo x >>{counter}; i=$((i + 1)); sleep 0.05; done"
    run = work("--effect", "1500ms", "--check", f"wc -c <{counter}", script=moving, cwd=tmp_path)
    assert (run.code, run.reason) == (0, "exited")


@pytest.mark.fault("S2")
def test_without_an_action_it_is_only_told(tmp_path: Path) -> None:
    """Who changes nothing may be reading: named alone, the limit notifies once and the run goes on."""
    script = "i=0; while [ $i -lt 40 ]; do echo x; i=$((i + 1)); sleep 0.05; done"
    run = supervise("--effect", "1s", program=shell(script), cwd=tmp_path)
    assert (run.code, run.reason) == (0, "exited")
    assert sum("nothing changed for 1s" in line for line in run.said) == 1


@pytest.mark.parametrize("check", ["exit 1; echo", "no-such-program-anywhere", "sleep 0.01"])
def test_a_check_that_says_nothing_new_is_no_effect(check: str, tmp_path: Path) -> None:
    """A failing check is as good a fingerprint as any, as long as it stays the same."""
    run = work("--effect", "1s", "--check", check, script=CHATTY, cwd=tmp_path)
    assert (run.code, run.reason) == (124, "effect")


def test_a_commit_is_an_effect(tmp_path: Path) -> None:
    """A commit that leaves the files as they are changes the fingerprint, in a worktree too."""

    def git(*words: str, cwd: Path = tmp_path) -> None:
        named = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", *words]
        subprocess.run(named, cwd=cwd, check=True, capture_output=True)

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "one")
    git("worktree", "add", "-q", "tree")
    for folder in (tmp_path, tmp_path / "tree"):
        before = fingerprint(str(folder))
        assert fingerprint(str(folder)) == before
        git("commit", "-q", "--allow-empty", "-m", "two", cwd=folder)
        assert fingerprint(str(folder)) != before


def test_what_tools_write_is_no_work(tmp_path: Path) -> None:
    """Caches and hidden folders change without anything being done; a file that goes is a change."""
    for name in ("a.py", "__pycache__/a.pyc", "node_modules/x", ".cache/y"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    before = fingerprint(str(tmp_path))
    for name in ("__pycache__/a.pyc", "node_modules/x", ".cache/y"):
        (tmp_path / name).write_text("22")
    assert fingerprint(str(tmp_path)) == before
    (tmp_path / "a.py").unlink()
    assert fingerprint(str(tmp_path)) != before


def test_when_to_look() -> None:
    """Eight looks a window, one at the instant at which the limit could be reached, and then every second."""
    rounds = Rounds(8 * MINUTE, 0)
    assert rounds.after(0, changed=True) == MINUTE
    assert rounds.after(7 * MINUTE + 1, changed=False) == 8 * MINUTE
    assert rounds.after(8 * MINUTE, changed=False) == 8 * MINUTE + SECOND
    assert rounds.after(9 * MINUTE, changed=True) == 10 * MINUTE
    assert Rounds(2 * SECOND, 0).after(0, changed=False) == SECOND
