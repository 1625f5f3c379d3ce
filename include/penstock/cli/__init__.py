"""The command line: one file a command, with its JSON document and its tables."""
