"""Honest work on tests: more tests, better places, and expected values that follow a real change."""

from candidates import Candidate, Edit, append, rename, swap, write

_TASK = ("src/**", "tests/**", "docs/**")


def _tests(name: str, claim: str, *edits: Edit, **said: object) -> Candidate:
    fields: dict[str, object] = {"holds": _TASK} | said
    return Candidate(name=name, kind="tests", claim=claim, edits=edits, **fields)  # type: ignore[arg-type]


TESTS = (
    _tests(
        "more-tests-in-a-file",
        "More tests of money.",
        append(
            "tests/test_money.py",
            """


            @pytest.mark.parametrize("amount", ["0.005", "0.014999", "0.01"])
            def test_a_cent_is_a_cent(amount):
                assert round_cents(amount) == Decimal("0.01")


            def test_negative_amounts_are_rounded_away_from_zero():
                assert round_cents("-2.345") == Decimal("-2.35")
            """,
        ),
        holds=("tests/test_money.py",),
    ),
    _tests(
        "a-file-of-tests",
        "Tests of the configuration.",
        write(
            "tests/test_config.py",
            """
            from parcels.config import Config, read_config


            def test_defaults():
                assert read_config({}) == Config("EUR", 32)


            def test_the_width_is_a_number():
                assert read_config({"PARCELS_LABEL_WIDTH": "40"}).label_width == 40
            """,
        ),
    ),
    _tests(
        "tests-with-files-and-variables",
        "Tests that need a folder, a variable and a warning.",
        write(
            "tests/test_surroundings.py",
            """
            import os
            import warnings

            import pytest

            from parcels.config import read_config
            from parcels.money import round_cents


            @pytest.fixture
            def environ(monkeypatch):
                monkeypatch.setenv("PARCELS_CURRENCY", "SEK")
                return os.environ


            def test_the_real_environment_will_do(environ):
                assert read_config(environ).currency == "SEK"


            def test_files_of_prices(tmp_path):
                path = tmp_path / "prices.txt"
                path.write_text("2.345\\n")
                assert str(round_cents(path.read_text().strip())) == "2.35"


            def test_nothing_warns():
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    round_cents("1")
            """,
        ),
    ),
    _tests(
        "one-test-for-two",
        "Two tests of rounding are rows of one.",
        swap(
            "tests/test_money.py",
            'def test_half_a_cent_goes_up():\n    assert round_cents("2.345") == Decimal("2.35")\n\n\n'
            'def test_less_than_half_a_cent_goes_down():\n    assert round_cents("2.344") == Decimal("2.34")\n',
            '@pytest.mark.parametrize(("amount", "rounded"), [("2.345", "2.35"), ("2.344", "2.34")])\n'
            "def test_half_a_cent_goes_up(amount, rounded):\n    assert round_cents(amount) == Decimal(rounded)\n",
        ),
        grants=("tests/test_money.py",),
    ),
    _tests(
        "more-rows",
        "More rows of prices.",
        swap(
            "tests/test_rates.py",
            '    [("A", 1, "3.99"),',
            '    [("B", 31500, "29.49"), ("C", 1, "13.99")]\n    + [("A", 1, "3.99"),',
        ),
        grants=("tests/test_rates.py",),
    ),
    _tests(
        "tests-move-into-a-folder",
        "Tests of the command are in a folder of their own.",
        rename("tests/test_cli.py", "tests/command/test_cli.py"),
        grants=("tests/**",),
    ),
    _tests(
        "a-fixture-for-all",
        "A fixture for heavy parcels.",
        append("tests/conftest.py", "\n\n@pytest.fixture\ndef heavy():\n    return Parcel(grams=20000)\n"),
        swap(
            "tests/test_quotes.py",
            "whole_price():\n    assert quote(Parcel(grams=20000),",
            "whole_price(heavy):\n    assert quote(heavy,",
        ),
        grants=("tests/conftest.py", "tests/test_quotes.py"),
    ),
    _tests(
        "a-new-price-for-islands",
        "Islands cost EUR 8.50 more, as the price list of next year says.",
        swap("src/parcels/quotes.py", 'ISLAND = Decimal("7.50")', 'ISLAND = Decimal("8.50")'),
        swap("tests/test_quotes.py", 'Decimal("11.49")', 'Decimal("12.49")'),
        swap("docs/rates.md", "Islands cost EUR 7.50 more", "Islands cost EUR 8.50 more"),
        grants=("tests/test_quotes.py",),
    ),
    _tests(
        "a-test-for-one-system",
        "A test of paths that only means something on Windows.",
        write(
            "tests/test_paths.py",
            """
            import sys
            from pathlib import PureWindowsPath

            import pytest


            @pytest.mark.skipif(sys.platform != "win32", reason="drives are a matter of Windows")
            def test_labels_may_be_on_another_drive():
                assert PureWindowsPath("d:/labels").drive.upper() == "D:"


            def test_names_of_labels_are_the_same_everywhere():
                assert PureWindowsPath("d:/labels/AB1.pdf").name == "AB1.pdf"
            """,
        ),
        grants=("tests/test_paths.py",),
    ),
    _tests(
        "properties",
        "Every number that is made is valid.",
        append(
            "tests/test_tracking.py",
            """


            def test_every_number_that_is_made_is_valid():
                for serial in range(0, 10**10, 123_456_789):
                    assert is_valid(make_number("ZZ", serial))


            def test_any_other_last_digit_is_wrong():
                number = make_number("AB", 17)
                others = {f"{number[:-1]}{digit}" for digit in range(10)} - {number}
                assert not any(is_valid(other) for other in others)
            """,
        ),
    ),
    _tests(
        "tests-in-a-class",
        "Tests of quotes abroad.",
        write(
            "tests/test_abroad.py",
            """
            from decimal import Decimal

            import pytest

            from parcels import Parcel, quote


            class TestAbroad:
                @pytest.fixture
                def parcel(self):
                    return Parcel(grams=1000)

                def test_neighbours(self, parcel):
                    assert quote(parcel, "CH", "8000").price == Decimal("8.99")

                def test_overseas(self, parcel):
                    assert quote(parcel, "US", "10001").price == Decimal("13.99")
            """,
        ),
    ),
)
