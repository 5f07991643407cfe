from dataclasses import dataclass
from decimal import Decimal
from typing import Optional


@dataclass(frozen=True)
class Item:
    sku: str
    name: str
    price: Decimal
    supplier: Optional[str] = None
    pack_size: int = 1


@dataclass(frozen=True)
class Line:
    item: Item
    quantity: int

    @property
    def net(self) -> Decimal:
        return self.item.price * self.quantity


@dataclass(frozen=True)
class StockLevel:
    sku: str
    on_hand: int
    reorder_at: int
    reserved: int = 0

    @property
    def available(self) -> int:
        return self.on_hand - self.reserved
