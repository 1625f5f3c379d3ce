"""Holes: offsets of published ranges without a visible record, and their kinds, found by a second reader of the log."""
