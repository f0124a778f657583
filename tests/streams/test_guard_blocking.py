"""The blocking guard: a thread that reads, a caller that is raised in, and nobody who waits for ever."""

import contextvars
import gc
import subprocess
import sys
import threading
import time
import warnings
import weakref

import pytest

import helpers
from guarded import END, HANG, World
from longwatch import CeilingReached, IdleReached, Limits, TimeoutReached, UsageError, guard
from longwatch.observe.events import Text, ToolCalled
from longwatch.streams import blocking

SOON = Limits(idle=0.1, grace=0.1)
LONG = Limits(idle=30)


class Source:
    """Yields what it has, then waits until it is cancelled; it notes what happens to it, and in which thread."""

    def __init__(self, *items, last=StopIteration):
        self.items = list(items)
        self.cancelled = threading.Event()
        self.last = last
        self.notes = []
        self.reads = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.reads += 1
        self.thread = threading.current_thread()
        if self.items:
            item = self.items.pop(0)
            if isinstance(item, BaseException):
                raise item
            return item
        assert self.cancelled.wait(30)
        raise self.last("cancelled")

    def close(self):
        self.notes.append("closed")

    def cancel(self):
        self.notes.append("cancelled")
        self.cancelled.set()


@pytest.fixture(autouse=True)
def _no_thread_stays():
    """What a test leaves in a thread it lets go."""
    before = set(threading.enumerate())
    yield
    gc.collect()
    helpers.wait_until(lambda: set(threading.enumerate()) <= before, 10)


class TestReads:
    """A guard is the iterator that it guards."""

    def test_the_items_are_the_sources_own(self):
        """What the source yields comes out, the very same objects; then it ends, for ever."""
        items = [object(), Text("a"), None]
        stream = guard(iter(items))
        assert iter(stream) is stream
        read = list(stream)
        assert all(one is other for one, other in zip(read, items, strict=True))
        assert list(stream) == []
        assert stream.report["outcome"] == "success"
        assert stream.text == "a"
        assert stream.last_event == "event"

    def test_it_does_not_run_ahead(self):
        """The thread reads what was asked for, one at a time."""
        source = Source(1, 2, 3)
        with guard(source, LONG, cancel=source.cancel) as stream:
            assert source.reads == 0
            assert next(stream) == 1
            time.sleep(0.03)  # an eager thread would have read on
            assert source.reads == 1
            assert next(stream) == 2

    def test_the_thread_is_a_daemon_with_the_callers_context(self):
        """It holds up no process, and the source sees the caller's context variables."""
        variable = contextvars.ContextVar("variable")
        variable.set("ours")

        def events():
            yield threading.current_thread(), variable.get()

        [(thread, seen)] = guard(events())
        assert thread is not threading.current_thread()
        assert (thread.daemon, thread.name, seen) == (True, "longwatch stream", "ours")

    def test_an_error_of_the_source(self):
        """It is raised in the caller, as it is; then the stream is over."""
        source = Source(1, ValueError("bad"))
        stream = guard(source)
        assert next(stream) == 1
        with pytest.raises(ValueError, match="bad"):
            next(stream)
        assert source.notes == ["closed"]
        assert list(stream) == []
        assert (stream.report["exit_code"], stream.report["termination_reason"]) == (1, "exited")

    def test_silence(self):
        """A source that falls silent is cancelled in the way that was given, and the caller is raised in."""
        source = Source(Text("a"), last=ConnectionError)
        begun = time.monotonic()
        with pytest.raises(IdleReached) as caught:
            list(guard(source, SOON, cancel=source.cancel))
        assert time.monotonic() - begun < 5
        assert (caught.value.partial, caught.value.elapsed_ms) == ("a", 100)
        assert not hasattr(caught.value, "__notes__")
        assert source.notes == ["cancelled", "closed"]

    def test_the_consumers_time_is_no_silence(self):
        """However long the caller takes, the source has its window; a ceiling reached meanwhile is raised at once."""
        world = World()
        stream = world.blocking([(1_000, Text("a")), (2_000, Text("b")), (0, HANG)], Limits(ceiling="20m"))
        next(stream)
        world.clock.advance(600_000)
        assert next(stream) == Text("b")
        world.clock.advance(600_000)
        with pytest.raises(CeilingReached) as caught:
            next(stream)
        assert caught.value.elapsed_ms == 1_200_000
        assert [lapse["span_ms"] >= 600_000 for lapse in world.of("lapse")] == [True, True]

    def test_a_limit_reached_meanwhile_is_raised_without_a_read(self):
        """What was reached while the caller was busy ends the stream before anything more is asked of the source."""
        source = Source(1, 2, 3)
        stream = guard(source, Limits(timeout=0.05))
        next(stream)
        time.sleep(0.06)  # the caller is busy
        with pytest.raises(TimeoutReached):
            next(stream)
        assert (source.reads, source.notes) == (1, ["closed"])

    def test_an_idle_thread_holds_no_event(self):
        """What the caller has let go of is gone, although the thread waits for its next order."""

        class Event:
            pass

        with guard(Source(Event(), 1)) as stream:
            gone = weakref.ref(next(stream))
            helpers.wait_until(lambda: gone() is None)

    def test_a_call_that_was_answered_while_the_consumer_was_busy(self):
        """A short absence of the caller counts for no call either."""
        world = World()
        script = [(0, ToolCalled("1", "Bash")), *((n * 900, Text("x")) for n in range(1, 9)), (9_000, END)]
        stream = world.blocking(script, Limits(idle=0, call=3))
        for _ in stream:
            world.clock.advance(890)


