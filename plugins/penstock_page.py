"""Registers the page where Penstock is not installed with its entry point, such as in a checkout.

A file named penstock.py would take the place of the package: Airflow imports a plugin by the name of its file.
"""

from __future__ import annotations

from importlib.metadata import entry_points

if not any(found.name == "penstock" for found in entry_points(group="airflow.plugins")):
    from penstock.airflow.page.plugin import PenstockPlugin

    __all__ = ["PenstockPlugin"]
