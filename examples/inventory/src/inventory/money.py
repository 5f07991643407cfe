"""Amounts of money: always Decimal, always whole cents at the edges."""

from decimal import ROUND_HALF_UP, Decimal

CENT = Decimal("0.01")


def to_decimal(amount):
    """A float goes through its text, so that 0.1 is one tenth."""
    if isinstance(amount, Decimal):
        return amount
    return Decimal(str(amount))


def round_cents(amount):
    """Round to the cent. Half a cent goes up, as the till does it."""
    return to_decimal(amount).quantize(CENT, rounding=ROUND_HALF_UP)


def percent_of(amount, percent):
    return round_cents(to_decimal(amount) * to_decimal(percent) / 100)


def format_amount(amount, currency="EUR"):
    return "%s %s" % (currency, round_cents(amount))
