"""Webhooks: who is believed, how many are taken, what is taken twice, and where a payload goes."""

import hashlib
import hmac
import json
import os
import stat
from base64 import b64encode
from pathlib import Path

import pytest

from longwatch.daemon import payloads
from longwatch.daemon.deliveries import MOST_REMEMBERED, REMEMBERED, Deliveries, Rate
from longwatch.daemon.triggers import MOST_BODY, PRESETS, Hook, UnverifiedError, event_of, verify
from longwatch.posix import now

pytestmark = pytest.mark.capability("CAP-121")
BODY = b'{"ref": "main"}'
NOW = 1_700_000_000
KEY = b"\x01\x02 raw key"
SECRET = "s3cret-\u00e4"


def hexed(body: bytes = BODY, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def standard(key: bytes, *, stamp: object = NOW, name: str = "msg_1", body: bytes = BODY) -> dict[str, str]:
    signed = hmac.new(key, f"{name}.{stamp}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": name, "webhook-timestamp": str(stamp), "webhook-signature": "v1," + b64encode(signed).decode(),
    }  # fmt: skip


def as_header(text: str) -> str:
    """Return a text as a server reads it from the wire."""
    return text.encode().decode("latin-1")


def hook(preset: str, secret: str = SECRET, **more) -> Hook:
    return Hook("builder", "push", preset, secret, **more)


WHSEC = "whsec_" + b64encode(KEY).decode()
GOOD = [
    ("bearer", SECRET, {"authorization": as_header("Bearer " + SECRET)}, None),
    ("bearer", SECRET, {"authorization": as_header("bearer  " + SECRET), "idempotency-key": "i1"}, "i1"),
    ("hmac-sha256", SECRET, {"x-signature-256": "sha256=" + hexed()}, None),
    ("hmac-sha256", SECRET, {"x-signature-256": hexed().upper(), "webhook-id": "w1"}, "w1"),
    ("github", SECRET, {"x-hub-signature-256": "sha256=" + hexed(), "x-github-delivery": "g1"}, "g1"),
    ("gitlab", SECRET, {"x-gitlab-token": as_header(SECRET), "x-gitlab-event-uuid": "e1"}, "e1"),
    ("gitlab", WHSEC, standard(KEY), "msg_1"),
    ("gitea", SECRET, {"x-gitea-signature": hexed(), "x-gitea-delivery": "t1"}, "t1"),
    ("forgejo", SECRET, {"x-forgejo-signature": hexed(), "x-forgejo-delivery": "f1"}, "f1"),
    ("standard-webhooks", WHSEC, standard(KEY), "msg_1"),
    ("standard-webhooks", WHSEC, standard(KEY, stamp=NOW - 300), "msg_1"),
    ("standard-webhooks", WHSEC, standard(KEY, stamp=NOW + 300), "msg_1"),
    ("standard-webhooks", "plain key", standard(b"plain key"), "msg_1"),
    (
        "standard-webhooks",
        WHSEC,
        {**standard(KEY), "webhook-signature": "v1,AAAA v2,x " + standard(KEY)["webhook-signature"]},
        "msg_1",
    ),
]


@pytest.mark.parametrize(("preset", "secret", "headers", "delivery"), GOOD)
def test_a_delivery_that_proves_who_it_is_from_is_believed(preset, secret, headers, delivery):
    """Each preset takes what its sender sends, and gives the delivery's id."""
    assert verify(hook(preset, secret), headers, BODY, NOW) == delivery


@pytest.mark.parametrize(("preset", "secret", "headers", "_delivery"), GOOD)
def test_another_secret_is_not_believed(preset, secret, headers, _delivery):
    """The same delivery for a trigger with another secret is refused."""
    with pytest.raises(UnverifiedError):
        verify(hook(preset, "another"), headers, BODY, NOW)


@pytest.mark.parametrize(("preset", "secret", "headers", "_delivery"), GOOD)
def test_a_changed_body_is_not_believed(preset, secret, headers, _delivery):
    """Where the body is signed, another body is refused; a token says nothing about it."""
    signed = not {"authorization", "x-gitlab-token"} & set(headers)
    if signed:
        with pytest.raises(UnverifiedError):
            verify(hook(preset, secret), headers, BODY + b" ", NOW)
    else:
        verify(hook(preset, secret), headers, BODY + b" ", NOW)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Basic abc", "x-signature-256": "sha256=", "x-hub-signature-256": "x", "x-gitlab-token": "", "x-gitea-signature": " "},
        {"authorization": "Bearer", "x-signature-256": "\xff", "webhook-id": "a", "webhook-timestamp": str(NOW), "webhook-signature": "v1,%%%"},
        {"webhook-id": "a", "webhook-timestamp": "soon", "webhook-signature": "v1,AAAA"},
        {"webhook-id": "a", "webhook-timestamp": "\u0661", "webhook-signature": "v1,AAAA"},
        {"authorization": "Bearer ", "x-signature-256": hexed()[:-1]},
    ],
)  # fmt: skip
def test_nonsense_is_refused_and_not_repeated(preset, headers):
    """Whatever is sent, the refusal is one line, without the secret and without what was sent."""
    with pytest.raises(UnverifiedError) as refused:
        verify(hook(preset), headers, BODY, NOW)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not any(value in str(refused.value) for value in headers.values() if len(value) > 8)


