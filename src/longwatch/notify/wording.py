"""One step in front of every channel: secrets out, one line, nothing that a terminal or a pager would act on."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Redact = Callable[[str], str]

#: A notice is read on a phone.
LONGEST = 1000
LONGEST_LINE = 200
#: As many lines as a post-mortem has.
LINES = 12


def line(text: str, redact: "Redact", longest: int = LONGEST) -> str:
    """Return a text as one redacted line.

    Secrets go before folding, which would break one that has a line break in it, and again after it, which may have
    put one together.
    """
    spaced = "".join(c if c.isprintable() else " " * c.isspace() for c in redact(text))
    folded = redact(" ".join(spaced.split()))
    return folded if len(folded) <= longest else folded[: longest - 1] + "…"


def cleaned(document: "Mapping[str, object]", redact: "Redact") -> dict[str, object]:
    """Return a document whose texts, and lists of texts, are clean."""
    return {key: _clean(value, redact) for key, value in document.items()}


def _clean(value: object, redact: "Redact") -> object:
    if isinstance(value, str):
        return line(value, redact)
    if isinstance(value, list | tuple):
        return [line(str(item), redact, LONGEST_LINE) for item in value]
    return value
