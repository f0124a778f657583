"""What README and docs show is what happens."""

import os
import re
from pathlib import Path

import pytest

import docs
from helpers import ROOT
from longwatch.config import files, plan_file

PAGES = [path for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))) if path.exists()]
PAGE = """
```console
$ echo one; echo two >&2; false
one
two
$ echo $?
1
$ echo "run demo-a1b2c3 took 1.5s, pid 77" && \\
> seq 3
run demo-zzzzzz took 2m3s, pid 1
...
3
```
```sh
exit 9
```
```python
print("fine")
```
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_of_a_page(page: Path, tmp_path: Path) -> None:
    """Each example on the page can be typed as it stands, and prints what the page says."""
    assert "\n".join(docs.faults(page.read_text(), tmp_path)) == ""


def test_files_on_pages_are_good(home: Path, tmp_path: Path) -> None:
    """What a page shows of longwatch.toml or of a plan is taken as it stands, once its variables and files are there."""
    for private in (home / ".config" / "longwatch" / "token", tmp_path / "secrets"):
        private.parent.mkdir(parents=True, exist_ok=True)
        private.write_text("NOTHING=" + "x" * 40)
        private.chmod(0o600)
    wrong, seen = [], 0
    for page in PAGES:
        for block in re.findall(r"^```toml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
            if re.search(r"^\[(\[item|harness|notify|web|daemon)", block, re.MULTILINE):
                seen += 1
                (tmp_path / "x.toml").write_text(block)
                load = plan_file.load if "[[item]]" in block else files.load
                variables = dict.fromkeys(re.findall(r"\$\{(\w+)\}", block), "https://example.org")
                problems = load(str(tmp_path / "x.toml"), {**os.environ, **variables}).errors
                wrong += [f"{page.name}: {problem}" for problem in problems]
    assert wrong == []
    assert seen > 5


def test_a_page_that_is_right_passes(tmp_path: Path) -> None:
    """Statuses, both streams, continued lines, gaps and what differs from run to run are understood."""
    assert docs.faults(PAGE, tmp_path) == []


@pytest.mark.parametrize(("right", "wrong"), [("\ntwo\n", "\n2\n"), ("\n1\n", "\n0\n"), ('"fine"', "1 / 0")])
def test_a_page_that_is_wrong_fails(right: str, wrong: str, tmp_path: Path) -> None:
    """A wrong output, a wrong status and a program that fails are each told once."""
    assert len(docs.faults(PAGE.replace(right, wrong), tmp_path)) == 1
