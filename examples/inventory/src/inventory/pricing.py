"""Discounts and totals."""

from decimal import Decimal

from inventory.money import percent_of, round_cents

# (from this net amount on, percent off)
STEPS = ((Decimal("1000"), 10), (Decimal("250"), 5), (Decimal("100"), 2))
VAT_PERCENT = 19


def discount_percent(net):
    for limit, percent in STEPS:
        if net >= limit:
            return percent
    return 0


def calc_total(lines):
    """The net total of the lines, after the discount for its size."""
    net = sum((line.net for line in lines), Decimal(0))
    return round_cents(net - percent_of(net, discount_percent(net)))


def with_vat(net):
    return net + percent_of(net, VAT_PERCENT)
