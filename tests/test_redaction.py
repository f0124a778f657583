"""Secrets out of everything that leaves the supervisor, whichever way it leaves."""

from typing import Any

import pytest

from longwatch.core.facts import LimitFired, SourceChanged
from longwatch.core.harness import Harness
from longwatch.core.service_facts import Parked, RunClosed
from longwatch.redaction import Redaction, secret_values, secrets_of

TOKEN = "s3cr3t-t0ken-of-ours"
WEBHOOK = "https://hooks.example/services/T0/B0/abcdef"


@pytest.fixture
def redaction() -> Redaction:
    """Return one that knows a token and an address."""
    return Redaction([TOKEN, WEBHOOK])


@pytest.mark.capability("CAP-132")
@pytest.mark.fault("O4")
@pytest.mark.parametrize(
    ("told", "left"),
    [
        (f"--token={TOKEN}", "--token=[redacted]"),
        ([f"a {TOKEN}", 1, None, True, 2.5], ["a [redacted]", 1, None, True, 2.5]),
        (
            {"argv": ("x", TOKEN), TOKEN: {"url": f"{WEBHOOK}?q"}},
            {"argv": ("x", "[redacted]"), "[redacted]": {"url": "[redacted]?q"}},
        ),
        ("nothing", "nothing"),
    ],
)
def test_values_of_any_shape(redaction: Redaction, told: Any, left: Any) -> None:
    """At every depth, in keys too; what was given is not changed itself."""
    before = repr(told)
    assert redaction.value(told) == left
    assert repr(told) == before


@pytest.mark.capability("CAP-132")
def test_facts_and_sinks(redaction: Redaction) -> None:
    """A fact that goes out is a copy of the same kind, also one that holds a whole record."""
    fact = Parked(1, "w", "ours", 5, "usage", f"limit of {TOKEN}")
    clean = redaction.fact(fact)
    assert type(clean) is Parked
    assert (clean.text, fact.text) == ("limit of [redacted]", f"limit of {TOKEN}")  # type: ignore[attr-defined]
    closed = RunClosed(1, "w", "w-1", {"post_mortem": {"tree": [f"curl {WEBHOOK}"]}})
    heard: list[Any] = []
    sink = redaction.sink(lambda *words: heard.extend(words))
    sink(closed, f"x {TOKEN}", {"a": TOKEN})
    assert heard[0].record == {"post_mortem": {"tree": ["curl [redacted]"]}}
    assert heard[1:] == ["x [redacted]", {"a": "[redacted]"}]
    plain = SourceChanged(3, "stdout", "lost")
    assert redaction.fact(plain) == plain


@pytest.mark.capability("CAP-132")
def test_a_stream_is_cut_anywhere(redaction: Redaction) -> None:
    """Bytes of a log are redacted over the borders of their chunks; each stream has a redactor of its own."""
    stream, other = redaction.stream(), redaction.stream()
    assert stream is not None
    assert stream is not other
    data = f"x {TOKEN} y {WEBHOOK} z".encode()
    got = b"".join(stream.feed(data[at : at + 1]) for at in range(len(data))) + stream.flush()
    assert got == b"x [redacted] y [redacted] z"


def test_without_secrets_nothing_is_done() -> None:
    """Then everything is given back as it is, and a log may be spliced."""
    nothing, fact = Redaction(), LimitFired(1, "idle", 2, 3, "stop")
    value = {"a": ["x"]}
    assert not nothing
    assert nothing.value(value) is value
    assert nothing.fact(fact) is fact
    assert nothing.text("x") == "x"
    assert nothing.stream() is None
    assert Redaction(["ab"]).text("ab") == "ab"  # a word of the language


@pytest.mark.capability("CAP-132")
def test_what_is_secret() -> None:
    """What the file says, and what variables with the names of secrets hold: of the harness and of the daemon."""
    environ = {
        "GITHUB_TOKEN": "tok-12345678", "TOKEN": "tok-87654321", "api_key": "key-12345678", "AWS_SECRET_ACCESS_KEY": "aws-12345678",
        "DATABASE_URL": "postgres://me:hunter2hunter2@db/x", "SSH_AUTH_SOCK": "/run/user/1/agent.sock", "TOKENIZERS": "parallel",
        "PASSWORD": "short", "HOME": "/home/somebody", "MAX_TOKENS": "100000000",
    }  # fmt: skip
    assert secret_values(environ) == {
        "tok-12345678", "tok-87654321", "key-12345678", "aws-12345678", "postgres://me:hunter2hunter2@db/x",
    }  # fmt: skip
    harness = Harness(
        "w", ("x",), env={"A_SECRET": "env-12345678", "B": "plain value"}, secrets=("from the file",)
    )
    assert secrets_of(harness) == {"env-12345678", "from the file"}
    every = Redaction.of([harness], environ, ["extra-one"])
    text = "env-12345678 from the file tok-12345678 extra-one hunter2hunter2 plain value"
    assert every.text(text) == " ".join(["[redacted]"] * 5) + " plain value"


def test_a_secret_of_several_lines_goes_line_by_line() -> None:
    """A key in a program's last words comes in lines, and those are folded."""
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
    key = Redaction([f"-----BEGIN KEY-----\n{line}\n{line[::-1]}\n-----END KEY-----\n"])
    assert key.text(f"a {line} b {line[::-1]}") == "a [redacted] b [redacted]"
    assert key.text("-----END KEY-----") == "-----END KEY-----"


@pytest.mark.parametrize(
    ("secret", "text", "left"),
    [
        ("https://me:hunter2hunter2@host/x", "is hunter2hunter2 wrong?", "is [redacted] wrong?"),
        ("https://host:8443/hooks/one", "listens on 8443/hooks/one", "listens on 8443/hooks/one"),
        ("https://me:short@host/x", "a short word", "a short word"),
        ("mailto:somebody@host", "somebody", "somebody"),
    ],
)
def test_the_password_in_an_address_is_a_secret_of_its_own(secret: str, text: str, left: str) -> None:
    """Not what only looks like one: a port with its path, a word of the language."""
    assert Redaction([secret]).text(text) == left
    assert Redaction([secret]).text(f"<{secret}>") == "<[redacted]>"
