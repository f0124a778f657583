"""The async guard in real event loops: who is cancelled by whom, what is closed when, and what it leaves behind."""

import asyncio
import gc
import threading
import weakref

import pytest
import trio
import trio.lowlevel

from guarded import HANG, World, collect
from longwatch import IdleReached, LimitReached, Limits, TimeoutReached, UsageError, guard
from longwatch.observe.events import Text, ToolCalled
from longwatch.runtime import rounds
from longwatch.streams import cancelling, closing

SOON = Limits(idle=0.1)
LONG = Limits(idle=30)


async def pause(seconds):
    """Sleep in whichever loop runs us."""
    if trio.lowlevel.in_trio_run():
        await trio.sleep(seconds)
    else:
        await asyncio.sleep(seconds)


class Source:
    """An iterator, no generator, that yields what it has and then waits; it notes what happens to it."""

    def __init__(self, *items, wait=60.0):
        self.items = list(items)
        self.wait = wait
        self.notes = []

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.items:
            return self.items.pop(0)
        try:
            await pause(self.wait)
        except BaseException as error:
            self.notes.append(type(error).__name__)
            raise
        raise StopAsyncIteration

    async def aclose(self):
        self.notes.append("closed")


class Deaf(Source):
    """One that swallows its cancellation and waits on."""

    async def __anext__(self):
        if self.items:
            return self.items.pop(0)
        while True:
            try:
                await pause(self.wait)
            except asyncio.CancelledError:
                self.notes.append("deaf")


def under_asyncio(main):
    """Run in asyncio, in debug mode."""
    return asyncio.run(main(), debug=True)


def under_trio(main):
    """Run in trio."""
    return trio.run(main)


HOSTS = pytest.mark.parametrize("host", [under_asyncio, under_trio])


@pytest.fixture(autouse=True)
def _no_loop_is_remembered():
    """When a stream is over, nothing of its loop is kept."""
    yield
    gc.collect()
    assert rounds._OF_LOOP == {}


class TestReads:
    """A guard is the iterator that it guards."""

    @HOSTS
    def test_the_items_are_the_sources_own(self, host):
        """What the source yields comes out, the very same objects, in their order; then it ends, for ever."""
        items = [object(), Text("a"), {"b": 1}, None, Text("c")]

        async def main():
            stream = guard(Source(*items, wait=0))
            assert aiter(stream) is stream
            read = [item async for item in stream]
            assert all(one is other for one, other in zip(read, items, strict=True))
            for _ in range(2):
                with pytest.raises(StopAsyncIteration):
                    await anext(stream)
            return stream.report

        report = host(main)
        assert (report["termination_reason"], report["outcome"], report["exit_code"]) == (
            "exited",
            "success",
            0,
        )

    @HOSTS
    def test_silence(self, host):
        """A source that falls silent is cancelled and closed, and the read raises."""
        source = Source(Text("a"))

        async def main():
            with pytest.raises(IdleReached) as caught:
                await collect(guard(source, SOON))
            return caught.value

        error = host(main)
        assert (error.partial, error.window_ms, error.elapsed_ms) == ("a", 100, 100)
        assert source.notes == [source.notes[0], "closed"]
        assert source.notes[0] in ("CancelledError", "Cancelled")

    @HOSTS
    @pytest.mark.parametrize("failure", [ValueError("bad"), TimeoutError("theirs"), IdleReached("theirs")])
    def test_an_error_of_the_source(self, host, failure):
        """What the source raises is raised as it is, after the source was closed; a timeout of its own, too."""

        class Broken(Source):
            async def __anext__(self):
                raise failure

        async def main():
            source = Broken()
            stream = guard(source)
            with pytest.raises(type(failure)) as caught:
                await anext(stream)
            assert caught.value is failure
            assert source.notes == ["closed"]
            return stream.report

        report = host(main)
        assert (report["termination_reason"], report["exit_code"], report["outcome"]) == (
            "exited",
            1,
            "failed",
        )

    @HOSTS
    def test_a_generator(self, host):
        """A generator is closed by its end, an error, a limit and a break alike."""
        closed = []

        async def events():
            try:
                yield 1
                yield 2
                await pause(60)
            finally:
                closed.append(True)

        async def main():
            with pytest.raises(IdleReached):
                await collect(guard(events(), SOON))
            async with guard(events(), SOON) as stream:
                async for _ in stream:
                    break
            assert stream.report["stopped"]["how"] == "cancelled"
            assert stream.report["termination_reason"] == "cancelled"
            assert stream.report["origin"] == "explicit"

        host(main)
        assert closed == [True, True]

    @HOSTS
    def test_an_iterator_that_is_no_iterable(self, host):
        """A source whose iterator cannot be iterated itself is read all the same, and closed."""
        notes = []

        class Iterator:
            items = [1, 2]

            async def __anext__(self):
                if self.items:
                    return self.items.pop(0)
                raise StopAsyncIteration

            async def aclose(self):
                notes.append("closed")

        class Events:
            def __aiter__(self):
                return Iterator()

        class Anew(Events, Iterator):
            """One that begins anew each time."""

        async def main():
            assert await collect(guard(Events())) == [1, 2]
            Iterator.items = [3]
            assert await collect(guard(Anew())) == [3]

        host(main)
        assert notes == ["closed", "closed"]

    def test_words_that_make_no_sense(self):
        """What cannot be watched, and a `cancel` that nobody would call, are refused at once."""
        with pytest.raises(UsageError, match="cancel is for blocking iterators"):
            guard(Source(), cancel=lambda: None)
        with pytest.raises(TypeError):
            guard(7)

    @pytest.mark.capability("CAP-74")
    @pytest.mark.parametrize("source", [Source(), []])
    def test_nobody_can_beat_for_the_source(self, source):
        """There is nothing on a guard that would move its clock without an event."""
        stream = guard(source)
        public = {name for name in dir(stream) if not name.startswith("_")}
        assert public - {"aclose", "close"} == {"last_event", "report", "snapshot", "text"}
        before = stream.snapshot()
        assert (stream.text, stream.report, stream.last_event) == (None, None, "none")
        assert stream.snapshot()["progress_ms"] is before["progress_ms"] is None


