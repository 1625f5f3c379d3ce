"""Verification: the ledger adds up, the target holds the published rows, and the log holds the loaded records."""
