"""Repositories of git for tests, and the steps of several who work with one at the same time."""

import subprocess
from pathlib import Path
from typing import TypeVar

from longwatch.work.steps import Alone, Steps, Walk, WorkError

T = TypeVar("T")


def git(folder: Path | str, *words: str) -> str:
    """Run git in a folder and return what it printed."""
    return subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(folder: Path | str, text: str) -> str:
    """Commit a file that holds the text; return the commit."""
    Path(folder, "file").write_text(text)
    git(folder, "add", "file")
    git(folder, "commit", "--quiet", "-m", text)
    return git(folder, "rev-parse", "HEAD")


def side_by_side(*steps: Steps[T]) -> list[tuple[T | None, WorkError | None]]:
    """Go through several at once, as the items of a batch do; return what each came to."""
    found: dict[int, tuple[T | None, WorkError | None]] = {}
    alone = Alone()
    try:
        for at, each in enumerate(steps):
            Walk(
                each,
                alone.command,
                alone.at,
                lambda answer, error, at=at: found.update({at: (answer, error)}),
            )
        while len(found) < len(steps):
            alone.turn()
    finally:
        alone.close()
    return [found[at] for at in range(len(steps))]
