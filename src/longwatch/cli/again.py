"""`--resume-on-limit`: a run goes on after a provider's limit, in another incarnation and the same conversation.

What follows an end is decided by `core.parking`; here the run waits, starts its program again, and says so. Without
the flag all there is to do is to say what to type. Loaded for runs whose agent is read, and at their start: nothing
is imported after hours of waiting.
"""

import os

from longwatch import presets
from longwatch.cli.attend import join, remember
from longwatch.cli.ended import finish, not_started, write_report
from longwatch.cli.main import Front, launch, say
from longwatch.cli.waiting import Wait, wall
from longwatch.core.facts import RunParked
from longwatch.core.outcomes import outcome
from longwatch.core.parking import PARK, STAY, TRIES, Halt, Used, Verdict, Windows, carried, decide
from longwatch.options import PRESET
from longwatch.paths import rfc3339
from longwatch.posix import now
from longwatch.posix.spawn import PTY, SpawnError
from longwatch.store.spool import summary
from longwatch.units import ago
from longwatch.vocabulary import PROVIDER, clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
    from typing import Any, NoReturn

    from longwatch.cli.longrun import LongRun
    from longwatch.core.spec import Spec
    from longwatch.observe.agent import Agent
else:
    import _signal

#: Why a run is parked, behind the limit that it names.
_PARKED = {"over": "just over", "clamped": "too far away to be meant", "again": "which still holds"}
#: Why nobody waits.
_LEFT = {
    "money": "that needs you",
    "auth": "that needs you",
    "left": "you left it",
    "unstated": "nobody says until when",
    "unknown": "its conversation cannot be taken up from here",
    "fruitless": f"it still holds after {TRIES} resumes",
    "late": "the timeout of the run is over before that",
}


