"""Sends one notice through apprise: `python -m longwatch.notify.by_apprise`, a process of its own.

stdin is one JSON object: `url`, `title`, `body`, `kind` (info, success, warning, failure). The address is a secret,
so it comes that way and not as an argument, and nothing that is printed holds any part of it. stdout is one line
that says why nothing was sent. Exit status: 0 sent, 1 not sent, 2 no such service, 3 apprise is not installed.
"""

import json
import logging
import sys
from urllib.parse import unquote

from longwatch.core.redact import Redactor
from longwatch.notify.secrets import parts, service

SENT, NOT_SENT, NO_SERVICE, NOT_INSTALLED = range(4)


def main() -> int:
    """Send what stdin says."""
    told = json.load(sys.stdin)
    try:
        import apprise  # noqa: PLC0415 - the extra may be missing
    except ImportError:
        print("apprise is not installed")
        return NOT_INSTALLED
    hide = Redactor(parts(told["url"]) + parts(unquote(told["url"]))).text
    # Its own loggers would print the address of what failed.
    logging.getLogger("apprise").propagate = False
    sender = apprise.Apprise()
    with apprise.LogCapture(level=logging.WARNING, fmt="%(message)s") as said:  # type: ignore[no-untyped-call]
        if not sender.add(told["url"]):
            print(f"{service(told['url'])}: no service of apprise has an address of this form")
            return NO_SERVICE
        sent = sender.notify(title=told["title"], body=told["body"], notify_type=told["kind"])
        why = " ".join(said.getvalue().split())
    if sent:
        return SENT
    print(f"{service(told['url'])}: {hide(why) or 'not sent'}")
    return NOT_SENT


if __name__ == "__main__":
    sys.exit(main())