class TestCancelled:
    """asyncio: whose cancellation it is."""

    def test_ours_leaves_no_trace(self):
        """After a limit the task is not cancelled: it can wait, and a timeout around it is untouched."""

        async def main():
            task = asyncio.current_task()
            async with asyncio.timeout(30):
                with pytest.raises(IdleReached):
                    await collect(guard(Source(), SOON))
                assert task.cancelling() == 0
                await asyncio.sleep(0.01)

        under_asyncio(main)

    def test_theirs_goes_through(self):
        """A cancellation from elsewhere is one: not a limit, and not swallowed; the block closes the source."""
        source = Source(Text("a"))

        async def consume():
            async with guard(source, LONG) as stream:
                reports.append(stream)
                await collect(stream)

        async def main():
            task = asyncio.create_task(consume())
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        reports = []
        under_asyncio(main)
        assert source.notes == ["CancelledError", "closed"]
        assert (reports[0].report["termination_reason"], reports[0].report["origin"]) == (
            "cancelled",
            "cascade",
        )

    @pytest.mark.parametrize("ours_first", [True, False])
    def test_at_the_same_moment_theirs_wins(self, ours_first):
        """Where a limit and somebody else cancel in the same turn of the loop, the task is cancelled."""
        source = Source(Text("a"))
        world = World()

        async def consume():
            stream = world.guard(source, Limits(idle=5))
            streams.append(stream)
            await collect(stream)

        def both():
            if not ours_first:
                task.cancel()
            while "idle_fired" not in world.names():
                world.clock.jump(world.rounds.armed)
                world.rounds.step()
            if ours_first:
                task.cancel()

        async def main():
            nonlocal task
            task = asyncio.create_task(consume())
            await asyncio.sleep(0.01)
            asyncio.get_running_loop().call_soon(both)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert task.cancelled()

        task, streams = None, []
        under_asyncio(main)
        assert streams[0].report["termination_reason"] == "idle"
        assert source.notes == ["CancelledError", "closed"]

    def test_a_timeout_around_the_loop(self):
        """`asyncio.timeout` around a guarded loop is a timeout, and one inside the limits of another too."""

        async def main():
            source = Source(Text("a"))
            with pytest.raises(TimeoutError) as caught:
                async with asyncio.timeout(0.05), guard(source, LONG) as stream:
                    await collect(stream)
            assert not isinstance(caught.value, LimitReached)
            with pytest.raises(IdleReached):
                async with asyncio.timeout(30):
                    await collect(guard(Source(), SOON))

        under_asyncio(main)

    def test_wait_for_around_a_read(self):
        """A read that is given up is given up alone: the stream goes on, and its limits still hold."""

        async def main():
            source = Source(Text("a"))
            stream = guard(source, Limits(idle=0.3))
            assert await asyncio.wait_for(anext(stream), 5) == Text("a")
            with pytest.raises(TimeoutError) as caught:
                await asyncio.wait_for(anext(stream), 0.03)
            assert not isinstance(caught.value, LimitReached)
            source.items.append(Text("b"))
            assert await asyncio.wait_for(anext(stream), 5) == Text("b")
            with pytest.raises(IdleReached):
                await asyncio.wait_for(anext(stream), 5)

        under_asyncio(main)

    def test_a_task_group(self):
        """A limit is one more error in a group, and cancels the siblings, not itself."""

        async def neighbour():
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                seen.append("neighbour")
                raise

        async def main():
            async with asyncio.TaskGroup() as group:
                group.create_task(neighbour())
                group.create_task(collect(guard(Source(), SOON)))

        seen = []
        with pytest.raises(ExceptionGroup) as caught:
            under_asyncio(main)
        [error] = caught.value.exceptions
        assert isinstance(error, IdleReached)
        assert seen == ["neighbour"]

    @HOSTS
    @pytest.mark.parametrize("inner", [True, False])
    def test_nested_guards(self, host, inner):
        """Of two guards around each other the one whose limit is reached raises, once, through the other."""
        tight, wide = Limits(idle=0.1), Limits(idle=30)

        async def main():
            inside = guard(Source(Text("a")), tight if inner else wide, name="inside")
            outside = guard(inside, wide if inner else tight, name="outside")
            with pytest.raises(IdleReached) as caught:
                await collect(outside)
            await inside.aclose()
            return (
                str(caught.value),
                inside.report["termination_reason"],
                outside.report["termination_reason"],
            )

        text, within, around = host(main)
        assert text.startswith("inside:" if inner else "outside:")
        assert (within, around) == (("idle", "exited") if inner else ("cancelled", "idle"))

    def test_readers_may_change(self):
        """Each read may be in a task of its own; the one that waits is the one that is cancelled."""

        async def bystander(stream):
            item = await anext(stream)
            await asyncio.sleep(0.3)
            return item

        async def main():
            stream = guard(Source(Text("a")), SOON)
            first = asyncio.create_task(bystander(stream))
            await asyncio.sleep(0.01)
            with pytest.raises(IdleReached):
                await anext(stream)
            assert await first == Text("a")

        under_asyncio(main)

    def test_while_the_task_is_being_cancelled(self):
        """Who reads on after his cancellation, to clean up, gets a limit as a limit."""

        async def consume():
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                with pytest.raises(IdleReached):
                    await collect(guard(Source(Text("a")), SOON))
                seen.append("idle")
                raise

        async def main():
            task = asyncio.create_task(consume())
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        seen = []
        under_asyncio(main)
        assert seen == ["idle"]

    @pytest.mark.parametrize("words", [Text("last words"), "last words"])
    def test_a_source_that_answers_its_cancellation(self, words):
        """What it still says is handed out, and the next read raises; the task is not cancelled."""

        class Polite(Source):
            async def __anext__(self):
                if self.items:
                    return self.items.pop(0)
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    self.notes.append("asked")
                    return words

        async def main():
            items, source = [], Polite(words)
            with pytest.raises(IdleReached) as caught:
                await collect(guard(source, SOON), items)
            assert items == [words, words]
            assert caught.value.partial in ("last wordslast words", None)
            assert asyncio.current_task().cancelling() == 0
            assert source.notes == ["asked", "closed"]

        under_asyncio(main)

    def test_a_source_that_ends_for_its_cancellation(self):
        """One that ends or fails when it is cancelled was ended by the limit all the same."""

        class Ends(Source):
            async def __anext__(self):
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    raise ending from None

        async def main():
            with pytest.raises(IdleReached) as caught:
                await anext(guard(Ends(), SOON))
            return caught.value

        ending = StopAsyncIteration()
        assert under_asyncio(main).__cause__ is None
        ending = ConnectionError("hung up")
        assert under_asyncio(main).__cause__ is ending

    def test_a_deaf_source_is_left_behind(self, monkeypatch):
        """Who swallows his cancellation is cancelled again, then his read is closed under him, and that is said."""
        world = World()
        source = Deaf(Text("a"))

        async def main():
            stream = world.guard(source, Limits(idle=5))
            with pytest.raises(IdleReached) as caught:
                await collect(stream)
            assert asyncio.current_task().cancelling() == 0
            return caught.value, stream.report

        error, report = world.asyncio(main)
        assert source.notes == ["deaf", "deaf", "closed"]
        assert (
            error.__notes__
            == ["the source did not heed its cancellation and was left behind"]
            == report["notes"]
        )
        assert report["survivors"] == ["the source"]
        assert world.now() == 5_000 + 5_000 + 3_000
        assert "stream_stuck" in world.names()

    def test_a_deaf_generator(self):
        """So is a generator."""
        world = World()

        async def events():
            yield Text("a")
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    world.heard.append(None)

        async def main():
            with pytest.raises(IdleReached):
                await collect(world.guard(events(), Limits(idle=5), observer=None))

        world.asyncio(main)
        assert world.heard[:2] == [None, None]

    def test_a_thrown_away_read(self):
        """A coroutine that is closed in the middle of a read raises nothing and leaves the guard to be closed."""
        world = World()
        stream = world.guard(Source(), LONG)

        async def main():
            read = anext(stream)
            coroutine = read.__await__() if hasattr(read, "__await__") else read
            coroutine.send(None)
            coroutine.close()
            await stream.aclose()

        asyncio.run(main())
        assert stream.report["termination_reason"] == "cancelled"


