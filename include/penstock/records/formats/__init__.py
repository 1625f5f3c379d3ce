"""The formats of a record's value."""
