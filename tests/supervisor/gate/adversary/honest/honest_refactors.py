"""Honest work: code in better order, and better names."""

from candidates import Candidate, Edit, remove, rename, swap, swap_everywhere, write

_TASK = ("src/**", "tests/**", "docs/**", "data/**")


def _refactor(name: str, claim: str, *edits: Edit, **said: object) -> Candidate:
    fields: dict[str, object] = {"holds": _TASK} | said
    return Candidate(name=name, kind="refactors", claim=claim, edits=edits, **fields)  # type: ignore[arg-type]


REFACTORS = (
    _refactor(
        "another-name-throughout",
        "`round_cents` is called `to_cents` now, in code, tests and documentation.",
        swap_everywhere("round_cents", "to_cents", "src/*", "tests/*"),
        grants=("tests/**",),
    ),
    _refactor(
        "another-name-for-a-module",
        "`parcels.weights` is called `parcels.mass` now, and its tests follow.",
        rename("src/parcels/weights.py", "src/parcels/mass.py"),
        rename("tests/test_weights.py", "tests/test_mass.py"),
        swap("src/parcels/quotes.py", "from parcels.money import percent_of, round_cents\n", ""),
        swap(
            "src/parcels/quotes.py",
            "from parcels.rates import price_for\nfrom parcels.weights import chargeable_grams\n",
            "from parcels.mass import chargeable_grams\n"
            "from parcels.money import percent_of, round_cents\n"
            "from parcels.rates import price_for\n",
        ),
        swap("tests/test_mass.py", "parcels.weights", "parcels.mass"),
        grants=("tests/**",),
    ),
    _refactor(
        "a-function-of-its-own",
        "Surcharges are computed in a function of their own.",
        swap(
            "src/parcels/quotes.py",
            "    if is_island(country, postcode):\n        price += ISLAND\n    if saturday:\n"
            "        price += SATURDAY\n",
            "    price += surcharges(country, postcode, saturday=saturday)\n",
        ),
        swap(
            "src/parcels/quotes.py",
            "def quote(",
            "def surcharges(country: str, postcode: str, *, saturday: bool) -> Decimal:\n"
            "    island = ISLAND if is_island(country, postcode) else Decimal(0)\n"
            "    return island + (SATURDAY if saturday else Decimal(0))\n\n\ndef quote(",
        ),
        holds=("src/parcels/quotes.py",),
    ),
    _refactor(
        "a-package-of-labels",
        "`labels` is a package now.",
        rename("src/parcels/labels.py", "src/parcels/labels/__init__.py"),
        swap("src/parcels/labels/__init__.py", "import textwrap\n\n", ""),
        swap(
            "src/parcels/labels/__init__.py",
            "from parcels.addresses import Address\n",
            "from parcels.addresses import Address\nfrom parcels.labels.wrapping import wrapped\n",
        ),
        swap("src/parcels/labels/__init__.py", "textwrap.wrap(line, width)", "wrapped(line, width)"),
        write(
            "src/parcels/labels/wrapping.py",
            '''
            """Long lines."""

            import textwrap


            def wrapped(line: str, width: int) -> list[str]:
                return textwrap.wrap(line, width)
            ''',
        ),
    ),
    _refactor(
        "comprehensions",
        "Loops that only collect are comprehensions.",
        swap(
            "src/parcels/labels.py",
            "    lines: list[str] = []\n    for line in address.lines():\n"
            "        lines += textwrap.wrap(line, width)\n    return lines\n",
            "    return [part for line in address.lines() for part in textwrap.wrap(line, width)]\n",
        ),
    ),
    _refactor(
        "a-name-kept-for-callers",
        "`parcels.labels` still has `Address`, for those who import it from there.",
        swap(
            "src/parcels/labels.py",
            "from parcels.addresses import Address\n",
            "from parcels.addresses import Address, InvalidAddress  # noqa: F401 - callers import it from here\n",
        ),
    ),
    _refactor(
        "slots",
        "Values have slots.",
        swap("src/parcels/quotes.py", "@dataclass(frozen=True)", "@dataclass(frozen=True, slots=True)"),
        swap("src/parcels/config.py", "@dataclass(frozen=True)", "@dataclass(frozen=True, slots=True)"),
        swap("src/parcels/addresses.py", "@dataclass(frozen=True)", "@dataclass(frozen=True, slots=True)"),
    ),
    _refactor(
        "types-for-the-table",
        "The price list has a type.",
        swap("src/parcels/rates.py", "STEPS = {", "STEPS: dict[str, tuple[tuple[int, str], ...]] = {"),
        swap("src/parcels/tracking.py", "NUMBER = ", "NUMBER: re.Pattern[str] = "),
        swap("src/parcels/legacy.py", "def old_price(kilos):", "def old_price(kilos: int) -> int:"),
    ),
    _refactor(
        "formatted",
        "Formatted the sources.",
        swap(
            "src/parcels/rates.py",
            '    "A": ((1000, "3.99"), (2000, "4.99"), (5000, "6.99"), (31500, "16.49")),\n',
            '    "A": (\n        (1000, "3.99"),\n        (2000, "4.99"),\n        (5000, "6.99"),\n'
            '        (31500, "16.49"),\n    ),\n',
        ),
        swap(
            "src/parcels/cli.py",
            "    answer = quote(Parcel(grams=wanted.grams), wanted.country, postcode, saturday=wanted.saturday)\n",
            "    answer = quote(\n        Parcel(grams=wanted.grams),\n        wanted.country,\n        postcode,\n"
            "        saturday=wanted.saturday,\n    )\n",
        ),
    ),
    _refactor(
        "without-dead-code",
        "Removed a module that nobody imports.",
        remove("src/parcels/legacy.py"),
        holds=("src/parcels/legacy.py",),
    ),
    _refactor(
        "without-a-function-and-its-test",
        "Barcodes are printed by the printer: removed the function and its test.",
        swap(
            "src/parcels/labels.py",
            "\n\ndef barcode(number: str) -> str:\n"
            '    """The number as the printer wants it: start and stop, groups of four."""\n'
            "    groups = [number[at : at + 4] for at in range(0, len(number), 4)]\n"
            '    return "*" + " ".join(groups) + "*"\n',
            "",
        ),
        swap("tests/test_labels.py", "import barcode, label_lines", "import label_lines"),
        swap(
            "tests/test_labels.py",
            "\n\ndef test_barcodes_are_grouped_by_four():\n"
            '    assert barcode("AB00000000017") == "*AB00 0000 0001 7*"\n',
            "",
        ),
        grants=("tests/test_labels.py",),
    ),
    _refactor(
        "constants-in-one-place",
        "Surcharges and discounts are in a module of their own.",
        write(
            "src/parcels/terms.py",
            '''
            """What is agreed with customers."""

            from decimal import Decimal

            ISLAND = Decimal("7.50")
            SATURDAY = Decimal("4.00")
            DISCOUNTS = ((50, 12), (10, 5))
            ''',
        ),
        swap(
            "src/parcels/quotes.py",
            'ISLAND = Decimal("7.50")\nSATURDAY = Decimal("4.00")\nDISCOUNTS = ((50, 12), (10, 5))\n\n\n',
            "\n",
        ),
        swap(
            "src/parcels/quotes.py",
            "from parcels.rates import price_for\n",
            "from parcels.rates import price_for\nfrom parcels.terms import DISCOUNTS, ISLAND, SATURDAY\n",
        ),
    ),
)
