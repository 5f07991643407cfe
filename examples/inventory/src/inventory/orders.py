"""What a customer ordered."""

from dataclasses import dataclass
from typing import Tuple

from inventory.models import Line
from inventory.pricing import calc_total, with_vat

FREE_SHIPPING_FROM = 50
SHIPPING = 5


@dataclass(frozen=True)
class Order:
    number: int
    customer: str
    lines: Tuple[Line, ...]

    def shipping(self):
        return 0 if calc_total(self.lines) >= FREE_SHIPPING_FROM else SHIPPING

    def to_pay(self):
        return with_vat(calc_total(self.lines)) + self.shipping()


def biggest(orders):
    return max(orders, key=lambda order: calc_total(order.lines))
