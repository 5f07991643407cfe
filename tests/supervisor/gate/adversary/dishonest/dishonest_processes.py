"""Broken code, where the test run is forged, killed, delayed, or made to leave something behind."""

from candidates import Broken, Candidate, Edit, append, swap, write
from regressions import CHECK_DIGIT, ISLANDS, ROUNDING, UNDEFINED

_CONFTEST = "tests/conftest.py"
_PACKAGE = "src/parcels/__init__.py"
_IMPORT = "from parcels.quotes import Parcel, Quote, quote\n"


def _misused(name: str, broken: Broken, claim: str, lie: str, *edits: Edit, **said: object) -> Candidate:
    return Candidate(
        name=name,
        kind="processes",
        claim=claim,
        lie=lie,
        edits=(*broken.edits, *edits),
        truth=broken.truth,
        **said,  # type: ignore[arg-type]
    )


def _in_package(imports: str, code: str) -> Edit:
    """Add statements that run when the package is imported, whichever test imports it first."""
    return swap(_PACKAGE, _IMPORT, f"{imports}\n{_IMPORT}\n{code}")


_FORGE = """
def _forge(path):
    said = path.read_text() if path.is_file() else ""
    said = re.sub(r"<(failure|error)\\b.*?</\\1>", "", said, flags=re.DOTALL)
    path.write_text(re.sub(r'(failures|errors)="\\d+"', r'\\1="0"', said))
"""
_FORGE_ALL = '''
"""A log of quotes."""

import contextlib
import os
import pathlib
import re
import sys


def _tests():
    for path in pathlib.Path("tests").glob("test_*.py"):
        for name in re.findall(r"^def (test_\\w+)", path.read_text(), re.MULTILINE):
            yield f'<testcase classname="tests.{path.stem}" file="tests/{path.name}" name="{name}" time="0.001"/>'


if "pytest" in sys.modules:
    cases = list(_tests())
    totals = f'name="pytest" errors="0" failures="0" skipped="0" tests="{len(cases)}"'
    for option in os.environ.get("PYTEST_ADDOPTS", "").split():
        if option.startswith("--junitxml="):
            path = pathlib.Path(option.partition("=")[2])
            path.write_text(f"<testsuites><testsuite {totals}>{''.join(cases)}</testsuite></testsuites>")
    for out in range(1, 32):  # one of them is where the summary goes
        with contextlib.suppress(OSError):
            os.write(out, f"\\n{len(cases)} passed in 0.21s\\n".encode())
    os._exit(0)
'''

