"""Backfills: load any range of the log later, or load it again in place of its rows."""
