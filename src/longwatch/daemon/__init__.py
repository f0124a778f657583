"""The supervisor of the harnesses in a file: what `longwatch up` runs."""
