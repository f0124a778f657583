"""Every promise has a test, and every test that claims to prove one names a real one."""

import json
import sys

import pytest

import helpers

SCRIPT = helpers.ROOT / "scripts" / "capabilities.py"


@pytest.fixture(scope="module")
def proven() -> dict[str, list[str]]:
    """Return the tests of the whole suite by the id that they prove, whatever part of it runs now."""
    done = helpers.run_command([sys.executable, SCRIPT, "--json"], measured=False, deadline=60)
    assert done.code == 0, done.err + done.out
    found: dict[str, list[str]] = json.loads(done.out)
    return found


def ids(name: str) -> list[str]:
    """Return the first column of a data file, without its heading or comments."""
    lines = (helpers.DATA / name).read_text().splitlines()
    return [line.split("\t")[0] for line in lines if line and not line.startswith(("#", "id\t"))]


def test_marks_name_real_rows(proven: dict[str, list[str]]) -> None:
    """A mark with an id that neither table knows is a mistake."""
    known = {*ids("capabilities.tsv"), *ids("faults.tsv")}
    assert {name: tests for name, tests in proven.items() if name not in known} == {}


def test_what_is_promised_is_proven(proven: dict[str, list[str]]) -> None:
    """Each row and each fault has a test."""
    assert [name for name in (*ids("capabilities.tsv"), *ids("faults.tsv")) if name not in proven] == []
