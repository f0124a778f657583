"""What the API process serves, and until when: the supervisor hands it sockets and says what it may read."""

import asyncio
from contextlib import suppress
from typing import Any

from longwatch.api.access import Door, Frame
from longwatch.api.app import app_for
from longwatch.api.bridge import Bridge
from longwatch.api.history import History
from longwatch.api.hooks import Hooks, hooks_for
from longwatch.api.service import Service
from longwatch.api.serving import Listening

#: How long answers that are under way may take when it is to end, in seconds; and in how small steps to look.
_LAST_ANSWERS, _STEP = 2.0, 0.02
#: Bodies by the API: a payload of 25 MiB in base64.
MOST = 36 << 20


async def serve(fd: int) -> None:
    """Serve until the supervisor hangs up, or wants another process in this one's place."""
    retired = asyncio.Event()

    def told(message: dict[str, Any]) -> None:
        if "retire" in message:
            retired.set()
        service.readers.told(message)

    bridge = Bridge(told)
    hello = await bridge.connect(fd)
    folder, web = hello["folder"], hello["web"]
    service = Service(bridge, History(hello["state"], folder), folder)
    frame = Frame(app_for(service), MOST)
    fds = hello["listeners"]
    open_ = [Listening(fds["unix"], frame, private=True)]
    if "web" in fds:
        door = Door(frame, token=web["token"], listen=web["listen"], origins=web.get("origins") or [])
        open_.append(Listening(fds["web"], door, private=False))
    if "hooks" in fds:
        hooks = hooks_for(Hooks(bridge, folder, web["hooks"].get("triggers") or []))
        open_.append(Listening(fds["hooks"], hooks, private=False))
    for listening in open_:
        await listening.open()
    hearing = asyncio.ensure_future(bridge.run())
    retiring = asyncio.ensure_future(retired.wait())
    await asyncio.wait((hearing, retiring), return_when=asyncio.FIRST_COMPLETED)
    for listening in open_:
        listening.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(_LAST_ANSWERS):
            while frame.busy > len(service.readers):  # noqa: ASYNC110 - some looks at the very end
                await asyncio.sleep(_STEP)
