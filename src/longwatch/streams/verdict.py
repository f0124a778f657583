"""From how an attempt ended to the record of it; where an answer of a given form was asked for, that is read here."""

from collections.abc import Callable
from typing import Any

from longwatch.posix import now
from longwatch.streams import ends
from longwatch.streams.classify import END, ERROR, STREAM_INCOMPLETE, Gathered, Judgement, cut
from longwatch.streams.graph import CASCADE, LIMIT, Abort

_BY = {"explicit": "cancelled", CASCADE: "cancelled from above"}


class Verdict:
    """Makes the result of one attempt: what was gathered is in it, however it ended."""

    def __init__(self, name: str, gathered: Gathered, attempts: int, began: int) -> None:
        self._name = name
        self._gathered = gathered
        self._text = gathered.text or None
        self._attempts = attempts
        self._began = began

    def ended(self, judged: Judgement, parse: Callable[[str], Any] | None) -> ends.TurnResult:
        """Return what a stream came to that ended by itself."""
        if judged.succeeded:
            return self._succeeded(judged, parse)
        failure = ends.ERROR if judged.stop_reason == ERROR else ends.INCOMPLETE
        return self._failed(failure, judged.stop_reason, judged.message, partial=judged.partial)

    def raised(self, error: Exception) -> ends.TurnResult:
        """Return what a stream came to that raised."""
        stop = STREAM_INCOMPLETE if cut(error) else ERROR
        return self._failed(ends.ERROR, stop, _said(error), error=error)

    def expired(self, limit: str, error: Exception | None) -> ends.TurnResult:
        """Return what a turn came to that a limit of its own stopped."""
        failure = ends.LOOPING if limit == "looping" else ends.TIMEOUT
        signal = Abort(self._name, LIMIT, self._name, LIMIT, limit)
        return self._failed(failure, limit, str(error or "") or limit, error=error, signal=signal)

    def cancelled(self, abort: Abort) -> ends.TurnResult:
        """Return what a turn came to that somebody aborted."""
        by = _BY.get(abort.origin, f"cancelled ({abort.origin})")
        message = f"{by}: {abort.reason}" if abort.reason else by
        return self._unfinished(ends.CANCELLED, ends.CANCELLED, message, self._text, signal=abort)

    def _succeeded(self, judged: Judgement, parse: Callable[[str], Any] | None) -> ends.TurnResult:
        output: Any = self._gathered.last_message
        if parse is not None:
            try:
                output = parse(output)
            except Exception as error:  # noqa: BLE001 - any error of the parser is its verdict
                return self._refused(judged, error)
        elif judged.partial is not None:
            output = f"[{judged.message}]\n{output}"
        complete = 100 if judged.partial is None else None
        return self._result(
            ends.SUCCEEDED, judged.stop_reason, judged.message, output=output, partial_output=judged.partial,
            completion_percent=complete,
        )  # fmt: skip

    def _refused(self, judged: Judgement, error: Exception) -> ends.TurnResult:
        stop = ends.SCHEMA if judged.stop_reason == END else judged.stop_reason
        message = f"the answer has not the form that was asked for: {_said(error)}"
        return self._failed(ends.SCHEMA, stop, message, error=error, schema_error=_said(error))

    def _failed(self, failure: str, stop: str, message: str, **more: Any) -> ends.TurnResult:
        left = more.pop("partial", None) or self._text
        return self._unfinished(ends.FAILED, stop, message, left, failure=failure, **more)

    def _unfinished(
        self, status: str, stop: str, message: str, left: str | None, **more: Any
    ) -> ends.TurnResult:
        percent = 0 if left is None else None
        return self._result(status, stop, message, partial_output=left, completion_percent=percent, **more)

    def _result(self, status: str, stop: str, message: str, **more: Any) -> ends.TurnResult:
        return ends.TurnResult(
            self._name, status, message, stop_reason=stop, trace=self._gathered.as_trace(), attempts=self._attempts,
            duration_ms=max(0, now() - self._began), **more,
        )  # fmt: skip


def _said(error: Exception) -> str:
    """Return an error in one line, with its class: many have no words."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


__all__ = ["Verdict"]
