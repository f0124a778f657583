"""Server-sent events read with the standard library: one after the other, and on after a broken connection."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import urlencode

from longwatch.api.failures import DaemonError
from longwatch.api.wire import EVENTS

Event = dict[str, Any]
Begin = Callable[[str, Mapping[str, str], float], tuple[HTTPConnection, HTTPResponse]]
#: The other end says something at least every 15 s.
_SILENCE = 45.0
#: How long to wait for an API that is started anew, in seconds, in all and between two attempts.
_WAIT, _PAUSE = 10.0, 0.2


class Following:
    """The events of a daemon from now on, or from behind `since`. `begin` makes the request."""

    def __init__(self, begin: Begin, since: int | None, harnesses: tuple[str, ...], patience: float) -> None:
        self._begin = begin
        self._last = since
        self._harnesses = harnesses
        self._patience = patience

    def __iter__(self) -> Iterator[Event]:
        """Yield events. Raises what `begin` raises, when it still does after some seconds."""
        connection, response = self._begin(self._path(), self._headers(), self._patience)
        while True:
            try:
                yield from self._read(connection, response)
            finally:
                connection.close()
            connection, response = self._again()

    def _read(self, connection: HTTPConnection, response: HTTPResponse) -> Iterator[Event]:
        if connection.sock is not None:
            connection.sock.settimeout(_SILENCE)
        data: list[str] = []
        try:
            for raw in response:
                line = raw.decode("utf-8", "replace").rstrip("\r\n")
                if line.startswith("id:"):
                    self._note(line[3:].strip())
                elif line.startswith("data:"):
                    data.append(line[5:].lstrip(" "))
                elif not line and data:
                    event = _event("\n".join(data))
                    data.clear()
                    if event is not None:
                        yield event
        except (OSError, HTTPException, ValueError):
            return  # it hung up, or is silent for too long

    def _note(self, number: str) -> None:
        """Note up to where everything is known: even a stream that is silent says so at its beginning."""
        if number.isdecimal():
            self._last = int(number)

    def _again(self) -> tuple[HTTPConnection, HTTPResponse]:
        end = time.monotonic() + _WAIT
        while True:
            try:
                return self._begin(self._path(), self._headers(), self._patience)
            except DaemonError:
                if time.monotonic() >= end:
                    raise
            time.sleep(_PAUSE)

    def _path(self) -> str:
        asked: dict[str, Any] = {"harness": list(self._harnesses)}
        if self._last is not None:
            asked["since"] = self._last
        return "/v1/events?" + urlencode(asked, doseq=True)

    def _headers(self) -> dict[str, str]:
        last = {} if self._last is None else {"Last-Event-ID": str(self._last)}
        return {"Accept": EVENTS, **last}


def _event(text: str) -> Event | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
