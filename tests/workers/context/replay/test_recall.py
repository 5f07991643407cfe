"""The ledger never forgets what it has noted."""

import pytest
from recall import FACTS, REBUILDS, led_on, recall, recalled, rows

from forgepool.workers.context.profiles import registry

LEDGERS = ("ledger", "ledger-cheap", "ledger-safe")


@pytest.mark.parametrize("rebuilds", REBUILDS)
@pytest.mark.parametrize("name", LEDGERS)
def test_the_ledger_recalls_every_planted_fact(name: str, rebuilds: int) -> None:
    """The facts are in its lines, because the turns themselves are no longer shown."""
    led = led_on(name, rebuilds, 12_000)
    assert led.view.rebuilds == rebuilds
    assert led.deed(7).turn < led.view.edit.cut
    assert recalled(led) == dict.fromkeys(FACTS, 1.0)


@pytest.mark.parametrize("rebuilds", REBUILDS)
def test_a_condensed_ledger_recalls_every_planted_fact(rebuilds: int) -> None:
    """The window has no room for all lines."""
    led = led_on("ledger", rebuilds, 3_000)
    assert led.view.rebuilds == rebuilds
    assert rebuilds < 20 or "in short" in led.head
    assert recalled(led) == dict.fromkeys(FACTS, 1.0)


@pytest.mark.parametrize("name", sorted({*registry.names()} - {*LEDGERS}))
def test_what_other_profiles_recall_is_measured(name: str) -> None:
    for rebuilds in (1, 5):
        found = recall(name, rebuilds)
        assert list(found) == list(FACTS)
        assert all(0 <= share <= 1 for share in found.values())


def test_who_never_removes_anything_recalls_everything() -> None:
    assert recall("off", 3) == recall("ledger-lossless", 3) == dict.fromkeys(FACTS, 1.0)


def test_who_masks_results_forgets_what_was_only_there() -> None:
    """This proves that the measure can tell profiles apart."""
    assert recall("clear", 5)["last failure"] == 0.0


def test_the_table_has_a_row_for_each_profile_and_number_of_rebuilds() -> None:
    found = [(row.split()[0], row.split()[3]) for row in [*rows(3_000)][1:]]
    assert found == [(name, str(number)) for name in registry.names() for number in REBUILDS]
