"""The numbers of a daemon as Prometheus reads them: one table of names, filled from what the supervisor says.

Nothing is counted here. The supervisor is asked, so that a gauge is the very value that its guards read: the last
successful call is the instant that the stall guard counts from, and there is no gauge before the first one.
Labels are bounded: at most 50 harnesses by name, all others together as `__other__`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from longwatch import __version__

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: How many values a label has at most; the rest are told together.
MOST, OTHER = 50, "__other__"
STATES = ("stopped", "starting", "running", "degraded", "restarting", "stopping", "failed")
HOLDS = ("hours", "park", "cost", "runs", "slots", "login", "money", "limit", "budget")

COUNTER, GAUGE = "counter", "gauge"
Values = dict[tuple[str, ...], float]
Sample = Mapping[str, Any]
Read = Callable[[Sample], Values]


def _sum(values: Iterable[float]) -> float:
    return sum(values)


def _one(key: str, per: int = 1) -> Read:
    def read(sample: Sample) -> Values:
        value = sample.get(key)
        return {(): float(value) / per} if isinstance(value, int | float) else {}

    return read


def _by(key: str) -> Read:
    def read(sample: Sample) -> Values:
        found = sample.get(key)
        return (
            {(str(name),): float(value) for name, value in found.items()} if isinstance(found, dict) else {}
        )

    return read


def _state(sample: Sample) -> Values:
    return {(state,): float(sample.get("state") == state) for state in STATES} if "state" in sample else {}


def _held(sample: Sample) -> Values:
    held = sample.get("held")
    return {(kind,): float(kind in held) for kind in HOLDS} if isinstance(held, list | tuple) else {}


def _scheduled(sample: Sample) -> Values:
    return _by("runs")(sample) if sample.get("kind") == "scheduled" else {}


#: name, type, help, further label, how it is read of one harness, how those beyond the bound are joined.
OF_HARNESS: tuple[tuple[str, str, str, str | None, Read, Callable[[Iterable[float]], float]], ...] = (
    ("state", GAUGE, "1 for the state that the harness is in, 0 for the others.", "state", _state, _sum),
    ("restarts", COUNTER, "Restarts by the daemon, for all causes.", None, _one("restarts"), _sum),
    ("consecutive_failures", GAUGE, "Failures since the last health.", None, _one("consecutive_failures"), max),
    ("state_transitions", COUNTER, "Changes of state.", None, _one("transitions"), _sum),
    ("stalls", COUNTER, "Episodes without progress that the stall guard has found.", None, _one("stalls"), _sum),
    ("gave_up", GAUGE, "1 when restarts are spent and only a human starts it again.", None, _one("gave_up"), max),
    ("ready", GAUGE, "1 while nothing is expected of it: its turn is over.", None, _one("ready"), min),
    ("held", GAUGE, "1 while it is held back, by what holds it.", "kind", _held, _sum),
    ("model_calls", COUNTER, "Calls seen, by how they ended.", "outcome", _by("model_calls"), _sum),
    ("model_call_errors", COUNTER, "Failed calls, by class.", "class", _by("call_errors"), _sum),
    (
        "last_successful_call_timestamp", GAUGE,
        "When a call last succeeded, in seconds since 1970: what the stall guard counts from. Absent before the first.",
        None, _one("last_success", 1000), min,
    ),
    ("sessions_started", COUNTER, "Conversations begun.", None, _one("sessions_started"), _sum),
    ("session_active", GAUGE, "1 when its conversation moved in the last 10 minutes.", None, _one("session_active"), max),
    ("scheduled_runs", COUNTER, "Runs by the calendar, by outcome.", "outcome", _scheduled, _sum),
    (
        "scheduled_next_run_timestamp", GAUGE, "When it is due next, in seconds since 1970.",
        None, _one("next_due", 1000), min,
    ),
    ("run_tokens", COUNTER, "Tokens used, as its agent tells.", None, _one("tokens"), _sum),
    ("run_cost_usd", COUNTER, "Dollars spent, as its agent tells.", None, _one("cost_usd"), _sum),
)  # fmt: skip

#: name, type, help, where it stands in the supervisor's answer, what it is divided by.
OF_DAEMON: tuple[tuple[str, str, str, tuple[str, ...], int], ...] = (
    ("start_timestamp", GAUGE, "When the daemon started, in seconds since 1970.", ("started",), 1000),
    ("tick_lag_seconds", GAUGE, "How late the latest late look of the supervisor came.", ("tick_late_ms_max",), 1000),
    ("ticks_late", COUNTER, "Looks of the supervisor that came more than a second late.", ("tick_late_total",), 1),
    ("keeper_up", GAUGE, "1 while the parent of all harnesses answers.", ("keeper_up",), 1),
    ("keeper_losses", COUNTER, "How often the keeper was lost.", ("keeper_losses",), 1),
    ("ledger_append_errors", COUNTER, "Writes to the ledger that failed.", ("ledger", "append_errors"), 1),
    ("ledger_bytes", GAUGE, "Size of the ledger.", ("ledger", "bytes"), 1),
    ("ledger_queued", GAUGE, "Records that wait to be written.", ("ledger", "queued"), 1),
    ("ledger_failing", GAUGE, "1 while the ledger cannot be written.", ("ledger", "failing"), 1),
    ("run_feed_dropped", COUNTER, "Events that found no room.", ("feed_dropped",), 1),
    ("notify_queued", GAUGE, "Notices that wait to be sent.", ("notify", "queued"), 1),
    ("notify_failing", GAUGE, "1 while a channel of notices fails.", ("notify", "failing"), 1),
    ("config_errors", GAUGE, "Errors in the file at its last reading; the one before it is in force.", ("config", "errors"), 1),
    ("config_reloads", COUNTER, "Reloads that were applied.", ("config", "reloads"), 1),
    ("api_restarts", COUNTER, "How often the API process was started anew.", ("api", "restarts"), 1),
    ("api_facts_dropped", COUNTER, "Events that the API process did not take.", ("api", "dropped"), 1),
)  # fmt: skip

#: Those that are made of several values of the answer.
OTHERS = {
    "supervisor_up": "1 when the supervisor answered.",
    "runs": "Runs that are over, by kind and outcome.",
    "run_duration_seconds": "How long runs took, by kind.",
    "notify_deliveries": "Notices, by event and result.",
    "metrics_collection_errors": "Times that the supervisor was asked for these numbers in vain.",
    "build": "The daemon's version.",
}


class Numbers(Collector):
    """What one answer of the supervisor says, as metrics; None where it did not answer."""

    def __init__(self, samples: Mapping[str, Any] | None, errors: int = 0) -> None:
        self._samples = samples or {}
        self._up = samples is not None
        self._errors = errors

    def collect(self) -> Iterator[Metric]:
        """Give all that is known; what is missing in the answer has no sample."""
        yield _gauge("supervisor_up", {(): float(self._up)})
        yield _metric(
            COUNTER, "metrics_collection_errors", OTHERS["metrics_collection_errors"], (), {(): self._errors}
        )
        build = InfoMetricFamily("longwatch_build", OTHERS["build"])
        build.add_metric([], {"version": __version__})
        yield build
        for name, kind, text, path, per in OF_DAEMON:
            yield _metric(kind, name, text, (), _one(path[-1], per)(_inner(self._samples, path[:-1])))
        found = self._samples.get("harnesses")
        harnesses = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
        yield from _of_harnesses(harnesses)
        yield from _of_runs(harnesses)
        yield _deliveries(self._samples)


def exposition(samples: Mapping[str, Any] | None, errors: int = 0) -> bytes:
    """Return the text that Prometheus scrapes. `samples` is the answer to `metrics`; None: there was none."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Numbers(samples, errors))
    return generate_latest(registry)


