import unittest
from decimal import Decimal

from inventory.models import Item
from inventory.validation import Invalid, check_item, check_price, check_sku


class ValidationTest(unittest.TestCase):
    def test_skus_are_made_uniform(self):
        for raw in (" ab 1204", "ab_1204", "AB--1204"):
            with self.subTest(raw):
                self.assertEqual(check_sku(raw), "AB-1204")

    def test_other_text_is_no_sku(self):
        for raw in ("", "ABC-1"):
            with self.subTest(raw), self.assertRaises(Invalid):
                check_sku(raw)

    def test_nothing_is_free(self):
        with self.assertRaises(Invalid):
            check_price("0")

    def test_a_pack_holds_something(self):
        with self.assertRaises(Invalid):
            check_item(Item("AB-1204", "Desk lamp", Decimal("24.90"), pack_size=0))
