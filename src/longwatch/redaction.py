"""Secrets out of everything that leaves the supervisor: texts, JSON values, facts, streams of bytes.

Which values are secret is known in two ways: the file says so (`env_file`, `${VAR}`), or a variable has a name that
secrets have. What such a value is, it is everywhere: in an argument, in a program's last words, in an address.
"""

from longwatch.core.facts import Fact
from longwatch.core.redact import SHORTEST, Redactor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from longwatch.core.harness import Harness

#: How the names of variables end that hold secrets, or what stands behind a bar in them.
_NAMES = (
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY",
    "SECRET_KEY", "CREDENTIAL", "CREDENTIALS", "AUTH_KEY", "WEBHOOK_URL", "DATABASE_URL", "DSN",
)  # fmt: skip
#: Whose name alone makes it a secret is no short word: those are switches and numbers.
_GUESSED = 8
#: A line of a secret with several (a key in PEM) may come alone; shorter ones are words, as `-----END`.
_LINE = 24


class Redaction:
    """Takes a set of secrets out of whatever it is given. Empty, it gives everything back as it is.

    A secret of less than four characters is a word of the language, and left alone.
    """

    __slots__ = ("_secrets", "redactor")

    def __init__(self, secrets: "Iterable[str]" = ()) -> None:
        pieces = {piece for secret in secrets for piece in _pieces(secret)}
        self._secrets = tuple(sorted(piece for piece in pieces if len(piece) >= SHORTEST))
        #: For whoever takes a `Redactor`: only its `text` may be used.
        self.redactor = Redactor(self._secrets)

    @classmethod
    def of(
        cls, harnesses: "Iterable[Harness]", environ: "Mapping[str, str]", extra: "Iterable[str]" = ()
    ) -> "Redaction":
        """Return one of all that is secret about some harnesses; `extra` are secrets of the daemon's own."""
        found = secret_values(environ) | set(extra)
        for harness in harnesses:
            found |= secrets_of(harness)
        return cls(found)

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def text(self, text: str) -> str:
        """Return a text without them."""
        return self.redactor.text(text) if self._secrets else text

    def value(self, value: "Any") -> "Any":
        """Return the same of a value that JSON knows, keys included. It is a copy where anything changes."""
        if not self._secrets:
            return value
        if isinstance(value, str):
            return self.redactor.text(value)
        if isinstance(value, dict):
            return {self.value(key): self.value(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self.value(each) for each in value)
        return value

    def fact(self, fact: Fact) -> Fact:
        """Return a fact without them; the one that was given stays as it is."""
        if not self._secrets:
            return fact
        told = object.__new__(type(fact))
        for name in fact.as_dict():
            setattr(told, name, self.value(getattr(fact, name)))
        return told

    def sink(self, told: "Callable[..., object]") -> "Callable[..., object]":
        """Return who tells a sink everything it is told itself, redacted: facts, texts, values."""

        def clean(*words: "Any") -> object:
            return told(*(self.fact(word) if isinstance(word, Fact) else self.value(word) for word in words))

        return clean

    def stream(self) -> Redactor | None:
        """Return who does it for the bytes of one stream, over all borders of its chunks; None: there is nothing to do."""
        return Redactor(self._secrets) if self._secrets else None


def secrets_of(harness: "Harness") -> set[str]:
    """Return the values that are secret about a harness: what its file says so, and what its variables are named."""
    return {*harness.secrets, *secret_values(harness.env)}


def secret_values(environ: "Mapping[str, str]") -> set[str]:
    """Return the values of the variables that are named as secrets are."""
    return {value for name, value in environ.items() if _is_secret(name) and len(value) >= _GUESSED}


def _is_secret(name: str) -> bool:
    name = name.upper()
    return any(name == word or name.endswith(f"_{word}") for word in _NAMES)


def _pieces(secret: str) -> "Iterable[str]":
    yield secret
    user, at, _ = secret.partition("://")[2].partition("@")
    password = user.partition(":")[2]
    if at and len(password) >= _GUESSED:
        yield password
    lines = secret.splitlines()
    if len(lines) > 1:
        yield from (line for line in lines if len(line) >= _LINE)


__all__ = ["Redaction", "secret_values", "secrets_of"]
