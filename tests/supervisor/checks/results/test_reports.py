"""Reports as runners write them, and as an attacker would."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from gates import check

from forgepool.supervisor.checks.results.junit import UnreadableReport, read_junit
from forgepool.supervisor.checks.results.reports import Collected, ReportOptions, SuiteReport, ask, collect, function_of

PYTEST_LEGACY = """<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest">
<testcase classname="" name="tests.test_b" file="tests/test_b.py" time="0.0"><error message="collection failure">
ImportError</error></testcase>
<testcase classname="tests.test_a.TestX" name="test_y[a]b]" file="tests/test_a.py" line="2" time="0.25"/>
<testcase classname="tests.test_a" name="test_z" file="tests/test_a.py"><failure message="assert 1 == 2">text</failure>
</testcase><testcase classname="tests.test_a" name="test_s"
file="tests/test_a.py"><skipped type="pytest.skip"/></testcase>
</testsuite></testsuites>"""
PYTEST_2 = (
    """<testsuite name="pytest"><testcase classname="tests.test_a.TestX" name="test_y" time="0.1"/></testsuite>"""
)
JEST = """<testsuites name="jest tests"><testsuite name="sums" tests="2">
<testcase classname="sums adds" name="sums adds" time="0.003"></testcase>
<testcase classname="sums takes" name="sums takes"><failure>Error: 1</failure></testcase>
<testcase classname="sums later" name="sums later"><skipped/></testcase></testsuite></testsuites>"""
SUREFIRE = """<?xml version="1.0" encoding="UTF-8"?><testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
name="com.acme.FooTest" tests="3"><properties><property name="a" value="b"/></properties>
<testcase name="adds" classname="com.acme.FooTest" time="1,234.5"/>
<testcase name="breaks" classname="com.acme.FooTest"><error type="E"><![CDATA[at x]]></error></testcase>
<testcase name="shaky" classname="com.acme.FooTest"><flakyFailure message="no">x<stackTrace>y</stackTrace>
</flakyFailure></testcase></testsuite>"""
GO = """<testsuites tests="2"><testsuite name="example.com/m/sum">
<testcase classname="example.com/m/sum" name="TestX/one"/>
<testcase classname="example.com/m/sum" name="TestX"><failure message="Failed" type=""/></testcase>
</testsuite></testsuites>"""
NEXTEST = """<testsuites name="nextest-run"><testsuite name="sums"><testcase name="tests::adds" classname="sums"
timestamp="2026-01-01T00:00:00Z" time="0.01"/><testcase name="tests::takes" classname="sums">
<failure type="test failure">thread panicked</failure>
<rerunFailure type="x"/><system-err>noise</system-err></testcase></testsuite></testsuites>"""
UNITTEST = """<testsuite name="test_a.TestX-2026" file="test_a.py"><testcase classname="test_a.TestX" name="test_y"
time="0.0" timestamp="x"/><testcase classname="test_a.TestX" name="test_z"><failure type="AssertionError">x</failure>
</testcase></testsuite>"""
GTEST = """<testsuites><testsuite name="Sum"><testcase name="Adds" status="run" result="completed" classname="Sum"/>
<testcase name="Off" status="notrun" result="suppressed" classname="Sum"/></testsuite></testsuites>"""


def read(text: str) -> dict[str, str]:
    return {told.id: told.outcome for told in read_junit(text.encode())}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            PYTEST_LEGACY,
            {
                "tests/test_b.py": "failed",
                "tests/test_a.py::TestX::test_y[a]b]": "passed",
                "tests/test_a.py::test_z": "failed",
                "tests/test_a.py::test_s": "skipped",
            },
        ),
        (PYTEST_2, {"tests.test_a.TestX::test_y": "passed"}),
        (
            JEST,
            {
                "sums adds::sums adds": "passed",
                "sums takes::sums takes": "failed",
                "sums later::sums later": "skipped",
            },
        ),
        (
            SUREFIRE,
            {
                "com.acme.FooTest::adds": "passed",
                "com.acme.FooTest::breaks": "failed",
                "com.acme.FooTest::shaky": "passed",
            },
        ),
        (GO, {"example.com/m/sum::TestX/one": "passed", "example.com/m/sum::TestX": "failed"}),
        (NEXTEST, {"sums::tests::adds": "passed", "sums::tests::takes": "failed"}),
        (UNITTEST, {"test_a.py::TestX::test_y": "passed", "test_a.py::TestX::test_z": "failed"}),
        (GTEST, {"Sum::Adds": "passed", "Sum::Off": "skipped"}),
    ],
)
def test_every_runners_format_is_read(text: str, found: dict[str, str]) -> None:
    """Every runner's format gives the same outcomes, and pytest's gives its own ids."""
    assert read(text) == found


def test_what_a_failure_says_is_kept() -> None:
    """A failure's message and text, the times and the file are kept."""
    one = next(told for told in read_junit(PYTEST_LEGACY.encode()) if told.id.endswith("test_z"))
    assert (one.error, one.file) == ("assert 1 == 2\ntext", "tests/test_a.py")
    assert next(told.seconds for told in read_junit(SUREFIRE.encode())) == 1234.5


