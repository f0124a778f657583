"""asyncio_pump [--idle MS] COMMAND...: what one would write with asyncio: a stream reader, and a lazy idle timer."""

import asyncio
import os
import signal
import sys


class Idle:
    """Calls back once nothing was seen for a while; a sighting costs one store."""

    def __init__(self, window: float, callback) -> None:
        self.loop = asyncio.get_running_loop()
        self.window = window
        self.callback = callback
        self.last = self.loop.time()
        self.loop.call_later(window, self._look)

    def seen(self) -> None:
        self.last = self.loop.time()

    def _look(self) -> None:
        due = self.last + self.window
        if self.loop.time() >= due:
            self.callback()
        else:
            self.loop.call_at(due, self._look)


async def main(words: list[str]) -> int:
    window = 300.0
    if words[0] == "--idle":
        window = int(words[1]) / 1000
        words = words[2:]
    child = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    idle = Idle(window, lambda: os.killpg(child.pid, signal.SIGTERM))
    asyncio.get_running_loop().add_signal_handler(
        signal.SIGTERM, lambda: os.killpg(child.pid, signal.SIGTERM)
    )
    while data := await child.stdout.read(65536):
        idle.seen()
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
    return await child.wait()


sys.exit(abs(asyncio.run(main(sys.argv[1:]))))
