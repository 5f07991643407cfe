import unittest
from decimal import Decimal

from inventory import calc_total
from inventory.invoices import invoice_lines, overdue
from inventory.models import Item, Line
from inventory.orders import Order, biggest

LAMP = Item("AB-1204", "Desk lamp", Decimal("25.00"))
SMALL = Order(1, "Ada", (Line(LAMP, 1),))
LARGE = Order(2, "Grace", (Line(LAMP, 4),))


class OrdersTest(unittest.TestCase):
    def test_small_orders_pay_for_shipping(self):
        self.assertEqual(SMALL.to_pay(), Decimal("34.75"))

    def test_large_orders_ship_free(self):
        self.assertEqual(LARGE.to_pay(), Decimal("116.62"))

    def test_the_biggest_order(self):
        self.assertIs(biggest([SMALL, LARGE]), LARGE)

    def test_an_invoice_shows_net_vat_and_total(self):
        rows = invoice_lines(LARGE)
        self.assertEqual([row.split()[0] for row in rows], ["Desk", "Net", "VAT", "Total"])
        self.assertTrue(rows[1].endswith("EUR %s" % calc_total(LARGE.lines)))

    def test_overdue_customers_by_name(self):
        self.assertEqual(overdue({"Grace": 120, "Ada": 30, "Edsger": 200}, 100), ["Edsger", "Grace"])
