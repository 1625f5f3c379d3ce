"""Reads a verification's chunks again: the entry point for spark-submit of the job in penstock/spark/jobs/reread.py."""

from __future__ import annotations

import sys

from penstock.spark.jobs.reread import main

if __name__ == "__main__":
    sys.exit(main())
