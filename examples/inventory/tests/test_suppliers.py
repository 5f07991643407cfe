import datetime

from inventory.suppliers import delivery_date, fastest, lead_days


def test_unknown_suppliers_take_ten_days():
    assert lead_days("Umbrella") == 10


def test_nothing_is_delivered_at_the_weekend():
    wednesday = datetime.date(2024, 5, 15)
    assert delivery_date("acme", wednesday) == datetime.date(2024, 5, 20)


def test_the_fastest_supplier():
    assert fastest(["initech", "Globex", "acme"]) == "acme"