class TestStays:
    """A thread that does not come back."""

    def test_without_a_way_to_cancel(self):
        """It is left behind at once, and the error says what to do about it."""
        source = Source(Text("a"))
        names = []
        begun = time.monotonic()
        with pytest.raises(IdleReached) as caught:
            list(guard(source, Limits(idle=0.1), observer=lambda event: names.append(event.name)))
        assert time.monotonic() - begun < 2
        [note] = caught.value.__notes__
        assert note == "the source is still being read in a thread: give `guard` a `cancel` that ends it"
        assert names[-3:] == ["stop_began", "stream_stuck", "stream_ended"]
        assert source.thread.is_alive()
        source.cancel()

    def test_one_that_does_not_heed(self):
        """It is cancelled again after the grace, and then left, with a note and an event."""
        world = World()
        calls = []
        stream = world.blocking(
            [(0, Text("a")), (0, HANG)], Limits(idle=5), cancel=lambda: calls.append(world.now())
        )
        with pytest.raises(IdleReached) as caught:
            list(stream)
        assert calls == [5_000, 10_000]
        assert world.now() == 13_000
        assert caught.value.__notes__ == ["the source did not heed its cancellation and was left behind"]
        assert stream.report["survivors"] == ["the source"]
        assert "stream_stuck" in world.names()

    def test_a_cancel_that_fails(self):
        """What it raises is noted, and the stop goes on."""
        source = Source(Text("a"))

        def cancel():
            source.cancel()
            raise OSError("no such response")

        with pytest.raises(IdleReached) as caught:
            list(guard(source, SOON, cancel=cancel))
        assert caught.value.__notes__ == ["cancel raised OSError('no such response')"]

    def test_an_answer_to_the_cancellation(self):
        """What the source still says is handed out, and the next read raises."""
        source = Source(Text("a"))

        def cancel():
            source.items.append(Text("last words"))

        def events():
            yield from source.items
            while len(source.items) < 2:
                time.sleep(0.01)  # a source that polls
            yield source.items[1]

        items = []
        with pytest.raises(IdleReached):  # noqa: PT012
            for item in guard(events(), Limits(idle=0.1), cancel=cancel):
                items.append(item)  # noqa: PERF402
        assert items == [Text("a"), Text("last words")]


