"""What the daemon asks: `python -m longwatch.config.compiled PATH` prints the file as one JSON document.

It is a process of its own, so that neither the model nor a defect in it stays in the supervisor. The document holds
secrets: it goes through a pipe and nowhere else. Exit status: 0; 1 where the file is wrong, and then `errors` is there.
"""

from __future__ import annotations

import json
import os
import sys

from longwatch.config.files import load
from longwatch.config.problems import Problem
from longwatch.errors import UsageError


def main(argv: list[str]) -> int:
    """Print the document of the file that is named."""
    path = argv[1]
    try:
        document = load(path, os.environ).as_dict()
    except UsageError as error:
        problem = Problem(path, 0, 0, str(error).removeprefix(f"{path}: "))
        document = {"schema": 1, "config": os.path.realpath(path), "errors": [problem.as_dict()]}
    json.dump(document, sys.stdout)
    return int("errors" in document)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