class TestTrio:
    """trio: scopes do not mix."""

    def test_theirs_goes_through(self):
        """A scope around the loop is that scope's, and the block closes the source, shielded."""
        source = Source(Text("a"))

        async def main():
            with trio.move_on_after(0.05) as scope:
                async with guard(source, LONG) as stream:
                    await collect(stream)
            assert scope.cancelled_caught
            return stream.report

        report = under_trio(main)
        assert source.notes == ["Cancelled", "closed"]
        assert (report["termination_reason"], report["origin"]) == ("cancelled", "cascade")

    def test_at_the_same_moment_theirs_wins(self):
        """Where the limit and a scope around cancel at once, the scope has it."""
        world = World()

        async def main():
            with trio.CancelScope() as scope:
                async with world.guard(Source(Text("a")), Limits(idle=5)) as stream:
                    stream._watched.effects.teller.tell = lambda fact: scope.cancel()
                    await collect(stream)
            assert scope.cancelled_caught
            return stream.report["termination_reason"]

        assert world.trio(main) in ("idle", "cancelled")

    def test_no_scope_spans_the_consumer(self):
        """What the consumer cancels, and what cancels him, is never caught by a read that is over."""

        async def main():
            stream = guard(Source(Text("a"), Text("b"), wait=0), LONG)
            await anext(stream)
            with trio.CancelScope() as scope:
                scope.cancel()
                await trio.lowlevel.checkpoint()
            assert scope.cancelled_caught
            await collect(stream)

        under_trio(main)

    def test_rounds_end_with_the_last_stream(self):
        """The task of the timer goes when nobody needs it, and comes again."""

        async def tasks():
            await trio.testing.wait_all_tasks_blocked()
            return [task.name for task in all_tasks() if "longwatch" in str(task.name)]

        def all_tasks():
            found = [trio.lowlevel.current_root_task()]
            for task in found:
                found.extend(child for nursery in task.child_nurseries for child in nursery.child_tasks)
            return found

        async def main():
            for _ in range(2):
                one, other = guard(Source(Text("a")), LONG), guard(Source(Text("a")), LONG)
                await anext(one)
                await anext(other)
                assert len(await tasks()) == 1
                await one.aclose()
                assert len(await tasks()) == 1
                await other.aclose()
                assert await tasks() == []

        under_trio(main)


