"""What the declaration of a pipeline is made of, and how it is read from YAML. Use it through `penstock.pipeline`."""
