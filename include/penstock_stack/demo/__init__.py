"""`make demo`: the embedded stack, sample orders, two loads through Airflow, and what came of them."""
