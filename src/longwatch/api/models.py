"""The shapes of the API, for its OpenAPI document and for what clients send. Answers may gain keys, never lose them.

What is sent has to be exact: an unknown key is refused, and so is a number that is written as a text.
"""

from typing import Annotated, Any

from fastapi import Path, Query
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from longwatch.api.wire import OFFSET
from longwatch.daemon.asking import KINDS
from longwatch.store.listing import LISTED

DAY_MS = 24 * 3600 * 1000
_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
#: Bytes of a log in one answer.
MOST_LOG = 1 << 20
#: What `Send` takes, in characters.
MOST_INPUT = 1 << 20


def _whole(value: object) -> object:
    """Take 5.0 for 5, as JSON does."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Milliseconds = Annotated[int, Field(ge=0, le=DAY_MS), BeforeValidator(_whole)]
Side = Annotated[int, Field(ge=1, le=9999), BeforeValidator(_whole)]
Base64 = Annotated[str, Field(pattern=_BASE64)]


class Question(BaseModel):
    """What a client sends."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Answer(BaseModel):
    """What a client gets; it passes over keys that it does not know."""

    model_config = ConfigDict(extra="allow")


class Problem(Answer):
    """Why something was not done (RFC 9457). `detail` is one line; `kind` is one of a closed set."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    kind: Annotated[str, Field(json_schema_extra={"enum": list(KINDS)})]
    nearest: str | None = None


class Hold(Answer):
    """What holds a harness back: `until` (RFC 3339) where its end is known."""

    kind: str
    reason: str | None = None
    until: str | None = None


class LastRun(Answer):
    """How the run before this one ended."""

    run: str | None = None
    outcome: str | None = None
    termination_reason: str | None = None
    origin: str | None = None
    ended_at: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    limit: dict[str, Any] | None = None


class Snapshot(Answer):
    """One harness now. Spans are ms, null for what never happened; times are RFC 3339."""

    name: str
    kind: str
    state: str
    intent: bool | None = None
    since: str | None = None
    run: str | None = None
    attempt: int | None = None
    pid: int | None = None
    pty: bool | None = None
    ready: bool | None = None
    holds: list[Hold] = []
    restarts: int | None = None
    gave_up: str | None = None
    last_error: str | None = None
    stalls: int | None = None
    alive_ms: int | None = None
    progress_ms: int | None = None
    progress_source: str | None = None
    limits: dict[str, Any] = {}
    next_due: str | None = None
    last_run: LastRun | None = None
    queued: Any = None
    log: str | None = None
    note: str | None = None


class Daemon(Answer):
    """The supervisor itself."""

    pid: int | None = None
    version: str | None = None
    config: str | None = None
    started_at: str | None = None
    problems: list[str] = []


class Status(Answer):
    """All harnesses now."""

    harnesses: list[Snapshot]
    daemon: Daemon | None = None


class Run(Answer):
    """One run: of a report what is kept for ever, or what is known while it runs (outcome `running`)."""

    run: str
    outcome: str | None = None
    termination_reason: str | None = None


class Runs(Answer):
    """Past runs and open ones, newest start first."""

    runs: list[Run]
    notes: list[str] = []


class Health(Answer):
    """`ok` is true while the supervisor answers and knows of no problem."""

    ok: bool
    problems: list[str] = []


class Done(Answer):
    """What was done; the keys depend on what was asked."""


class Stop(Question):
    """How to stop: from TERM to KILL in ms, else as the file says."""

    kill_after_ms: Milliseconds | None = None


class Trigger(Question):
    """Fire a harness now; with what it shall be given. `wait`: answer when its run is over.

    `payload` is any JSON value, `base64` bytes that are none; it reaches the run as a file.
    """

    trigger: Annotated[str, Field(max_length=200)] | None = None
    payload: Any = None
    base64: Base64 | None = None
    wait: bool = False


class Send(Question):
    """Bytes to type into a harness's terminal, in base64; with a line's end behind them."""

    data: Base64
    newline: bool = False


class Resize(Question):
    """The size of a terminal."""

    rows: Side
    cols: Side


class Down(Question):
    """End the daemon; `keep`: its harnesses run on."""

    keep: bool = False


class Reload(Question):
    """Read the file anew; `restart` what a change of needs it, `prune` what is not in it any more."""

    dry_run: bool = False
    restart: bool = False
    prune: bool = False


def _dated(text: object) -> object:
    """Refuse seconds since 1970, which would be taken for an instant, too."""
    if isinstance(text, str) and not (text[:4].isdecimal() and text[4:5] == "-"):
        raise ValueError("not RFC 3339, as in 2026-01-02T03:04:05Z")
    return text


Name = Annotated[str, Path(min_length=1, max_length=200, description="A harness.")]
RunId = Annotated[str, Path(min_length=1, max_length=200, description="A run's id, or how only one begins.")]
Tail = Annotated[int | None, Query(ge=0, le=100_000, description="The last lines; 200 without `offset`.")]
Offset = Annotated[int | None, Query(ge=0, le=1 << 53, description=f"From this byte on, as {OFFSET} said.")]
Limit = Annotated[int, Query(ge=1, le=500)]
Instant = Annotated[AwareDatetime, BeforeValidator(_dated)]
Outcome = Annotated[str, Field(json_schema_extra={"enum": list(LISTED)})]
Bytes = Annotated[int, Query(ge=1, le=MOST_LOG)]
