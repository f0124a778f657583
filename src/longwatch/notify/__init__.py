"""Notices: facts in words, incidents, and the channels that carry them."""
