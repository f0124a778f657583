"""The errors of longwatch, split by whose fault it is.

    LongwatchError
    ├── UsageError              the user's words are wrong; the text is one line, ready to print
    │   └── UnitError           a duration or a size is wrong (also a ValueError)
    ├── StoreError              a file of ours cannot be used: written by a newer version, or unreadable
    └── LimitReached            a limit stopped the run (also a TimeoutError)
        ├── IdleReached         no progress for the idle window
        ├── FirstReached        no first progress
        ├── CallReached         one call took too long
        ├── CeilingReached      the ceiling, moved by pauses of the provider, was reached
        └── TimeoutReached      the fixed time was over

The last branch lives in `reached`: making its classes costs the start of `longwatch run`, which raises none of
them, more than reading the command line does. A program that failed by itself is `RunFailed` (in `result`, a
`subprocess.CalledProcessError`), a guarded turn that did `TurnFailed` (in `streams.ends`).
"""


class LongwatchError(Exception):
    """Base of everything that longwatch raises on purpose."""

    __module__ = "longwatch"


class UsageError(LongwatchError):
    """The user's words are wrong. `str()` is one line: what happened, to which thing, what to do next.

    Of a file it has a line for each thing that is wrong in it. Not raised for a variable of `run` or the library that is wrong: that warns and leaves the built-in.
    """

    __module__ = "longwatch"


class UnitError(UsageError, ValueError):
    """A text is no duration or no size. `str()` begins with the text, so that a flag's name can precede it."""


class StoreError(LongwatchError):
    """A file of ours cannot be used as it is. Not raised for a torn one: that is set aside and said."""


def place_of(error: BaseException) -> str:
    """Return where in our files an error was raised, in brackets; empty where nobody knows."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:
        return ""
    return f" ({place.tb_frame.f_code.co_filename.rpartition('/')[2]}:{place.tb_lineno})"
