"""The formats of a record's value: one module a format, and the registry that names them."""
