"""The numbers for Prometheus: their names, their absence, their bounds, and the alerts that read them."""

import re
import shutil
import subprocess
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from helpers import ROOT, run_cli
from longwatch import metrics
from longwatch.metrics import MOST, OTHER, exposition, names, rules

Found = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(samples: Any, errors: int = 0) -> Found:
    """Return what Prometheus would read."""
    text = exposition(samples, errors).decode()
    found: Found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found, "a series appears twice"
            found[key] = sample.value
    return found


def one(found: Found, name: str, **labels: str) -> float | None:
    return found.get((f"longwatch_{name}", tuple(sorted(labels.items()))))


def harness(name: str = "alpha", **more: Any) -> dict[str, Any]:
    return {"harness": name, "kind": "resident", "state": "running", **more}


FULL = {
    "started": 1_700_000_000_500, "now": 1_700_000_100_000,
    "harnesses": [
        harness(
            restarts=3, consecutive_failures=1, transitions=9, stalls=2, gave_up=False, ready=False, held=["park"],
            model_calls={"success": 5, "error": 2}, call_errors={"rate": 2}, last_success=1_700_000_000_123,
            sessions_started=1, session_active=True, runs={"success": 4, "failed": 1}, run_seconds=12.5,
            next_due=None, tokens=100, cost_usd=0.25,
        ),
        harness("nightly", kind="scheduled", state="stopped", runs={"timed_out": 2}, run_seconds=7, next_due=1_700_000_200_000),
    ],
    "tick_late_ms_max": 1500, "tick_late_total": 2, "keeper_up": True, "keeper_losses": 0,
    "ledger": {"append_errors": 0, "bytes": 4096, "queued": 1, "failing": False}, "feed_dropped": 3,
    "notify": {"queued": 0, "failing": True, "deliveries": [{"event": "stalled", "result": "ok", "count": 2}]},
    "config": {"errors": 0, "reloads": 1}, "api": {"restarts": 1, "dropped": 0, "asked": 7},
}  # fmt: skip

EXPECTED = [
    ("state", {"harness": "alpha", "state": "running"}, 1),
    ("state", {"harness": "alpha", "state": "failed"}, 0),
    ("restarts_total", {"harness": "alpha"}, 3),
    ("consecutive_failures", {"harness": "alpha"}, 1),
    ("state_transitions_total", {"harness": "alpha"}, 9),
    ("stalls_total", {"harness": "alpha"}, 2),
    ("gave_up", {"harness": "alpha"}, 0),
    ("ready", {"harness": "alpha"}, 0),
    ("held", {"harness": "alpha", "kind": "park"}, 1),
    ("held", {"harness": "alpha", "kind": "hours"}, 0),
    ("model_calls_total", {"harness": "alpha", "outcome": "error"}, 2),
    ("model_call_errors_total", {"harness": "alpha", "class": "rate"}, 2),
    ("last_successful_call_timestamp", {"harness": "alpha"}, 1_700_000_000.123),
    ("sessions_started_total", {"harness": "alpha"}, 1),
    ("session_active", {"harness": "alpha"}, 1),
    ("scheduled_runs_total", {"harness": "nightly", "outcome": "timed_out"}, 2),
    ("scheduled_next_run_timestamp", {"harness": "nightly"}, 1_700_000_200),
    ("run_tokens_total", {"harness": "alpha"}, 100),
    ("run_cost_usd_total", {"harness": "alpha"}, 0.25),
    ("runs_total", {"kind": "resident", "outcome": "success"}, 4),
    ("runs_total", {"kind": "scheduled", "outcome": "timed_out"}, 2),
    ("run_duration_seconds_sum", {"kind": "resident"}, 12.5),
    ("run_duration_seconds_count", {"kind": "resident"}, 5),
    ("start_timestamp", {}, 1_700_000_000.5),
    ("tick_lag_seconds", {}, 1.5),
    ("ticks_late_total", {}, 2),
    ("keeper_up", {}, 1),
    ("keeper_losses_total", {}, 0),
    ("ledger_append_errors_total", {}, 0),
    ("ledger_bytes", {}, 4096),
    ("ledger_queued", {}, 1),
    ("ledger_failing", {}, 0),
    ("run_feed_dropped_total", {}, 3),
    ("notify_deliveries_total", {"event": "stalled", "result": "ok"}, 2),
    ("notify_queued", {}, 0),
    ("notify_failing", {}, 1),
    ("config_errors", {}, 0),
    ("config_reloads_total", {}, 1),
    ("api_restarts_total", {}, 1),
    ("api_facts_dropped_total", {}, 0),
    ("supervisor_up", {}, 1),
    ("metrics_collection_errors_total", {}, 0),
]


