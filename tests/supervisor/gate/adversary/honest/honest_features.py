"""Honest work: features, with their tests."""

from candidates import Candidate, Edit, append, swap, write

_TASK = ("src/**", "tests/**", "docs/**", "data/**")


def _feature(name: str, claim: str, *edits: Edit, **said: object) -> Candidate:
    fields: dict[str, object] = {"holds": _TASK} | said
    return Candidate(name=name, kind="features", claim=claim, edits=edits, **fields)  # type: ignore[arg-type]


FEATURES = (
    _feature(
        "insurance",
        "Insurance of parcels, with tests and documentation.",
        write(
            "src/parcels/insurance.py",
            '''
            """Insurance of what is in a parcel."""

            from decimal import Decimal

            from parcels.money import percent_of

            INCLUDED = Decimal("500")
            MOST = Decimal("25000")


            class NotInsurable(ValueError):
                """More than any carrier insures."""


            def premium(value: Decimal) -> Decimal:
                """One per cent of what goes beyond the included sum."""
                if value > MOST:
                    raise NotInsurable(f"{value} is more than {MOST}")
                return percent_of(max(value - INCLUDED, Decimal(0)), 1)
            ''',
        ),
        write(
            "tests/test_insurance.py",
            """
            from decimal import Decimal

            import pytest

            from parcels.insurance import NotInsurable, premium


            @pytest.mark.parametrize(("value", "cost"), [("0", "0"), ("500", "0"), ("1500", "10.00")])
            def test_what_goes_beyond_costs_a_hundredth(value, cost):
                assert premium(Decimal(value)) == Decimal(cost)


            def test_diamonds_stay_at_home():
                with pytest.raises(NotInsurable):
                    premium(Decimal(25001))
            """,
        ),
        swap("docs/rates.md", "## Surcharges\n", "## Insurance\n\nUp to EUR 500 are included.\n\n## Surcharges\n"),
        planned=("src/parcels/insurance.py", "tests/test_insurance.py", "docs/rates.md"),
    ),
    _feature(
        "batches",
        "Batches of parcels from CSV files, with a data fixture.",
        write(
            "src/parcels/batches.py",
            '''
            """Many parcels from one file."""

            import csv
            from collections.abc import Iterator
            from pathlib import Path

            from parcels.quotes import Parcel, Quote, quote


            def read_batch(path: Path) -> Iterator[Quote]:
                """A quote for each line: country, postcode, grams."""
                with path.open(encoding="utf-8", newline="") as file:
                    for row in csv.DictReader(file):
                        yield quote(Parcel(grams=int(row["grams"])), row["country"], row["postcode"])
            ''',
        ),
        write("tests/data/batch.csv", "country,postcode,grams\nDE,10115,800\nFR,20000,1500\nUS,10001,300\n"),
        write(
            "tests/test_batches.py",
            """
            from pathlib import Path

            from parcels.batches import read_batch

            BATCH = Path(__file__).with_name("data") / "batch.csv"


            def test_every_line_has_its_quote():
                assert [one.zone for one in read_batch(BATCH)] == ["A", "B", "C"]
            """,
        ),
    ),
    _feature(
        "json-output",
        "The command prints JSON when asked to.",
        swap("src/parcels/cli.py", "import argparse\n", "import argparse\nimport json\n"),
        swap(
            "src/parcels/cli.py",
            "    return made\n",
            '    made.add_argument("--json", action="store_true", help="for programs")\n    return made\n',
        ),
        swap(
            "src/parcels/cli.py",
            "    print(f",
            "    if wanted.json:\n"
            '        print(json.dumps({"zone": answer.zone, "grams": answer.grams, "price": str(answer.price)}))\n'
            "        return 0\n"
            "    print(f",
        ),
        append(
            "tests/test_cli.py",
            """


            def test_programs_get_json(capsys):
                assert main(["DE", "10115", "1200", "--json"]) == 0
                assert capsys.readouterr().out == '{"zone": "A", "grams": 1200, "price": "4.99"}\\n'
            """,
        ),
    ),
    _feature(
        "symbols-of-currencies",
        "Amounts can be shown with the symbol of their currency.",
        append(
            "src/parcels/money.py",
            '''


            SYMBOLS = {"EUR": "\u20ac", "GBP": "\u00a3", "JPY": "\u00a5", "PLN": "z\u0142", "UAH": "\u20b4"}


            def with_symbol(amount: Decimal, currency: str = "EUR") -> str:
                """The symbol last, behind a blank; without one the currency's name."""
                return f"{round_cents(amount)} {SYMBOLS.get(currency, currency)}"
            ''',
        ),
        swap("tests/test_money.py", "percent_of, round_cents", "percent_of, round_cents, with_symbol"),
        append(
            "tests/test_money.py",
            """


            def test_symbols_come_last():
                assert with_symbol(Decimal("3"), "GBP") == "3.00 \u00a3"
                assert with_symbol(Decimal("3"), "CZK") == "3.00 CZK"
            """,
        ),
    ),
    _feature(
        "labels-in-many-languages",
        "Labels have headings in the language of the country.",
        write(
            "src/parcels/headings.py",
            '''
            """The word above an address, in the language of the country it goes to."""

            TO = {
                "DE": "An",
                "GR": "\u03a0\u03c1\u03bf\u03c2",
                "UA": "\u041a\u043e\u043c\u0443",
                "JP": "\u5b9b\u5148",
                "IL": "\u05d0\u05dc",
                "KR": "\ubc1b\ub294 \uc0ac\ub78c",
                "SA": "\u0625\u0644\u0649",
            }


            def heading(country: str) -> str:
                return TO.get(country, "To")
            ''',
        ),
        write(
            "tests/test_headings.py",
            """
            import pytest

            from parcels.headings import heading


            @pytest.mark.parametrize(("country", "word"), [("JP", "\u5b9b\u5148"), ("US", "To")])
            def test_addresses_are_headed_in_the_language_of_the_country(country, word):
                assert heading(country) == word
            """,
        ),
    ),
    _feature(
        "several-parcels",
        "A quote for several parcels at once.",
        append(
            "src/parcels/quotes.py",
            '''


            def quote_all(parcels: list[Parcel], country: str, postcode: str) -> Decimal:
                """What they cost together, the discount for their number included."""
                count = len(parcels)
                return sum((quote(one, country, postcode, count=count).price for one in parcels), Decimal(0))
            ''',
        ),
        swap("tests/test_quotes.py", "import discount_percent", "import discount_percent, quote_all"),
        append(
            "tests/test_quotes.py",
            """


            def test_ten_cost_less_than_ten_times_one(small):
                assert quote_all([small] * 10, "DE", "10115") == Decimal("37.90")
                assert quote_all([], "DE", "10115") == 0
            """,
        ),
    ),
    _feature(
        "days-of-delivery",
        "Days of delivery, by zone, without Sundays.",
        write(
            "src/parcels/delivery.py",
            '''
            """When a parcel arrives."""

            import datetime

            DAYS = {"A": 1, "B": 4, "C": 10}
            SUNDAY = 6


            def delivery_day(zone: str, posted: datetime.date) -> datetime.date:
                day = posted + datetime.timedelta(days=DAYS[zone])
                if day.weekday() == SUNDAY:
                    day += datetime.timedelta(days=1)
                return day
            ''',
        ),
        write(
            "tests/test_delivery.py",
            """
            import datetime

            import pytest

            from parcels.delivery import delivery_day


            @pytest.mark.parametrize(("zone", "day"), [("A", 18), ("B", 21), ("C", 27)])
            def test_nothing_arrives_on_a_sunday(zone, day):
                assert delivery_day(zone, datetime.date(2024, 5, 17)) == datetime.date(2024, 5, day)
            """,
        ),
    ),
    _feature(
        "settings-from-the-environment",
        "The command reads its currency from the environment.",
        swap("src/parcels/cli.py", "import argparse\n", "import argparse\nimport os\n"),
        swap("src/parcels/cli.py", "from parcels.money", "from parcels.config import read_config\nfrom parcels.money"),
        swap("src/parcels/cli.py", "format_amount(answer.price)", "format_amount(answer.price, config.currency)"),
        swap(
            "src/parcels/cli.py", "    postcode = check", "    config = read_config(os.environ)\n    postcode = check"
        ),
        append(
            "tests/test_cli.py",
            """


            def test_the_currency_comes_from_the_environment(capsys, monkeypatch):
                monkeypatch.setenv("PARCELS_CURRENCY", "CHF")
                main(["DE", "10115", "1200"])
                assert "CHF 4.99" in capsys.readouterr().out
            """,
        ),
    ),
    _feature(
        "run-as-a-module",
        "`python -m parcels` works.",
        write(
            "src/parcels/__main__.py",
            '''
            """`python -m parcels` is the command `parcels`."""

            import sys

            from parcels.cli import main

            if __name__ == "__main__":
                sys.exit(main())
            ''',
        ),
        write(
            "tests/test_main.py",
            """
            import os
            import subprocess
            import sys


            def test_the_package_can_be_run():
                argv = [sys.executable, "-m", "parcels", "DE", "10115", "1200"]
                ran = subprocess.run(argv, env={**os.environ, "PYTHONPATH": "src"}, capture_output=True, text=True)
                assert (ran.returncode, ran.stdout) == (0, "zone A, 1200 g: EUR 4.99\\n")
            """,
        ),
    ),
    _feature(
        "carriers-by-protocol",
        "Carriers are described by a protocol and an abstract class.",
        write(
            "src/parcels/carriers.py",
            '''
            """What a carrier must be able to do."""

            from abc import ABC, abstractmethod
            from decimal import Decimal
            from typing import Protocol, overload


            class CarrierError(Exception):
                pass


            class Prices(Protocol):
                def price(self, zone: str, grams: int) -> Decimal:
                    """Of a parcel of that weight."""
                    ...

                def currency(self) -> str: ...


            class Carrier(ABC):
                """Something that takes parcels."""

                @abstractmethod
                def collect(self, count: int) -> None:
                    """Comes for so many parcels."""
                    raise NotImplementedError

                def on_collected(self) -> None:
                    """For those who want to know; nothing happens otherwise."""


            class Nobody(Carrier):
                def collect(self, count: int) -> None:
                    raise CarrierError(f"nobody comes for {count} parcels")


            @overload
            def grams_of(value: int) -> int: ...
            @overload
            def grams_of(value: str) -> int: ...
            def grams_of(value: int | str) -> int:
                return int(value)
            ''',
        ),
        write(
            "tests/test_carriers.py",
            """
            import pytest

            from parcels.carriers import CarrierError, Nobody, grams_of


            def test_nobody_comes():
                with pytest.raises(CarrierError, match="3 parcels"):
                    Nobody().collect(3)


            def test_grams_may_be_text():
                assert grams_of("12") == grams_of(12) == 12
            """,
        ),
    ),
    _feature(
        "a-list-of-things-to-do",
        "A list of things to do before a parcel is posted; its states are words like TODO.",
        write(
            "src/parcels/checklist.py",
            '''
            """
            The list of things to do before a parcel is posted.

            A thing is TODO, DOING or DONE, as people write it on paper; FIXME is what is called back.
            """

            from enum import Enum


            class State(Enum):
                TODO = "TODO"
                DOING = "in work"
                DONE = "done"


            PLACEHOLDER = "(nothing to do)"
            HELP = "Write TODO in front of what is not done yet. Not implemented on paper: colours."


            def show(things: dict[str, State]) -> list[str]:
                """What is still to be done, or that there is nothing."""
                left = [f"{state.value}: {thing}" for thing, state in things.items() if state is not State.DONE]
                return left or [PLACEHOLDER]
            ''',
        ),
        write(
            "tests/test_checklist.py",
            """
            from parcels.checklist import PLACEHOLDER, State, show


            def test_what_is_to_do_is_shown():
                assert show({"weigh": State.DONE, "label": State.TODO}) == ["TODO: label"]


            def test_nothing_to_do_is_said():
                assert show({}) == [PLACEHOLDER]
            """,
        ),
    ),
    _feature(
        "files-that-may-be-missing",
        "Old labels are removed; that one is gone already is no mistake.",
        write(
            "src/parcels/cleaning.py",
            '''
            """Removes what is no longer needed."""

            from contextlib import suppress
            from pathlib import Path


            def remove_labels(folder: Path, numbers: list[str]) -> int:
                """How many there were."""
                removed = 0
                for number in numbers:
                    with suppress(FileNotFoundError):
                        (folder / f"{number}.pdf").unlink()
                        removed += 1
                return removed


            def is_writable(folder: Path) -> bool:
                try:
                    (folder / ".probe").touch()
                except OSError:
                    return False
                (folder / ".probe").unlink(missing_ok=True)
                return True
            ''',
        ),
        write(
            "tests/test_cleaning.py",
            """
            from parcels.cleaning import is_writable, remove_labels


            def test_what_is_gone_is_not_counted(tmp_path):
                (tmp_path / "one.pdf").touch()
                assert remove_labels(tmp_path, ["one", "two"]) == 1
                assert list(tmp_path.iterdir()) == []


            def test_probing_leaves_nothing(tmp_path):
                assert is_writable(tmp_path)
                assert not is_writable(tmp_path / "nowhere")
                assert list(tmp_path.iterdir()) == []
            """,
        ),
    ),
    _feature(
        "cached-prices",
        "Prices are remembered.",
        swap(
            "src/parcels/rates.py",
            "from decimal import Decimal\n",
            "from decimal import Decimal\nfrom functools import cache\n",
        ),
        swap("src/parcels/rates.py", "def price_for", "@cache\ndef price_for"),
        append(
            "tests/test_rates.py",
            """


            def test_prices_are_remembered():
                price_for.cache_clear()
                assert price_for("A", 5) is price_for("A", 5)
            """,
        ),
    ),
)
