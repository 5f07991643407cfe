"""Stock, prices and invoices of a small shop."""

from inventory.catalog import Catalog
from inventory.models import Item, Line
from inventory.money import round_cents
from inventory.pricing import calc_total

__version__ = "2.3.0"

__all__ = ["Catalog", "Item", "Line", "calc_total", "round_cents"]
