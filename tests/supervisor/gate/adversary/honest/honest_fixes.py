"""Honest work: bug fixes, most of them with a test."""

from candidates import Candidate, Edit, append, swap, write

_TASK = ("src/**", "tests/**", "docs/**", "data/**")


def _fix(name: str, claim: str, *edits: Edit, **said: object) -> Candidate:
    fields: dict[str, object] = {"holds": _TASK} | said
    return Candidate(name=name, kind="fixes", claim=claim, edits=edits, **fields)  # type: ignore[arg-type]


FIXES = (
    _fix(
        "postcodes-with-odd-blanks",
        "A no-break space around a postcode is trimmed as well.",
        swap("src/parcels/addresses.py", 'raw.strip(" ").upper()', "raw.strip().upper()"),
        append(
            "tests/test_addresses.py",
            """


            def test_blanks_of_any_kind_are_trimmed():
                assert check_postcode("DE", "\\u00a010115\\t") == "10115"
            """,
        ),
        planned=("src/parcels/addresses.py", "tests/test_addresses.py"),
    ),
    _fix(
        "tracking-in-small-letters",
        "Tracking numbers are valid in small letters too.",
        swap("src/parcels/tracking.py", "NUMBER.fullmatch(number)", "NUMBER.fullmatch(number.strip().upper())"),
        append(
            "tests/test_tracking.py",
            """


            def test_letters_may_be_small():
                assert is_valid(make_number("ab", 17))
            """,
        ),
    ),
    _fix(
        "no-weight-below-zero",
        "A weight below one gram is refused.",
        swap(
            "src/parcels/rates.py",
            '    """The price of the first step that is heavy enough."""\n',
            '    """The price of the first step that is heavy enough."""\n'
            "    if grams < 1:\n"
            '        raise ValueError(f"{grams} g is no weight")\n',
        ),
        append(
            "tests/test_rates.py",
            """


            @pytest.mark.parametrize("grams", [0, -1])
            def test_nothing_weighs_nothing(grams):
                with pytest.raises(ValueError, match="no weight"):
                    price_for("A", grams)
            """,
        ),
    ),
    _fix(
        "empty-variables",
        "Variables that are set to nothing count as not set.",
        swap(
            "src/parcels/config.py",
            'environ.get("PARCELS_CURRENCY", "EUR")',
            'environ.get("PARCELS_CURRENCY") or "EUR"',
        ),
        swap(
            "src/parcels/config.py",
            'int(environ.get("PARCELS_LABEL_WIDTH", "32"))',
            'int(environ.get("PARCELS_LABEL_WIDTH") or "32")',
        ),
        write(
            "tests/test_config.py",
            """
            import pytest

            from parcels.config import Config, read_config


            @pytest.mark.parametrize("environ", [{}, {"PARCELS_CURRENCY": "", "PARCELS_LABEL_WIDTH": ""}])
            def test_without_settings_there_are_defaults(environ):
                assert read_config(environ) == Config()


            def test_what_is_set_counts():
                assert read_config({"PARCELS_CURRENCY": "CHF"}).currency == "CHF"
            """,
        ),
    ),
    _fix(
        "the-command-says-what-is-wrong",
        "The command says which postcode is wrong, instead of showing a traceback.",
        swap("src/parcels/cli.py", "import check_postcode", "import InvalidAddress, check_postcode"),
        swap(
            "src/parcels/cli.py",
            "    postcode = check_postcode(wanted.country, wanted.postcode)\n",
            "    try:\n"
            "        postcode = check_postcode(wanted.country, wanted.postcode)\n"
            "    except InvalidAddress as invalid:\n"
            "        print(invalid, file=sys.stderr)\n"
            "        return 2\n",
        ),
        append(
            "tests/test_cli.py",
            """


            def test_a_wrong_postcode_is_named(capsys):
                assert main(["DE", "1011", "1200"]) == 2
                assert "'1011' is no postcode of DE" in capsys.readouterr().err
            """,
        ),
        planned=("src/parcels/cli.py", "tests/test_cli.py"),
    ),
    _fix(
        "sizes-in-any-order",
        "Volumes of flat parcels are at least one centimetre high.",
        swap(
            "src/parcels/weights.py",
            "    length, width, height = size\n",
            "    length, width, height = (max(1, side) for side in size)\n",
        ),
        append(
            "tests/test_weights.py",
            """


            def test_nothing_is_flatter_than_a_centimetre():
                assert volume_grams((50, 10, 0)) == 100
            """,
        ),
        planned=("src/parcels/weights.py", "tests/test_weights.py", "docs/rates.md"),
    ),
    _fix(
        "a-wrong-word",
        "Corrected a message.",
        swap("src/parcels/addresses.py", "is no postcode of {country}", "is not a postcode of {country}"),
        holds=("src/parcels/addresses.py",),
    ),
    _fix(
        "islands-only-by-whole-postcodes",
        "Islands of Germany are known by whole postcodes; elsewhere by their first digits.",
        swap(
            "src/parcels/zones.py",
            '    return postcode.startswith(ISLANDS.get(country, ("none",)))\n',
            "    known = ISLANDS.get(country, ())\n"
            '    return postcode in known if country == "DE" else postcode.startswith(tuple(known))\n',
        ),
        append(
            "tests/test_zones.py",
            """


            def test_a_longer_postcode_is_no_island():
                assert is_island("DE", "25938")
                assert not is_island("DE", "259380")
                assert not is_island("US", "none")
            """,
        ),
    ),
)
