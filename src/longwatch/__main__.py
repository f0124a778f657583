"""`python -m longwatch`: the same as the command."""

import sys

from longwatch.cli.main import main

main(["longwatch", *sys.argv[1:]])
