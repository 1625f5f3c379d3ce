"""`penstock migrate`: the ledger is created, or brought up to date."""

from penstock.cli import output
from penstock.cli.arguments import Json, read_environment


def migrate(*, json: Json = False) -> None:
    """Create the ledger and its roles in the database, or bring them up to date."""
    from penstock.ledger.connection import migrate as migrate_ledger

    with output.exit_on_error(as_json=json):
        migrated = migrate_ledger(read_environment().db)
        applied = migrated.applied
        if json:
            output.print_json({"applied": applied, "refused": migrated.refused})
            return
        output.print_message(f"applied {', '.join(applied)}." if applied else "the ledger is up to date.")
        if migrated.refused:
            output.print_message(
                "the role in PENSTOCK_DB may not run the following statements; Penstock works without them. "
                "Next: run them as a superuser:"
            )
            output.print_message("\n".join(f"{statement};" for statement in migrated.refused))
