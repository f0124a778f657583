"""The API process: started by the supervisor's portal with a connection to it as descriptor 3, sockets behind it.

It ends when the supervisor hangs up. Nothing that happens here can hold the supervisor up.
"""

import asyncio
import os
import sys

#: What the portal takes for: a restart does not help.
UNABLE = 78
_CONNECTION = 3


def main() -> None:
    """Run, and end this process at once at the end: connections that are still open are nobody's any more."""
    try:
        from longwatch.api.hosting import serve  # noqa: PLC0415 - it needs the extras, and we say so

        asyncio.run(serve(_CONNECTION))
    except ModuleNotFoundError as error:
        _end(UNABLE, f"the API needs the package {error.name}; install it with: pip install 'longwatch[all]'")
    except (EOFError, KeyboardInterrupt):
        _end(0, "")
    except Exception as error:  # noqa: BLE001 - the portal logs the last line
        _end(1, f"{type(error).__name__}: {error}")
    _end(0, "")


def _end(status: int, words: str) -> None:
    if words:
        sys.stderr.write(words + "\n")
        sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
