"""How verbs talk to a daemon: HTTP over its private socket, with nothing but the standard library.

    daemon = finding.find(config_file, state)      # NoDaemonError when nobody is there
    daemon.status()["harnesses"]

Every failure is a `DaemonError`: its text is one line that can be shown as it is, `status` what a verb ends with.
"""

import json
import socket
from base64 import b64encode
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import quote, urlencode

from longwatch import __version__
from longwatch.api import wire
from longwatch.api.failures import (
    BY_KIND,
    DaemonError,
    HungUpError,
    NoAnswerError,
    NoDaemonError,
    NoSuchHarnessError,
    NotNowError,
    OtherVersionError,
    RefusedError,
    WrongWordsError,
)
from longwatch.api.following import Following

__all__ = [
    "Daemon", "DaemonError", "HungUpError", "NoAnswerError", "NoDaemonError", "NoSuchHarnessError", "NotNowError", "OtherVersionError",
    "RefusedError", "WrongWordsError",
]  # fmt: skip

Answer = dict[str, Any]
#: How long an answer may take that is given at once, in seconds. A daemon that takes longer is stopped or starved.
PATIENCE = 5.0
#: What to do where there is none.
UP = "longwatch up starts it"


class Daemon:
    """A daemon that can be asked. Every call is a connection of its own."""

    def __init__(self, path: str, patience: float = PATIENCE) -> None:
        self.path = path
        self._patience = patience

    def status(self) -> Answer:
        """Return all harnesses, and the daemon itself."""
        return self._get("/v1/harnesses")

    def describe(self, name: str) -> Answer:
        """Return all about one harness."""
        return self._get(_of(name))

    def start(self, name: str) -> Answer:
        """Start it; returns when its run is on record."""
        return self._post(_of(name, "start"), patience=None)

    def stop(self, name: str, kill_after_ms: int | None = None) -> Answer:
        """Stop it; returns when its tree is gone."""
        return self._post(_of(name, "stop"), _grace(kill_after_ms), patience=None)

    def restart(self, name: str, kill_after_ms: int | None = None) -> Answer:
        """Stop it and start it anew."""
        return self._post(_of(name, "restart"), _grace(kill_after_ms), patience=None)

    def trigger(
        self, name: str, trigger: str | None = None, payload: bytes | None = None, *, wait: bool = False
    ) -> Answer:
        """Fire it; `wait`: returns when its run is over."""
        body: Answer = {"trigger": trigger, "wait": wait, **_payload(payload)}
        return self._post(_of(name, "trigger"), body, patience=None)

    def send(self, name: str, data: bytes, *, newline: bool = False) -> Answer:
        """Type bytes into its terminal."""
        return self._post(_of(name, "send"), {"data": b64encode(data).decode(), "newline": newline})

    def resize(self, name: str, rows: int, cols: int) -> Answer:
        """Set the size of its terminal."""
        return self._post(_of(name, "resize"), {"rows": rows, "cols": cols})

    def reload(self, *, dry_run: bool = False, restart: bool = False, prune: bool = False) -> Answer:
        """Apply the file as it is now."""
        return self._post(
            "/v1/reload", {"dry_run": dry_run, "restart": restart, "prune": prune}, patience=None
        )

    def down(self, *, keep: bool = False) -> Answer:
        """End the daemon; returns when everything is stopped, or let go of."""
        return self._post("/v1/down", {"keep": keep}, patience=None)

    def handover(self) -> Answer:
        """Have the daemon let go of its harnesses and end."""
        return self._post("/v1/handover", patience=None)

    def notify_test(self) -> Answer:
        """Send a notice by every channel."""
        return self._post("/v1/notify-test", patience=None)

    def health(self) -> Answer:
        """Return whether the supervisor is well."""
        return self._get("/v1/health")

    def metrics(self) -> str:
        """Return what Prometheus scrapes."""
        return self._bytes("GET", "/v1/metrics").decode()

    def runs(self, **filters: Any) -> Answer:
        """Return runs; the filters are the parameters of GET /v1/runs, lists where they may be repeated."""
        given = {key: value for key, value in filters.items() if value is not None}
        return self._get("/v1/runs?" + urlencode(given, doseq=True))

    def run(self, run: str) -> Answer:
        """Return what is kept of one run."""
        return self._get(f"/v1/runs/{quote(run, safe='')}")

    def log(self, name: str, tail: int | None = None) -> bytes:
        """Return the last lines that a harness printed."""
        return self._bytes("GET", _of(name, "log") + ("" if tail is None else f"?tail={tail}"))

    def events(self, since: int | None = None, harnesses: tuple[str, ...] = ()) -> Iterator[Answer]:
        """Yield what happens, as it happens; `since`: what happened after that number first.

        Goes on after a break of the connection without losing or repeating anything; {"event": "dropped", "count"}
        says that some were lost all the same. Ends with NoDaemonError when the daemon has.
        """
        return iter(Following(self.follow, since, harnesses, self._patience))

    def follow(
        self, path: str, headers: Mapping[str, str], patience: float
    ) -> tuple[HTTPConnection, HTTPResponse]:
        """Begin a request whose answer is read as it comes. The caller closes the connection. Raises DaemonError."""
        connection = self.connect(patience)
        try:
            connection.request("GET", path, headers={**_ours(), **headers})
            response = connection.getresponse()
            self._check(response)
            if response.status >= 300:
                raise _refusal(response.status, response.read())
        except (OSError, HTTPException) as error:
            connection.close()
            raise self._silent(error) from error
        except DaemonError:
            connection.close()
            raise
        return connection, response

    def connect(self, patience: float | None = None) -> HTTPConnection:
        """Connect. Raises NoDaemonError when nobody listens, RefusedError when it is not ours."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(self._patience if patience is None else patience)
        try:
            connection.connect(self.path)
        except PermissionError:
            connection.close()
            raise RefusedError(f"{self.path} belongs to another user") from None
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            raise NoDaemonError(f"no daemon listens at {self.path}; {UP}") from None
        except OSError as error:
            connection.close()
            raise self._silent(error) from error
        http = HTTPConnection("longwatch")
        http.sock = connection
        return http

    def _get(self, path: str) -> Answer:
        return self._answer("GET", path, None, self._patience)

    def _post(self, path: str, body: Answer | None = None, patience: float | None = PATIENCE) -> Answer:
        return self._answer("POST", path, body or {}, patience)

    def _answer(self, verb: str, path: str, body: Answer | None, patience: float | None) -> Answer:
        data = self._bytes(verb, path, body, patience)
        try:
            found = json.loads(data)
        except ValueError as error:
            raise NoAnswerError(f"the daemon at {self.path} gave no answer that can be read") from error
        return found if isinstance(found, dict) else {}

    def _bytes(
        self, verb: str, path: str, body: Answer | None = None, patience: float | None = PATIENCE
    ) -> bytes:
        """Return a whole answer. A look that met the API's process at its end is made once more."""
        try:
            return self._once(verb, path, body, patience)
        except HungUpError:
            if verb != "GET":
                raise
        return self._once(verb, path, body, patience)

    def _once(self, verb: str, path: str, body: Answer | None, patience: float | None) -> bytes:
        connection = self.connect()
        try:
            # The daemon may be stopping a tree: it is there as long as the connection is.
            connection.sock.settimeout(patience)
            sent = None if body is None else json.dumps(body).encode()
            kind = {} if sent is None else {"Content-Type": "application/json"}
            connection.request(verb, path, sent, {**_ours(), **kind})
            response = connection.getresponse()
            self._check(response)
            data = response.read()
        except (OSError, HTTPException) as error:
            raise self._silent(error) from error
        finally:
            connection.close()
        if response.status >= 300 and response.getheader("Content-Type", "").startswith(wire.PROBLEM):
            raise _refusal(response.status, data)
        return data

    def _check(self, response: HTTPResponse) -> None:
        """Raise OtherVersionError for a daemon whose answers mean something else."""
        spoken = response.getheader(wire.HEADER, "")
        if spoken == str(wire.API):
            return
        version = response.getheader(wire.VERSION, "")
        newer = spoken.isdigit() and int(spoken) > wire.API
        word = "newer" if newer else "older"
        way = (
            "use its longwatch, or upgrade this one"
            if newer
            else "longwatch up --replace starts this one in its place"
        )
        raise OtherVersionError(
            f"the daemon is longwatch {version or 'of another kind'}, {word} than this {__version__}; {way}"
        )

    def _silent(self, error: Exception) -> NoAnswerError:
        if isinstance(error, TimeoutError):
            return NoAnswerError(
                f"the daemon at {self.path} does not answer; is it stopped, or the machine starved?"
            )
        return HungUpError(f"the daemon at {self.path} hung up: it has ended, or its API was started anew")


def _refusal(status: int, data: bytes) -> DaemonError:
    try:
        told = json.loads(data)
    except ValueError:
        told = {}
    error = BY_KIND.get(str(told.get("kind")), DaemonError)(
        str(told.get("detail") or f"HTTP status {status}")
    )
    if isinstance(error, NoSuchHarnessError):
        error.nearest = told.get("nearest")
    return error


def _ours() -> dict[str, str]:
    return {wire.HEADER: str(wire.API), "User-Agent": f"longwatch/{__version__}"}


def _of(name: str, verb: str = "") -> str:
    if not name or len(name) > 200:
        raise NoSuchHarnessError(f"no harness {name[:40]!r}")
    return f"/v1/harnesses/{quote(name, safe='')}" + (f"/{verb}" if verb else "")


def _grace(kill_after_ms: int | None) -> Answer:
    return {} if kill_after_ms is None else {"kill_after_ms": kill_after_ms}


def _payload(data: bytes | None) -> Answer:
    """Return a payload as JSON if it is, else as the text that it is, else as bytes."""
    if data is None:
        return {}
    try:
        return {"payload": json.loads(data)}
    except (ValueError, RecursionError):
        pass
    try:
        return {"payload": data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}
