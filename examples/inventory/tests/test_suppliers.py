import datetime
import unittest

from inventory.suppliers import delivery_date, fastest, lead_days


class SuppliersTest(unittest.TestCase):
    def test_unknown_suppliers_take_ten_days(self):
        self.assertEqual(lead_days("Umbrella"), 10)

    def test_nothing_is_delivered_at_the_weekend(self):
        wednesday = datetime.date(2024, 5, 15)
        self.assertEqual(delivery_date("acme", wednesday), datetime.date(2024, 5, 20))

    def test_the_fastest_supplier(self):
        self.assertEqual(fastest(["initech", "Globex", "acme"]), "acme")
