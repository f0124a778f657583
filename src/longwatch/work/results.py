"""What a workstream is asked and what it answers: the prompt on its way in, the result file on its way out."""

import os
import stat

from longwatch.core.record import Plain
from longwatch.errors import UsageError
from longwatch.units import nearest

ARGV, STDIN, FILE = "argv", "stdin", "file"
WAYS = (ARGV, STDIN, FILE)
#: Where an item is told to write its answer, and where it finds its prompt.
RESULT_VARIABLE, PROMPT_VARIABLE = "LONGWATCH_RESULT_FILE", "LONGWATCH_PROMPT_FILE"
#: No answer is longer; what is longer is a log.
LONGEST = 16 * 1024 * 1024

#: How each agent is given a prompt: as an argument, and on its stdin. `{prompt}` stands for the text.
_ASKED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "claude": (("-p", "{prompt}"), ("-p",)),
    "codex": (("exec", "{prompt}"), ("exec", "-")),
    "copilot": (("-p", "{prompt}"), ()),
    "gemini": (("-p", "{prompt}"), ()),
    "opencode": (("run", "{prompt}"), ("run",)),
    "pi": (("-p", "{prompt}"), ("-p",)),
    "qwen": (("-p", "{prompt}"), ()),
}


class Asked(Plain):
    """How a prompt reaches a program: its whole argv, and what it reads on stdin (None: nothing)."""

    __slots__ = ("argv", "stdin")

    def __init__(self, argv: tuple[str, ...], stdin: bytes | None = None) -> None:
        self.argv = argv
        self.stdin = stdin


def clean(prompt: str) -> str:
    """Return a prompt without NULs and without halves of characters: no argument can hold one, and no agent means one."""
    return prompt.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def ask(argv: tuple[str, ...], prompt: str | None, way: str = ARGV, preset: str | None = None) -> Asked:
    """Return how a program is asked. `{prompt}` in its words is the text; without it the preset knows the way.

    On the way `file` the text is in the file that LONGWATCH_PROMPT_FILE names, and the words are left as they are.
    Raises UsageError where nobody knows how this program is asked.
    """
    if way not in WAYS:
        guess = nearest(way, list(WAYS))
        raise UsageError(
            f"prompt_by {way!r} is unknown; "
            + (f"did you mean {guess!r}?" if guess else f"write {', '.join(WAYS)}")
        )
    if prompt is None:
        return Asked(argv)
    text = clean(prompt)
    if way == FILE:
        return Asked(argv)
    if way == STDIN:
        return Asked((*argv, *_ASKED.get(preset or "", ((), ()))[1]), text.encode())
    return Asked(_as_argument(argv, text, preset))


def _as_argument(argv: tuple[str, ...], text: str, preset: str | None) -> tuple[str, ...]:
    if any("{prompt}" in word for word in argv):
        return tuple(word.replace("{prompt}", text) for word in argv)
    if preset not in _ASKED:
        raise UsageError(
            f"{argv[0]}: nobody knows how it is given a prompt; write {{prompt}} in its command, or prompt_by"
        )
    return (*argv, *(word.replace("{prompt}", text) for word in _ASKED[preset][0]))


def read(path: str) -> str | None:
    """Return what a program wrote as its answer; None for all that is none: no file, a link, empty, too long, no text."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or not 0 < found.st_size <= LONGEST:
            return None
        with os.fdopen(os.dup(descriptor), "rb") as file:
            return file.read(LONGEST + 1).decode() or None
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(descriptor)
