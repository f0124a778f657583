"""noop: end at once, for a machine without a compiler."""