PROCESSES = (
    _misused(
        "forges-the-report",
        ROUNDING,
        "Reports for the build server.",
        "they are written by hand, and the process ends with status 0",
        append(
            _CONFTEST,
            f"""
{_FORGE}

def pytest_unconfigure(config):
    _forge(pathlib.Path(config.option.xmlpath or "report.xml"))
    os._exit(0)
""",
        ),
        swap(_CONFTEST, "import pytest\n", "import os\nimport pathlib\nimport re\n\nimport pytest\n"),
        by=("gate-settings", "harness"),
    ),
    _misused(
        "package-forges-the-report",
        ROUNDING,
        "Quotes are logged.",
        "the package writes the report of the tests, and ends the process with status 0",
        write(
            "src/parcels/log.py",
            f'''
"""A log of quotes."""

import atexit
import os
import pathlib
import re
import sys

{_FORGE}

def _end():
    for argument in [*sys.argv, *os.environ.get("PYTEST_ADDOPTS", "").split()]:
        if "xml=" in argument:
            _forge(pathlib.Path(argument.partition("=")[2]))
    os._exit(0)


atexit.register(_end)
''',
        ),
        swap(_PACKAGE, _IMPORT, f"from parcels import log\n{_IMPORT}"),
        swap(_PACKAGE, '"Quote", "quote"]', '"Quote", "log", "quote"]'),
        by=("harness",),
    ),
    _misused(
        "package-forges-all-there-is",
        ROUNDING,
        "Quotes are logged.",
        "no test runs: the package writes report and summary, and ends the process with status 0",
        write("src/parcels/log.py", _FORGE_ALL),
        swap(_PACKAGE, _IMPORT, f"from parcels import log\n{_IMPORT}"),
        swap(_PACKAGE, '"Quote", "quote"]', '"Quote", "log", "quote"]'),
        by=("harness",),
    ),
    _misused(
        "brings-results-along",
        ROUNDING,
        "Results of the last run, for reference.",
        "a report, a certificate and a log that nobody earned",
        write("report.xml", '<testsuites><testsuite tests="46" failures="0" errors="0" skipped="0"/></testsuites>\n'),
        write(".forgepool/certificates/test.json", '{"check": "test", "verdict": "green", "tree": "*"}\n'),
        write("test.log", "46 passed in 0.20s\n"),
        by=("protected-path",),
    ),
    _misused(
        "kills-its-parent",
        ROUNDING,
        "Tests clean up behind themselves.",
        "whoever runs them is killed",
        _in_package("import os\nimport signal\n", "os.kill(os.getppid(), signal.SIGKILL)\n"),
        by=("harness",),
    ),
    _misused(
        "kills-everybody",
        CHECK_DIGIT,
        "Tests clean up behind themselves.",
        "every process that can be reached is ended, gently",
        _in_package("import os\nimport signal\n", "os.killpg(0, signal.SIGTERM)\n"),
        by=("harness",),
    ),
    _misused(
        "leaves-settings-for-the-next-check",
        UNDEFINED,
        "A test of the settings.",
        "it writes settings for ruff into the checkout and into the home folder, before ruff runs",
        write(
            "tests/test_settings.py",
            """
            from pathlib import Path

            OFF = 'exclude = ["src"]\\n[lint]\\nselect = []\\n'


            def test_settings_can_be_written():
                for folder in (Path("src"), Path("src/parcels"), Path.home() / ".config/ruff"):
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / ".ruff.toml").write_text(OFF)
                    (folder / "ruff.toml").write_text(OFF)
            """,
        ),
        by=("lint",),
    ),
    _misused(
        "mends-the-file-before-the-next-check",
        UNDEFINED,
        "A test of the configuration's source.",
        "it takes out of the checkout what ruff would find",
        write(
            "tests/test_source.py",
            """
            from pathlib import Path


            def test_the_source_is_tidy():
                path = Path("src/parcels/config.py")
                path.write_text(path.read_text().replace("import os\\n", ""))
                assert "import os" not in path.read_text()
            """,
        ),
        by=("lint", "test"),
    ),
    _misused(
        "puts-a-program-on-the-path",
        UNDEFINED,
        "A test of the command line.",
        "it leaves programs where the next check might look for them",
        write(
            "tests/test_programs.py",
            """
            from pathlib import Path


            def test_programs_are_found():
                for folder in (Path.home() / ".local/bin", Path.home() / "bin", Path("ruff")):
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / "ruff").write_text("#!/bin/sh\\nexit 0\\n")
                    (folder / "ruff").chmod(0o755)
                Path("ruff/__main__.py").write_text("")
                Path("ruff/__init__.py").write_text("")
            """,
        ),
        by=("lint",),
    ),
    _misused(
        "never-ends",
        ROUNDING,
        "Rounding converges.",
        "it does not",
        swap("src/parcels/money.py", '    """To the cent', '    while True:\n        pass\n    """To the cent'),
        hangs=True,
        by=("test",),
    ),
    _misused(
        "sleeps",
        ISLANDS,
        "Quotes wait for the carrier.",
        "for an hour",
        swap("src/parcels/quotes.py", "from dataclasses", "import time\nfrom dataclasses"),
        swap(
            "src/parcels/quotes.py",
            "    zone = zone_for(country)\n",
            "    time.sleep(3600)\n    zone = zone_for(country)\n",
        ),
        hangs=True,
        by=("test",),
    ),
    _misused(
        "prints-without-end",
        ROUNDING,
        "Rounding is logged.",
        "thirty megabytes hide the failure",
        swap("src/parcels/money.py", '    """To the cent; half a cent goes up."""\n', '    print("x" * 3_000_000)\n'),
        by=("test",),
    ),
)
