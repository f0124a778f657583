"""Ten thousand streams that say nothing, each read by a task of its own: what they cost, as JSON.

`many_streams.py guarded|bare COUNT SECONDS` prints the resident bytes that the streams took, the timers of the loop,
its tasks, and the CPU time of a quiet spell.
"""

import asyncio
import gc
import json
import sys
import time

from longwatch import guard


class Silent:
    """A source that waits for its first event."""

    def __aiter__(self):
        return self

    async def __anext__(self):
        await asyncio.get_running_loop().create_future()


async def consume(stream):
    async for _ in stream:
        pass


def resident():
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096


async def main(kind, count, seconds):
    wrap = guard if kind == "guarded" else iter_of
    first = asyncio.create_task(consume(wrap(Silent())))
    await asyncio.sleep(0)
    before = resident()
    tasks = [asyncio.create_task(consume(wrap(Silent()))) for _ in range(count)]
    begun = time.perf_counter()
    await asyncio.sleep(0)
    opened = time.perf_counter() - begun
    after = resident()
    loop = asyncio.get_running_loop()
    timers = sum(not timer.cancelled() for timer in loop._scheduled)  # noqa: SLF001
    cpu = time.process_time()
    await asyncio.sleep(seconds)
    cpu = time.process_time() - cpu
    print(
        json.dumps(
            {
                "bytes": after - before, "timers": timers, "tasks": len(asyncio.all_tasks() - {first, *tasks}),
                "opening_s": opened, "cpu_s": cpu,
            }
        )
    )  # fmt: skip
    sys.stdout.flush()


def iter_of(source):
    return source


asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])), debug=False)
