"""Agent Client Protocol: session updates, requests and responses, as objects of its SDK or as JSON-RPC records.

The protocol is read in `observe.acp`; here is only what makes a reader of it. What a client puts into its stream is
its own choice: updates alone are enough for progress, calls and text, requests and responses add questions and turns.
"""

from longwatch.observe.acp import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from longwatch.streams.adapters import Read


def reader() -> "Read":
    """Return what reads one connection."""
    return Session().read
