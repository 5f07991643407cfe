from decimal import Decimal

import pytest

from inventory.models import Item, Line
from inventory.pricing import calc_total, discount_percent, with_vat

LAMP = Item("AB-1204", "Desk lamp", Decimal("25.00"))


@pytest.mark.parametrize(
    ("net", "percent"), [("99.99", 0), ("100", 2), ("250", 5), ("1000", 10)]
)
def test_discounts_grow_in_steps(net, percent):
    assert discount_percent(Decimal(net)) == percent


def test_an_empty_order_costs_nothing():
    assert calc_total([]) == 0


def test_the_discount_counts_on_the_whole_order():
    assert calc_total([Line(LAMP, 2), Line(LAMP, 2)]) == Decimal("98.00")


def test_vat_is_added():
    assert with_vat(Decimal("100.00")) == Decimal("119.00")
