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
from longwatch import errors, metrics, notices
from longwatch.api import models
from longwatch.api.app import app_for
from longwatch.api.service import Service
from longwatch.cli import schema
from longwatch.cli.verbs import ALIASES, GROUP, VERBS
from longwatch.core import facts, restarts, service_states, service_words
from longwatch.core.outcomes import ORIGINS, OUTCOMES, REASONS
from longwatch.core.service_facts import FACTS
from longwatch.daemon import asking, triggers
from longwatch.notify.channels import Hook
from longwatch.notify.document import document
from longwatch.notify.incidents import Incident, Telling
from longwatch.notify.word import Word
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


def routes() -> list[tuple[str, str]]:
    """Return method and path of everything that the API serves, as its own document says."""
    paths = app_for(Service(None, None, "")).openapi()["paths"]  # type: ignore[arg-type]
    return [(method.upper(), path) for path, methods in paths.items() for method in methods]


def questions() -> list[str]:
    """Return what clients may send, by its keys, and what they may ask for behind the question mark."""
    asked = inspect.getmembers(models, inspect.isclass)
    keys = [key for _, kind in asked if issubclass(kind, models.Question) for key in kind.model_fields]
    found = app_for(Service(None, None, "")).openapi()["paths"].values()  # type: ignore[arg-type]
    given = [one for path in found for method in path.values() for one in method.get("parameters", ())]
    return [*keys, *(one["name"] for one in given if one["in"] == "query")]


def notice() -> dict[str, object]:
    """Return what a channel is told, as an example."""
    return document(Telling("test", [Word("test", "", "arrived")], Incident("test", 0, {})), "here", 0)


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
    "events of a daemon": Names(FACTS, ("events.md",)),
    "states": Names(service_states.STATES, ("harnesses.md",)),
    "holds": Names(metrics.HOLDS, ("harnesses.md",)),
    "restart policies": Names(
        (restarts.ALWAYS, restarts.UNLESS_STOPPED, restarts.ON_FAILURE, restarts.NO), ("harnesses.md",)
    ),
    "why runs begin": Names(
        (
            service_words.AUTOSTART,
            service_words.RESTART,
            service_words.RELEASE,
            service_words.MANUAL,
            "schedule",
        ),
        ("harnesses.md",),
    ),
    "keys of a notice": Names(notice(), ("notices.md",)),
    "variables of a hook": Names(Hook(("x",)).variables(notice()), ("notices.md",)),
    "what is sent to the API": Names(questions(), ("api.md",)),
    "kinds of refusals": Names(asking.KINDS, ("api.md",)),
}


@pytest.mark.parametrize("kind", NAMES)
def test_everything_is_named(kind: str) -> None:
    """What there is stands in the reference, as code; what is missing is listed."""
    names, pages = NAMES[kind]
    assert sorted(set(names) - named(*pages)) == []


def rows(page: str) -> list[list[str]]:
    """Return the rows of the tables of a page, as their cells."""
    lines = (REFERENCE / page).read_text().splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]


@pytest.mark.parametrize("name", FACTS)
def test_keys_stand_beside_their_event(name: str) -> None:
    """The row of an event of a daemon names each of its keys; those of nearly all are told once."""
    row = next(row for row in rows("events.md") if row[0] == f"`{name}`")
    keys = {key for span in SPAN.findall(" ".join(row[1:])) for key in WORD.findall(span)}
    assert sorted({*FACTS[name].__slots__} - keys - {"at", "harness"}) == []


def test_metrics_are_told_as_they_are() -> None:
    """The table of metrics is that of the code: type, labels and meaning."""
    there = {row[0]: row for row in rows("metrics.md")}
    wanted = {}
    for name, kind, text, label, *_ in metrics.OF_HARNESS:
        labels = "`harness`" + f", `{label}`" * (label is not None)
        wanted[f"`longwatch_{name}{'_total' * (kind == 'counter')}`"] = [kind, labels, text]
    for name, kind, text, *_ in metrics.OF_DAEMON:
        wanted[f"`longwatch_{name}{'_total' * (kind == 'counter')}`"] = [kind, "", text]
    assert {name: there.get(name, [])[1:] for name in wanted} == wanted
    assert [name for name in metrics.names() if f"`{name}`" not in there] == []
    assert [text for text in metrics.OTHERS.values() if text not in {row[-1] for row in there.values()}] == []


def test_alerts_are_told() -> None:
    """Each alert of the rules file stands on the page of metrics."""
    alerts = re.findall(r"alert: (\w+)", metrics.rules())
    assert [row[0].strip("`") for row in rows("metrics.md") if row[0].startswith("`Longwatch")] == alerts


def test_notices_are_told_as_they_are() -> None:
    """The table of notices is that of the code: whether it is told by itself, and when."""
    there = {row[0]: row[1:] for row in rows("notices.md")}
    wanted = {
        f"`{name}`": ["yes" if notice.default else "no", notice.meaning]
        for name, notice in notices.EVENTS.items()
    }
    assert {name: there.get(name) for name in wanted} == wanted


def test_states_and_what_follows() -> None:
    """The table of states is that of the code: which may follow which."""
    there = {row[0].strip("`"): tuple(SPAN.findall(row[2])) for row in rows("harnesses.md") if len(row) == 3}
    assert {state: there.get(state) for state in service_states.EDGES} == service_states.EDGES


@pytest.mark.parametrize(("method", "path"), routes())
def test_paths_of_the_api(method: str, path: str) -> None:
    """Each request that the API takes stands on its page."""
    assert f"`{method} {path}`" in (REFERENCE / "api.md").read_text()


def test_ways_to_verify() -> None:
    """Each way to verify a webhook stands on the page about webhooks."""
    text = (ROOT / "docs" / "how-to" / "webhooks.md").read_text()
    assert [way for way in (*triggers.PRESETS, *triggers.ALIASES) if f"`{way}`" not in text] == []


def test_variables_of_a_program() -> None:
    """What the code puts into the environment of a program stands on the page of variables."""
    pattern = re.compile(r'"(LONGWATCH_[A-Z_]+)"')
    sources = [
        ROOT / "src" / "longwatch" / name
        for name in ("runtime/openings.py", "daemon/agents.py", "options.py")
    ]
    found = {name for path in sources for name in pattern.findall(path.read_text())}
    assert sorted(found - named("environment.md")) == []


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
            rf"^(?:await )?{name}\(([^()]*)\) -> Result$", section("library.md", name), re.MULTILINE
        )
        assert words is not None
        assert " ".join(words[1].split()).replace("*, ", "").replace('"', "'") == shown


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
