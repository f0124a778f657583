"""The lean front: `run` and `timeout` start their child before anything else is loaded; other verbs are click's."""

import os
import sys


def main(argv: list[str]) -> None:
    """Dispatch on the program's name or the first word. Ends the process."""
    if os.path.basename(argv[0]) == "timeout":
        from longwatch.cli.timeout import timeout  # noqa: PLC0415

        timeout(argv[1:], "timeout")
    verb = argv[1] if len(argv) > 1 else ""
    if verb == "run":
        from longwatch.cli.run import run  # noqa: PLC0415

        run(argv[2:])
    if verb == "timeout":
        from longwatch.cli.timeout import timeout  # noqa: PLC0415

        timeout(argv[2:], "longwatch timeout")
    from longwatch.cli.verbs import main as verbs  # noqa: PLC0415

    sys.exit(verbs(argv[1:]))
