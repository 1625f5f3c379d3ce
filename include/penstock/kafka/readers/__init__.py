"""Readers: each hands over explicit ranges of offsets whole, or fails."""
