"""One suite for the three hosts: the same runs, blocking, under asyncio and under trio, with real processes.

A host is a function that runs some coroutine-like jobs at once and returns their results in order. What is asked of
one is asked of all.
"""

import asyncio
import gc
import signal
import threading
import time

import pytest
import trio

import helpers
import longwatch
from longwatch import Limits
from longwatch.posix.identity import ignores
from longwatch.testing import children

IDLE = 0.4


def blocking(*jobs):
    """Run each job in a thread of its own, as a blocking program with several would."""
    results = [None] * len(jobs)

    def work(place, job):
        results[place] = longwatch.run(*job[0], **job[1])

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def under_asyncio(*jobs):
    """Run all jobs in one asyncio loop."""

    async def main():
        before = asyncio.all_tasks()
        results = await asyncio.gather(*(longwatch.run_async(*words, **options) for words, options in jobs))
        assert asyncio.all_tasks() == before
        return results

    return asyncio.run(main(), debug=True)


def under_trio(*jobs):
    """Run all jobs in one trio loop."""
    results = [None] * len(jobs)

    async def work(place, job):
        results[place] = await longwatch.run_async(*job[0], **job[1])

    async def main():
        async with trio.open_nursery() as nursery:
            for pair in enumerate(jobs):
                nursery.start_soon(work, *pair)

    trio.run(main)
    return results


HOSTS = {"blocking": blocking, "asyncio": under_asyncio, "trio": under_trio}


@pytest.fixture(params=HOSTS)
def host(request):
    """Return a function that runs one program under each host in turn."""

    def run(*words, **options):
        return HOSTS[request.param]((words, options))[0]

    return run


@pytest.fixture(params=HOSTS)
def hosts(request):
    """Return a function that runs many programs at once under each host in turn."""
    return HOSTS[request.param]


@pytest.fixture(scope="module", autouse=True)
def _everything_is_loaded():
    """The fast gear and the event loops load what they need, and keep it."""
    for host in HOSTS.values():
        host(((["true"],), {}))


@pytest.fixture(autouse=True)
def _nothing_of_the_host_changes():
    """No run changes a handler, starts a thread that stays, or keeps a descriptor."""
    gc.collect()
    handlers = [signal.getsignal(number) for number in range(1, 32)]
    threads = threading.active_count()
    descriptors = helpers.descriptors()
    yield
    gc.collect()
    assert [signal.getsignal(number) for number in range(1, 32)] == handlers
    assert threading.active_count() == threads
    assert helpers.descriptors() <= descriptors


@pytest.mark.capability("CAP-1", "CAP-2")
def test_ticks_keep_a_run_alive(host):
    """Who ticks for three windows is not flagged, and the last tick is there."""
    result = host(children.ticker(IDLE / 4, count=12), Limits(idle=IDLE))
    assert (result.termination_reason, result.exit_code, result.limit) == ("exited", 0, None)
    assert result.duration_ms >= 3 * IDLE * 1000
    assert result.stdout == "tick\n" * 12


@pytest.mark.capability("CAP-1", "CAP-2")
def test_silence_is_stopped(host):
    """Who says nothing is stopped at the window and collected."""
    result = host(children.silent(), Limits(idle=IDLE))
    assert (result.termination_reason, result.signal, result.stdout) == ("idle", "TERM", "")
    assert result.idle_ms >= IDLE * 1000


@pytest.mark.capability("CAP-1", "CAP-2")
def test_ticks_then_silence(host):
    """Who falls silent is stopped one window after his last word, and his words are kept."""
    result = host(children.ticks_then_silent(3), Limits(idle=IDLE))
    assert (result.termination_reason, result.stdout) == ("idle", "tick 0\ntick 1\ntick 2\n")
    assert result.idle_ms >= IDLE * 1000


def test_stderr_alone_is_progress(host):
    """Who ticks on stderr alone is alive."""
    result = host(children.ticker(IDLE / 4, count=8, stream="stderr"), Limits(idle=IDLE))
    assert (result.termination_reason, result.stdout, result.stderr) == ("exited", "", "tick\n" * 8)


@pytest.mark.parametrize("code", [0, 3])
def test_a_fast_exit_is_not_flagged(host, code):
    """Who is done at once has his own status and all his output."""
    result = host(children.exits(code, "word"), Limits(idle=IDLE))
    assert (result.termination_reason, result.exit_code, result.stdout) == ("exited", code, "word")