@pytest.mark.parametrize(
    ("preset", "named"),
    [
        ("bearer", "Authorization"),
        ("hmac-sha256", "x-signature-256"),
        ("github", "X-Hub-Signature-256"),
        ("gitlab", "X-Gitlab-Token"),
        ("gitea", "X-Gitea-Signature"),
        ("standard-webhooks", "webhook-id, webhook-timestamp and webhook-signature"),
    ],
)
def test_a_missing_header_is_named(preset, named):
    """Whoever sets up the sender reads in its log what it has to send."""
    with pytest.raises(UnverifiedError, match=named):
        verify(hook(preset), {}, BODY, NOW)


@pytest.mark.parametrize("away", [301, -301])
def test_a_signature_of_another_time_is_refused(away):
    """A good signature that is more than 300 s away is refused."""
    with pytest.raises(UnverifiedError, match="300 s"):
        verify(hook("standard-webhooks", WHSEC), standard(KEY, stamp=NOW + away), BODY, NOW)


def test_the_header_of_the_plain_signature_can_be_named():
    """`header` says where the signature is, however it is written."""
    named = hook("hmac-sha256", header="X-My-Sign")
    assert verify(named, {"x-my-sign": hexed()}, BODY, NOW) is None
    with pytest.raises(UnverifiedError, match="x-my-sign is missing"):
        verify(named, {"x-signature-256": hexed()}, BODY, NOW)


def test_a_webhook_without_secret_or_with_an_unknown_preset_is_refused():
    """Such a trigger would let anybody in."""
    with pytest.raises(ValueError, match="no secret"):
        hook("github", "")
    with pytest.raises(ValueError, match="guthib"):
        hook("guthib")


def test_bodies_have_a_bound_that_the_file_cannot_lift():
    """1 MiB unless the file says so, 25 MiB at most."""
    assert hook("github").max_body == 1 << 20
    assert hook("github", max_body=5).max_body == 5
    assert hook("github", max_body=1 << 40).max_body == MOST_BODY == 25 << 20


def test_the_kind_of_an_event_is_told():
    """The forge's own word for it, if there is one."""
    assert event_of({"x-github-event": "push"}) == "push"
    assert event_of({"x-other": "push"}) is None


def test_so_many_a_minute_and_no_more():
    """The 61st within a minute has to wait; a minute after the first there is room for one."""
    rate = Rate(60)
    assert [rate.wait(at) for at in range(60)] == [0] * 60
    assert rate.wait(1000) == 59_000
    assert rate.wait(60_000) == 0
    assert rate.wait(60_000) == 1


