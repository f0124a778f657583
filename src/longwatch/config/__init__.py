"""The file `longwatch.toml`: found, read, checked, and resolved into what the daemon runs.

Everything here may take its time: the daemon asks a child process (`config.compiled`), a verb asks directly.
"""
