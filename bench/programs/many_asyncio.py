"""many_asyncio COUNT FOLDER COMMAND...: the same as many_logs.py by asyncio's subprocesses and streams."""

import asyncio
import os
import resource
import sys

count, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def follow(process: asyncio.subprocess.Process, number: int) -> None:
    """Write each line of a program into its log."""
    with open(f"{folder}/ticker-{number:05}.log", "ab", buffering=0) as log:  # noqa: ASYNC230 - as everybody does
        async for line in process.stdout:
            log.write(line)


async def main() -> None:
    """Start all of them, then follow them until stdin ends."""
    print("ready", flush=True)
    sys.stdin.readline()
    os.makedirs(folder, exist_ok=True)
    processes, tasks = [], []
    for number in range(count):
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        processes.append(process)
        tasks.append(asyncio.create_task(follow(process, number)))
    print("started", flush=True)
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, over.set)
    await over.wait()
    for process in processes:
        process.kill()
    await asyncio.gather(*tasks)


asyncio.run(main())
