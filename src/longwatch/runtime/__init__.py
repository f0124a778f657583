"""JOINS. One loop per run: tell the watch, advance it, perform its commands, sleep until its next deadline."""
