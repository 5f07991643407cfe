from inventory.csvio import read_items, write_items

TEXT = """sku,name,price,supplier,pack_size
AB-1204,Desk lamp,24.90,acme,1
AB-1300,"Bulb, warm",3.10,,6
"""


def test_what_is_written_reads_the_same():
    assert write_items(read_items(TEXT)) == TEXT


def test_missing_columns_have_defaults():
    (item,) = read_items("sku,name,price\nab 1204,Desk lamp,24.90\n")
    assert (item.sku, item.supplier, item.pack_size) == ("AB-1204", None, 1)
