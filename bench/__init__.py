"""The benchmark: the same records by Penstock, by what people use instead, and by the limits of the machine."""
