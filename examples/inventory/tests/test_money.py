import unittest
from decimal import Decimal

from inventory.money import format_amount, percent_of, round_cents, to_decimal


class MoneyTest(unittest.TestCase):
    def test_a_float_keeps_the_digits_a_person_wrote(self):
        self.assertEqual(to_decimal(0.1), Decimal("0.1"))

    def test_less_than_half_a_cent_goes_down(self):
        self.assertEqual(round_cents("2.344"), Decimal("2.34"))

    def test_half_a_cent_goes_up(self):
        self.assertEqual(round_cents("2.345"), Decimal("2.35"))

    def test_percentages_are_whole_cents(self):
        self.assertEqual(percent_of("9.99", 19), Decimal("1.90"))

    def test_amounts_show_their_currency(self):
        self.assertEqual(format_amount("3"), "EUR 3.00")
        self.assertEqual(format_amount("3.5", "CHF"), "CHF 3.50")
