import unittest
from decimal import Decimal

from inventory.labels import barcode_text, labels
from inventory.models import Item, StockLevel
from inventory.reports import shares, stock_report, top

LAMP = Item("AB-1204", "Desk lamp", Decimal("24.90"))


class ReportsTest(unittest.TestCase):
    def test_the_stock_report_is_sorted_and_summed(self):
        levels = [StockLevel("AB-1300", 6, 2), StockLevel("AB-1204", 10, 4, reserved=3)]
        self.assertEqual(
            stock_report(levels, {LAMP.sku: LAMP}),
            [
                "AB-1204 (Desk lamp): 10 on hand, 7 free",
                "AB-1300 (?): 6 on hand, 6 free",
                "2 items, 16 pieces",
            ],
        )

    def test_shares_are_percentages(self):
        self.assertEqual(shares({"AB-1204": 1, "AB-1300": 3}), [("AB-1300", "75.0%"), ("AB-1204", "25.0%")])

    def test_best_sellers(self):
        self.assertEqual(top({"AB-1204": 1, "AB-1300": 3}, count=1), "best sellers: AB-1300 (75.0%)")
        self.assertEqual(top({}), "nothing sold")

    def test_shelf_labels_show_name_and_price(self):
        self.assertEqual(labels([LAMP]), ["Desk lamp | EUR 24.90"])

    def test_barcodes_end_with_their_check_digit(self):
        self.assertEqual(barcode_text(5512345), "55123457")
