"""Reads in a thread: the thread itself, and whoever waits for it.

The thread reads when it is asked to and never ahead of the consumer, so an event is as fresh as without a guard. A
thread that sits in a read cannot be ended by anybody but whatever it reads from; if it stays it is left behind, as a
daemon, which holds up no process.
"""

import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any

from longwatch.streams.closing import Hook
from longwatch.streams.watched import Watched

#: What the thread has to tell: an item, an exception, or neither (it has closed the source).
Answer = tuple[str, Any]
ITEM, RAISED, CLOSED = "item", "raised", "closed"


class HandOver:
    """One thread that does what it is asked to, one thing at a time, and answers."""

    def __init__(self, source: Any, name: str) -> None:
        self._source = source
        self._asked: queue.SimpleQueue[Callable[[], Answer] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        # It sees the caller's context variables, as the iterator would have.
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._work,), name=f"longwatch {name}", daemon=True
        )
        self._thread.start()

    def ask(self) -> None:
        """Have the next item read."""
        self._asked.put(self._read)

    def ask_to_close(self) -> None:
        """Have the source closed, where it can be; the thread ends then."""
        self._asked.put(self._close)
        self._asked.put(None)

    def answer(self, timeout_ms: int | None) -> Answer | None:
        """Wait for the answer, so long at most; None when there is none yet."""
        try:
            return self._answers.get(timeout=None if timeout_ms is None else max(0, timeout_ms) / 1000)
        except queue.Empty:
            return None

    def _work(self) -> None:
        while (job := self._asked.get()) is not None:
            try:
                answer = job()
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                answer = RAISED, error
            self._answers.put(answer)
            del job, answer  # an idle thread holds no event

    def _read(self) -> Answer:
        return ITEM, next(self._source)

    def _close(self) -> Answer:
        close = getattr(self._source, "close", None)
        if close is not None:
            close()
        return CLOSED, None


class ThreadReading:
    """The reads of one thread, for the caller who waits for them and for the watch that ends them."""

    def __init__(self, watched: Watched, hands: HandOver | None, cancel: Hook | None) -> None:
        self._watched = watched
        self._pulse = watched.pulse
        self._hands = hands
        self._cancel = cancel
        self._answer: Answer | None = None
        #: Whether the thread sits in a read.
        self.busy = False

    def read(self) -> Answer | None:
        """Have the next item read and wait for it; None when a limit has ended the stream before it came."""
        assert self._hands is not None
        self.busy = True
        self._hands.ask()
        self._pulse.since = self._pulse.stamp()
        return self.wait()

    def wait(self) -> Answer | None:
        """Wait for the answer, and let the watch see the time that passes."""
        watched, driver = self._watched, self._watched.driver
        assert driver is not None
        while self._answer is None and not watched.over:
            self.poll(driver.next_deadline() - watched.clock())
            driver.step()
        answer, self._answer = self._answer, None
        return answer

    def poll(self, timeout_ms: int | None) -> None:
        """Take an answer, waiting so long at most; what it says is noted at once."""
        if self._hands is None or not self.busy:
            return
        answer = self._hands.answer(timeout_ms)
        if answer is None:
            return
        self.busy = False
        self._answer = answer
        if answer[0] == ITEM:
            self._watched.note(answer[1])
        else:
            self._watched.rest()

    def cancel(self) -> None:
        """Have the pending read end, in the way that the caller gave us; without one there is none."""
        if self._cancel is None:
            self._watched.stuck(
                "the source is still being read in a thread: give `guard` a `cancel` that ends it"
            )
            self._watched.effects.end(1)
            return
        try:
            self._cancel()
        except Exception as error:  # noqa: BLE001 - the stop goes on without it
            self._watched.story.note(f"cancel raised {error!r}")

    def abandon(self) -> None:
        """Leave the thread behind: it ends when its read does."""

    def close(self, wait: float) -> Exception | None:
        """Have the source closed and the thread end; return what that raised. Nobody waits for a thread in a read."""
        hands, self._hands, self._pulse.source = self._hands, None, None
        if hands is None:
            return None
        hands.ask_to_close()
        if self.busy or not wait:
            return None
        answer = hands.answer(round(wait * 1000))
        if answer is None:
            self._watched.stuck(f"close() of the source did not end within {wait:.0f}s and was left behind")
            return None
        return answer[1] if isinstance(answer[1], Exception) else None


__all__ = ["CLOSED", "ITEM", "RAISED", "Answer", "HandOver", "ThreadReading"]
