"""Whatever right keys are put together, they come to a harness that survives its journey as JSON."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longwatch.config import model
from longwatch.config.described import schema
from longwatch.core.harness import RESIDENT, SCHEDULED, Harness
from longwatch.core.limits import NAMES

#: A good value of each key, and what it needs beside it.
GOOD: dict[str, str] = {
    "cwd": '"/"', "env": '{ A = "1" }', "pty": "true", "enabled": "false", "idle": '"5m"', "first": '"1m"', "call": '"2h"',
    "calls": '{ Bash = "30m" }', "ceiling": '"9h"', "timeout": '"8h"', "soft": '"30m"', "ask": '"1h"', "linger": '"1m"',
    "effect": '"1h"', "stall_timeout": '"45m"', "stall_when_ready": "true", "loop": "9", "nudge": '"go"', "allow_quiet": '"2h"',
    "progress": '["stdout", "screen"]', "not_progress": '"^x"', "check": '"git status"', "poll": '"2s"', "signal": '"INT"',
    "kill_after": '"3s"', "keep_leftovers": "true", "before_stop": '"true"', "stop_command": '"true"',
    "restart": '"on-failure"', "intensity": "7", "period": '"1h"', "resume_on_limit": "false", "limit_patterns": '"quota"',
    "quota_group": '"g"', "hours": '"09:00-17:00"', "timezone": '"Europe/Berlin"', "on_hold": '"skip"', "catch_up": '"1h"',
    "on_overlap": '"queue"', "keep_runs": "5", "max_runs_per_day": "9", "max_tokens": "9", "max_cost_usd": "1.5",
    "daily_cost_usd": "9", "log": '{ max = "1MiB" }', "allow_control": "true", "record_args": "true", "ready": '"up"',
    "resume": '["claude", "--resume", "{session}"]',
    **{f"{limit}_action": '"notify"' for limit in NAMES if limit != "soft"},
}  # fmt: skip
NEEDS = {
    "nudge": "pty", "progress": "pty", "check": "effect", "timezone": "hours", "stall_when_ready": "stall_timeout",
    **{f"{limit}_action": "stall_timeout" if limit == "stall" else limit for limit in NAMES},
}  # fmt: skip
#: Written by other tests: what else there is.
ELSEWHERE = {"command", "args", "harness", "preset", "schedule", "trigger", "env_file"}


def test_each_key_has_its_value() -> None:
    """A key that is added to the file joins these properties."""
    assert set(GOOD) | ELSEWHERE == set(model.Harness.model_fields)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    keys=st.sets(st.sampled_from(sorted(GOOD))),
    scheduled=st.booleans(),
    shared=st.sets(st.sampled_from(sorted(GOOD))),
)
def test_any_right_keys_compile(read: Any, keys: set[str], scheduled: bool, shared: set[str]) -> None:
    """Any subset of good keys, with what each needs, is a harness; so it is above any good defaults."""
    kind = SCHEDULED if scheduled else RESIDENT
    fitting = {key for key in keys if kind in on(key)}
    fitting |= {NEEDS[key] for key in fitting if key in NEEDS and kind in on(NEEDS[key])}
    lines = [f"{key} = {GOOD[key]}" for key in sorted(fitting)]
    defaults = [f"{key} = {GOOD[key]}" for key in sorted(shared) if key in model.Defaults.model_fields]
    schedule = 'schedule = "@daily"\n' if scheduled else ""
    loaded = read("\n".join(["[defaults]", *defaults, '[harness.a]\ncommand = "claude"', schedule, *lines]))
    assert [str(error) for error in loaded.errors] == []
    (harness,) = loaded.harnesses
    assert Harness.of(json.loads(json.dumps(harness.as_dict()))) == harness
    own = {"log", "env", "calls"}
    assert {key for key in fitting if harness.setters[key].startswith("longwatch.toml:")} == fitting
    for key in fitting - own:
        line = int(harness.setters[key].rpartition(":")[2])
        assert (loaded.report.places.line(("harness", "a", key)), line) == (line, line)


def on(key: str) -> list[str]:
    """Return the kinds of harness that a key may stand on."""
    extra = model.Harness.model_fields[key].json_schema_extra
    assert isinstance(extra, dict)
    kinds = extra["x-on"]
    assert isinstance(kinds, list)
    return [str(kind) for kind in kinds]


def test_every_key_is_described() -> None:
    """The schema for editors says of each key what it does, and refuses others."""
    made = schema()
    harness = made["$defs"]["Harness"]
    assert harness["additionalProperties"] is False
    assert [key for key, told in harness["properties"].items() if not told.get("description")] == []
    assert "x-" not in json.dumps(list(harness["properties"]["idle"]))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=st.one_of(st.text(max_size=12), st.integers(), st.floats(), st.booleans(), st.lists(st.integers(), max_size=2)),
       key=st.sampled_from(sorted(GOOD)))  # fmt: skip
def test_no_value_is_a_defect(read: Any, value: object, key: str) -> None:
    """Any value of any key is taken or refused in one printable line; nothing else ever comes of it."""
    text = json.dumps(value) if not isinstance(value, float) else repr(value)
    try:
        loaded = read(f'[harness.a]\ncommand = "claude"\n{key} = {text}\n')
    except UnicodeError:
        return
    for problem in loaded.errors:
        assert "\n" not in str(problem)
        assert len(str(problem)) < 400
