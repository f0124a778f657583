"""Exact secrets out of text and byte streams, in front of every sink.

Every byte that belongs to an occurrence of a secret goes, also where occurrences overlap: the tail of a second
secret must not survive because the first one was found earlier. Occurrences that overlap become one mark.

A stream is cut anywhere, so the end of a chunk that might begin a secret is held back until more comes or
`flush` is called: at most one byte less than the longest secret. Chunking never changes the result.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MARK = b"[redacted]"
#: Shorter values are words of the language; replacing them would shred the text and hide nothing.
SHORTEST = 4


class Redactor:
    """Replaces secrets in one stream. Each stream needs its own; `text` may be called on any of them."""

    __slots__ = ("_done", "_held", "_longest", "_secrets")

    def __init__(self, secrets: "Iterable[str]") -> None:
        self._secrets = sorted({_encode(secret)[0] for secret in secrets if len(secret) >= SHORTEST})
        self._longest = max(map(len, self._secrets), default=1)
        self._held = b""
        # How many of the held bytes belong to an occurrence that already has its mark.
        self._done = 0

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes of the stream, return what is certain by now."""
        if not self._secrets:
            return chunk
        return self._advance(self._held + chunk, final=False)

    def flush(self) -> bytes:
        """Return what was held back: the stream has ended, or must be shown as it is. May be fed again after."""
        return self._advance(self._held, final=True)

    def text(self, text: str) -> str:
        """Return a whole text without the secrets; the stream is not touched."""
        if not self._secrets:
            return text
        whole = Redactor(())
        whole._secrets, whole._longest = self._secrets, self._longest
        data, errors = _encode(text)
        return (whole.feed(data) + whole.flush()).decode("utf-8", errors)

    def _advance(self, data: bytes, *, final: bool) -> bytes:
        hold = len(data) if final else self._first_beginning(data)
        done, pieces = self._done, []
        for begin, end in self._occurrences(data):
            if begin < done:
                done = max(done, end)
            elif begin > hold:
                # A secret that may begin before this one would swallow it.
                break
            else:
                pieces += [data[done:begin], MARK]
                done = end
        pieces.append(data[done:hold])
        self._held, self._done = data[hold:], max(done - hold, 0)
        return b"".join(pieces)

    def _occurrences(self, data: bytes) -> list[tuple[int, int]]:
        """Return begin and end of every occurrence, overlapping ones too, in order."""
        found = []
        for secret in self._secrets:
            at = data.find(secret)
            while at >= 0:
                found.append((at, at + len(secret)))
                at = data.find(secret, at + 1)
        return sorted(found)

    def _first_beginning(self, data: bytes) -> int:
        """Return where the first secret may begin whose end has not come; the length when none does."""
        for at in range(max(0, len(data) - self._longest + 1), len(data)):
            rest = data[at:]
            if any(secret.startswith(rest) and len(secret) > len(rest) for secret in self._secrets):
                return at
        return len(data)


def _encode(text: str) -> tuple[bytes, str]:
    """Return the bytes of a text and the error handler that turns them back, whatever is in it."""
    try:
        return text.encode("utf-8", "surrogateescape"), "surrogateescape"
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass"), "surrogatepass"
