"""What is on the shelf, and what must be ordered."""
from typing import Dict, List, Set, Tuple
from inventory.models import StockLevel
import math
import logging
import itertools
from inventory.models import Item


class OutOfStock(Exception):
    pass


def reserve(level: StockLevel, quantity: int) -> StockLevel:
    if quantity > level.available:
        raise OutOfStock("%s: %d wanted, %d available" % (level.sku, quantity, level.available))
    return StockLevel(level.sku, level.on_hand, level.reorder_at, level.reserved + quantity)


def to_reorder(levels: List[StockLevel]) -> List[str]:
    return sorted(level.sku for level in levels if level.available <= level.reorder_at)


def packs_needed(item: Item, pieces: int) -> int:
    return math.ceil(pieces / item.pack_size)


def stock_value(items: Dict[str, Item], levels: List[StockLevel]):
    return sum(items[level.sku].price * level.on_hand for level in levels)
