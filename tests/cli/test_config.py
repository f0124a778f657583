"""`longwatch config`: where a value comes from, and the schemas that are published."""

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped,unused-ignore]
import pytest

import helpers
from longwatch import presets
from longwatch.cli.schema import REPORT_FIELDS, events_schema, fact_name, report_schema
from longwatch.core import facts
from longwatch.core.report import Stream, build
from longwatch.options import RUN_OPTIONS

FACTS = (
    facts.RunStarted(0),
    facts.LimitNoted(500, "idle", 1_000),
    facts.LimitFired(1_000, "idle", 1_000, 0, "stop", source="output"),
    facts.StopBegan(1_001, "idle", 15),
    facts.KillSent(1_500),
    facts.LeaderExited(1_510, None, 9),
    facts.LeftoversStopped(1_520, ("7 sleep",), kept=False),
    facts.RunEnded(1_600, "idle", signal=9, limit="idle"),
)


def explained(**environ: str) -> tuple[dict[str, Any], str]:
    """Return what `config explain --json` says of each option, and its stderr."""
    done = helpers.run_cli("config", "explain", "--json", env=environ)
    assert done.code == 0, done.err
    answer = json.loads(done.out)
    assert answer["schema"] == 1
    return {option["name"]: option for option in answer["options"]}, done.err


@pytest.mark.capability("NEW-15")
def test_explain_tells_what_a_preset_sets() -> None:
    """For a known program its values are there with the reasons that they have; a variable still wins."""
    done = helpers.run_cli("config", "explain", "--preset", "claude", env={"LONGWATCH_FIRST": "7m"})
    assert "--idle DURATION: 12m (preset claude); built-in 5m" in done.out
    assert "It asks its provider again by itself" in done.out
    assert "--first DURATION: 7m (set by LONGWATCH_FIRST)" in done.out
    options, _ = explained(LONGWATCH_PRESET="codex")
    assert (options["idle"]["source"], options["idle"]["value"]) == ("preset", "13m")
    assert explained(LONGWATCH_PRESET="none")[0]["idle"]["source"] == "default"
    wrong = helpers.run_cli("config", "explain", "--preset", "cluade")
    assert (wrong.code, wrong.err) == (2, "longwatch: cluade: no such preset; did you mean claude?\n")


@pytest.mark.capability("NEW-15")
def test_presets_show_every_value_and_why() -> None:
    """All of them by name, one with everything that is made of it, and the same for programs that ask."""
    listed = helpers.run_cli("presets")
    assert [line.split()[0] for line in listed.out.splitlines()] == list(presets.names())
    for preset in presets.PRESETS:
        shown = " ".join(helpers.run_cli("presets", preset.name).out.split())
        settings = [*preset.limits.values(), *preset.call.values(), *preset.additions]
        assert [setting.why for setting in settings if setting.why not in shown] == []
    answer = json.loads(helpers.run_cli("presets", "claude", "--json").out)
    (told,) = answer["presets"]
    assert told["limits"]["idle"]["window_ms"] == 12 * 60_000
    assert told["resume"] == "claude --resume ID"
    assert helpers.run_cli("presets", "cluade").code == 2


def test_explain_names_every_option_and_who_set_it() -> None:
    """Every option is there with value, source, variable, built-in and why; a variable that set it is the source."""
    options, errors = explained(LONGWATCH_IDLE=" 42s ", LONGWATCH_POLL="")
    assert errors == ""
    assert list(options) == [option.name for option in RUN_OPTIONS if option.key]
    idle = options["idle"]
    assert (idle["value"], idle["value_ms"], idle["source"]) == ("42s", 42_000, "variable")
    assert (idle["variable"], idle["default"]) == ("LONGWATCH_IDLE", "5m")
    assert (options["poll"]["value"], options["poll"]["source"]) == ("1s", "default")
    assert options["name"]["value"] is None
    assert options["log-max"]["value_bytes"] == 100 << 20
    assert all(option["why"] for option in options.values())


def test_explain_warns_of_a_wrong_variable() -> None:
    """A refused variable is told once on stderr, and the built-in is what holds."""
    options, errors = explained(LONGWATCH_IDLE="5")
    expected = "longwatch: LONGWATCH_IDLE=5: a bare number is no duration; write 5s or 5m; the built-in is used: 5m\n"
    assert errors == expected
    assert (options["idle"]["value"], options["idle"]["source"]) == ("5m", "default")


def test_explain_for_people() -> None:
    """In words: the option, its value, who set it, what would hold otherwise, and why."""
    done = helpers.run_cli("config", "explain", env={"LONGWATCH_FIRST": "2m"})
    assert "--first DURATION: 2m (set by LONGWATCH_FIRST); built-in off\n" in done.out
    assert "--idle DURATION: 5m (built-in)\n    In recorded agent sessions" in done.out
    assert "-k, --kill-after DURATION: 10s (built-in)\n" in done.out


@pytest.mark.parametrize("flag", ["--limits", "--report", "--events", None])
def test_schemas_are_valid(flag: str | None) -> None:
    """Each schema that is printed is a schema."""
    done = helpers.run_cli("config", "schema", *([flag] if flag else []))
    assert done.code == 0, done.err
    jsonschema.Draft202012Validator.check_schema(json.loads(done.out))


def test_a_report_fits_its_schema() -> None:
    """What the core builds has exactly the published fields, of the published types."""
    stream = Stream(3, b"a\xff", b"", 0)
    report = build(
        run="x-123456", name="x", attempt=1, started_at="2026-01-01T00:00:00.000Z", started=0, facts=FACTS,
        progress={"output": {"last_ms": 5, "count": 1}}, last_progress=5, streams={"stdout": stream, "stderr": stream},
        merged=False, post_mortem={"diagnosis": "x"}, notes=["n"],
    )  # fmt: skip
    report = json.loads(json.dumps(report))
    check = jsonschema.Draft202012Validator(report_schema())
    check.validate(report)
    assert list(report) == list(REPORT_FIELDS)
    assert not check.is_valid(report | {"termination_reason": "boredom"})


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.name)
def test_an_event_fits_its_schema(fact: facts.Fact) -> None:
    """Each fact's line fits the schema of events; with a field of the wrong type or an unknown name it does not."""
    fields = {name: value for name, value in fact.as_dict().items() if name != "at"}
    line = {
        "schema": 1,
        "seq": 1,
        "at": "2026-01-01T00:00:00.000Z",
        "mono_ms": fact.at,
        "event": fact.name,
        **fields,
    }
    line = json.loads(json.dumps(line))
    check = jsonschema.Draft202012Validator(events_schema())
    check.validate(line)
    assert not check.is_valid(line | {"event": "boredom"})
    for name in fields:
        assert not check.is_valid(line | {name: {}})


def test_every_fact_is_in_the_schema() -> None:
    """No fact is forgotten."""
    names = {event["properties"]["event"]["const"] for event in events_schema()["oneOf"]}
    ours = [kind for kind in facts.Fact.__subclasses__() if kind.__module__ == facts.__name__]
    assert {fact_name(kind) for kind in ours} <= names