@pytest.mark.capability("CAP-10")
def test_a_grandchild_that_holds_the_pipe(host):
    """Who leaves somebody on his pipes is over after a short drain, with his status and text."""
    result = host(children.holds_pipe(30))
    assert (result.termination_reason, result.exit_code, result.stdout) == ("exited", 0, "done\n")
    assert result.leftovers["count"] == 1
    assert result.duration_ms < 5_000


@pytest.mark.fault("E1")
def test_a_shell_that_waits_for_a_silent_sleeper(host):
    """From the decision to the return it takes no longer than grace and drain, and the sleeper is gone."""
    started = time.monotonic()
    result = host(["sh", "-c", "sleep 60 & wait"], Limits(idle=IDLE, grace=1))
    assert result.termination_reason == "idle"
    assert time.monotonic() - started < IDLE + 1 + 2


def test_a_flood_does_not_starve_its_host(host):
    """Who writes as fast as he can is captured and stopped at his time."""
    result = host(children.flood(), Limits(timeout=0.5))
    assert result.termination_reason == "timeout"
    assert result.report["stdout"]["bytes"] > 1 << 20


def test_a_failed_start(host):
    """Who cannot be started is a result under every host."""
    assert host(["no-such-program-here"]).returncode == 127


def test_many_at_once(hosts):
    """Many runs at once take about as long as one, and each has its own end."""
    jobs = [((["sh", "-c", f"echo {n}; sleep 0.5; exit {n}"],), {}) for n in range(11)]
    started = time.monotonic()
    *results, silent = hosts(*jobs, ((children.silent(), Limits(idle=IDLE)), {}))
    seconds = time.monotonic() - started
    assert [(result.stdout, result.exit_code) for result in results] == [(f"{n}\n", n) for n in range(11)]
    assert silent.termination_reason == "idle"
    assert seconds * 1000 < sum(result.duration_ms for result in results) / 2


def in_asyncio(main):
    """Run a coroutine function; nothing may be left of it."""
    return asyncio.run(main(), debug=True)


async def until(true, deadline=10.0):
    """Wait in the loop until something is true."""
    end = time.monotonic() + deadline
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def started(pids=1):
    """Return the children of this process once they are there."""

    def ready():
        found = helpers.descendants()
        return (
            found if len(found) >= pids and all("python" in helpers.command_line(p) for p in found) else None
        )

    for _ in range(1000):
        if found := ready():
            return found
        if trio.lowlevel.in_trio_run():
            await trio.sleep(0.005)
        else:
            await asyncio.sleep(0.005)
    raise AssertionError("nothing was started")


class TestCancelledAsyncio:
    """A cancellation of asyncio goes on when the tree is gone."""

    @pytest.mark.fault("E1")
    def test_cancelled_half_way(self):
        """A cancelled run ends its tree within its bounds, and then the task is cancelled."""

        async def main():
            task = asyncio.create_task(longwatch.run_async(["sh", "-c", "sleep 60 & wait"]))
            await asyncio.to_thread(helpers.wait_until, lambda: len(helpers.descendants()) == 2)
            before = time.monotonic()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert task.cancelled()
            assert helpers.descendants() == []
            assert time.monotonic() - before < 5

        asyncio.run(main())
        assert helpers.descendants() == []

    def test_the_tree_may_clean_up(self):
        """The program hears TERM and has its grace."""

        async def main():
            task = asyncio.create_task(longwatch.run_async(children.handles_term(), output="pass"))
            pids = await started()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            assert not any(map(helpers.alive, pids))

        in_asyncio(main)

    def test_the_timeout_of_the_host(self):
        """`asyncio.timeout` raises TimeoutError as it should, when the tree is gone."""

        async def main():
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await longwatch.run_async(children.silent())
            assert helpers.descendants() == []

        in_asyncio(main)

    def test_a_second_cancellation_kills(self):
        """Who cancels again does not wait for the grace."""

        async def main():
            task = asyncio.create_task(longwatch.run_async(children.ignores_term(), Limits(grace=60)))
            [child] = await started()
            await until(lambda: ignores(child, signal.SIGTERM))
            before = time.monotonic()
            task.cancel()
            await asyncio.sleep(0.1)  # nothing is waited for: the grace goes on meanwhile
            assert not task.done()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            assert time.monotonic() - before < 4

        in_asyncio(main)

    def test_a_task_group(self):
        """The failure of a neighbour stops the run with the group."""

        async def fail():
            await started()
            raise ValueError("neighbour")

        async def together():
            async with asyncio.TaskGroup() as group:
                group.create_task(longwatch.run_async(children.silent()))
                group.create_task(fail())

        async def main():
            with pytest.raises(ExceptionGroup):
                await together()
            assert helpers.descendants() == []

        in_asyncio(main)

    def test_a_loop_that_is_thrown_away(self):
        """A coroutine that is never awaited to its end kills its tree when it is closed."""
        loop = asyncio.new_event_loop()
        run = longwatch.run_async(children.silent())
        task = loop.create_task(run)
        assert loop.run_until_complete(started())
        run.close()
        assert helpers.descendants() == []
        task._log_destroy_pending = False
        loop.close()

    def test_an_error_inside_is_raised_and_nothing_stays(self, monkeypatch):
        """A defect of ours is an exception at the caller, not a run that hangs, and its tree is killed."""

        def broken(driver):
            raise ZeroDivisionError("defect")

        async def main():
            task = asyncio.create_task(longwatch.run_async(children.silent(), Limits(idle=1)))
            await started()
            monkeypatch.setattr("longwatch.runtime.driver.Driver.step", broken)
            with pytest.raises(ZeroDivisionError):
                await task
            assert helpers.descendants() == []

        in_asyncio(main)


