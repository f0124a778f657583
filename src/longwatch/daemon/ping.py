"""Tells somebody else that we live: `python -m longwatch.daemon.ping`, a process of its own.

The address is a secret and comes on stdin. stdout is one line that says why it did not work, without the address.
Exit status: 0 heard, 1 not heard.
"""

import sys
import urllib.error
import urllib.request

#: A line that is not answered is no answer; the caller's own limit is longer.
PATIENCE_S = 8
LONGEST = 4096


def main() -> int:
    """Get the address that stdin holds."""
    url = sys.stdin.readline(LONGEST).strip()
    # Neither files nor whatever else an address could mean.
    if not url.startswith(("http://", "https://")):
        print("the address is neither http nor https")
        return 1
    try:
        request = urllib.request.Request(url, headers={"User-Agent": "longwatch"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S):
            return 0
    except urllib.error.HTTPError as error:
        error.close()
        print(f"answered {error.code}")
    except urllib.error.URLError as error:
        print(f"not reached: {error.reason if isinstance(error.reason, OSError) else 'no such address'}")
    except (OSError, ValueError) as error:
        print(f"not reached: {type(error).__name__}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
