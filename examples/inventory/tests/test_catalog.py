import unittest
from decimal import Decimal

from inventory.catalog import Catalog
from inventory.models import Item
from inventory.validation import Invalid

LAMP = Item("AB-1204", "Desk lamp", Decimal("24.90"), "acme")
BULB = Item("AB-1300", "Bulb for desk lamp", Decimal("3.10"), "globex")


class CatalogTest(unittest.TestCase):
    def test_items_are_found_however_the_sku_is_typed(self):
        self.assertEqual(Catalog([LAMP]).find("ab 1204"), LAMP)

    def test_what_is_not_there_is_none(self):
        self.assertIsNone(Catalog([LAMP]).find("ZZ-9999"))

    def test_an_item_enters_once(self):
        with self.assertRaisesRegex(Invalid, "already in the catalog"):
            Catalog([LAMP, LAMP])

    def test_search_ignores_case_and_sorts_by_sku(self):
        self.assertEqual(Catalog([BULB, LAMP]).search("LAMP"), [LAMP, BULB])

    def test_items_by_supplier(self):
        self.assertEqual(Catalog([LAMP, BULB]).by_supplier(), {"acme": [LAMP], "globex": [BULB]})
