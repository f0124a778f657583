"""Reads what a program shows: its screen now; transcripts and their dialects stand beside it."""
