"""The reference names everything there is to name, and every page can be found."""

import inspect
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import click
import pytest

import longwatch
import longwatch.testing
from helpers import ROOT
from longwatch import errors
from longwatch.cli import schema
from longwatch.cli.verbs import ALIASES, GROUP, VERBS
from longwatch.core import facts
from longwatch.core.outcomes import ORIGINS, OUTCOMES, REASONS
from longwatch.observe.events import KINDS
from longwatch.option_table import OPTIONS, SOURCES
from longwatch.options import options_for
from longwatch.testing import children

REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted(ROOT.glob("docs/**/*.md"))
SPAN = re.compile(r"`([^`]+)`")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
WORD = re.compile(r"-{0,2}[A-Za-z_][\w.-]*")


def named(*pages: str) -> set[str]:
    """Return the words that pages of the reference set as code or as headings; without pages, those of all."""
    paths = [REFERENCE / page for page in pages] or sorted(REFERENCE.glob("*.md"))
    prose = FENCE.sub("", "\n".join(path.read_text() for path in paths))
    found = [*SPAN.findall(prose), *HEADING.findall(prose)]
    return {word.rstrip(".") for text in found for word in WORD.findall(text)}


def section(page: str, heading: str) -> str:
    """Return the part of a page below a heading, up to the next one of its level."""
    _, _, rest = (REFERENCE / page).read_text().partition(f"\n## {heading}\n")
    return rest.partition("\n## ")[0]


def facts_on_the_wire() -> list[str]:
    """Return the names of all events."""
    kinds = [kind for kind in vars(facts).values() if inspect.isclass(kind) and issubclass(kind, facts.Fact)]
    return [schema.fact_name(kind) for kind in kinds if kind is not facts.Fact]


def functions(module: object) -> list[str]:
    """Return the names of a module's own public functions."""
    found = inspect.getmembers(module, inspect.isfunction)
    return [
        name for name, function in found if not name.startswith("_") and inspect.getmodule(function) is module
    ]


def classes(module: object) -> list[str]:
    """Return the names of a module's classes."""
    return [name for name, _ in inspect.getmembers(module, inspect.isclass)]


class Names(NamedTuple):
    """Names, and the pages of which one has to have them; no pages: any."""

    names: Iterable[str]
    pages: tuple[str, ...] = ()


NAMES = {
    "flags of run and timeout": Names((flag for o in OPTIONS for flag in o.flags), ("options.md",)),
    "variables": Names((o.variable for o in OPTIONS if o.variable), ("environment.md",)),
    "choices": Names((choice for o in OPTIONS for choice in o.choices), ("options.md",)),
    "sources": Names((*SOURCES, "file"), ("verbs.md",)),
    "termination reasons": Names(REASONS, ("outcomes.md",)),
    "outcomes": Names(OUTCOMES, ("outcomes.md",)),
    "origins": Names(ORIGINS, ("outcomes.md",)),
    "events": Names(facts_on_the_wire(), ("report.md",)),
    "keys of the report": Names(schema.REPORT_FIELDS, ("report.md",)),
    "public names": Names(longwatch.__all__),
    "public names of testing": Names(longwatch.testing.__all__, ("testing.md",)),
    "children": Names(functions(children), ("testing.md",)),
    "exceptions": Names(
        {*classes(errors), *(n for n in longwatch.__all__ if n.endswith(("Error", "Reached", "Failed")))},
        ("exceptions.md",),
    ),
    "events of an agent": Names(KINDS, ("report.md",)),
    "verbs": Names((*VERBS, *ALIASES), ("verbs.md",)),
}


@pytest.mark.parametrize("kind", NAMES)
def test_everything_is_named(kind: str) -> None:
    """What there is stands in the reference, as code; what is missing is listed."""
    names, pages = NAMES[kind]
    assert sorted(set(names) - named(*pages)) == []


@pytest.mark.parametrize("verb", ["run", "timeout"])
def test_options_stand_under_their_verb(verb: str) -> None:
    """Each option has a heading under its verb, with all its spellings."""
    headings = " ".join(re.findall(r"^### (.*)$", section("options.md", f"`longwatch {verb}`"), re.MULTILINE))
    spellings = [flag for option in options_for(verb) for flag in option.flags]
    assert [flag for flag in spellings if flag not in WORD.findall(headings)] == []


def commands() -> dict[str, click.Command]:
    """Return each verb that click parses, and each verb below one, with its command."""
    found: dict[str, click.Command] = {}
    context = click.Context(GROUP)
    for verb in VERBS:
        command = GROUP.get_command(context, verb)
        assert command is not None
        below = command.commands if isinstance(command, click.Group) else {}
        found |= {f"{verb} {name}": sub for name, sub in below.items()} or {verb: command}
    return found


@pytest.mark.parametrize("verb", commands())
def test_flags_stand_under_their_verb(verb: str) -> None:
    """The section of a verb shows how it is called, and names each of its flags; run and timeout have pages."""
    text = section("verbs.md", verb)
    assert f"`longwatch {verb}" in text
    if verb not in ("run", "timeout"):
        flags = [flag for param in commands()[verb].params for flag in param.opts if flag.startswith("-")]
        spans = [word for span in SPAN.findall(FENCE.sub("", text)) for word in WORD.findall(span)]
        assert [flag for flag in flags if flag not in spans] == []


@pytest.mark.parametrize("verb", commands())
def test_every_verb_has_an_example(verb: str) -> None:
    """Each verb's section has an example that is typed by a test."""
    assert re.search(
        rf"^\$ .*longwatch {verb}\b|^> .*longwatch {verb}\b", section("verbs.md", verb), re.MULTILINE
    )


@pytest.mark.parametrize("name", ["run", "run_async", "watch", "Limits", "CommandTool", "file_idle_since"])
def test_arguments_stand_under_their_function(name: str) -> None:
    """The section of a function or class of the library names each of its arguments."""
    parameters = [p for p in inspect.signature(getattr(longwatch, name)).parameters if p != "self"]
    text = section("library.md", name)
    assert [parameter for parameter in parameters if not re.search(rf"\b{parameter}\b", text)] == []


def test_signature_of_run() -> None:
    """The library's page shows the names and defaults of `run` and `run_async` as they are."""
    parameters = inspect.signature(longwatch.run).parameters.values()
    shown = ", ".join(p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters)
    for name in ("run", "run_async"):
        words = re.search(
            rf"^(?:await )?{name}\((.*)\) -> Result$", section("library.md", name), re.MULTILINE
        )
        assert words is not None
        assert words[1].replace("*, ", "").replace('"', "'") == shown


def test_generated_pages_are_current() -> None:
    """What derives from the option table was written anew after its last change."""
    argv = [sys.executable, str(ROOT / "scripts" / "reference.py"), "--check"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as they are made where Markdown is shown."""
    texts = HEADING.findall(FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """Each link to another page, or to a heading of one, leads to what is there."""
    dead = []
    for path, anchor in LINK.findall(FENCE.sub("", page.read_text())):
        if "://" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(f"{path}#{anchor}")
    assert dead == []


def test_every_page_is_in_the_index() -> None:
    """The index leads to each page and each schema."""
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / path).resolve() for path, _ in LINK.findall(index.read_text())}
    there = {path for path in (*PAGES, *REFERENCE.glob("*.json")) if path != index}
    assert sorted(str(path.relative_to(ROOT)) for path in there - linked) == []