BOMB = """<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<testsuite><testcase name="&b;"/></testsuite>"""
OUTSIDE = """<?xml version="1.0"?><!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><testsuite name="&e;"/>"""


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (BOMB.encode(), "document type"),
        (OUTSIDE.encode(), "document type"),
        (b'<!DOCTYPE testsuite SYSTEM "http://localhost/a.dtd"><testsuite/>', "document type"),
        (b"", "no XML"),
        (b"3 passed in 0.1s", "no XML"),
        (b"<testsuite><testcase name='a'>", "not all of it"),
        (b"<html><body/></html>", "<html>"),
        (b"<testsuite>" + b"<a>" * 100_000, "nests"),
        (b"<testsuite>" + b"<a/>" * 500_001 + b"</testsuite>", "500000"),
        (b"<testsuite>" + b"<testcase/>" * 100_001 + b"</testsuite>", "100000"),
        (b'<?xml version="1.0" encoding="utf-7"?><testsuite/>', "encoding"),
        (b'<?xml version="1.0" encoding="shift_jis"?><testsuite/>', "encoding"),
        ("<testsuite name='ü'/>".encode("latin-1"), "no XML"),
        (b"<testsuite name='\x01'/>", "no XML"),
    ],
)
def test_a_hostile_document_is_refused(content: bytes, word: str) -> None:
    """Anything that is no report is refused in one sentence, in bounded time."""
    with pytest.raises(UnreadableReport, match=word) as refused:
        read_junit(content)
    assert len(str(refused.value)) < 200


def test_ids_are_short_single_lines() -> None:
    """Ids are on one line, of bounded length, and still distinct."""
    long = "x" * 5000
    text = f"<testsuite><testcase name='a&#10;b'/><testcase name='{long}1'/><testcase name='{long}2'/></testsuite>"
    first, *others = read(text)
    assert first == "a b"
    assert len(others) == 2 and all(len(one) < 600 for one in others)


def test_only_the_beginning_of_an_error_is_kept() -> None:
    text = f"<testsuite><testcase name='a'><failure>{'é' * 1_000_000}</failure></testcase></testsuite>"
    assert len(read_junit(text.encode())[0].error) <= 2000


def test_an_id_is_the_same_in_every_checkout() -> None:
    text = "<testsuite><testcase classname='{0}/a.spec.ts' name='adds' file='{0}/a.spec.ts'/></testsuite>"
    told = [read_junit(text.format(at).encode(), checkout=at)[0] for at in ("/pool/slot-1", "/pool/slot-2")]
    assert told[0] == told[1]
    assert (told[0].id, told[0].file) == ("a.spec.ts::adds", "a.spec.ts")


def test_a_function_is_named_without_its_parameters() -> None:
    """Parameters are the part in brackets at the end."""
    assert function_of("a.py::test_x[1-[b]]") == "a.py::test_x"
    assert function_of("a.py::test_x") == "a.py::test_x"
    assert function_of("sums [a] adds") == "sums [a] adds"


# Reports in a checkout.


def written(folder: Path, *names: str, text: str = PYTEST_2) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def asked(folder: Path, *globs: str) -> ReportOptions:
    return ask(check("true", reports=globs), folder, folder, {})


def test_a_report_counts_only_if_the_command_wrote_it(tmp_path: Path) -> None:
    """An existing file that did not change does not count."""
    written(tmp_path, "out/a.xml", "out/b.xml")
    wanted = asked(tmp_path, "out/*.xml")
    assert collect(wanted) == Collected()
    os.utime(tmp_path / "out/a.xml", (1, 1))
    assert collect(wanted).report is None
    written(tmp_path, "out/b.xml", text=GTEST)
    found = collect(wanted).report
    assert found is not None and found.ids("passed") == {"Sum::Adds"}