class TestClosing:
    """The source is closed, then `on_close` is called; once."""

    @HOSTS
    @pytest.mark.parametrize("way", ["end", "limit", "error", "break", "aclose"])
    @pytest.mark.parametrize("awaited", [True, False])
    def test_once_in_order(self, host, way, awaited):
        """However the stream ends: the source first, then the hook, and neither again."""
        source = Source(Text("a"), wait=0 if way == "end" else 60)

        async def later():
            await pause(0)
            source.notes.append("on_close")

        async def main():
            stream = guard(
                source, SOON, on_close=later if awaited else lambda: source.notes.append("on_close")
            )
            async with stream:
                if way == "error":
                    source.items.append(None)
                    with pytest.raises(ZeroDivisionError):  # noqa: PT012
                        async for item in stream:
                            1 / (item is not None)
                elif way == "limit":
                    with pytest.raises(IdleReached):
                        await collect(stream)
                elif way == "end":
                    await collect(stream)
                else:
                    await anext(stream)
                if way == "aclose":
                    await stream.aclose()
            await stream.aclose()

        host(main)
        assert [note for note in source.notes if "Cancelled" not in note] == ["closed", "on_close"]

    @HOSTS
    def test_what_closing_raises(self, host):
        """It is raised where nothing else is, and else a note on what is; the hook is called in any case."""

        class Bad(Source):
            async def aclose(self):
                raise OSError("cannot close")

        async def main():
            for wait, wanted in ((0, OSError), (60, IdleReached)):
                with pytest.raises(wanted) as caught:
                    await collect(guard(Bad(wait=wait), SOON, on_close=lambda: hooked.append(True)))
                if wanted is IdleReached:
                    assert caught.value.__notes__ == [
                        "closing the stream failed, too: OSError('cannot close')"
                    ]
            with pytest.raises(ZeroDivisionError) as caught:  # noqa: PT012
                async with guard(Bad(Text("a")), SOON) as stream:
                    await anext(stream)
                    1 / 0  # noqa: B018
            assert caught.value.__notes__ == ["closing the stream failed, too: OSError('cannot close')"]
            with pytest.raises(OSError, match="cannot close"):
                async with guard(Bad(Text("a")), SOON) as stream:
                    await anext(stream)

        hooked = []
        host(main)
        assert hooked == [True, True]

    @HOSTS
    def test_what_hangs_while_closing_is_left(self, host, monkeypatch):
        """A source that does not close is left after its time, and the hook is called; the error says so."""
        monkeypatch.setattr(closing, "CLOSING", 0.05)

        class Slow(Source):
            async def aclose(self):
                await pause(60)

        async def main():
            with pytest.raises(IdleReached) as caught:
                await collect(guard(Slow(), SOON, on_close=lambda: hooked.append(True)))
            return caught.value

        hooked = []
        error = host(main)
        assert error.__notes__ == ["aclose() of the source did not end within 0s and was left behind"]
        assert hooked == [True]

    def test_what_is_deaf_while_closing_is_left(self, monkeypatch):
        """So is one that swallows its cancellation while it closes."""
        monkeypatch.setattr(closing, "CLOSING", 0.03)
        monkeypatch.setattr(cancelling, "HEED", 0.03)

        class Slow(Source):
            async def aclose(self):
                while True:
                    try:
                        await asyncio.sleep(60)
                    except asyncio.CancelledError:
                        self.notes.append("deaf")

        async def main():
            source = Slow(wait=0)
            stream = guard(source)
            await collect(stream)
            assert source.notes == ["deaf"]
            assert asyncio.current_task().cancelling() == 0
            assert stream.report["notes"] == [
                "aclose() of the source did not end within 0s and was left behind"
            ]

        under_asyncio(main)

    def test_cancelled_while_closing(self):
        """A cancellation that comes while the source closes goes through, and the hook is still called."""

        class Slow(Source):
            async def aclose(self):
                await asyncio.sleep(60)

        async def main():
            task = asyncio.create_task(collect(guard(Slow(wait=0), on_close=lambda: hooked.append(True))))
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        hooked = []
        under_asyncio(main)
        assert hooked == [True]

    @HOSTS
    def test_one_that_was_never_read(self, host):
        """Closing a guard before its first read closes the source too."""
        source = Source(Text("a"))

        async def main():
            stream = guard(source)
            await stream.aclose()
            assert [item async for item in stream] == []
            return stream.report["termination_reason"]

        assert host(main) == "cancelled"
        assert source.notes == ["closed"]

    def test_closing_from_another_task(self):
        """Closed while another task waits in a read, that task's loop ends, and it closes the source."""
        source = Source(Text("a"))

        async def main():
            stream = guard(source, LONG)
            task = asyncio.create_task(collect(stream))
            await asyncio.sleep(0.02)
            await stream.aclose()
            assert await task == [Text("a")]
            return stream.report["origin"]

        assert under_asyncio(main) == "explicit"
        assert source.notes == ["CancelledError", "closed"]

    @HOSTS
    @pytest.mark.capability("CAP-84")
    def test_thrown_away(self, host):
        """A guard that is dropped in the middle warns, as a file does, and its loop closes what it held."""
        source = Source(Text("a"))

        async def main():
            stream = guard(source, LONG, on_close=lambda: source.notes.append("on_close"))
            await anext(stream)
            gone = weakref.ref(stream)
            with pytest.warns(ResourceWarning, match="guard of 'stream' was thrown away unfinished"):
                del stream
            assert gone() is None
            await pause(0.02)

        host(main)
        assert source.notes == ["closed", "on_close"]

    @HOSTS
    def test_thrown_away_after_its_loop(self, host):
        """When the loop is gone, too, the hook is all that can be called."""
        notes = []

        async def hook():
            notes.append("never")

        async def main():
            for on_close in (lambda: notes.append("on_close"), hook):
                stream = guard(Source(Text("a")), LONG, on_close=on_close)
                await anext(stream)
                kept.append(stream)

        kept = []
        host(main)
        with pytest.warns(ResourceWarning):
            kept.clear()
        assert notes == ["on_close"]

    @HOSTS
    def test_thrown_away_and_unclosable(self, host):
        """What goes wrong then breaks nobody."""

        class Bad(Source):
            async def aclose(self):
                raise OSError("cannot close")

        async def main():
            stream = guard(Bad(Text("a")), LONG)
            await anext(stream)
            if not trio.lowlevel.in_trio_run():
                asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
            with pytest.warns(ResourceWarning) as caught:  # noqa: PT031
                del stream
                await pause(0.02)
                gc.collect()
            told.extend(str(w.message) for w in caught if "cannot close" in str(w.message))

        told = []
        host(main)
        assert len(told) == 1

    @pytest.mark.capability("CAP-84")
    def test_nothing_holds_up_the_loop(self):
        """A loop ends at once although the timers of a guard would run for minutes."""

        async def main():
            stream = guard(Source(Text("a")), LONG)
            await anext(stream)
            kept.append(stream)

        kept, before = [], threading.active_count()
        under_asyncio(main)
        under_trio(main)
        assert threading.active_count() == before
        with pytest.warns(ResourceWarning):
            kept.clear()

    @pytest.mark.capability("CAP-84")
    def test_after_the_end_nothing_happens(self):
        """Closed again and again, looked at, left alone: an ended stream fires nothing and says nothing."""
        world = World()

        async def main():
            stream = world.guard(world.source([(0, Text("a")), (0, HANG)]), Limits(idle=5))
            await anext(stream)
            await stream.aclose()
            said = world.names()
            await stream.aclose()
            stream.snapshot()
            await world.until(60_000)
            assert world.names() == said
            assert said[-1] == "stream_ended"

        # The test's own wait is all that is left to wait for.
        world.asyncio(main)


