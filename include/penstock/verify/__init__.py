"""Proof: what a published range holds is what was loaded, and what the log holds still."""