class Again:
    """Takes one run over its incarnations where that is wanted; else it only says what to type."""

    def __init__(self, front: Front, preset: str) -> None:
        self.wanted = bool(front.values.resume_on_limit)
        self._front = front
        self._preset = presets.named(preset)
        self._argv = front.argv
        self._began = front.process.child.started
        self._used = Used()
        self._windows = Windows()
        self._verdict = Verdict(STAY, self._windows)

    def carried(self, spec: "Spec") -> "Spec":
        """Return a spec less what earlier incarnations have used up of it."""
        elapsed = self._front.process.child.started - self._began
        return carried(spec, Used(elapsed, self._used.worked, self._used.credited))

    # -- the end of an incarnation

    def goes_on(self, run: "LongRun", agent: "Agent", report: "dict[str, Any]") -> bool:
        """Wait and start the next incarnation, if a limit ended this one and that is wanted; else return False.

        Ends the process where somebody ends the run meanwhile, or the program cannot be started any more.
        """
        verdict = self._verdict = self._decided(run, agent, report)
        argv = self._resumed(agent)
        if not self.wanted or argv is None or verdict.action != PARK:
            return False
        self._windows = verdict.windows
        self._park(run, agent, report)
        signum = Wait(self._front, run, verdict.until).over()
        if signum is not None:
            self._ended(run, report, signum)
        self._start(run, argv)
        return True

    def _decided(self, run: "LongRun", agent: "Agent", report: "dict[str, Any]") -> Verdict:
        lasted, watch, front = report["duration_ms"], run.watch, self._front
        self._used = self._used.and_life(
            lasted, watch.parked(watch.started + lasted), watch.spec.pause_credit
        )
        if agent.limit is None or front.ended_by is not None or run.stop_message() is not None:
            return Verdict(STAY, self._windows)
        halt = Halt(
            report["termination_reason"], agent.limit.cls, agent.limit.until, progressed=agent.counts["ok"] > 0,
            resumable=self._resumed(agent) is not None,
            attended=front.output == PTY and not agent.headless,
        )  # fmt: skip
        timeout = front.values.timeout
        latest = wall() + self._began + timeout - now() if timeout else None
        return decide(halt, self._windows, wall(), drawn(), latest=latest)

    def _resumed(self, agent: "Agent") -> list[str] | None:
        """Return how the conversation is taken up again; None where it cannot be, or is fed by somebody else."""
        fed = presets.is_conversation(self._argv)
        return None if fed else presets.resumed(self._preset, self._argv, agent.session)

    def last_words(self, agent: "Agent", report: "dict[str, Any]") -> None:
        """Say what to type, where a limit ended the run and nobody goes on with it."""
        verdict, limit = self._verdict, agent.limit
        if verdict.action == STAY or limit is None:
            return
        passes = verdict.action == PARK
        resume = report["resume"] and f"to go on{' then' * passes}: {report['resume']}"
        offer = "with --resume-on-limit longwatch waits and does it"
        parts = [
            f"ended by {_named(limit.cls, limit.until)}",
            _LEFT.get(verdict.why),
            resume,
            passes and offer,
        ]
        self._tell("; ".join(part for part in parts if part))

    # -- between two

    def _park(self, run: "LongRun", agent: "Agent", report: "dict[str, Any]") -> None:
        """Keep what is to be kept of the incarnation that is over, and show what is waited for."""
        front, verdict, limit = self._front, self._verdict, agent.limit
        assert limit is not None
        write_report(front, report)
        remember(front, summary(report))
        if run.keeping is None:
            run.keep(now())
        if run.keeping is not None:
            run.keeping.heard(RunParked(now(), limit.cls, verdict.until))
            parked = {"until": rfc3339(verdict.until), "cls": limit.cls, "why": verdict.why}
            front.folder = run.keeping.park(report, parked)
        run.voice.ended(report, recorded=run.keeping is not None)
        more = f", {_PARKED[verdict.why]}" if verdict.why in _PARKED else ""
        self._tell(
            f"parked by {_named(limit.cls, limit.until)}{more}; goes on at {clock(verdict.until, wall())}, in "
            f"{ago(max(0, verdict.until - wall()))}; Ctrl-C or longwatch stop {front.run_id} ends that"
        )

    def _start(self, run: "LongRun", argv: list[str]) -> None:
        front = self._front
        front.argv = argv
        front.attempt += 1
        if front.values.source("progress") == PRESET:
            # The next incarnation has a screen of its own.
            front.screen = None
        self._tell(f"goes on where it was, attempt {front.attempt}")
        try:
            child = launch(front)
        except SpawnError as error:
            not_started(front, error, run.keeping)
        join(front, child)

    def _ended(self, run: "LongRun", report: "dict[str, Any]", signum: int) -> "NoReturn":
        """Somebody ended the run while nothing of it ran: that is how it ended, whatever its last incarnation said."""
        front = self._front
        asked = signum == _signal.SIGTERM and run.stop_message() is not None
        reason = "cancelled" if asked else "interrupted"
        word, verdict = outcome(reason)
        report |= {
            "termination_reason": reason,
            "origin": "explicit" if asked else None,
            "outcome": word,
            "verdict": verdict,
        }
        report["notes"] = [*report["notes"], f"it was parked until {rfc3339(self._verdict.until)}"]
        if run.keeping is not None:
            run.keeping.end(report)
        if not asked:
            front.ended_by = signum
        resume = report.get("resume")
        self._tell("not resumed" + (f"; to go on: {resume}" if resume else ""))
        finish(front, report, ended=(None, run.watch.spec.signal if asked else signum))

    def _tell(self, text: str) -> None:
        # The id of a conversation is the agent's word.
        say(f"{self._front.name}: " + "".join(c if c.isprintable() else "?" for c in text))


def drawn() -> float:
    """Return a random number in [0, 1)."""
    return int.from_bytes(os.urandom(4)) / (1 << 32)


def _named(cls: str, until: int | None) -> str:
    return PROVIDER[cls] + ("" if until is None else f" until {clock(until, wall())}")