@pytest.mark.capability("CAP-130", "NEW-14")
@pytest.mark.parametrize(("name", "labels", "value"), EXPECTED)
def test_each_number_is_what_the_supervisor_says(name, labels, value):
    """Under its documented name, in base units."""
    assert one(read(FULL), name, **labels) == value


@pytest.mark.capability("CAP-130")
def test_every_metric_is_in_the_table_of_expectations():
    """A metric that nobody expects would be documented nowhere."""
    expected = {f"longwatch_{name}" for name, _, _ in EXPECTED} | {"longwatch_build_info"}
    expected = {re.sub(r"(duration_seconds)_(sum|count)$", r"\1", name) for name in expected}
    assert set(names()) == expected


@pytest.mark.capability("CAP-130", "CAP-108")
def test_there_is_no_last_success_before_the_first():
    """An absent series is no zero: an alert on its age would fire at once."""
    found = read({"harnesses": [harness(last_success=None, next_due=None)]})
    assert not [key for key in found if "last_successful" in key[0] or "next_run" in key[0]]


@pytest.mark.capability("CAP-108")
def test_the_last_success_is_the_guards_own_value():
    """To the millisecond: nothing is counted or rounded on the way."""
    for instant in (1_700_000_000_001, 1_700_000_000_999, 1):
        found = read({"harnesses": [harness(last_success=instant)]})
        value = one(found, "last_successful_call_timestamp", harness="alpha")
        assert value is not None
        assert round(value * 1000) == instant


@pytest.mark.capability("CAP-130")
def test_harnesses_beyond_the_bound_are_told_together():
    """Counts are added, states counted, the oldest success counts, and one that gave up is not hidden."""
    many = [
        harness(f"h{n}", restarts=1, gave_up=n == 55, last_success=1000 * (n + 1), model_calls={"success": n}, ready=n != 52)
        for n in range(60)
    ]  # fmt: skip
    found = read({"harnesses": many})
    named = {dict(labels).get("harness") for _, labels in found} - {None}
    assert len(named) == MOST + 1
    assert one(found, "restarts_total", harness=OTHER) == 10
    assert one(found, "state", harness=OTHER, state="running") == 10
    assert one(found, "gave_up", harness=OTHER) == 1
    assert one(found, "gave_up", harness="h1") == 0
    assert one(found, "last_successful_call_timestamp", harness=OTHER) == 51
    assert one(found, "model_calls_total", harness=OTHER, outcome="success") == sum(range(50, 60))
    assert one(found, "ready", harness=OTHER) == 0


@pytest.mark.capability("CAP-130")
def test_no_label_grows_without_end():
    """Classes of errors come from programs."""
    found = read(
        {
            "harnesses": [
                harness(call_errors={f"e{n}": 1 for n in range(500)}, runs={f"o{n}": 2 for n in range(60)})
            ]
        }
    )
    classes = {dict(labels)["class"] for name, labels in found if name == "longwatch_model_call_errors_total"}
    assert len(classes) == MOST + 1
    assert one(found, "model_call_errors_total", harness="alpha", **{"class": OTHER}) == 450
    assert one(found, "runs_total", kind="resident", outcome=OTHER) == 20


def test_an_odd_name_is_a_label_and_nothing_else():
    """Whatever a harness is called."""
    found = read({"harnesses": [harness('a"} 1\n# \\', restarts=1)]})
    assert one(found, "restarts_total", harness='a"} 1\n# \\') == 1


@pytest.mark.capability("NEW-14")
def test_a_supervisor_that_does_not_answer_is_a_number():
    """And what is not known is not told."""
    found = read(None, 3)
    assert one(found, "supervisor_up") == 0
    assert one(found, "metrics_collection_errors_total") == 3
    assert {name for name, _ in found} == {
        "longwatch_supervisor_up", "longwatch_metrics_collection_errors_total", "longwatch_build_info",
    }  # fmt: skip


def test_what_is_missing_or_odd_in_an_answer_is_left_out():
    """Of an older or a newer supervisor."""
    found = read(
        {
            "harnesses": [{"harness": "a"}, "odd"],
            "ledger": "odd",
            "notify": {"deliveries": "odd"},
            "keeper_up": None,
        }
    )
    assert not [
        key for key in found if key[0] in ("longwatch_keeper_up", "longwatch_state", "longwatch_ledger_bytes")
    ]
    assert one(read({}), "supervisor_up") == 1


# The alerts


def alerts() -> list[str]:
    return re.findall(r"- alert: (\w+)", rules())


@pytest.mark.capability("NEW-14")
def test_the_alerts_that_are_promised_are_there():
    """Each with a severity, a summary and what to do."""
    assert alerts() == [
        "LongwatchNoSuccess", "LongwatchOnlyErrors", "LongwatchGaveUp", "LongwatchDown", "LongwatchKeeperDown",
        "LongwatchLedgerFailing", "LongwatchNotifyFailing", "LongwatchTickLate", "LongwatchConfigBroken",
    ]  # fmt: skip
    for key in ("severity:", "summary:", "action:", "expr:"):
        assert rules().count(key) == len(alerts())


