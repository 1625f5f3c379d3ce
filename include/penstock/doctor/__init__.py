"""Whether the settings around a pipeline can lose records, and how long Kafka keeps what is not loaded yet."""
