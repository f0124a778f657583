"""Redaction: exact values, safe over chunk borders."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longwatch.core.redact import Redactor

ALPHABET = st.sampled_from("ab")
SECRETS = st.lists(st.text(ALPHABET, min_size=4, max_size=9), max_size=4)


def expected(text: str, secrets: list[str]) -> str:
    """Cover every byte of every occurrence; strictly overlapping occurrences share a mark."""
    spans = sorted(
        (at, at + len(secret))
        for secret in secrets
        for at in range(len(text))
        if text.startswith(secret, at) and len(secret) >= 4
    )
    out, done = "", 0
    for begin, end in spans:
        if begin >= done:
            out += text[done:begin] + "[redacted]"
        done = max(done, end)
    return out + text[done:]


def cut(data: bytes, borders: list[int]) -> list[bytes]:
    points = sorted({min(border, len(data)) for border in borders} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(points)]


@pytest.mark.capability("CAP-132")
@pytest.mark.fault("O4")
@given(st.text(st.sampled_from("abc"), max_size=60), SECRETS, st.lists(st.integers(0, 60), max_size=20))
def test_chunking_changes_nothing(text: str, secrets: list[str], borders: list[int]) -> None:
    """Any chunking of a stream gives what the whole gives, and that is every occurrence replaced."""
    redactor = Redactor(secrets)
    out = b"".join(redactor.feed(chunk) for chunk in cut(text.encode(), borders)) + redactor.flush()
    assert out.decode() == expected(text, secrets)
    assert redactor.text(text) == expected(text, secrets)


@given(st.lists(st.binary(max_size=12), max_size=12), SECRETS)
def test_held_back_is_bounded(chunks: list[bytes], secrets: list[str]) -> None:
    """At most one byte less than the longest secret is held back, and nothing when it cannot begin one."""
    redactor = Redactor(secrets)
    longest = max(map(len, secrets), default=1)
    for chunk in chunks:
        redactor.feed(chunk)
        assert len(redactor._held) < longest
    redactor.feed(b"zzzz")
    assert redactor._held == b""


@pytest.mark.fault("O4")
def test_overlapping_secrets_leave_no_tail() -> None:
    """Where two secrets overlap the second one's tail goes too."""
    assert Redactor(["abcde", "defgh"]).text("xabcdefghx") == "x[redacted]x"


def test_short_values_stay() -> None:
    """A value under four characters is no secret, and without secrets bytes pass through as they are."""
    redactor = Redactor(["abc", ""])
    assert redactor.feed(b"abc") == b"abc"
    assert redactor.flush() == b""
    assert redactor.text("abc") == "abc"


def test_any_text_survives() -> None:
    """Undecodable bytes and lone surrogates come through redaction unharmed."""
    redactor = Redactor(["s3cr\udcff", "topsecret"])
    assert redactor.feed(b"x s3cr\xff y ") == b"x [redacted] y "
    assert redactor.text("topsecret \udcfe") == "[redacted] \udcfe"
    assert redactor.text("topsecret \ud800") == "[redacted] \ud800"


def test_a_stream_goes_on_after_a_flush() -> None:
    """A flush shows what was held back; what comes after is read afresh."""
    redactor = Redactor(["secret"])
    assert redactor.feed(b"my sec") == b"my "
    assert redactor.flush() == b"sec"
    assert redactor.feed(b"secret") == b"[redacted]"


def test_a_secret_inside_a_beginning_waits() -> None:
    """A secret found inside what may become a longer one is marked only when that is decided."""
    for end, shown in ((b"yy", b"[redacted]"), (b"z", b"x[redacted]z")):
        redactor = Redactor(["xbbbbyy", "bbbb"])
        assert redactor.feed(b"xbbbb") == b""
        assert redactor.feed(end) == shown