class TestClosing:
    """The source is closed in its thread, then `on_close` is called; once."""

    @pytest.mark.parametrize("way", ["end", "limit", "break", "close", "error"])
    def test_once_in_order(self, way):
        """However the stream ends."""
        source = Source(Text("a"), *([StopIteration()] if way == "end" else []), last=ConnectionError)
        given = {"cancel": source.cancel, "on_close": lambda: source.notes.append("on_close")}
        with guard(source, SOON, **given) as stream:
            if way == "limit":
                with pytest.raises(IdleReached):
                    list(stream)
            elif way == "end":
                list(stream)
            elif way == "error":
                with pytest.raises(ZeroDivisionError):  # noqa: PT012
                    for _ in stream:
                        1 / 0  # noqa: B018
            else:
                next(stream)
            if way == "close":
                stream.close()
        stream.close()
        assert [note for note in source.notes if note != "cancelled"] == ["closed", "on_close"]

    def test_a_generator(self):
        """A generator is closed where it stands."""
        closed = []

        def events():
            try:
                yield 1
                yield 2
            finally:
                closed.append(threading.current_thread().name)

        with guard(events()) as stream:
            next(stream)
        assert closed == ["longwatch stream"]
        assert (stream.report["termination_reason"], stream.report["origin"]) == ("cancelled", "explicit")

    def test_one_that_was_never_read(self):
        """Closing before the first read starts no thread."""
        called = []
        before = set(threading.enumerate())
        stream = guard(Source(), on_close=lambda: called.append(True))
        stream.close()
        assert list(stream) == []
        assert called == [True]
        assert set(threading.enumerate()) <= before

    def test_what_closing_raises(self):
        """It is raised where nothing else is, and else a note on what is; the hook is called in any case."""

        class Bad(Source):
            def close(self):
                raise OSError("cannot close")

        called = []
        with pytest.raises(OSError, match="cannot close"):
            list(guard(Bad(StopIteration()), on_close=lambda: called.append(True)))
        source = Bad(last=ConnectionError)
        with pytest.raises(IdleReached) as caught:
            list(guard(source, SOON, cancel=source.cancel))
        assert caught.value.__notes__ == ["closing the stream failed, too: OSError('cannot close')"]
        with pytest.raises(ZeroDivisionError) as caught, guard(Bad(1)) as stream:  # noqa: PT012
            next(stream)
            1 / 0  # noqa: B018
        assert caught.value.__notes__ == ["closing the stream failed, too: OSError('cannot close')"]
        with pytest.raises(OSError, match="cannot close"), guard(Bad(1)) as stream:
            next(stream)
        assert called == [True]

    def test_a_hook_that_fails_or_is_async(self):
        """A failing hook is raised; one that would have to be awaited is refused."""

        async def later():
            pass

        with pytest.raises(ZeroDivisionError):
            list(guard([1], on_close=lambda: 1 / 0))
        with pytest.raises(UsageError, match="on_close of a blocking guard is called, not awaited"):
            list(guard([1], on_close=later))

    def test_what_hangs_while_closing_is_left(self, monkeypatch):
        """A source that does not close is left after its time."""
        monkeypatch.setattr(blocking, "CLOSING", 0.05)
        gate = threading.Event()

        class Slow(Source):
            def close(self):
                gate.wait(30)

        stream = guard(Slow(1))
        next(stream)
        stream.close()
        assert stream.report["notes"] == ["close() of the source did not end within 0s and was left behind"]
        gate.set()

    def test_thrown_away(self):
        """A guard that is dropped in the middle warns, and is closed."""
        source = Source(1)
        stream = guard(source, on_close=lambda: source.notes.append("on_close"))
        next(stream)
        gone = weakref.ref(stream)
        with pytest.warns(ResourceWarning, match="guard of 'stream' was thrown away unfinished"):
            del stream
        assert gone() is None
        helpers.wait_until(lambda: sorted(source.notes) == ["closed", "on_close"], 10)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            guard(Source())

    def test_ctrl_c(self):
        """KeyboardInterrupt in the caller closes the source and goes on."""
        source = Source(Text("a"), last=ConnectionError)
        world = World()

        def interrupt(event):
            if event.name == "limit_noted":
                raise KeyboardInterrupt

        stream = guard(source, SOON, cancel=source.cancel, observer=interrupt)
        with pytest.raises(KeyboardInterrupt):
            list(stream)
        assert source.notes == ["cancelled", "closed"]
        assert (stream.report["termination_reason"], stream.report["outcome"]) == (
            "interrupted",
            "interrupted",
        )
        assert list(stream) == []
        assert world.heard == []


@pytest.mark.capability("CAP-84")
def test_process_exit_is_not_held_up():
    """A process whose guards were abandoned in the middle of a read ends at once."""
    program = """
import threading, time
from longwatch import Limits, IdleReached, guard
def events():
    yield 1
    threading.Event().wait(60)
stream = guard(events(), Limits(idle=0.1))
try:
    list(stream)
except IdleReached:
    print("idle")
"""
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True
    )
    assert done.stdout == "idle\n"
    assert time.monotonic() - begun < 10
