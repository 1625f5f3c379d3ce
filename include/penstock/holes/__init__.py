"""Holes: what the offsets are that hold no visible record, told by a second reader of the log."""
