"""The second reader of the log: record batches, taken apart to see what each offset holds."""
