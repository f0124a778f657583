"""List the capability rows and faults that no test proves.

    python scripts/capabilities.py               all areas; exit 0
    python scripts/capabilities.py --area run    one area, or `faults`; exit 1 when something is missing
    python scripts/capabilities.py --json        what is marked, as {"CAP-1": ["tests/...::test_..."]}

A test says what it proves by `@pytest.mark.capability("CAP-1")` or `@pytest.mark.fault("E1")`.
"""

import argparse
import contextlib
import io
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "data"
FAULTS = "faults"


class Collector:
    """A pytest plugin that notes which tests carry which id."""

    def __init__(self) -> None:
        self.proven: dict[str, list[str]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Read the marks of all tests that were found."""
        for item in session.items:
            for mark in [*item.iter_markers("capability"), *item.iter_markers("fault")]:
                for name in mark.args:
                    self.proven.setdefault(str(name), []).append(item.nodeid)


def collect() -> dict[str, list[str]]:
    """Return the tests by the id that they prove; SystemExit when a test file cannot be read."""
    collector, said = Collector(), io.StringIO()
    with contextlib.redirect_stdout(said):
        args = ["--collect-only", "-q", "-m", "", "--rootdir", str(ROOT), str(ROOT / "tests")]
        status = pytest.main(args, plugins=[collector])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"{said.getvalue()}\nthe tests cannot be collected")
    return collector.proven


def rows(name: str) -> list[dict[str, str]]:
    """Return the rows of one of the tables, by their headings."""
    head, *lines = (DATA / name).read_text().splitlines()
    return [dict(zip(head.split("\t"), line.split("\t"), strict=True)) for line in lines]


def known() -> dict[str, list[tuple[str, str]]]:
    """Return (id, title) of all that can be proven, by area; the faults are an area of their own."""
    areas: dict[str, list[tuple[str, str]]] = {}
    for row in rows("capabilities.tsv"):
        areas.setdefault(row["area"], []).append((row["id"], row["capability"]))
    areas[FAULTS] = [(row["id"], row["title"]) for row in rows("faults.tsv")]
    return areas


def report(areas: dict[str, list[tuple[str, str]]], proven: dict[str, list[str]]) -> int:
    """Print each area with what it lacks; return how many ids lack a test."""
    total = 0
    for area, entries in areas.items():
        missing = [entry for entry in entries if entry[0] not in proven]
        print(f"{area}: {len(entries) - len(missing)} of {len(entries)} have a test")
        for name, title in missing:
            print(f"  {name:8} {title}")
        total += len(missing)
    return total


def main() -> None:
    """Parse the command line and answer it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--area", choices=known(), help="one area; exit 1 when something is missing in it")
    parser.add_argument("--json", action="store_true", help="print the marked tests by id")
    options = parser.parse_args()
    proven = collect()
    if options.json:
        print(json.dumps(proven))
        return
    areas = known()
    chosen = {options.area: areas[options.area]} if options.area else areas
    missing = report(chosen, proven)
    sys.exit(1 if options.area and missing else 0)


if __name__ == "__main__":
    main()
