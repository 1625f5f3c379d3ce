"""The ledger: the schema penstock, and all SQL on it."""
