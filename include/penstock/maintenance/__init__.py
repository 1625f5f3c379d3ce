"""Maintenance: neighbouring leaves of a target are merged; rows and records past their keeping time are dropped."""
