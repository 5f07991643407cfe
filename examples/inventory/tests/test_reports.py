from decimal import Decimal

from inventory.labels import barcode_text, labels
from inventory.models import Item, StockLevel
from inventory.reports import shares, stock_report, top

LAMP = Item("AB-1204", "Desk lamp", Decimal("24.90"))


def test_the_stock_report_is_sorted_and_summed():
    levels = [StockLevel("AB-1300", 6, 2), StockLevel("AB-1204", 10, 4, reserved=3)]
    assert stock_report(levels, {LAMP.sku: LAMP}) == [
        "AB-1204 (Desk lamp): 10 on hand, 7 free",
        "AB-1300 (?): 6 on hand, 6 free",
        "2 items, 16 pieces",
    ]


def test_shares_are_percentages():
    assert shares({"AB-1204": 1, "AB-1300": 3}) == [("AB-1300", "75.0%"), ("AB-1204", "25.0%")]


def test_best_sellers():
    assert top({"AB-1204": 1, "AB-1300": 3}, count=1) == "best sellers: AB-1300 (75.0%)"
    assert top({}) == "nothing sold"


def test_shelf_labels_show_name_and_price():
    assert labels([LAMP]) == ["Desk lamp | EUR 24.90"]


def test_barcodes_end_with_their_check_digit():
    assert barcode_text(5512345) == "55123457"
