"""The findings of linters and type checkers, in each output format that is read."""

import json
from typing import Any

import pytest

from forgepool.supervisor.checks.results.problems import UnreadableOutput, report_of_problems, with_names_of

ESLINT = """\

/work/src/a.js
  1:10  error    'x' is defined but never used  no-unused-vars
  4:1   warning  Unexpected console statement   no-console

/work/src/b.ts
  2:3  error  Parsing error: Unexpected token

✖ 3 problems (2 errors, 1 warning)
"""
ESLINT_JSON = [
    {
        "filePath": "/work/src/a.js",
        "messages": [
            {"ruleId": "no-unused-vars", "severity": 2, "message": "'x' is defined but never used", "line": 1},
            {"ruleId": "no-console", "severity": 1, "message": "Unexpected console statement", "line": 4},
        ],
    },
    {
        "filePath": "/work/src/b.ts",
        "messages": [{"ruleId": None, "severity": 2, "message": "Parsing error: Unexpected token", "line": 2}],
    },
]
OF_ESLINT = [
    "src/a.js: no-unused-vars 'x' is defined but never used",
    "src/b.ts: Parsing error: Unexpected token",
]
SARIF = {
    "runs": [
        {
            "results": [
                {
                    "ruleId": "S1",
                    "level": level,
                    "message": {"text": "weak hash"},
                    "locations": [
                        {
                            "physicalLocation": {
                                "artifactLocation": {"uri": "file:///work/src/a%20b.py"},
                                "region": {"startLine": 3},
                            }
                        }
                    ],
                }
                for level in ("error", "note")
            ]
        }
    ]
}
TSC = "app/(shop)/page.tsx(3,5): error TS2322: Type 'string' is not assignable.\n  The types differ.\n"
PRETTY = "src/a.ts:3:5 - error TS2322: Type 'x'.\n\n3 let a\n  ~~~\n\nFound 1 error in src/a.ts:3\n"


def ids(output: str, *documents: str, status: int = 1) -> list[str]:
    report = report_of_problems(output, documents, status, "/work")
    return [case.id for case in report.cases if case.outcome == "failed"]


@pytest.mark.parametrize(
    ("output", "found"),
    [
        (ESLINT, OF_ESLINT),
        (json.dumps(ESLINT_JSON), OF_ESLINT),
        ("npm warn something\n" + json.dumps(ESLINT_JSON, indent=2), OF_ESLINT),
        (json.dumps(SARIF), ["src/a b.py: S1 weak hash"]),
        (TSC, ["app/(shop)/page.tsx: TS2322 Type 'string' is not assignable."]),
        (PRETTY, ["src/a.ts: TS2322 Type 'x'."]),
        ("a.py:3: error: No  [misc]\na.py:9: note: x\n", ["a.py: misc No"]),
        ("a.py:1:1: E501 line too long (80 > 79 characters)\n", ["a.py: E501 line too long (80 > 79 characters)"]),
        ("a.py:7:5: F811 Redefinition from line 3\n", ["a.py: F811 Redefinition from line N"]),
        ("a.py:1: error: Missing {'y', 'x'}  [misc]\n", ["a.py: misc Missing {'x', 'y'}"]),
        ("a.py:1: error: <B at 0x7f3a> has {0x7f3a}\n", ["a.py: <B at 0xN> has {0x7f3a}"]),
        ("a.py:2:1: F401 x\na.py:1:1: F401 x\n", ["a.py: F401 x", "a.py: F401 x (2)"]),
    ],
)
def test_each_form_is_read(output: str, found: list[str]) -> None:
    assert ids(output) == found


def test_a_sarif_file_is_read_in_place_of_the_output() -> None:
    assert ids("a.py:1:1: F401 x\n", json.dumps(SARIF)) == ["src/a b.py: S1 weak hash"]


def test_a_finding_that_the_tool_calls_suppressed_is_none() -> None:
    error, note = SARIF["runs"][0]["results"]
    hidden = {**error, "ruleId": "S2", "suppressions": [{"kind": "inSource"}]}
    assert ids(json.dumps({"runs": [{"results": [error, hidden, note]}]})) == ["src/a b.py: S1 weak hash"]


def test_warnings_fail_only_where_there_is_no_error() -> None:
    """`--max-warnings` makes warnings fail. The warnings are recorded in both cases."""
    only = "\n/work/a.js\n  4:1  warning  Unexpected console  no-console\n\n✖ 1 problem (0 errors, 1 warning)\n"
    assert ids(only) == ["a.js: no-console Unexpected console"]
    both = report_of_problems(ESLINT, (), 1, "/work")
    assert [case.outcome for case in both.cases] == ["failed", "skipped", "failed"]


@pytest.mark.parametrize(("status", "output"), [(2, TSC), (2, "make: *** [Makefile:2: lint] Error 1\n" + PRETTY)])
def test_the_usual_statuses_of_tools_are_known(status: int, output: str) -> None:
    assert ids(output, status=status)


@pytest.mark.parametrize(
    ("output", "documents", "status", "said"),
    [
        ("", (), 1, "names no finding"),
        ("error TS18003: No inputs were found\n" + TSC, (), 2, "the tool broke: error TS18003"),
        ("a.py:1: error: INTERNAL ERROR -- try again\n", (), 1, "the tool broke"),
        ("a.py:1:1: F401 x\nFound 3 errors.\n", (), 1, "counts 3 findings, and 1 of them"),
        (ESLINT.replace("3 problems", "4 problems"), (), 1, "counts 4 findings, and 3"),
        ("a.py:1: error: x  [misc]\n", (), 2, "status 2"),
        ("make: *** [Makefile:2: lint] Error 2\na.py:1: error: x\n", (), 2, "status 2"),
        (TSC, ("{",), 1, "is in a report that is no JSON"),
        ('{"filename": "a.py", "code": "F401", "location": {"row": 1}, "message": "x"}\n{"filename"', (), 1, "cut off"),
        (json.dumps([{"filePath": "a.js", "messages": [{"severity": 2}]}]), (), 1, "lacks something"),
        (json.dumps({"runs": [{"results": [], "invocations": [{"executionSuccessful": False}]}]}), (), 1, "not end"),
    ],
)
def test_what_may_be_incomplete_is_not_read(output: str, documents: tuple[str, ...], status: int, said: str) -> None:
    with pytest.raises(UnreadableOutput, match=said):
        report_of_problems(output, documents, status, "/work")


def test_a_run_that_ended_well_has_found_nothing() -> None:
    report = report_of_problems(ESLINT, (), 0, "/work")
    assert (report.failures, report.ids("failed")) == (0, frozenset())
    assert report_of_problems('{"filename"', (), 0, "/work").cases == ()


def test_findings_keep_their_names_when_their_file_gets_another() -> None:
    report: Any = report_of_problems("a.py:2:1: F401 x\na.py:1:1: F401 x\n", (), 1, "/work")
    assert [case.id for case in with_names_of(report, {"a.py": "b.py"}).cases] == ["b.py: F401 x", "b.py: F401 x (2)"]
