"""The settings of every database session. They override the role, the URI and the environment.

The order of precedence, from weak to strong: settings of the database and of the role, `options` of the URI, the
options of `make_parameters`, then PGTZ and PGDATESTYLE of the environment, which libpq sends after all options.
Therefore a session runs `OVERRIDE` first. The search_path stays, behind pg_catalog: Penstock names its tables with
their schemas, and a declared check may rely on the path for other tables.
"""

from __future__ import annotations

from psycopg.conninfo import conninfo_to_dict

ENCODING = "UTF8"
SETTINGS = {
    # How values are written as text and read from it.
    "DateStyle": "ISO,MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "quote_all_identifiers": "off",
    # Which rows a statement sees. With row_security off a policy that would hide rows raises an error.
    "row_security": "off",
    "transform_null_equals": "off",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    # A copy or a merge has no time limit. A session sets a limit for its own statements if it needs one.
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "idle_session_timeout": "0",
}
OVERRIDE = f"""select set_config('TimeZone', '{SETTINGS["TimeZone"]}', false),
       set_config('DateStyle', '{SETTINGS["DateStyle"]}', false),
       set_config('search_path', concat_ws(', ', 'pg_catalog', nullif(current_setting('search_path'), '')), false)"""


def make_parameters(uri: str, **more: str) -> dict[str, str]:
    """The connection parameters that fix the settings of a session; `more` are settings of this session only."""
    given = str(conninfo_to_dict(uri).get("options") or "")
    settings = {**SETTINGS, **more}
    options = [f"-c {name}={_escape(value)}" for name, value in settings.items()]
    return {"client_encoding": ENCODING, "options": " ".join([given, *options]).strip()}


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