def test_all_reports_that_the_globs_match_count(tmp_path: Path) -> None:
    """All files that the globs match count, at any depth they name."""
    wanted = asked(tmp_path, "**/surefire-reports/*.xml", "junit.xml")
    written(tmp_path, "a/target/surefire-reports/x.xml", text=SUREFIRE)
    written(tmp_path, "b/c/target/surefire-reports/y.xml", text=GTEST)
    written(tmp_path, "junit.xml", text=GO)
    written(tmp_path, "other.xml", "a/junit.xml", ".git/surefire-reports/z.xml")
    found = collect(wanted).report
    assert found is not None
    assert {one.id.split("::")[0] for one in found.cases} == {"com.acme.FooTest", "Sum", "example.com/m/sum"}


def test_the_worse_outcome_of_a_test_reported_twice_counts(tmp_path: Path) -> None:
    """For a test reported twice the worse outcome counts, and each failure is counted."""
    wanted = asked(tmp_path, "*.xml")
    for name, body in (("a", "<failure/>"), ("b", ""), ("c", "<failure/>"), ("d", "<skipped/>")):
        written(tmp_path, f"{name}.xml", text=f"<testsuite><testcase name='t' time='1'>{body}</testcase></testsuite>")
    found = collect(wanted).report
    assert found is not None and found.failures == 2
    assert [(one.id, one.outcome, one.seconds) for one in found.cases] == [("t", "failed", 4.0)]


def test_one_unreadable_report_discards_all(tmp_path: Path) -> None:
    """If one file cannot be read, the failure may be in it."""
    wanted = asked(tmp_path, "*.xml")
    written(tmp_path, "a.xml")
    written(tmp_path, "b.xml", text="<testsuite>")
    found = collect(wanted)
    assert found.report is None
    assert len(found.faults) == 1 and found.faults[0].startswith("the report b.xml is no XML")


@pytest.mark.parametrize("kind", ["link", "link out", "folder link", "pipe", "large"])
def test_links_pipes_and_large_files_are_not_read(tmp_path: Path, kind: str) -> None:
    """Nothing outside is read through a link, a pipe is not waited for, and the size is bounded."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    wanted = asked(folder, "out/*.xml")
    written(tmp_path, "secret/a.xml")
    (folder / "out").mkdir()
    match kind:
        case "link":
            written(folder, "real.xml")
            (folder / "out/a.xml").symlink_to("../real.xml")
        case "link out":
            (folder / "out/a.xml").symlink_to(tmp_path / "secret/a.xml")
        case "folder link":
            (folder / "out").rmdir()
            (folder / "out").symlink_to(tmp_path / "secret")
        case "pipe":
            os.mkfifo(folder / "out/a.xml")
        case _:
            with (folder / "out/a.xml").open("wb") as file:
                file.truncate(33 * 1024 * 1024)
    found = collect(wanted)
    assert found.report is None
    if kind != "folder link":
        assert len(found.faults) == 1 and "out/a.xml" in found.faults[0]


def test_a_checkout_that_is_gone_has_no_report(tmp_path: Path) -> None:
    """There is an answer even if the command deleted its folder."""
    assert collect(asked(tmp_path / "gone", "*.xml")).report is None


# pytest, asked by the environment.


def run_pytest(folder: Path, *argv: str, script: str | None = None) -> tuple[int, str, Collected]:
    """Run a command of tests as a check does, and return its status, its output and its reports."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    checkout, tmp = folder / "checkout", folder / "tmp dir"
    tmp.mkdir(exist_ok=True)
    words = shlex.join(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--disable-plugin-autoload", *argv]
    )
    run = script.replace("PYTEST", words) if script else words
    wanted = ask(check(run), checkout, tmp, env)
    ran = subprocess.run(["/bin/sh", "-c", run], cwd=checkout, env=dict(wanted.env), capture_output=True, text=True)
    return ran.returncode, ran.stdout + ran.stderr, collect(wanted)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    written(tmp_path, "checkout/pytest.ini", text="[pytest]\nfilterwarnings = error\n")
    written(
        tmp_path,
        "checkout/tests/test_a.py",
        text="import pytest\n\n@pytest.mark.parametrize('v', [1, 2])\ndef test_p(v):\n    assert v == 1\n\n"
        "def test_r(record_property):\n    record_property('a', 1)\n",
    )
    written(tmp_path, "checkout/tests/test_b.py", text="class TestB:\n    def test_b(self):\n        pass\n")
    return tmp_path


def ids(found: Collected, outcome: str) -> set[str]:
    assert found.report is not None, found.faults
    return set(found.report.ids(outcome))  # type: ignore[arg-type]


