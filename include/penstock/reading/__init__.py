"""Readers: they hand over explicit ranges of offsets whole, or fail loudly."""
