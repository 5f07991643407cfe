from decimal import Decimal

from inventory.units import parcel_weight, to_grams


def test_kilograms_are_a_thousand_grams():
    assert to_grams("1.5", "kg") == 1500


def test_a_begun_kilogram_counts():
    assert parcel_weight(Decimal(1001)) == 2
