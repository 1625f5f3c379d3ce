"""What the log says. It knows no ledger."""
