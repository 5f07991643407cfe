"""A command that exits with 0 whatever it runs is told apart from one that can fail."""

import subprocess
from pathlib import Path

import pytest
from gates import Gate, check

from forgepool.supervisor.checks.cannot_fail import why_unfailing

UNFAILING = [
    "true",
    ":",
    "echo tests are green",
    "",
    "  \n",
    "# pytest -q",
    "make test || true",
    "make test || :",
    "make test || exit 0",
    "make test || echo it failed",
    "(make test || true)",
    "{ make test || :; }",
    "make test; true",
    "make test; exit 0",
    "make test\nexit 0",
    "make test; echo done",
    "set +e; make test; true",
    "set -e; set +e\nmake test\ntrue",
    "make test &",
    "make test | tee log",
    "make test 2>&1 | tail -5",
    "make test | tee log || true",
    "bash -c 'make test || true'",
    "bash -ec 'make test | tee log'",
    "sh -c 'make test | cat'",
    "if make test; then echo green; else echo red; fi",
    "for each in a b; do make $each; echo $each; done",
    "while read each; do make $each || true; done < list",
    "case $X in a) make a || true;; *) :;; esac",
    "run() { make test || true; }; run",
    "trap 'exit 0' EXIT; make test",
    "ruff check --exit-zero .",
    "make -i test",
    "make --ignore-errors test",
    "set -e; make test || true; true",
    "X=1",
    "pytest; rm -f junk || true",
    "`make test` || true",
]
"""Commands that cannot fail, in addition to an empty one."""

FAILING = [
    "make test",
    "make build && make test",
    "make test && echo green",
    "! grep -rn TODO src",
    "set -e; make test; echo done",
    "set -e\nmake test\ntrue",
    "set -eu; make test; true",
    "set -o errexit; make test; true",
    "make test || exit 1; true",
    "make test || { echo red; exit 1; }",
    "make test || false",
    "if ! make test; then exit 1; fi",
    "bash -euo pipefail -c 'make test | tee log'",
    "bash -eo pipefail -c 'make test | tee log; true'",
    "make test | grep -q 'no failures'",
    "make test; status=$?; echo $status; exit $status",
    "make test\nexit",
    "found=$(make test)",
    "exec make test",
    "run() { make test; }; run",
    "(set -e; make test; true)",
    "for each in a b; do make $each || exit 1; done",
    "test -e marker || { sed -i s/a/b/ a; }",
    "[ -e marker ]",
    "[[ -e marker ]]",
    "timeout 60 make test",
    "CI=1 make test",
    "cat report.txt",
    "cd web && npm test",
    "make test & wait $!",
    "trap 'rm -rf junk' EXIT; make test",
    "true; make test",
    "exit 3",
    "`make test`",
]


@pytest.mark.parametrize("script", UNFAILING)
def test_what_cannot_fail_is_told_with_its_reason(script: str) -> None:
    assert why_unfailing(script)


@pytest.mark.parametrize("script", FAILING)
def test_what_can_fail_is_let_be(script: str) -> None:
    assert why_unfailing(script) is None


@pytest.mark.parametrize("script", [each for each in UNFAILING if "make" in each and "while" not in each])
def test_the_shell_agrees_that_it_ends_well_though_what_it_runs_fails(script: str, tmp_path: Path) -> None:
    """A real shell runs the command with a `make` that only fails."""
    make = tmp_path / "make"
    make.write_text("#!/bin/sh\nexit 2\n" if "-i" not in script and "--ignore" not in script else "#!/bin/sh\nexit 0\n")
    make.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    ran = subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, env=env, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("script", [each for each in FAILING if "make" in each])
def test_the_shell_agrees_that_it_fails_when_what_it_runs_fails(script: str, tmp_path: Path) -> None:
    make = tmp_path / "make"
    make.write_text("#!/bin/sh\nexit 2\n")
    make.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    ran = subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, env=env, capture_output=True, check=False)
    assert ran.returncode != 0, ran.stdout


def test_a_check_that_cannot_fail_lets_nothing_in_and_one_that_can_does(gate: Gate) -> None:
    entry = gate.entry("one", {"b": "2\n"})
    found = gate.examine(gate.request(entry, check("grep -q 1 a"), check("grep nothing a || true", "hollow")))
    assert (found.verdict, found.certificates) == ("not_configured", ())
    assert found.detail == (
        "check 'hollow' cannot fail: `|| true` makes it end well; "
        "let its failure be the check's, or say `waive: [cannot_fail]`"
    )
    assert gate.examine(gate.request(entry, check("grep -q 1 a"))).verdict == "green"


def test_a_check_that_cannot_fail_is_accepted_where_that_is_said(gate: Gate) -> None:
    hollow = check("grep nothing a || true", "hollow", waive=("cannot_fail",))
    assert gate.examine(gate.request(gate.entry("one", {"b": "2\n"}), hollow)).verdict == "green"