def rules() -> str:
    """Return the alerts that belong to these metrics, as a rules file of Prometheus."""
    return files("longwatch").joinpath("data/longwatch.rules.yml").read_text(encoding="utf-8")


def names() -> list[str]:
    """Return the names of all metrics as they are scraped."""
    kinds = [(name, kind) for name, kind, *_ in (*OF_HARNESS, *OF_DAEMON)]
    others = [("supervisor_up", GAUGE), ("metrics_collection_errors", COUNTER), ("runs", COUNTER),
              ("run_duration_seconds", GAUGE), ("notify_deliveries", COUNTER), ("build_info", GAUGE)]  # fmt: skip
    return sorted(f"longwatch_{name}" + "_total" * (kind == COUNTER) for name, kind in (*kinds, *others))


def _of_harnesses(harnesses: list[dict[str, Any]]) -> Iterator[Metric]:
    for name, kind, text, label, read, joined in OF_HARNESS:
        values: dict[tuple[str, ...], list[float]] = {}
        for index, sample in enumerate(harnesses):
            harness = str(sample.get("harness")) if index < MOST else OTHER
            for labels, value in _bounded(read(sample)).items():
                values.setdefault((harness, *labels), []).append(value)
        labels = ("harness",) if label is None else ("harness", label)
        yield _metric(kind, name, text, labels, {key: joined(found) for key, found in values.items()})


def _of_runs(harnesses: list[dict[str, Any]]) -> Iterator[Metric]:
    ended: Values = {}
    spans: dict[str, list[float]] = {}
    for sample in harnesses:
        kind = str(sample.get("kind"))
        for (outcome,), count in _bounded(_by("runs")(sample)).items():
            ended[kind, outcome] = ended.get((kind, outcome), 0) + count
        span, count = spans.setdefault(kind, [0.0, 0.0])
        seconds = sample.get("run_seconds")
        spans[kind] = [span + float(seconds or 0), count + sum(_by("runs")(sample).values())]
    yield _metric(COUNTER, "runs", OTHERS["runs"], ("kind", "outcome"), ended)
    summary = SummaryMetricFamily(
        "longwatch_run_duration_seconds", OTHERS["run_duration_seconds"], labels=["kind"]
    )
    for kind, (span, count) in spans.items():
        summary.add_metric([kind], count_value=int(count), sum_value=span)
    yield summary


def _deliveries(samples: Mapping[str, Any]) -> Metric:
    told = _inner(samples, ("notify",)).get("deliveries")
    values: Values = {}
    for each in told if isinstance(told, list) else []:
        key = (str(each.get("event")), str(each.get("result")))
        values[key] = values.get(key, 0) + float(each.get("count", 0))
    return _metric(COUNTER, "notify_deliveries", OTHERS["notify_deliveries"], ("event", "result"), values)


def _bounded(values: Values) -> Values:
    """Join what is beyond the bound of a label: a program may invent classes of errors without end."""
    kept: Values = {}
    for index, (labels, value) in enumerate(values.items()):
        key = labels if index < MOST else (OTHER,)
        kept[key] = kept.get(key, 0) + value
    return kept


def _inner(samples: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
    for key in path:
        found = samples.get(key)
        samples = found if isinstance(found, dict) else {}
    return samples


def _gauge(name: str, values: Values) -> Metric:
    return _metric(GAUGE, name, OTHERS[name], (), values)


def _metric(
    kind: str, name: str, text: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]
) -> Metric:
    family = CounterMetricFamily if kind == COUNTER else GaugeMetricFamily
    metric = family(f"longwatch_{name}", text, labels=labels)
    for key, value in values.items():
        metric.add_metric(list(key), value)
    return metric
