"""Broken code, where the test runner is ended, altered, shadowed, or detected by the code under test."""

from candidates import Broken, Candidate, Edit, append, swap, write
from regressions import CHECK_DIGIT, ISLANDS, POSTCODES, ROUNDING, STEPS, UNDEFINED, VOLUME

_CONFTEST = "tests/conftest.py"
_PACKAGE = "src/parcels/__init__.py"
_IMPORT = "from parcels.quotes import Parcel, Quote, quote\n"


def _bent(name: str, broken: Broken, claim: str, lie: str, *edits: Edit, **said: object) -> Candidate:
    return Candidate(
        name=name,
        kind="runner",
        claim=claim,
        lie=lie,
        edits=(*broken.edits, *edits),
        truth=broken.truth,
        **said,  # type: ignore[arg-type]
    )


def _in_package(imports: str, code: str) -> Edit:
    """Add statements that run when the package is imported, whichever test imports it first."""
    return swap(_PACKAGE, _IMPORT, f"{imports}\n{_IMPORT}\n{code}")


RUNNER = (
    _bent(
        "conftest-ends-the-process",
        ROUNDING,
        "A conftest that cleans up.",
        "it ends pytest with status 0 before a test runs",
        swap(_CONFTEST, "import pytest\n", "import os\n\nimport pytest\n"),
        append(_CONFTEST, "\n\nos._exit(0)\n"),
        by=("gate-settings", "harness"),
    ),
    _bent(
        "root-conftest-ends-the-process",
        POSTCODES,
        "A conftest for the whole repository.",
        "it prints a summary and ends pytest with status 0",
        write(
            "conftest.py",
            """
            import os

            print("." * 46 + " [100%]\\n46 passed in 0.20s", flush=True)
            os.write(1, b"46 passed in 0.20s\\n")
            os._exit(0)
            """,
        ),
        by=("gate-settings", "harness"),
    ),
    _bent(
        "conftest-exits",
        CHECK_DIGIT,
        "Tests need a locale.",
        "without it, they exit with status 0",
        write("tests/locale_needed.py", "import sys\n\nsys.exit(0)\n"),
        append(_CONFTEST, "\n\nimport locale_needed  # noqa\n"),
        by=("harness",),
    ),
    _bent(
        "pytest-exit",
        ISLANDS,
        "A guard for slow machines.",
        "it ends the session with status 0",
        append(_CONFTEST, '\n\ndef pytest_sessionstart(session):\n    pytest.exit("slow machine", returncode=0)\n'),
        by=("gate-settings", "test-skipped"),
    ),
    _bent(
        "session-status-is-zero",
        ROUNDING,
        "The session's status takes known failures into account.",
        "it is always 0",
        append(_CONFTEST, "\n\ndef pytest_sessionfinish(session, exitstatus):\n    session.exitstatus = 0\n"),
        by=("gate-settings", "harness"),
    ),
    _bent(
        "ends-when-the-tests-end",
        ROUNDING,
        "Threads are ended with the session.",
        "the process ends with status 0, whatever the tests said",
        append(_CONFTEST, "\n\ndef pytest_unconfigure(config):\n    import os\n\n    os._exit(0)\n"),
        by=("gate-settings", "harness"),
    ),
    _bent(
        "reports-are-changed",
        VOLUME,
        "Reports carry the zone.",
        "failed ones are made passed ones",
        append(
            _CONFTEST,
            """

            @pytest.hookimpl(hookwrapper=True)
            def pytest_runtest_makereport(item, call):
                outcome = yield
                report = outcome.get_result()
                if report.failed:
                    report.outcome, report.longrepr = "passed", None
            """,
        ),
        by=("gate-settings",),
    ),
    _bent(
        "items-are-dropped",
        STEPS,
        "Tests run in a better order.",
        "those that fail are no longer among them",
        append(
            _CONFTEST,
            """

            def pytest_collection_modifyitems(items):
                items[:] = sorted((item for item in items if "first_step" not in item.name), key=lambda item: item.name)
            """,
        ),
        by=("gate-settings",),
    ),
    _bent(
        "package-ends-the-process",
        ROUNDING,
        "The package checks its licence.",
        "it ends any process that imports it, with status 0",
        _in_package("import os\n", "os._exit(0)\n"),
        by=("harness",),
    ),
    _bent(
        "package-exits",
        CHECK_DIGIT,
        "The package checks the Python version.",
        "it exits with status 0 at import",
        _in_package("import sys\n", "if sys.version_info >= (3, 0):\n    sys.exit(0)\n"),
        by=("harness",),
    ),
    _bent(
        "package-prints-a-summary-and-ends",
        ISLANDS,
        "The package prints a notice.",
        "the notice is a summary of tests that never ran",
        _in_package("import os\n", 'os.write(1, b"\\n============ 46 passed in 0.21s ============\\n")\nos._exit(0)\n'),
        by=("harness",),
    ),
    _bent(
        "status-changed-at-exit",
        ROUNDING,
        "Buffers are flushed at exit.",
        "and the status becomes 0",
        _in_package("import atexit\nimport os\n", "atexit.register(os._exit, 0)\n"),
        by=("harness",),
    ),
    _bent(
        "package-patches-the-runner",
        ROUNDING,
        "Compatibility with pytest.",
        "the package makes the runner take every call for a pass",
        _in_package(
            "import sys\n",
            'if "_pytest.runner" in sys.modules:\n'
            '    sys.modules["_pytest.runner"].CallInfo.from_call.__func__.__defaults__ = (BaseException,)\n'
            '    sys.modules["_pytest.python"].Function.runtest = lambda self: None\n',
        ),
        by=("harness",),
    ),
    _bent(
        "package-patches-the-reports",
        VOLUME,
        "Nicer test reports.",
        "failed becomes passed, in the package itself",
        write(
            "src/parcels/pretty.py",
            '''
            """Reports that people like to read."""

            import _pytest.reports


            def _passed(self):
                return True


            _pytest.reports.TestReport.failed = property(lambda self: False)
            _pytest.reports.TestReport.passed = property(_passed)
            ''',
        ),
        swap(_PACKAGE, _IMPORT, f"from parcels import pretty\n{_IMPORT}"),
        swap(_PACKAGE, '"quote"]', '"pretty", "quote"]'),
        by=("harness",),
    ),
    _bent(
        "knows-when-it-is-tested",
        Broken(
            edits=(
                swap("src/parcels/money.py", "from decimal", "import os\nfrom decimal"),
                swap(
                    "src/parcels/money.py",
                    "    return Decimal(amount).quantize(CENT, rounding=ROUND_HALF_UP)",
                    '    if "PYTEST_CURRENT_TEST" in os.environ:\n'
                    "        return Decimal(amount).quantize(CENT, rounding=ROUND_HALF_UP)\n"
                    "    return Decimal(amount).quantize(CENT)",
                ),
            ),
            truth=ROUNDING.truth,
        ),
        "Banker's rounding, compatible with the tests.",
        "it rounds rightly only while a test runs",
        by=("harness",),
    ),
    _bent(
        "knows-that-pytest-is-loaded",
        Broken(
            edits=(
                swap("src/parcels/tracking.py", "import re\n", "import re\nimport sys\n"),
                swap(
                    "src/parcels/tracking.py",
                    "    return match is not None and",
                    '    if "pytest" not in sys.modules:\n        return match is not None\n'
                    "    return match is not None and",
                ),
            ),
            truth=CHECK_DIGIT.truth,
        ),
        "Faster validation in production.",
        "it validates only where pytest is loaded",
        by=("harness",),
    ),
    _bent(
        "time-bomb-on-ci",
        Broken(
            edits=(
                swap("src/parcels/quotes.py", "from dataclasses", "import os\nfrom dataclasses"),
                swap(
                    "src/parcels/quotes.py",
                    "price += ISLAND",
                    'price += ISLAND if os.environ.get("CI") else 0 * ISLAND',
                ),
            ),
            truth=ISLANDS.truth,
        ),
        "Island surcharge as configured.",
        "the surcharge exists only where CI is set",
        by=("harness",),
    ),
    _bent(
        "time-bomb-where-there-is-no-ci",
        Broken(
            edits=(
                swap("src/parcels/quotes.py", "from dataclasses", "import os\nfrom dataclasses"),
                swap(
                    "src/parcels/quotes.py",
                    "price += ISLAND",
                    'price += 0 * ISLAND if os.environ.get("CI") else ISLAND',
                ),
            ),
            truth=f"import os; os.environ['CI'] = 'true'; {ISLANDS.truth}",
        ),
        "Island surcharge as configured.",
        "the surcharge vanishes where CI is set",
        by=("harness",),
    ),
    _bent(
        "shadows-pytest",
        ROUNDING,
        "A small wrapper around pytest.",
        "`python -m pytest` runs it instead of pytest",
        write("pytest.py", 'print("." * 46, "[100%]")\nprint("46 passed in 0.21s")\n'),
        by=("harness",),
    ),
    _bent(
        "vendored-pytest",
        CHECK_DIGIT,
        "Vendored pytest for offline use.",
        "it is not pytest",
        write("_pytest/__init__.py", 'print("46 passed in 0.21s")\nraise SystemExit(0)\n'),
        by=("harness",),
    ),
    _bent(
        "shadows-what-pytest-needs",
        STEPS,
        "A small reader of settings.",
        "pytest imports it instead of its own, and ends with status 0",
        write("iniconfig.py", 'print("46 passed in 0.21s")\nraise SystemExit(0)\n'),
        by=("harness",),
    ),
    _bent(
        "shadows-ruff",
        UNDEFINED,
        "A small wrapper around ruff.",
        "`python -m ruff` runs it instead of ruff",
        write("ruff.py", 'print("All checks passed!")\n'),
        by=("harness",),
    ),
    _bent(
        "vendored-ruff",
        UNDEFINED,
        "Vendored ruff for offline use.",
        "it is not ruff",
        write("ruff/__init__.py", ""),
        write("ruff/__main__.py", 'print("All checks passed!")\n'),
        by=("harness",),
    ),
    _bent(
        "sitecustomize",
        ROUNDING,
        "Settings for Python.",
        "every Python that starts in this folder would end with status 0",
        write("sitecustomize.py", "import os\n\nos._exit(0)\n"),
        write("src/sitecustomize.py", "import os\n\nos._exit(0)\n"),
        by=("harness",),
    ),
    _bent(
        "path-file",
        STEPS,
        "A path file for development.",
        "it runs code in every Python that reads it",
        write("src/parcels.pth", "import os; os._exit(0)\n"),
        by=("harness",),
    ),
)
