"""Maintenance: neighbouring leaves of a target are merged, and what is past its keeping time is dropped."""
