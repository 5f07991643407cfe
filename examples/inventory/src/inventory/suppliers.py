"""Who delivers what, and how soon."""

import datetime
import json
import re
from typing import Dict, List, Tuple, Union

LEAD_DAYS = {"acme": 3, "globex": 7, "initech": 14}
DEFAULT_LEAD_DAYS = 10


def lead_days(supplier: str) -> int:
    return LEAD_DAYS.get(supplier.lower(), DEFAULT_LEAD_DAYS)


def delivery_date(supplier: str, ordered: datetime.date) -> datetime.date:
    """Suppliers do not deliver at the weekend: the Monday after it is."""
    day = ordered + datetime.timedelta(days=lead_days(supplier))
    while day.weekday() >= 5:
        day += datetime.timedelta(days=1)
    return day


def fastest(suppliers: List[str]) -> str:
    return min(suppliers, key=lambda name: (lead_days(name), name))
