"""What a model is told of a command that it ran: one object, its fields in a fixed order."""

from longwatch.core.record import Plain
from longwatch.how import how
from longwatch.posix.capture import Captured, whole
from longwatch.posix.process import STDERR, STDOUT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from longwatch.session import Session

#: Nobody stopped these: there is nothing to say about the stop.
_NOT_STOPPED = ("exited", "signaled", "spawn_failed", "unknown")
#: What a model has no use for in a post-mortem: the tree's processes once more, as plain values.
_TOO_MUCH = ("processes",)


class ToolResult(Plain):
    """How a command ended, and what it said.

    exit_code           its exit status; None where a signal ended it, or it never ran
    termination_reason  `exited`, `signaled`, `timeout`, `idle`, `cancelled`, `interrupted`, `spawn_failed`, `unknown`
    duration_ms         from its start until it had ended, its output was read and its tree was gone
    truncated           whether one of the streams was longer than what is kept of it
    stdout, stderr      the first bytes of each, as text; what is no UTF-8 becomes replacement marks
    survivors           what could not be stopped, as `pid name`; empty in all but rare cases
    post_mortem         what the tree was doing before the first signal; None unless a limit stopped it
    message             one line: how it ended, or why it could not be started; None if it ended by itself
    proof               what `survivors` rests on: `subreaper` (nothing can have escaped) or `group+marker`
    """

    __slots__ = (  # noqa: RUF023 - the order is what is told first
        "exit_code", "termination_reason", "duration_ms", "truncated", "stdout", "stderr", "survivors", "post_mortem",
        "message", "proof",
    )  # fmt: skip

    def __init__(
        self, exit_code: int | None, termination_reason: str, duration_ms: int, truncated: bool, stdout: str,
        stderr: str, survivors: list[str], post_mortem: "dict[str, Any] | None", message: str | None, proof: str,
    ) -> None:  # fmt: skip
        self.exit_code = exit_code
        self.termination_reason = termination_reason
        self.duration_ms = duration_ms
        self.truncated = truncated
        self.stdout = stdout
        self.stderr = stderr
        self.survivors = survivors
        self.post_mortem = post_mortem
        self.message = message
        self.proof = proof

    @property
    def ok(self) -> bool:
        """Whether it ended by itself, with status 0."""
        return self.termination_reason == "exited" and self.exit_code == 0

    def as_dict(self) -> "dict[str, Any]":
        """Return what a model is told: the first six fields always, the others where there is something to say."""
        fields = super().as_dict()
        silent = ["message"] if self.message is None else []
        if self.termination_reason in _NOT_STOPPED and not self.survivors:
            silent += ["survivors", "post_mortem", "proof"]
        return {name: value for name, value in fields.items() if name not in silent}


def result_of(session: "Session") -> ToolResult:
    """Return the result of a session that is over. What its head keeps is what is told."""
    report = session.report
    stdout, stderr = session.captured(STDOUT), session.captured(STDERR)
    truncated = any(tail or gap for _, tail, gap in (stdout, stderr))
    reason, post_mortem = report["termination_reason"], report["post_mortem"]
    if post_mortem is not None:
        post_mortem = {name: value for name, value in post_mortem.items() if name not in _TOO_MUCH}
    return ToolResult(
        report["exit_code"], reason, report["duration_ms"], truncated, _text(stdout), _text(stderr),
        report["survivors"], post_mortem, None if reason == "exited" else how(session.argv[0], report), report["proof"],
    )  # fmt: skip


def _text(captured: Captured) -> str:
    """Decode what is kept; a character that the limit cut in two is left out."""
    head, tail, gap = captured
    return (head[: whole(head)] if tail or gap else head).decode("utf-8", "replace")
