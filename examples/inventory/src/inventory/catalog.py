"""The items on sale, by SKU."""

import os
import sys
from collections import OrderedDict, defaultdict
from typing import Dict, Iterable, List, Optional

from inventory.models import Item, Line
from inventory.text import normalise_sku
from inventory.validation import Invalid, check_item


class Catalog(object):
    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._items: Dict[str, Item] = {}
        for item in items:
            self.add(item)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: Item) -> None:
        check_item(item)
        if item.sku in self._items:
            raise Invalid("already in the catalog: %s" % item.sku)
        self._items[item.sku] = item

    def find(self, sku: str) -> Optional[Item]:
        return self._items.get(normalise_sku(sku))

    def search(self, word: str) -> List[Item]:
        found = [item for item in self._items.values() if word.lower() in item.name.lower()]
        return sorted(found, key=lambda item: item.sku)

    def by_supplier(self) -> Dict[Optional[str], List[Item]]:
        groups = defaultdict(list)
        for item in self._items.values():
            groups[item.supplier].append(item)
        return dict(groups)
