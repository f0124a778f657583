"""What client and server have to agree on: the version, its headers, and what a refusal looks like as HTTP."""

from longwatch.daemon.asking import FAILED, NO_SUCH, NOT_NOW, REFUSED, USAGE

#: Raised when an older client would read an answer wrongly; keys that are only added do not count.
API = 1
HEADER, VERSION = "Longwatch-Api", "Longwatch-Version"
#: Where a log goes on, and how long it is, in bytes.
OFFSET, SIZE = "Longwatch-Offset", "Longwatch-Size"
PROBLEM = "application/problem+json"
EVENTS = "text/event-stream"
#: The status of each kind of refusal by the supervisor: the request was right by its form, or it would not have got there.
HTTP = {NO_SUCH: 404, REFUSED: 403, NOT_NOW: 409, USAGE: 409, FAILED: 409}
#: The status of a request that is wrong by its form.
WRONG, TOO_LONG = 422, 413
TITLES = {
    NO_SUCH: "There is no such thing",
    REFUSED: "This caller may not do that",
    NOT_NOW: "It cannot be done now",
    USAGE: "The question is wrong",
    FAILED: "It was tried and failed",
}
#: What a verb ends with.
EXIT = {NO_SUCH: 4, REFUSED: 1, NOT_NOW: 75, USAGE: 2, FAILED: 1}
NO_DAEMON = 3
