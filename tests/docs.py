"""Run the examples in a Markdown file as a reader would, and compare what they print.

A block fenced as `console` is typed into one shell per file, block after block: lines that begin with `$ ` are
typed, `> ` continues them, and the rest is what must come out (a line of `...` stands for any lines, at the end of a
line it stands for its rest). A block fenced as `python` is a program that must end well. All other blocks are only
shown.
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

import helpers

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What differs from run to run. Both sides are masked, so a number in the text may stay as it looked once.
MASKS = (
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ][\d:.]+(Z|[+-]\d\d:\d\d)?"), "DATE"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"(?<![\w.])(\d+(\.\d+)?(ms|s|m|h|d))+(?!\w)"), "SPAN"),
    (re.compile(r"(?<=\w)-[0-9a-z]{6}\b"), "-ID"),
    (re.compile(r"\b(pid|process) \d+"), r"\1 N"),
    # A process in a sentence ("4711 `sleep` sleeps"), in a tree ("4711 sleep S sleeps"), in a row of a table.
    (re.compile(r"(?<![\w.])\d+(?= `)"), "N"),
    (re.compile(r"(?<![\w.])\d+(?= \S+ [A-Z] )"), "N"),
    (re.compile(r"(?<=-ID) +\d+(?= )"), "  N"),
    (re.compile(r"(?<![\w.])\d{3,}(?= \w)"), "N"),
    (re.compile(r"/\S*/(?=\.local/)"), "~/"),
    (re.compile(r" {2,}"), "  "),
)
END = "--- over ---"
GAP = "..."


class Step(NamedTuple):
    """A command as it is typed, and what the page says that it prints."""

    command: str
    output: str


def steps(block: str) -> list[Step]:
    """Return the steps of a `console` block."""
    found: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:], ""))
            continue
        assert found, f"a console block begins with a command, not with {line!r}"
        if line.startswith("> ") and not found[-1].output:
            found[-1] = Step(f"{found[-1].command}\n{line[2:]}", "")
        else:
            found[-1] = Step(found[-1].command, f"{found[-1].output}{line}\n")
    return found


def examples(text: str) -> list[Step]:
    """Return all steps of a page, in order; a `python` block is a step that prints nothing it promises."""
    found: list[Step] = []
    for language, block in FENCE.findall(text):
        if language == "console":
            found += steps(block)
        elif language == "python":
            found.append(Step(f"{sys.executable} - <<'PYTHON' || echo status $?\n{block}PYTHON", "...\n"))
    return found


def typed(found: list[Step], folder: Path) -> list[str]:
    """Type the commands into one shell in that folder; return what each printed, stderr included."""
    script = "exec 2>&1\n"
    for step in found:
        script += f"{step.command}\nstatus=$?; printf '\\n{END}\\n'; (exit $status)\n"
    path = f"{helpers.LONGWATCH.parent}:{helpers.environment()['PATH']}"
    done = helpers.run_command(
        ["bash", "-c", script], cwd=folder, env={"PATH": path}, deadline=100, measured=False
    )
    return done.out.split(f"\n{END}\n")[: len(found)]


def masked(line: str) -> str:
    """Return the line without what differs from run to run."""
    for pattern, mask in MASKS:
        line = pattern.sub(mask, line)
    return line.rstrip()


def _pattern(line: str) -> str:
    if line == GAP:
        return r"(.*\n)*"
    return re.escape(line.removesuffix(GAP)) + (r".*\n" if line.endswith(GAP) else r"\n")


def agrees(expected: str, printed: str) -> bool:
    """Whether what was printed is what the page says."""
    pattern = "".join(_pattern(masked(line)) for line in expected.splitlines())
    text = "".join(masked(line) + "\n" for line in printed.splitlines())
    return re.fullmatch(pattern, text) is not None


def faults(text: str, folder: Path) -> list[str]:
    """Run a page's examples; return what did not come out as it says."""
    found = examples(text)
    printed = typed(found, folder) if found else []
    assert len(printed) == len(found), f"the shell ended early: {printed}"
    return [
        f"$ {step.command}\n{out}\n  but the page says\n{step.output}"
        for step, out in zip(found, printed, strict=True)
        if not agrees(step.output, out)
        or (step.output == "...\n" and re.search(r"^status \d+$", out, re.MULTILINE))
    ]
