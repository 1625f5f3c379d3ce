"""Stages a load: the entry point for spark-submit of the job in penstock/spark/jobs/stage.py."""

from __future__ import annotations

import sys

from penstock.spark.jobs.stage import main

if __name__ == "__main__":
    sys.exit(main())
