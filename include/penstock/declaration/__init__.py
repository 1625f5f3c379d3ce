"""The declaration of a pipeline: its model, the mistakes that it may have, and how it is read from YAML."""
