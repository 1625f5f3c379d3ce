"""The program `penstock`: its commands, in the order in which a person meets them."""

from importlib.util import find_spec

import typer

from penstock.cli.accept_loss import accept_loss
from penstock.cli.adopt import adopt
from penstock.cli.backfill import backfill
from penstock.cli.check import check
from penstock.cli.doctor import doctor
from penstock.cli.holes import holes
from penstock.cli.incidents import incidents, mute, unmute
from penstock.cli.maintain import maintain
from penstock.cli.migrate import migrate
from penstock.cli.notices import sending
from penstock.cli.plan import plan
from penstock.cli.quality import quality
from penstock.cli.quarantine import app as quarantine_app
from penstock.cli.rebuild import rebuild
from penstock.cli.results import results
from penstock.cli.rollback import rollback
from penstock.cli.run import run
from penstock.cli.serve_spark import serve_spark
from penstock.cli.settle import approve, discard
from penstock.cli.status import status
from penstock.cli.verify import verify
from penstock.cli.watch import watch

app = typer.Typer(
    name="penstock",
    help="Loads Kafka topics into PostgreSQL, batch by batch, exactly once.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    check, migrate, plan, run, status, incidents, mute, unmute, watch, quality, doctor, approve, discard, accept_loss,
    adopt, backfill, rollback, results, rebuild, verify, holes, maintain, serve_spark,
)  # fmt: skip
# Commands that read only send no notices.
SENDING = (run, mute, unmute, approve, discard, accept_loss, adopt, backfill, rollback, verify, maintain)
for command in COMMANDS:
    app.command(command.__name__.replace("_", "-"))(sending(command) if command in SENDING else command)
app.add_typer(quarantine_app, name="quarantine")
if find_spec("penstock_stack"):
    # The embedded stack is for development and tests. Its package is only in a checkout, and in no wheel or image.
    from penstock_stack.command import app as stack_app

    app.add_typer(stack_app, name="stack")


def main() -> None:
    """Run the command that the arguments name."""
    app()


if __name__ == "__main__":
    main()
