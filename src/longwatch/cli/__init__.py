"""The command line: a lean front for `run` and `timeout`, one module per other verb."""
