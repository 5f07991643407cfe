import unittest
from decimal import Decimal

from inventory.models import Item, Line
from inventory.pricing import calc_total, discount_percent, with_vat

LAMP = Item("AB-1204", "Desk lamp", Decimal("25.00"))


class PricingTest(unittest.TestCase):
    def test_discounts_grow_in_steps(self):
        for net, percent in (("99.99", 0), ("100", 2), ("250", 5), ("1000", 10)):
            with self.subTest(net):
                self.assertEqual(discount_percent(Decimal(net)), percent)

    def test_an_empty_order_costs_nothing(self):
        self.assertEqual(calc_total([]), 0)

    def test_the_discount_counts_on_the_whole_order(self):
        self.assertEqual(calc_total([Line(LAMP, 2), Line(LAMP, 2)]), Decimal("98.00"))

    def test_vat_is_added(self):
        self.assertEqual(with_vat(Decimal("100.00")), Decimal("119.00"))