class TestRounds:
    """Many streams behind one timer."""

    def test_one_timer(self):
        """A hundred streams have one timer and no task beyond their readers'."""

        async def main():
            loop = asyncio.get_running_loop()
            streams = [guard(Source(Text("a")), LONG) for _ in range(100)]
            readers = [asyncio.create_task(collect(stream)) for stream in streams]
            await asyncio.sleep(0.01)
            timers = [
                timer
                for timer in loop._scheduled
                if "rounds" in repr(timer).lower() and not timer.cancelled()
            ]
            assert len(timers) == 1
            assert len(asyncio.all_tasks()) == 101
            for reader in readers:
                reader.cancel()
            await asyncio.wait(readers)
            for stream in streams:
                await stream.aclose()
            assert rounds._OF_LOOP == {}

        under_asyncio(main)

    def test_a_blocked_loop_is_no_silence(self):
        """While the loop is blocked nobody looks: the silence does not count, for any of its streams."""
        world = World()

        async def main():
            streams = [
                world.guard(world.source([(0, Text("a")), (0, HANG)]), Limits(idle=10)) for _ in range(3)
            ]
            for stream in streams:
                await anext(stream)
            reads = [asyncio.ensure_future(anext(stream)) for stream in streams]
            await world.until(2_000)
            world.clock.advance(60_000)  # somebody blocks the loop
            await asyncio.wait(reads)
            for read in reads:
                assert isinstance(read.exception(), IdleReached)
            return world.now()

        at = world.asyncio(main)
        # The last look before was up to an interval ago; what it had not seen is part of the lapse.
        assert 70_000 <= at <= 72_000
        assert all(lapse["span_ms"] >= 60_000 for lapse in world.of("lapse"))
        assert len(world.of("lapse")) == 3

    def test_who_joins_late_missed_less(self):
        """A stream that was begun while the loop was blocked is told only of its own part."""
        world = World()

        async def main():
            early = world.guard(world.source([(0, Text("a")), (0, HANG)]), Limits(idle=8))
            await anext(early)
            world.clock.advance(60_000)
            late = world.guard(world.source([(0, Text("a")), (0, HANG)]), Limits(idle=8))
            await anext(late)
            with pytest.raises(IdleReached):
                await anext(late)
            await early.aclose()
            return world.now()

        assert 68_000 <= world.asyncio(main) <= 69_100

    def test_streams_with_different_windows(self):
        """Each fires at its own time, also when others come and go."""
        world = World()

        async def one(idle):
            with pytest.raises(IdleReached):
                await collect(world.guard(world.source([(0, HANG)]), Limits(idle=idle)))
            return world.now()

        async def main():
            return await asyncio.gather(*(one(idle) for idle in (900, 3, 60, 200)))

        assert world.asyncio(main) == [900_000, 3_000, 60_000, 200_000]