@pytest.mark.capability("CAP-130")
def test_the_alerts_read_metrics_that_exist():
    """With labels that they have."""
    known = {*names(), "longwatch_build_info"}
    read_by = set(re.findall(r"longwatch_\w+", re.sub(r"up\{job=\"longwatch\"\}", "", rules())))
    assert read_by <= known
    text = exposition(FULL).decode()
    for name, label in re.findall(r"(longwatch_\w+)\{(\w+)=", rules()):
        assert re.search(rf"^{name}\{{[^}}]*{label}=", text, re.MULTILINE), f"{name} has no label {label}"


def promtool(
    *words: str, given: str | None = None, cwd: str | None = None
) -> subprocess.CompletedProcess[str]:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian's package prometheus has it)")
    return subprocess.run(
        [found, *words], input=given, cwd=cwd, capture_output=True, text=True, timeout=30, check=False
    )


@pytest.mark.capability("CAP-130")
def test_promtool_accepts_the_metrics():
    """Names, types, units and help texts."""
    done = promtool("check", "metrics", given=exposition(FULL).decode())
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


RULE_TEST = """
rule_files: [longwatch.rules.yml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - series: 'longwatch_state{job="longwatch",instance="i",harness="stuck",state="running"}'
        values: '1x40'
      - series: 'longwatch_state{job="longwatch",instance="i",harness="done",state="running"}'
        values: '1x40'
      - series: 'longwatch_state{job="longwatch",instance="i",harness="off",state="running"}'
        values: '0x40'
      - series: 'longwatch_ready{job="longwatch",instance="i",harness="stuck"}'
        values: '0x40'
      - series: 'longwatch_ready{job="longwatch",instance="i",harness="done"}'
        values: '1x40'
      - series: 'longwatch_last_successful_call_timestamp{job="longwatch",instance="i",harness="stuck"}'
        values: '60x40'
      - series: 'longwatch_last_successful_call_timestamp{job="longwatch",instance="i",harness="done"}'
        values: '60x40'
      - series: 'longwatch_last_successful_call_timestamp{job="longwatch",instance="i",harness="off"}'
        values: '60x40'
      - series: 'longwatch_model_calls_total{job="longwatch",instance="i",harness="never",outcome="error"}'
        values: '0+1x40'
      - series: 'longwatch_supervisor_up{job="longwatch",instance="i"}'
        values: '1x20 0x20'
    alert_rule_test:
      - {eval_time: 15m, alertname: LongwatchNoSuccess}
      - eval_time: 17m
        alertname: LongwatchNoSuccess
        exp_alerts:
          - exp_labels: {severity: warning, job: longwatch, instance: i, harness: stuck}
            exp_annotations:
              summary: "stuck runs, and no call of it succeeded for 16m 0s"
              action: longwatch why stuck
      - eval_time: 17m
        alertname: LongwatchOnlyErrors
        exp_alerts:
          - exp_labels: {severity: warning, job: longwatch, instance: i, harness: never}
            exp_annotations:
              summary: all calls of never have failed since it was started
              action: longwatch why never
      - {eval_time: 22m, alertname: LongwatchDown}
      - eval_time: 24m
        alertname: LongwatchDown
        exp_alerts:
          - exp_labels: {severity: critical, job: longwatch, instance: i}
            exp_annotations:
              summary: the longwatch daemon does not answer; its harnesses run on, but nobody watches them
              action: longwatch up
"""


@pytest.mark.capability("CAP-130")
def test_promtool_accepts_the_alerts_and_they_fire_when_they_should(tmp_path):
    """Running without a success for more than 15 minutes; not while it waits for a human, nor when it is stopped."""
    (tmp_path / "longwatch.rules.yml").write_text(rules())
    (tmp_path / "test.yml").write_text(RULE_TEST)
    checked = promtool("check", "rules", "longwatch.rules.yml", cwd=str(tmp_path))
    assert checked.returncode == 0, checked.stderr
    done = promtool("test", "rules", "test.yml", cwd=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_states_are_those_of_the_core():
    """A state that has no series would be invisible."""
    from longwatch.core.service_states import STATES

    assert set(metrics.STATES) == set(STATES)


def test_the_reference_names_every_metric_and_alert():
    """With its type, as it is scraped."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
    assert set(re.findall(r"`(longwatch_\w+)` \|", page)) == set(names())
    assert re.findall(r"^\| `(Longwatch\w+)`", page, re.MULTILINE) == alerts()


def test_the_rules_are_printed():
    """For the folder of Prometheus."""
    done = run_cli("config", "rules")
    assert done.out == rules()
