"""The second reader of the log: record batches, decoded to know the content of each offset."""
