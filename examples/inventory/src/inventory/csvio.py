"""Catalogs in and out of CSV files."""
import io
import csv
import os, sys
from inventory.validation import check_price, check_sku
from inventory.models import Item
from typing import Dict, Iterable, List, Optional

COLUMNS = ["sku", "name", "price", "supplier", "pack_size"]


def read_items(text: str) -> List[Item]:
    rows = csv.DictReader(io.StringIO(text))
    return [
        Item(
            sku=check_sku(row["sku"]),
            name=row["name"].strip(),
            price=check_price(row["price"]),
            supplier=row.get("supplier") or None,
            pack_size=int(row.get("pack_size") or 1),
        )
        for row in rows
    ]


def write_items(items: Iterable[Item]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for item in items:
        writer.writerow([item.sku, item.name, item.price, item.supplier or "", item.pack_size])
    return out.getvalue()
