"""What is to be done now: a snapshot in, actions out."""

from forgepool.supervisor.train.facts import facts
from forgepool.supervisor.train.layout import lay_out
from forgepool.supervisor.train.model import Action, Snapshot
from forgepool.supervisor.train.odds import car_odds
from forgepool.supervisor.train.work import work


def plan(seen: Snapshot) -> list[Action]:
    """
    All that can be decided from what is known. Facts come first, and alone: a landing, a return or a dissolved car
    changes what there is to plan, so whoever acts on a plan asks again, until there is nothing left to do.
    """
    layout = lay_out(seen)
    return facts(layout, car_odds(layout)) or work(layout)