class TestCancelledTrio:
    """A cancellation of trio goes on when the tree is gone."""

    @pytest.mark.fault("E1")
    def test_cancelled_half_way(self):
        """A cancelled run ends its tree, shielded and within its bounds."""

        async def main():
            with trio.move_on_after(0.4) as scope:
                await longwatch.run_async(["sh", "-c", "sleep 60 & wait"])
            assert scope.cancelled_caught
            assert helpers.descendants() == []

        before = time.monotonic()
        trio.run(main)
        assert time.monotonic() - before < 5

    def test_stubborn_programs_are_killed_after_the_grace(self):
        """Who ignores TERM is killed within 5 s however long the grace, and cancelling again changes nothing."""

        async def main():
            with trio.move_on_after(0.5), trio.move_on_after(0.6):
                await longwatch.run_async(children.ignores_term(), Limits(grace=0.5))
            assert helpers.descendants() == []

        trio.run(main)

    def test_a_neighbour_that_fails(self):
        """The failure of a neighbour stops the run with the nursery."""

        async def fail():
            await started()
            raise ValueError("neighbour")

        async def together():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(longwatch.run_async, children.silent())
                nursery.start_soon(fail)

        async def main():
            with pytest.raises(ExceptionGroup):
                await together()
            assert helpers.descendants() == []

        trio.run(main)


class TestAsyncioItself:
    """What a run does to an event loop: nothing."""

    @pytest.mark.capability("CAP-1")
    def test_no_child_watcher(self):
        """A loop whose own subprocess support cannot work runs programs all the same, also beside the main thread."""

        def other_thread(results):
            results.append(asyncio.run(longwatch.run_async(["echo", "word"])))

        results = []
        thread = threading.Thread(target=other_thread, args=(results,))
        thread.start()
        thread.join()
        assert results[0].check().stdout == "word\n"

    def test_subprocesses_of_the_host_live_on(self):
        """The host's own asyncio subprocesses work beside ours, and keep their status."""

        async def main():
            theirs = await asyncio.create_subprocess_exec("sh", "-c", "sleep 0.2; exit 7")
            ours = await longwatch.run_async(["sh", "-c", "exit 3"])
            return ours.exit_code, await theirs.wait()

        assert in_asyncio(main) == (3, 7)

    def test_a_blocked_loop_is_no_silence(self):
        """While the host blocks its loop nobody looks: the program gets its window anew, and the lapse is on record."""

        async def main():
            run = asyncio.create_task(longwatch.run_async(children.ticker(0.1), Limits(idle=1)))
            await started()
            await asyncio.sleep(0.3)
            time.sleep(2.5)  # noqa: ASYNC251 - a rude host
            await asyncio.sleep(0.3)
            assert not run.done()
            run.cancel()
            await asyncio.wait([run])

        asyncio.run(main())

    def test_the_loop_stays_responsive(self):
        """A run gives the loop its time: other tasks go on while a program floods."""

        async def main():
            run = asyncio.create_task(longwatch.run_async(children.flood(), Limits(timeout=1)))
            turns = 0
            while not run.done():
                await asyncio.sleep(0.01)
                turns += 1
            return turns

        assert asyncio.run(main()) > 20
