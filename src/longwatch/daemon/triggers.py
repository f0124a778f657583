"""Whether a webhook is from whom it says: the signatures of the forges, of Standard Webhooks, and two plain ways.

Pure: headers, body and the time go in, the delivery's id comes out. Every comparison takes the same time for a good
and for a bad value. A refusal never repeats what was sent.
"""

import binascii
import hashlib
import hmac
from base64 import b64decode
from collections.abc import Mapping

from longwatch.core.record import Plain

MIB = 1 << 20
#: Bodies, in bytes: what is taken unless the file says otherwise, and what it may say at most.
BODY, MOST_BODY = 1 * MIB, 25 * MIB
#: Deliveries a minute that one trigger takes.
RATE = 60
#: How far the sender's clock may be from ours, in seconds (the Standard Webhooks' own number).
TOLERANCE = 300
_LONGEST_ID = 256

BEARER, HMAC, GITHUB, GITLAB, GITEA, STANDARD = (
    "bearer", "hmac-sha256", "github", "gitlab", "gitea", "standard-webhooks",
)  # fmt: skip
#: Forgejo sends what Gitea sends, under both names.
ALIASES = {"forgejo": GITEA}
PRESETS = (BEARER, HMAC, GITHUB, GITLAB, GITEA, STANDARD)
#: The header of the plain signature where the file names none.
SIGNATURE = "X-Signature-256"
#: What tells the kind of an event; kept with the payload. Nothing else of the headers is: they hold secrets.
EVENT_HEADERS = ("x-github-event", "x-gitlab-event", "x-gitea-event", "x-forgejo-event", "webhook-event")


class UnverifiedError(Exception):
    """The request does not prove who it is from. `str()` says what is missing, never what was sent."""


class Hook(Plain):
    """One webhook of a harness: how it is verified, what it takes in. Sizes in bytes, `rate` per minute."""

    __slots__ = ("harness", "header", "max_body", "rate", "secret", "trigger", "verify")

    def __init__(
        self, harness: str, trigger: str, verify: str, secret: str,
        header: str | None = None, max_body: int | None = None, rate: int | None = None,
    ) -> None:  # fmt: skip
        self.harness = harness
        self.trigger = trigger
        self.verify = ALIASES.get(verify, verify)
        self.secret = secret
        self.header = (header or SIGNATURE).lower()
        self.max_body = min(max_body or BODY, MOST_BODY)
        self.rate = rate or RATE
        if self.verify not in PRESETS:
            raise ValueError(f"no way to verify is called {verify}")
        if not secret:
            raise ValueError(f"the webhook {trigger} of {harness} has no secret")


def verify(hook: Hook, headers: Mapping[str, str], body: bytes, now: int) -> str | None:
    """Return the delivery's id, None where the sender gives none. `headers` have names in small letters, `now` is s.

    Raises UnverifiedError.
    """
    _CHECKS[hook.verify](hook, headers, body, now)
    for name in _DELIVERIES.get(hook.verify, ()):
        found = headers.get(name, "")
        if found:
            return found[:_LONGEST_ID]
    return None


def event_of(headers: Mapping[str, str]) -> str | None:
    """Return what kind of event the sender says that it is."""
    return next((headers[name][:_LONGEST_ID] for name in EVENT_HEADERS if headers.get(name)), None)


def _bearer(hook: Hook, headers: Mapping[str, str], _body: bytes, _now: int) -> None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer":
        raise UnverifiedError("the header Authorization holds no bearer token")
    _require(_same(token.strip(), hook.secret), "the token is not the trigger's")


def _plain_hmac(hook: Hook, headers: Mapping[str, str], body: bytes, _now: int) -> None:
    _require_hex(hook, headers.get(hook.header, ""), body, hook.header)


def _github(hook: Hook, headers: Mapping[str, str], body: bytes, _now: int) -> None:
    _require_hex(hook, headers.get("x-hub-signature-256", ""), body, "X-Hub-Signature-256")


def _gitlab(hook: Hook, headers: Mapping[str, str], body: bytes, now: int) -> None:
    token = headers.get("x-gitlab-token", "")
    if token:
        _require(_same(token, hook.secret), "the header X-Gitlab-Token is not the trigger's")
    elif "webhook-signature" in headers:  # what it sends where a signing token is set
        _standard(hook, headers, body, now)
    else:
        raise UnverifiedError("the header X-Gitlab-Token is missing")


def _gitea(hook: Hook, headers: Mapping[str, str], body: bytes, _now: int) -> None:
    given = headers.get("x-forgejo-signature") or headers.get("x-gitea-signature", "")
    _require_hex(hook, given, body, "X-Gitea-Signature")


def _standard(hook: Hook, headers: Mapping[str, str], body: bytes, now: int) -> None:
    name, stamp, given = (headers.get(f"webhook-{part}", "") for part in ("id", "timestamp", "signature"))
    if not (name and stamp and given):
        raise UnverifiedError(
            "one of the headers webhook-id, webhook-timestamp and webhook-signature is missing"
        )
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) < 16):
        raise UnverifiedError("the header webhook-timestamp holds no seconds")
    if abs(now - int(stamp)) > TOLERANCE:
        raise UnverifiedError(f"it was signed more than {TOLERANCE} s from now")
    signed = f"{name}.{stamp}.".encode("latin-1") + body
    wanted = hmac.digest(_key(hook.secret), signed, hashlib.sha256)
    good = [_equal(_decoded(word[3:]), wanted) for word in given.split() if word.startswith("v1,")]
    _require(any(good), "the signature is wrong")


def _key(secret: str) -> bytes:
    """Return the key that a secret stands for: `whsec_` and base64, or the text itself."""
    if not secret.startswith("whsec_"):
        return secret.encode()
    return _decoded(secret.removeprefix("whsec_")) or secret.encode()


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""


def _require_hex(hook: Hook, given: str, body: bytes, header: str) -> None:
    if not given:
        raise UnverifiedError(f"the header {header} is missing")
    wanted = hmac.new(hook.secret.encode(), body, hashlib.sha256).hexdigest()
    _require(_same(given.strip().removeprefix("sha256=").lower(), wanted), "the signature is wrong")


def _require(good: bool, problem: str) -> None:
    if not good:
        raise UnverifiedError(problem)


def _same(given: str, wanted: str) -> bool:
    """Compare what came in a header, whose bytes are read as Latin-1, with a text of ours."""
    return _equal(given.encode("latin-1", "replace"), wanted.encode())


def _equal(given: bytes, wanted: bytes) -> bool:
    return hmac.compare_digest(given, wanted)


_CHECKS = {
    BEARER: _bearer, HMAC: _plain_hmac, GITHUB: _github, GITLAB: _gitlab, GITEA: _gitea, STANDARD: _standard,
}  # fmt: skip
_DELIVERIES = {
    BEARER: ("webhook-id", "idempotency-key"),
    HMAC: ("webhook-id", "idempotency-key"),
    GITHUB: ("x-github-delivery",),
    GITLAB: ("idempotency-key", "webhook-id", "x-gitlab-event-uuid"),
    GITEA: ("x-forgejo-delivery", "x-gitea-delivery"),
    STANDARD: ("webhook-id",),
}
