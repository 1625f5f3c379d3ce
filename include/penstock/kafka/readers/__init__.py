"""Readers: each reads explicit ranges of offsets whole, or fails."""