class TestAdapters:
    """Who reads the events."""

    def test_one_that_is_given(self):
        """A given adapter says what each event means; what it says nothing of is progress."""
        world = World()

        def read(event):
            return [ToolCalled("1", "Bash")] if event == "call" else [Text(event)] if event == "text" else []

        async def main():
            script = [(1_000, "text"), (2_000, "call"), (9_000, "other"), (60_000, HANG)]
            stream = world.guard(world.source(script), Limits(idle=5, call=60), adapter=read)
            with pytest.raises(LimitReached) as caught:
                await collect(stream)
            return caught.value

        error = world.asyncio(main)
        assert (error.reason, error.partial, error.last_event) == ("call", "text", "event")

    def test_one_that_fails(self):
        """What an adapter cannot read has come all the same; that is noted once a kind."""

        def read(event):
            raise KeyError(event)

        async def main():
            stream = guard(Source("a", "b", wait=0), adapter=read)
            assert await collect(stream) == ["a", "b"]
            return stream.report

        report = under_asyncio(main)
        assert report["notes"] == [
            f"the adapter could not read an event of str: KeyError({item!r})" for item in "ab"
        ]
        assert report["progress"]["events"]["count"] == 2

    def test_by_the_class_of_an_event(self):
        """Events of a known SDK are read although nothing was said; others are counted."""

        async def main():
            stream = guard(Source(1, 2, Text("x"), 3, wait=0))
            await collect(stream)
            return stream.text, stream.last_event, stream.report["progress"]["events"]["count"]

        text, last, count = under_asyncio(main)
        assert (text, last) == ("x", "event")
        assert 3 <= count <= 4


def test_a_defect_of_ours_is_raised(monkeypatch):
    """Where the timer finds a defect, the read raises it: a stream that nobody watches is worse."""

    def broken(driver):
        raise ZeroDivisionError("defect")

    async def main():
        stream = guard(Source(Text("a")), SOON)
        await anext(stream)
        monkeypatch.setattr("longwatch.runtime.driver.Driver.step", broken)
        with pytest.raises(ZeroDivisionError):
            await anext(stream)
        await stream.aclose()
        assert stream.report is None

    under_asyncio(main)


def test_without_any_limit():
    """Limits that are all off make a guard that only watches."""

    async def main():
        stream = guard(Source(1, 2, wait=0.05), Limits(idle=0, ceiling=0, call=0, soft=0))
        assert await collect(stream) == [1, 2]

    under_asyncio(main)
    under_trio(main)


def test_the_timeout_of_real_time():
    """`timeout` is moved by nothing, and holds while events keep coming."""

    async def busy():
        while True:
            await asyncio.sleep(0.01)
            yield Text("x")

    async def main():
        with pytest.raises(TimeoutReached) as caught:
            await collect(guard(busy(), Limits(timeout=0.2)))
        assert caught.value.partial.startswith("xxx")

    under_asyncio(main)
