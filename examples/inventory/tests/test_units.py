import unittest
from decimal import Decimal

from inventory.units import parcel_weight, to_grams


class UnitsTest(unittest.TestCase):
    def test_kilograms_are_a_thousand_grams(self):
        self.assertEqual(to_grams("1.5", "kg"), 1500)

    def test_a_begun_kilogram_counts(self):
        self.assertEqual(parcel_weight(Decimal(1001)), 2)
