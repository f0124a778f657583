r"""The keys that leave a terminal which is not ours: Ctrl-\ and then d. All others are the program's."""

#: Ctrl-\ as it comes: the character, and what the two newer keyboard protocols make of the key.
_PREFIXES = (b"\x1c", b"\x1b[92;5u", b"\x1b[27;5;92~")
_LEAVE = (b"d", b"\x1b[100u", b"\x1b[100;1u")
_CTRL_C = (b"\x03", b"\x1b[99;5u", b"\x1b[27;5;99~")


class Leaving:
    r"""Takes the keys that were typed; `over`: they said to leave. Ctrl-\ twice types it once.

    `read_only`: nothing is passed on, and Ctrl-C, which means nothing to the program then, leaves, too.
    """

    def __init__(self, *, read_only: bool = False) -> None:
        self._read_only = read_only
        self._held = b""
        self.over = False

    def feed(self, keys: bytes) -> bytes:
        """Return the keys that are for the program."""
        passed = b""
        while keys and not self.over:
            passed, keys = self._take(passed, keys)
        if self._read_only:
            self.over = self.over or any(key in passed for key in _CTRL_C)
            return b""
        return passed

    def _take(self, passed: bytes, keys: bytes) -> tuple[bytes, bytes]:
        if not self._held:
            at, prefix = _first(keys)
            self._held = prefix
            return passed + keys[:at], keys[at + len(prefix) :]
        held, self._held = self._held, b""
        if keys.startswith(_LEAVE):
            self.over = True
            return passed, b""
        again = next((prefix for prefix in _PREFIXES if keys.startswith(prefix)), b"")
        return passed + held, keys[len(again) :]


def _first(keys: bytes) -> tuple[int, bytes]:
    r"""Return where Ctrl-\ comes first, and as what; the end and nothing where it does not."""
    places = [(keys.find(prefix), prefix) for prefix in _PREFIXES if prefix in keys]
    return min(places, default=(len(keys), b""))
