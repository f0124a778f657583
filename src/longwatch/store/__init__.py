"""Remembers runs: a daily spool that `run` appends to, one ledger that readers fill from it, and the queries."""
