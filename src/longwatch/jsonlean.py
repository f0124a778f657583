"""JSON text without the `json` package, whose import costs nearly as much as the interpreter's start.

The C code behind it is the same. It is private to CPython, so a Python without it gets the package.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

try:
    from _json import encode_basestring_ascii, make_encoder, make_scanner
except ImportError:  # pragma: no cover - another Python
    from json import dumps
    from json.scanner import make_scanner
else:

    def _plain(value: object) -> object:
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        raise TypeError(f"{type(value).__name__} has no JSON form")

    _encode: "Callable[[object, int], tuple[str, ...]]" = make_encoder(
        None, _plain, encode_basestring_ascii, None, ": ", ", ", False, False, True
    )

    def dumps(value: object) -> str:  # type: ignore[misc]
        """Return one line of ASCII JSON; bytes are decoded with replacement, NaN and infinity are not refused."""
        return "".join(_encode(value, 0))


def fenced(message: "Mapping[str, object]") -> bytes:
    """Return a JSON line behind a line break: a torn line before it ends there and swallows nothing."""
    return b"\n" + dumps(message).encode() + b"\n"


class _Scanner:
    """What the C scanner of JSON asks of its owner."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


_scan = make_scanner(_Scanner)  # type: ignore[arg-type]


def parse_object(line: bytes) -> "dict[str, object] | None":
    """Return the JSON object in a line; None for anything else, whatever it is."""
    try:
        text = line.decode().strip()
        value, end = _scan(text, 0)
    except Exception:  # noqa: BLE001 - StopIteration, JSONDecodeError, UnicodeDecodeError, RecursionError: all mean no
        return None
    return value if isinstance(value, dict) and end == len(text) else None


__all__ = ["dumps", "fenced", "parse_object"]
