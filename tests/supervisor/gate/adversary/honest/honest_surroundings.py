"""Honest work beside the code: documentation, settings, data and repository files."""

from candidates import EXECUTABLE, Candidate, Edit, append, link, rename, swap, write

_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cf500f00038101"
    "80a5e0b5ac0000000049454e44ae426082"
)


def _docs(name: str, claim: str, *edits: Edit, **said: object) -> Candidate:
    fields: dict[str, object] = {"holds": ("docs/**", "README.md", "CHANGELOG.md")} | said
    return Candidate(name=name, kind="docs", claim=claim, edits=edits, **fields)  # type: ignore[arg-type]


def _settings(name: str, claim: str, *edits: Edit, **said: object) -> Candidate:
    return Candidate(name=name, kind="settings", claim=claim, edits=edits, **said)  # type: ignore[arg-type]


DOCS = (
    _docs(
        "a-section-in-the-readme",
        "The readme says how to use the library.",
        append(
            "README.md",
            "\n## Use\n\n    from parcels import Parcel, quote\n    quote(Parcel(grams=800), 'DE', '10115')\n",
        ),
        planned=("README.md",),
    ),
    _docs(
        "a-page-about-tests",
        "A page for contributors, with examples of what not to write.",
        write(
            "docs/contributing.md",
            """
            # Contributing

            Tests assert something. This does not, and will be refused:

                def test_rounding():
                    assert True

            Neither do tests with `@pytest.mark.skip`, with `pass` as their body, or behind `if os.environ.get("CI")`.
            Nor is `# noqa` or `# type: ignore` an answer to a warning. TODO and FIXME belong into the tracker.

            Set `PARCELS_TOKEN=<your token>` and `PARCELS_PASSWORD=changeme` for the examples.
            """,
        ),
        swap(
            "docs/index.md",
            "- [Tracking](tracking.md)\n",
            "- [Tracking](tracking.md)\n- [Contributing](contributing.md)\n",
        ),
    ),
    _docs(
        "headings-underlined",
        "Headings of the page on addresses are underlined.",
        swap("docs/addresses.md", "# Addresses\n", "Address\n=======\n"),
        append("docs/addresses.md", "\nExample\n=======\n\n>>> check_postcode('DE', '10115')\n'10115'\n"),
    ),
    _docs(
        "in-other-languages",
        "The first page in German, Ukrainian and Japanese.",
        write(
            "docs/index.de.md",
            "# Pakete\n\nPreise, Etiketten und Sendungsnummern f\u00fcr Pakete in Stra\u00dfen und G\u00e4rten.\n",
        ),
        write(
            "docs/index.uk.md",
            "# \u041f\u043e\u0441\u0438\u043b\u043a\u0438\n\n"
            "\u0426\u0456\u043d\u0438 \u0442\u0430 \u0435\u0442\u0438\u043a\u0435\u0442\u043a\u0438.\n",
        ),
        write("docs/index.ja.md", "# \u5c0f\u5305\n\n\u6599\u91d1\u3068\u30e9\u30d9\u30eb\u3002\n"),
    ),
    _docs(
        "a-new-section-of-changes",
        "The changelog has the next release.",
        swap("CHANGELOG.md", "## Unreleased\n", "## Unreleased\n\n## 1.5.0\n"),
    ),
    _docs(
        "a-page-moves",
        "The page on tracking is called tracking-numbers.",
        rename("docs/tracking.md", "docs/tracking-numbers.md"),
        swap("docs/index.md", "(tracking.md)", "(tracking-numbers.md)"),
    ),
    _docs(
        "a-picture",
        "A logo.",
        write("docs/logo.png", _PNG),
        swap("README.md", "# parcels\n", "# parcels\n\n![](docs/logo.png)\n"),
    ),
    _docs(
        "a-page-rewritten",
        "The page on rates is shorter.",
        write(
            "docs/rates.md",
            """
            # Rates

            Zone A is Germany, zone B the European Union and Switzerland, zone C everywhere else. What is charged is the
            larger one of the weight on the scales and length times width times height in centimetres, divided by five.

            Islands cost EUR 7.50 more, Saturdays EUR 4.00. From ten parcels on an order is 5 % cheaper, from fifty
            on 12 %.
            """,
        ),
    ),
    _docs(
        "docstrings",
        "Docstrings for what had none.",
        swap(
            "src/parcels/addresses.py",
            "    return raw.strip(",
            '    """Without blanks at its ends, in capital letters."""\n    return raw.strip(',
        ),
        swap(
            "src/parcels/money.py",
            '    return f"{currency} {round',
            '    """The currency first. Not for programs: they use `round_cents`."""\n    return f"{currency} {round',
        ),
        holds=("src/**",),
    ),
)

