"""Measure coverage in this process if it is one of ours: the tests' own, or one that runs longwatch.

`make test` names this file in COVER_LONGWATCH, and every Python of the virtual environment runs it at its start. The
programs that tests have supervised are spared: loading coverage would make each of them a tenth of a second later,
which is half of a test's window. So is the web server of a daemon, which takes seconds to load under measurement: its
parts are tested in the tests' own process.
"""

import os
import sys

CHOSEN = "COVER_LONGWATCH"


def is_ours(words: list[str]) -> bool:
    """Whether a command line, without its interpreter, runs longwatch by a script or by an import."""
    if "longwatch.api.server" in words:
        return False
    return any("longwatch" in word for word in words) or os.path.basename("".join(words[:1])) == "timeout"


def start() -> None:
    """Measure from now on, once; what was measured is saved when the process ends."""
    import coverage  # only where it is wanted

    if coverage.Coverage.current() is None:
        root = os.path.dirname(os.path.dirname(os.environ[CHOSEN]))
        coverage.Coverage(
            config_file=os.path.join(root, "pyproject.toml"),
            data_file=os.path.join(root, ".cache", "coverage", "data"),
            data_suffix=True,
            auto_data=True,
        ).start()


if __name__ == "measured" and is_ours(sys.orig_argv[1:]):
    try:
        start()
    except OSError:
        pass  # coverage does not load in a folder that is gone