def test_pytest_reports_its_ids(project: Path) -> None:
    """Without any configuration, every test is known by the id that runs it again."""
    status, said, found = run_pytest(project)
    assert (status, "1 failed, 3 passed" in said) == (1, True), said
    assert ids(found, "failed") == {"tests/test_a.py::test_p[2]"}
    assert ids(found, "passed") == {
        "tests/test_a.py::test_p[1]",
        "tests/test_a.py::test_r",
        "tests/test_b.py::TestB::test_b",
    }
    assert sorted(path.name for path in (project / "checkout").iterdir()) == ["pytest.ini", "tests"]
    again, _, _ = run_pytest(project, "tests/test_a.py::test_p[1]")
    assert again == 0


@pytest.mark.soak
def test_tests_spread_by_xdist_are_all_reported(project: Path) -> None:
    status, said, found = run_pytest(project, "-p", "xdist", "-n", "2")
    assert status == 1, said
    assert len(ids(found, "passed")) == 3


def test_one_broken_module_does_not_hide_the_others(project: Path) -> None:
    """The tests that can be collected run even if another module cannot be."""
    written(project, "checkout/tests/test_c.py", text="import nothing_of_this_name\n")
    status, _, found = run_pytest(project)
    assert status == 1
    assert ids(found, "failed") == {"tests/test_c.py", "tests/test_a.py::test_p[2]"}
    assert len(ids(found, "passed")) == 3


def test_no_test_is_an_empty_report(project: Path) -> None:
    """A run that collects nothing has an empty report and exits with 5."""
    status, _, found = run_pytest(project, "-k", "nothing_of_this_name")
    assert (status, found.report) == (5, SuiteReport())


def test_the_last_of_several_runs_is_reported_alone(project: Path) -> None:
    """If a command runs pytest several times, the last run's report is kept complete."""
    status, said, found = run_pytest(project, script="PYTEST tests/test_a.py; PYTEST tests/test_b.py")
    assert status == 0, said
    assert (ids(found, "passed"), ids(found, "failed")) == ({"tests/test_b.py::TestB::test_b"}, set())


def test_a_run_within_a_test_leaves_the_report_alone(project: Path) -> None:
    """A test that runs pytest itself does not overwrite the report of the run it is in."""
    written(
        project,
        "checkout/tests/test_c.py",
        text="import subprocess, sys\n\ndef test_inner():\n"
        "    options = ['-p', 'no:cacheprovider', '--disable-plugin-autoload']\n"
        "    ran = subprocess.run([sys.executable, '-m', 'pytest', *options, 'tests/test_a.py'])\n"
        "    assert ran.returncode == 1\n",
    )
    _, _, found = run_pytest(project)
    assert "tests/test_c.py::test_inner" in ids(found, "passed") and len(ids(found, "passed")) == 4


@pytest.mark.parametrize("where", ["pytest.ini", "sub/setup.cfg"])
def test_a_report_that_settings_ask_for_is_kept(project: Path, where: str) -> None:
    """If settings already have a report written, that one is used and ours is not requested."""
    heading = "[pytest]" if where.endswith(".ini") else "[tool:pytest]"
    folder = (project / "checkout" / where).parent
    if where != "pytest.ini":
        (project / "checkout/pytest.ini").unlink()
        written(folder, "test_d.py", text="def test_d():\n    pass\n")
    written(project, f"checkout/{where}", text=f"{heading}\naddopts = --junitxml=own.xml\n")
    script = "cd sub && PYTEST" if where != "pytest.ini" else None
    _, said, found = run_pytest(project, script=script)
    assert (folder / "own.xml").is_file(), said
    assert found == Collected()


def test_a_report_on_the_command_line_is_kept(project: Path) -> None:
    """The command's own option wins, and the check names its report itself."""
    run_pytest(project, "--junitxml=own.xml")
    assert (project / "checkout/own.xml").is_file()


def test_reports_that_are_turned_off_do_not_break_the_command(project: Path) -> None:
    """An option is not passed where pytest does not know it."""
    status, said, found = run_pytest(project, "-p", "no:junitxml")
    assert (status, found) == (1, Collected()), said


def test_options_in_the_environment_stay(tmp_path: Path) -> None:
    """Options in the environment come first and stay. A check that names its report adds none."""
    env = {"PYTEST_ADDOPTS": "-k 'a b'", "HOME": "/h"}
    found = ask(check("pytest"), tmp_path, tmp_path, env).env
    assert found["HOME"] == "/h" and found["PYTEST_ADDOPTS"].startswith("-k 'a b' -o ")
    assert ask(check("pytest", reports=["*.xml"]), tmp_path, tmp_path, env).env == env


def test_a_wrong_glob_is_reported(tmp_path: Path) -> None:
    """A mistake in the check's own globs is reported."""
    found = collect(ask(check("pytest", reports=["../*.xml"]), tmp_path, tmp_path, {}))
    assert found.report is None and "'reports' of check 'test'" in found.faults[0]
