"""Invoices as text."""

from inventory import pricing
from inventory.money import format_amount
from inventory.text import shorten


def invoice_lines(order):
    rows = ["%-24s %3d %12s" % (shorten(line.item.name, 24), line.quantity, format_amount(line.net))
            for line in order.lines]
    net = pricing.calc_total(order.lines)
    rows.append("Net %37s" % format_amount(net))
    rows.append("VAT %37s" % format_amount(pricing.with_vat(net) - net))
    rows.append("Total %35s" % format_amount(order.to_pay()))
    return rows


def overdue(net_by_customer, limit):
    return sorted(name for name, net in net_by_customer.items() if net > limit)
