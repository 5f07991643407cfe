"""`forgepool simulate`: Forgepool's decisions on a virtual clock."""

import typer

from forgepool.orchestrator.cli.commands import CommandGroup
from forgepool.orchestrator.cli.output.say import complain
from forgepool.orchestrator.cli.tools.simulating_plan import plan

_ANY_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}


def register(app: typer.Typer) -> None:
    simulate = typer.Typer(cls=CommandGroup, help="Forgepool's decisions on a virtual clock.", no_args_is_help=True)
    simulate.command(hidden=True, context_settings=_ANY_OPTIONS, add_help_option=False)(queue)
    simulate.command()(plan)
    simulate.callback()(_simulate)
    app.add_typer(simulate, name="simulate")


def _simulate() -> None:
    """Forgepool's decisions on a virtual clock."""


def queue() -> int:
    """Say where the queue simulator is now."""
    sentence = "the queue simulator is a benchmark now; run benchmarks/queue/simulate.py in Forgepool's repository"
    return complain(sentence, 2)
