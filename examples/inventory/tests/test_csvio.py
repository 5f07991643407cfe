import unittest

from inventory.csvio import read_items, write_items

TEXT = """sku,name,price,supplier,pack_size
AB-1204,Desk lamp,24.90,acme,1
AB-1300,"Bulb, warm",3.10,,6
"""


class CsvTest(unittest.TestCase):
    def test_what_is_written_reads_the_same(self):
        self.assertEqual(write_items(read_items(TEXT)), TEXT)

    def test_missing_columns_have_defaults(self):
        (item,) = read_items("sku,name,price\nab 1204,Desk lamp,24.90\n")
        self.assertEqual((item.sku, item.supplier, item.pack_size), ("AB-1204", None, 1))
