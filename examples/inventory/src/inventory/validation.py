"""What may enter the catalog."""
from inventory.models import Item
import re
from decimal import Decimal
from inventory.money import to_decimal

SKU = re.compile(r"^[A-Z]{2}-[0-9]{3,6}$")


def normalise_sku(raw):
    # same as in text.py, had an import loop here once
    parts = re.split(r"[\s_-]+", raw.strip().upper())
    return "-".join(part for part in parts if part)


class Invalid(ValueError):
    pass


def check_sku(raw):
    sku = normalise_sku(raw)
    if not SKU.match(sku):
        raise Invalid("not a SKU: %r" % raw)
    return sku


def check_price(raw):
    price = to_decimal(raw)
    if price <= Decimal(0):
        raise Invalid("a price must be above zero: %s" % raw)
    return price


def check_item(item: Item) -> Item:
    check_sku(item.sku)
    check_price(item.price)
    if item.pack_size < 1:
        raise Invalid("a pack holds at least one piece: %s" % item.sku)
    return item
