"""How a question to a daemon fails, each with what a verb ends with, and one line that can be shown as it is.

DaemonError
├── NoDaemonError        nobody listens (3)
├── NoAnswerError        somebody listens and does not answer, or hangs up (1)
├── OtherVersionError    the daemon's answers would be misunderstood (1)
├── NoSuchHarnessError   nothing has that name (4)
├── NotNowError          it cannot be done now (75)
├── RefusedError         the caller may not do that (1)
└── WrongWordsError      the question is wrong (2)
"""

from longwatch.api import wire
from longwatch.daemon.asking import FAILED, NO_SUCH, NOT_NOW, REFUSED, USAGE
from longwatch.errors import LongwatchError


class DaemonError(LongwatchError):
    """The daemon did not do what was asked. `status` is what a verb ends with."""

    status = 1


class NoDaemonError(DaemonError):
    """Nobody listens."""

    status = wire.NO_DAEMON


class NoAnswerError(DaemonError):
    """Somebody listens and does not answer, or hangs up."""


class HungUpError(NoAnswerError):
    """Somebody listened, and hung up in the middle."""


class OtherVersionError(DaemonError):
    """The daemon is of another version and would be misunderstood."""


class NoSuchHarnessError(DaemonError):
    """Nothing has that name; `nearest` is one that exists, if any is near."""

    status = wire.EXIT[NO_SUCH]
    nearest: str | None = None


class NotNowError(DaemonError):
    """It cannot be done now: it is held, skipped, or on its way."""

    status = wire.EXIT[NOT_NOW]


class RefusedError(DaemonError):
    """Not for this caller."""

    status = wire.EXIT[REFUSED]


class WrongWordsError(DaemonError):
    """The question is wrong."""

    status = wire.EXIT[USAGE]


BY_KIND: dict[str, type[DaemonError]] = {
    NO_SUCH: NoSuchHarnessError, NOT_NOW: NotNowError, REFUSED: RefusedError, USAGE: WrongWordsError, FAILED: DaemonError,
}  # fmt: skip
