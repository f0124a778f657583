"""Measures an installed longwatch against its peers and prints ratios: `make bench`, or `python -m bench --help`.

Wall time is a matter of the machine and of what else runs on it, so nothing here is part of the tests. Each goal is
a ratio to a peer that was measured alternately, in random order, within the same minute.
"""
