"""What a program has switched on in its terminal, read off its output, so that it can be undone when it dies."""

# Private modes that a shell afterwards would suffer from, by number; in the order in which they are undone.
# Mouse reports and their encodings, focus reports, bracketed paste, synchronised output, colour scheme reports, resize
# reports, cursor keys.
_SET_BY_PROGRAM = (1000, 1001, 1002, 1003, 9, 1005, 1006, 1015, 1016, 1004, 2004, 2026, 2031, 2048, 1)
# The alternate screen comes after them: keyboard stacks belong to a screen.
_SCREENS = (1049, 1047, 47)
# On by default: what a program can do is switch them off. The cursor, and wrapping at the edge.
_CLEARED_BY_PROGRAM = (25, 7)
_KNOWN = frozenset(_SET_BY_PROGRAM + _SCREENS + _CLEARED_BY_PROGRAM)

_ESCAPE, _CSI = 0x1B, 0x5B
# No sequence of interest is longer; what is longer is not waited for.
_LONGEST = 128


class ModeTracker:
    """Follows a program's output. `feed` takes it in any pieces; `resets` is what undoes its modes, `sets` redoes.

    Knows private modes, application keypad, the two keyboard protocols (kitty's stack and flags, xterm's
    modifyOtherKeys), colours, line-drawing letters, cursor shape and scroll region.
    """

    __slots__ = ("_flags", "_rest", "_state", "modes")

    def __init__(self) -> None:
        #: Private modes that the program has changed, and to what.
        self.modes: dict[int, bool] = {}
        # Kitty's keyboard flags, newest last: what was pushed, and what was set without a push (the first).
        self._flags: list[int] = [0]
        # Other changes: the sequence that was seen and the one that undoes it, by name.
        self._state: dict[str, tuple[bytes, bytes]] = {}
        self._rest = b""

    def feed(self, data: bytes | memoryview) -> None:
        """Take the next bytes of the output. A sequence may be cut anywhere."""
        text = self._rest + bytes(data)
        self._rest = b""
        at = text.find(b"\x1b")
        while at >= 0:
            end = _end(text, at)
            if end is None:
                if len(text) - at <= _LONGEST:
                    self._rest = text[at:]
                    return
                end = at + 1
            elif end - at > 1:
                self._sequence(text[at + 1 : end])
            at = text.find(b"\x1b", end)

    def resets(self) -> bytes:
        """Return the sequences that undo all that is still changed; empty when nothing is."""
        parts = [b"\x1b[<%du" % (len(self._flags) - 1)] if len(self._flags) > 1 else []
        if self._flags[0]:
            parts.append(b"\x1b[=0u")
        parts += [b"\x1b[?%dl" % mode for mode in (*_SET_BY_PROGRAM, *_SCREENS) if self.modes.get(mode)]
        parts += [undo for _, undo in self._state.values()]
        parts += [b"\x1b[?%dh" % mode for mode in _CLEARED_BY_PROGRAM if not self.modes.get(mode, True)]
        return b"".join(parts)

    def sets(self) -> bytes:
        """Return the sequences that bring it all back, for a program that goes on after a stop."""
        parts = [b"\x1b[?%dh" % mode for mode in (*_SCREENS, *_SET_BY_PROGRAM) if self.modes.get(mode)]
        parts += [b"\x1b[?%dl" % mode for mode in _CLEARED_BY_PROGRAM if not self.modes.get(mode, True)]
        parts += [done for name, (done, _) in self._state.items() if name != "colours"]
        if self._flags[0]:
            parts.append(b"\x1b[=%du" % self._flags[0])
        parts += [b"\x1b[>%du" % flags for flags in self._flags[1:]]
        return b"".join(parts)

    def _sequence(self, body: bytes) -> None:
        """Note what one complete sequence, given without its escape, changes."""
        if body[0] == _CSI:
            self._control(body[1:-1], body[-1:])
        elif body == b"c":
            self._forget()
        elif body in (b"=", b">"):
            self._note("keypad", body, body == b">", b"\x1b>")
        elif body[:1] == b"(":
            self._note("letters", body, body == b"(B", b"\x1b(B")

    def _control(self, parameters: bytes, final: bytes) -> None:
        if final in (b"h", b"l") and parameters[:1] == b"?":
            for number in _KNOWN.intersection(_numbers(parameters[1:])):
                self.modes[number] = final == b"h"
        elif final == b"u":
            self._keyboard(parameters)
        elif final == b"p" and parameters == b"!":
            self._forget(screens=False)
        elif final == b"m":
            self._graphics(parameters)
        elif final == b"q" and parameters.endswith(b" "):
            self._note("cursor", b"[" + parameters + b"q", parameters in (b" ", b"0 "), b"\x1b[0 q")
        elif final == b"r" and parameters[:1] != b"?":
            self._note("region", b"[" + parameters + b"r", not parameters, b"\x1b7\x1b[r\x1b8")

    def _graphics(self, parameters: bytes) -> None:
        if parameters[:2] == b">4":
            self._note("keys", b"[" + parameters + b"m", parameters in (b">4", b">4;0"), b"\x1b[>4m")
        elif parameters[:1] not in (b">", b"?"):
            # Only whether any is on: a program that goes on draws in its own colours again.
            self._note("colours", b"[m", parameters in (b"", b"0"), b"\x1b[m")

    def _keyboard(self, parameters: bytes) -> None:
        kind, numbers = parameters[:1], _numbers(parameters[1:])
        first = numbers[0] if numbers else 0
        if kind == b">":
            # Terminals keep a short stack and drop the oldest.
            self._flags = [self._flags[0], *self._flags[1:][-15:], first]
        elif kind == b"<":
            del self._flags[max(1, len(self._flags) - (first or 1)) :]
        elif kind == b"=":
            self._flags[-1] = first

    def _note(self, name: str, body: bytes, normal: bool, undo: bytes) -> None:
        if normal:
            self._state.pop(name, None)
        else:
            self._state[name] = (b"\x1b" + body, undo)

    def _forget(self, *, screens: bool = True) -> None:
        """The program has reset its terminal, wholly or (softly) but for screens, mouse and keyboard."""
        if screens:
            self.modes.clear()
            self._flags = [0]
        else:
            for mode in (1, *_CLEARED_BY_PROGRAM):
                self.modes.pop(mode, None)
        self._state.clear()


def _end(text: bytes, at: int) -> int | None:
    """Return where the sequence at `at` ends; None when it is not all there. What is broken ends at once."""
    end = at + 1
    if end >= len(text):
        return None
    if text[end] != _CSI:
        # Escape, intermediates, one final byte. Strings (titles and the like) end here too: their text has no escapes.
        while end < len(text) and 0x20 <= text[end] <= 0x2F:
            end += 1
    else:
        end += 1
        while end < len(text) and 0x20 <= text[end] <= 0x3F:
            end += 1
    if end >= len(text):
        return None
    return end + 1 if 0x30 <= text[end] <= 0x7E else max(end, at + 1)


def _numbers(parameters: bytes) -> list[int]:
    """Return the numbers of a list such as `1049;2004`; sub-parameters after a colon are left out."""
    parts = (part.partition(b":")[0] for part in parameters.split(b";"))
    return [int(part) for part in parts if part.isdigit() and len(part) < 8]
