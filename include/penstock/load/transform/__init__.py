"""Staging with a transform: decode records, run the function of PySpark, write its rows, account for each offset."""
