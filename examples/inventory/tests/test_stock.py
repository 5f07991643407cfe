import unittest
from decimal import Decimal

from inventory.models import Item, StockLevel
from inventory.stock import OutOfStock, packs_needed, reserve, stock_value, to_reorder

LEVEL = StockLevel("AB-1204", on_hand=10, reorder_at=4)


class StockTest(unittest.TestCase):
    def test_reserved_pieces_are_no_longer_available(self):
        self.assertEqual(reserve(LEVEL, 7).available, 3)

    def test_more_than_there_is_cannot_be_reserved(self):
        with self.assertRaisesRegex(OutOfStock, "11 wanted, 10 available"):
            reserve(LEVEL, 11)

    def test_the_reorder_level_itself_is_low_enough(self):
        self.assertEqual(to_reorder([LEVEL, StockLevel("AB-0001", 4, 4)]), ["AB-0001"])

    def test_a_begun_pack_is_a_pack(self):
        bulb = Item("AB-1300", "Bulb", Decimal("3.10"), pack_size=6)
        self.assertEqual(packs_needed(bulb, 13), 3)

    def test_stock_is_worth_its_price(self):
        item = Item("AB-1204", "Desk lamp", Decimal("24.90"))
        self.assertEqual(stock_value({item.sku: item}, [LEVEL]), Decimal("249.00"))
