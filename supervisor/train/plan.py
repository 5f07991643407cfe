"""The next actions of the train: a snapshot in, actions out."""

from forgepool.supervisor.train.facts import facts
from forgepool.supervisor.train.layout import lay_out
from forgepool.supervisor.train.model import Action, Snapshot
from forgepool.supervisor.train.odds import car_odds
from forgepool.supervisor.train.work import work


def plan(seen: Snapshot) -> list[Action]:
    """Return all actions that follow from what is known."""
    layout = lay_out(seen)
    return facts(layout, car_odds(layout)) or work(layout)
