"""The limits of the machine: what plain processes reach with Penstock's own functions."""
