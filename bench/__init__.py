"""The benchmark: the same records loaded by Penstock, by common tools, and by the limits of the machine."""