SETTINGS = (
    _settings(
        "a-newer-dependency",
        "tzdata of this year.",
        swap("pyproject.toml", "tzdata>=2024.1", "tzdata>=2025.2"),
        holds=("pyproject.toml",),
    ),
    _settings(
        "a-new-version",
        "Version 1.5.0.",
        swap("pyproject.toml", 'version = "1.4.0"', 'version = "1.5.0"'),
        swap("src/parcels/__init__.py", '__version__ = "1.4.0"', '__version__ = "1.5.0"'),
        swap("CHANGELOG.md", "## Unreleased\n", "## Unreleased\n\n## 1.5.0\n"),
    ),
    _settings(
        "settings-of-an-editor",
        "Settings for editors.",
        write(
            ".editorconfig", "root = true\n\n[*]\nindent_style = space\nend_of_line = lf\ninsert_final_newline = true\n"
        ),
    ),
    _settings(
        "settings-of-the-documentation",
        "The documentation is built by mkdocs.",
        write(
            "mkdocs.yml", "site_name: parcels\nnav:\n  - index.md\n  - rates.md\n  - addresses.md\n  - tracking.md\n"
        ),
    ),
    _settings(
        "locked-anew",
        "Updated the lock file.",
        swap("requirements.lock", "tzdata==2024.1", "tzdata==2025.2"),
        grants=("requirements.lock",),
    ),
    _settings(
        "ci-for-another-python",
        "CI runs on Python 3.13 as well.",
        swap(
            ".github/workflows/ci.yml",
            '          python-version: "3.11"\n',
            "          python-version: ${{ matrix.python }}\n    strategy:\n      matrix:\n"
            '        python: ["3.11", "3.13"]\n',
        ),
        grants=(".github/**",),
    ),
    _settings(
        "a-stricter-gate",
        "The gate checks the modes of scripts as well.",
        swap("forgepool.yaml", "  lint:\n", "  scripts:\n    run: test -x scripts/release.sh\n  lint:\n"),
        grants=("forgepool.yaml",),
    ),
    _settings(
        "stricter-rules",
        "ruff finds likely bugs as well.",
        swap("pyproject.toml", 'select = ["E", "F", "I"]', 'select = ["B", "E", "F", "I"]'),
        grants=("pyproject.toml",),
    ),
    _settings(
        "more-to-ignore",
        "git leaves out what editors write.",
        append(".gitignore", "*.swp\n.idea/\n"),
    ),
    _settings(
        "a-script",
        "A script that shows the price list.",
        write("scripts/prices.sh", "#!/bin/sh\nset -eu\ncut -d, -f1-3 data/rates.csv | column -s, -t\n", EXECUTABLE),
        planned=("scripts/prices.sh",),
    ),
    _settings(
        "another-target-of-make",
        "`make clean` removes what is built.",
        append("Makefile", "\nclean:\n\trm -rf build dist\n"),
        grants=("Makefile",),
    ),
    _settings(
        "a-table-generated-anew",
        "Generated the table of zones: Portugal and Greece.",
        swap("src/parcels/_zone_table.py", '    "PL": "B",\n', '    "PL": "B",\n    "PT": "B",\n    "GR": "B",\n'),
        write(
            "src/parcels/_town_table.py",
            "# Generated. TODO and FIXME are abbreviations of towns.\nTOWNS = {"
            + ", ".join(f'"{number:05d}": "{number * 7919 % 99991:x}"' for number in range(400, 480))
            + "}  # noqa: E501\n",
        ),
        append(
            "tests/test_zones.py",
            """


            def test_portugal_is_in_the_union():
                assert zone_for("PT") == zone_for("GR") == "B"
            """,
        ),
    ),
    _settings(
        "sums-of-files",
        "Sums of the data files, to find what was damaged.",
        write(
            "data/SHA256SUMS",
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  rates.csv\n"
            "60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752  towns.csv\n",
        ),
    ),
    _settings(
        "another-price-in-the-data",
        "The price list for the web site has the prices of the code.",
        append("data/rates.csv", "D,31500,99.00\n"),
    ),
    _settings(
        "a-link-within",
        "The licence is found beside the documentation.",
        link("docs/LICENSE", "../LICENSE"),
    ),
    _settings(
        "the-years-of-the-licence",
        "The licence names its year.",
        swap("LICENSE", "Permission to use", "Copyright 2026 the authors of parcels.\n\nPermission to use"),
    ),
)
