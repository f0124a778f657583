"""What a run leaves behind for its report: facts, the post-mortem, what could not be stopped, small notes."""

from longwatch.core.facts import Fact, LimitNoted
from longwatch.core.report import Stream, build
from longwatch.core.watch import Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from longwatch.posix.postmortem import PostMortem
    from longwatch.posix.process import Process

#: A chatty run of weeks makes facts without end; the events file has them all.
MAX_FACTS = 2_000


class Story:
    """Collects while the run lives; `report` is asked once, when it is over."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.post_mortem: PostMortem | None = None
        self.survivors: list[str] = []
        self.notes: list[str] = []
        self.proof = "group+marker"

    def add(self, fact: Fact) -> None:
        """Keep a fact; half-window notes only matter to the events file."""
        if not isinstance(fact, LimitNoted):
            self.facts.append(fact)
            if len(self.facts) > MAX_FACTS:
                del self.facts[1 : MAX_FACTS // 2]

    def note(self, text: str) -> bool:
        """Keep a remark for the human; return whether it is new."""
        if text in self.notes:
            return False
        self.notes.append(text)
        return True

    def report(
        self, watch: Watch, process: "Process | None", *, run: str, name: str, attempt: int, started_at: str,
        agent: "Mapping[str, object] | None" = None, resume: str | None = None,
    ) -> dict[str, object]:  # fmt: skip
        """Return the report as a plain dictionary."""
        end = self.facts[-1].at if self.facts else watch.started
        return build(
            run=run,
            name=name,
            attempt=attempt,
            started_at=started_at,
            started=watch.started,
            facts=self.facts,
            progress=watch.snapshot(end)["sources"],
            last_progress=watch.sight.last,
            streams={} if process is None else streams(process),
            merged=process is not None and process.merged,
            parked_ms=watch.parked(end),
            post_mortem=None if self.post_mortem is None else self.post_mortem.as_dict(),
            survivors=self.survivors,
            proof=self.proof,
            result_ok=watch.result_ok,
            notes=self.notes,
            agent=agent,
            resume=resume,
        )


def streams(process: "Process") -> dict[str, Stream]:
    """Return what was captured of each stream."""
    return {name: Stream(pump.bytes, *pump.captured(), pump.lost) for name, pump in process.pumps.items()}
