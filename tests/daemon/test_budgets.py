"""What runs may use and cost: the budgets of one run, and those of a day."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import helpers
from daemons import daemon
from fake_agents import Claude, Codex, Fake, Step, hang
from harnessed import Daemon
from longwatch.core.admission import Standing
from longwatch.core.harness import SCHEDULED, Harness
from longwatch.daemon.snapshots import metrics, snapshot
from longwatch.metrics import exposition
from longwatch.posix import now, wall_of

pytestmark = pytest.mark.long

PRINT = ("-p", "Do the steps.")


def harness(agent: Fake, *steps: Step | list[Step], **more: Any) -> Harness:
    """Return a harness of an agent that plays a part."""
    env = {name: str(value) for name, value in agent.part(*steps).items()}
    more = {"preset": agent.name, "cwd": str(agent.work), "grace": 500, "limits": {}, **more}
    return Harness("worker", (str(agent.program), *PRINT), env=env, **more)


def replies(agent: Claude, name: str, tokens: int) -> Step:
    """Let the model say something for so many tokens."""
    message = {
        "id": name, "content": [{"type": "text", "text": "Hm."}], "usage": {"input_tokens": tokens - 1, "output_tokens": 1},
    }  # fmt: skip
    return agent.line("assistant", message=message)


def costs(agent: Claude, total: float) -> Step:
    """Note what the conversation has cost so far."""
    return agent.record(type="cost-state", sessionId=agent.session, totalCostUSD=total)


def until(house: Daemon, came: Callable[[], object], what: str) -> None:
    """Turn the loop until something is so; records are read sooner than they would be for a limit."""

    def hurried() -> object:
        for service in house.supervisor.services.values():
            if service.running is not None:
                service.running.effects.hurry()
        return came()

    house.until(hurried, what=what)


def closed(house: Daemon) -> list[dict[str, Any]]:
    """Return the records of runs that are over."""
    return [fact.record for fact in house.told("run_closed")]  # type: ignore[attr-defined]


@pytest.mark.capability("CAP-126")
@pytest.mark.parametrize("budget", ["max_tokens", "max_cost_usd"])
def test_a_run_that_has_used_its_budget_is_stopped(home: Path, budget: str) -> None:
    """What the conversation used before this life is not counted; at the budget the run is stopped, which is told once."""
    claude = Claude(home)
    claude.file.parent.mkdir(parents=True)
    old = {
        "type": "assistant", "sessionId": claude.session, "uuid": "old", "timestamp": "2020-01-02T03:04:05Z",
        "message": {"id": "m0", "content": [], "usage": {"input_tokens": 5_000}},
    }  # fmt: skip
    state = json.dumps(
        {"type": "cost-state", "sessionId": claude.session, "totalCostUSD": 7.0}, separators=(",", ":")
    )
    claude.file.write_text(f"{json.dumps(old)}\n{state}\n")
    spends = [replies(claude, "m1", 600), replies(claude, "m1", 600), costs(claude, 8.25)]
    more = [replies(claude, "m2", 500), costs(claude, 9.5)]
    limit = {"max_tokens": 1_000, "max_cost_usd": 2.0}[budget]
    go = home / "go"
    lazy = harness(claude, claude.begins(), spends, ("await", str(go)), more, hang(), budgets={budget: limit})
    with Daemon(home, lazy) as house:
        house.begin()
        service = house.supervisor.services["worker"]

        def usage() -> Any:
            told = service.running and service.running.observation.as_dict(0)
            return told and (told["usage"]["total_tokens"], told["usage"]["cost_usd"])

        until(house, lambda: usage() == (600, 1.25), "the first reply")
        running = service.running
        assert running is not None
        assert not running.stopping
        go.touch()
        until(house, lambda: closed(house), "the end")
        (record,) = closed(house)
        assert (record["termination_reason"], record["origin"]) == ("cancelled", "budget")
        assert (record["outcome"], record["verdict"]) == ("budget_exceeded", None)
        assert record["agent"]["usage"]["total_tokens"] == 1_100
        assert record["agent"]["usage"]["cost_usd"] == 2.5
        why = {
            "max_tokens": "1100 of 1000 tokens for one run are used", "max_cost_usd": "2.50 of 2.00 USD for one run are spent",
        }[budget]  # fmt: skip
        shown = house.snapshot("worker")
        assert [(hold["kind"], hold["reason"]) for hold in shown["holds"]] == [("budget", why)]
        assert (shown["state"], shown["intent"]) == ("stopped", True)
        assert len(house.told("held_back")) == 1
        assert "spent" not in dict(running.observation.heard())
        text = exposition(metrics(house.supervisor)).decode()
        assert 'longwatch_run_tokens_total{harness="worker"} 1100.0' in text
        assert 'longwatch_run_cost_usd_total{harness="worker"} 2.5' in text


@pytest.mark.capability("CAP-126")
def test_money_of_a_day_holds_until_midnight(home: Path) -> None:
    """What a run that goes on has cost counts at once, the rest at its end; then it is held, visibly, until its midnight."""
    claude, go = Claude(home), home / "go"
    job = harness(
        claude, claude.begins(), costs(claude, 0.75), ("await", str(go)), costs(claude, 1.5), claude.over(),
        budgets={"daily_cost_usd": 1.0}, restart="always",
    )  # fmt: skip
    with Daemon(home, job) as house:
        supervisor = house.supervisor
        midnight = wall_of(now()) + 3_600_000
        calendar = supervisor.calendars["worker"]
        day = ["2030-01-02"]
        calendar.standing = lambda wall: Standing(day[0], midnight)  # type: ignore[method-assign]
        house.begin()
        until(
            house,
            lambda: supervisor.admission.used("worker", day[0]).cost == 0.75,
            "the cost of the live one",
        )
        assert (supervisor.folder, metrics(supervisor)["harnesses"][0]["cost_usd"]) == (
            str(house.folder),
            0.75,
        )
        go.touch()
        until(house, lambda: closed(house), "the end")
        assert supervisor.admission.used("worker", day[0]).cost == 1.5
        until(house, lambda: house.snapshot("worker")["holds"], "the hold")
        (hold,) = house.snapshot("worker")["holds"]
        assert (hold["kind"], hold["until"]) == ("cost", midnight)
        assert hold["reason"] == "1.50 of 1.00 USD for today are spent"
        # The next day.
        day[0] = "2030-01-03"
        supervisor.look_again()
        until(house, lambda: len(house.told("run_opened")) == 2, "the next start")


@pytest.mark.capability("CAP-126")
def test_money_of_a_day_outlives_the_daemon(tmp_path: Path, home: Path) -> None:
    """A daemon that takes a run over knows what was counted of it already, and a later one what the day has cost."""
    claude, go = Claude(home), home / "go"
    job = harness(
        claude, claude.begins(), costs(claude, 0.75), ("await", str(go)), costs(claude, 1.25), claude.over(),
        budgets={"daily_cost_usd": 1.0}, timezone="Etc/GMT+12",
    )  # fmt: skip
    with daemon(tmp_path, job) as place:
        kept = place.folder / "holds.json"

        def cost() -> float:
            if not kept.exists():
                return 0.0
            told = json.loads(kept.read_text())
            used = (told.get("told") or told).get("used", {})
            return float(used.get("worker", {}).get("cost", 0.0))

        run = place.running("worker")["run"]
        helpers.wait_until(lambda: cost() == 0.75)
        place.kill()
        place.start()
        assert place.running("worker")["run"] == run
        helpers.wait_until(lambda: place.status("worker")["agent"]["usage"]["cost_usd"] == 0.75)
        go.touch()
        held = place.until("worker", state="stopped")
        helpers.wait_until(lambda: cost() == 1.25)
        place.kill()
        place.start()
        held = place.until("worker", state="stopped")
        assert [(hold["kind"], hold["reason"]) for hold in held["holds"]] == [
            ("cost", "1.25 of 1.00 USD for today are spent")
        ]
        ends = time.strptime(held["holds"][0]["until"][:19], "%Y-%m-%dT%H:%M:%S")
        assert (ends.tm_min, ends.tm_sec) == (0, 0)


@pytest.mark.capability("CAP-126")
def test_a_budget_that_nobody_feeds_says_so(home: Path) -> None:
    """Where nobody says what a run costs the snapshot has a note, whether it runs or not; tokens are counted all the same."""
    codex = Codex(home)
    usage = {"input_tokens": 90, "output_tokens": 10, "total_tokens": 100}
    told = codex.message("token_count", info={"last_token_usage": usage, "total_token_usage": usage})
    quiet = harness(codex, codex.begins(), told, hang(), budgets={"daily_cost_usd": 1.0})
    plain = Harness(
        "plain", ("true",), cwd=str(home), kind=SCHEDULED, restart="no", budgets={"daily_cost_usd": 1.0}
    )
    note = "it does not say what it costs: budgets in USD cannot act"
    with Daemon(home, quiet, plain) as house:
        services = house.supervisor.services
        assert [snapshot(house.supervisor, service)["note"] for service in services.values()] == [note, note]
        house.begin()
        until(house, lambda: metrics(house.supervisor)["harnesses"][0].get("tokens") == 100, "its tokens")
        assert snapshot(house.supervisor, services["worker"])["note"] == note
        assert "cost_usd" not in metrics(house.supervisor)["harnesses"][0]
        assert "tokens" not in metrics(house.supervisor)["harnesses"][1]
