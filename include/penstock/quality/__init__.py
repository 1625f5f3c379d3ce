"""The checks of Great Expectations on staged rows. Importing this package does not import great_expectations."""