def test_a_delivery_is_taken_once():
    """The same id of the same trigger is known, another trigger's is not; what came to nothing may come again."""
    seen = Deliveries()
    assert not seen.known("a", "t", "1", 0)
    assert seen.known("a", "t", "1", REMEMBERED - 1)
    assert not seen.known("a", "u", "1", 0)
    assert not seen.known("b", "t", "1", 0)
    seen.forget("a", "t", "1")
    assert not seen.known("a", "t", "1", 5)
    assert not seen.known("a", "t", "1", REMEMBERED + 5)


def test_remembered_deliveries_have_a_bound():
    """A flood of ids costs bounded memory; the oldest is forgotten, and a known one forgets nobody."""
    seen = Deliveries()
    for number in range(MOST_REMEMBERED):
        seen.known("a", "t", str(number), 0)
    assert seen.known("a", "t", "0", 0)
    assert not seen.known("a", "t", "one more", 0)
    assert not seen.known("a", "t", "0", 0)
    assert seen.known("a", "t", "5", 0)


def test_the_next_daemon_knows_what_was_taken_in():
    """What has come to something is kept, with its age; what has not, or nobody can read, is not."""
    kept: list = []
    seen = Deliveries(keep=lambda told, done: (kept.append(json.loads(json.dumps(told))), done()))
    at, done = now(), []
    seen.known("a", "t", "old", at - REMEMBERED + 60_000)
    seen.known("a", "t", "1", at)
    seen.known("a", "t", "2", at)
    seen.forget("a", "t", "2")
    seen.settled(lambda: done.append(True))
    assert done == [True]
    (told,) = kept
    later = Deliveries(told)
    assert later.known("a", "t", "old", at)
    assert later.known("a", "t", "1", at)
    assert not later.known("a", "t", "2", at)
    assert not later.known("a", "t", "old", at + 120_000)
    for odd in ({}, {"taken": 3}, {"taken": [1, ["a"], ["a", "t", "1", "now"], ["a", "t", 1, 2], None]}):
        assert not Deliveries(odd).known("a", "t", "1", at)


def test_a_payload_is_a_private_file_with_the_name_of_its_run(tmp_path: Path):
    """It is taken in before there is a run, kept under the run's name, 0600 in a 0700 folder."""
    folder = str(tmp_path / "daemon")
    incoming = payloads.save_incoming(folder, {"payload": {"a": "\u00e4" * 100_000}})
    kept = payloads.keep_payload(folder, incoming, "builder-abc123")
    assert kept == os.path.join(folder, "payloads", "builder-abc123.json")
    assert json.loads(Path(kept).read_text())["payload"]["a"] == "\u00e4" * 100_000
    assert stat.S_IMODE(os.stat(kept).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(kept)).st_mode) == 0o700
    assert not os.path.exists(incoming)


def test_a_payload_that_no_run_reads_goes(tmp_path: Path):
    """Dropped at once, or swept at the next start; a kept one stays."""
    folder = str(tmp_path)
    kept = payloads.keep_payload(folder, payloads.save_incoming(folder, {}), "a-abc123")
    dropped = payloads.save_incoming(folder, {})
    payloads.drop_payload(folder, dropped)
    payloads.drop_payload(folder, dropped)
    payloads.save_incoming(folder, {})
    assert payloads.sweep(folder) == 1
    assert os.listdir(os.path.dirname(kept)) == ["a-abc123.json"]
    assert payloads.sweep(str(tmp_path / "none")) == 0


@pytest.mark.parametrize("path", ["/etc/passwd", "payloads/kept.json", "payloads/x/.incoming-1"])
def test_only_a_payload_that_was_taken_in_is_moved(tmp_path: Path, path: str):
    """Another file than one of those is neither moved nor removed."""
    with pytest.raises(ValueError, match="no payload"):
        payloads.keep_payload(str(tmp_path), os.path.join(tmp_path, path), "a-abc123")
    with pytest.raises(ValueError, match="no payload"):
        payloads.drop_payload(str(tmp_path), os.path.join(tmp_path, path))
