"""The page in Airflow: a plugin with GET routes over the ledger, and the modules that a browser runs."""
