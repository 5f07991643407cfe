"""Weights and lengths on delivery notes."""

import math
from decimal import Decimal

GRAMS = {"g": Decimal(1), "kg": Decimal(1000), "lb": Decimal("453.59237")}


def to_grams(amount, unit):
    return Decimal(str(amount)) * GRAMS[unit]


def parcel_weight(grams):
    """Carriers count every kilogram that was begun."""
    return math.ceil(grams / 1000)
