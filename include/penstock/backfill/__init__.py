"""Backfills: any range of the log, loaded for the first time after all, or once more in place of what is there."""
