from decimal import Decimal

import pytest

from inventory.models import Item
from inventory.validation import Invalid, check_item, check_price, check_sku


@pytest.mark.parametrize("raw", [" ab 1204", "ab_1204", "AB--1204"])
def test_skus_are_made_uniform(raw):
    assert check_sku(raw) == "AB-1204"


@pytest.mark.parametrize("raw", ["", "ABC-1"])
def test_other_text_is_no_sku(raw):
    with pytest.raises(Invalid):
        check_sku(raw)


def test_nothing_is_free():
    with pytest.raises(Invalid):
        check_price("0")


def test_a_pack_holds_something():
    with pytest.raises(Invalid):
        check_item(Item("AB-1204", "Desk lamp", Decimal("24.90"), pack_size=0))
