"""Dishonest changes of tests in every language that is read, with honest ones beside each."""

from typing import NamedTuple


class Edit(NamedTuple):
    """One change of a test file; `app` changes beside it by default."""

    name: str
    path: str
    before: str
    after: str | None
    rules: frozenset[str] = frozenset()
    moved_to: str | None = None


def _edit(name: str, path: str, before: str, after: str | None, *rules: str, to: str | None = None) -> Edit:
    return Edit(f"{path.rpartition('.')[2]}-{name}", path, before, after, frozenset(rules), to)


REMOVED, SKIPPED, ALWAYS = "test-removed", "test-skipped", "test-tautology"
LESS, EDITED = "assertion-removed", "expected-edited"

PYTHON = """\
import sys

import pytest

from app import Account, load


@pytest.fixture
def account():
    return Account("ada", 10)


def test_withdraws(account):
    account.withdraw(3)
    assert account.balance == 7
    assert account.history == ["-3"]


def test_refuses_too_much(account):
    with pytest.raises(ValueError, match="only 10"):
        account.withdraw(11)


@pytest.mark.parametrize("text, wanted", [("1", 1), ("2", 2), ("-1", -1)])
def test_loads(text, wanted):
    assert load(text) == wanted


class TestLoading:
    def test_nothing(self):
        expected = []
        assert load("") == expected

    def test_ratio(self):
        assert load("1/3") == pytest.approx(0.333, rel=0.01)
"""
UNITTEST = """\
import unittest

from app import load


class LoadTest(unittest.TestCase):
    def test_number(self):
        self.assertEqual(load("1"), 1)
        self.assertTrue(load("yes"))
        self.assertIsNone(load("none"))

    def test_bad(self):
        with self.assertRaises(ValueError):
            load("?")
"""
JAVASCRIPT = """\
import { add, parse } from "../src/app";

const LIMIT = 10;

describe("add", () => {
  it("adds", () => {
    expect(add(1, 2)).toBe(3);
    expect(add(-1, 1)).toBe(0);
  });

  it("knows its limit", () => {
    expect(add(9, 9)).toEqual(LIMIT);
  });

  it.each([[1, 1, 2], [2, 2, 4]])("adds %d and %d", (a, b, sum) => {
    expect(add(a, b)).toBe(sum);
  });
});

test("refuses text", () => {
  expect(() => parse("x")).toThrow("not a number");
});
"""
GO = """\
package app

import (
	"testing"
)

func TestAdd(t *testing.T) {
	if got := Add(1, 2); got != 3 {
		t.Errorf("Add(1, 2) = %d", got)
	}
	if Add(0, 0) != 0 {
		t.Fatal("zero")
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		text string
		want int
	}{
		{"1", 1},
		{"2", 2},
	}
	for _, tt := range tests {
		if got := Parse(tt.text); got != tt.want {
			t.Errorf("%q", tt.text)
		}
	}
}
"""
RUST = """\
pub fn add(a: i32, b: i32) -> i32 {
    a + b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(add(1, 2), 3);
        assert!(add(1, 1) > 1, "too little");
    }

    #[test]
    #[should_panic(expected = "overflow")]
    fn overflows() {
        add(i32::MAX, 1);
    }
}
"""
JAVA = """\
import static org.junit.jupiter.api.Assertions.*;

class AppTest {
    @Test
    void adds() {
        assertEquals(3, App.add(1, 2));
        assertTrue(App.add(1, 1) > 1, "too little");
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3})
    void doubles(int n) {
        assertThat(App.twice(n)).isEqualTo(n + n);
    }

    @Test
    void refuses() {
        assertThrows(IllegalArgumentException.class, () -> App.parse("x"));
    }
}
"""
RUBY = """\
describe App do
  it "adds" do
    expect(App.add(1, 2)).to eq(3)
  end

  it "subtracts" do
    expect(App.sub(2, 1)).to eq(1)
  end
end
"""
P, U, J, T = "tests/test_app.py", "tests/test_unit.py", "test/app.test.js", "src/app.spec.ts"
G, R, V, B = "app_test.go", "src/app.rs", "src/test/java/AppTest.java", "spec/app_spec.rb"


def _swap(text: str, *pairs: tuple[str, str]) -> str:
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


def _py(name: str, *pairs: tuple[str, str], rules: str = "", to: str | None = None) -> Edit:
    return _edit(name, P, PYTHON, _swap(PYTHON, *pairs), *rules.split(), to=to)


def _unit(name: str, *pairs: tuple[str, str], rules: str = "") -> Edit:
    return _edit(f"unittest-{name}", U, UNITTEST, _swap(UNITTEST, *pairs), *rules.split())


def _js(name: str, *pairs: tuple[str, str], rules: str = "", path: str = J, to: str | None = None) -> Edit:
    return _edit(name, path, JAVASCRIPT, _swap(JAVASCRIPT, *pairs), *rules.split(), to=to)


def _go(name: str, *pairs: tuple[str, str], rules: str = "", to: str | None = None) -> Edit:
    return _edit(name, G, GO, _swap(GO, *pairs), *rules.split(), to=to)


def _rs(name: str, *pairs: tuple[str, str], rules: str = "") -> Edit:
    return _edit(name, R, RUST, _swap(RUST, *pairs), *rules.split())


def _java(name: str, *pairs: tuple[str, str], rules: str = "", to: str | None = None) -> Edit:
    return _edit(name, V, JAVA, _swap(JAVA, *pairs), *rules.split(), to=to)


_WITHDRAWS = "def test_withdraws(account):\n"
_BODY = '    account.withdraw(3)\n    assert account.balance == 7\n    assert account.history == ["-3"]\n'
_ADDS_JS = '  it("adds", () => {\n    expect(add(1, 2)).toBe(3);\n    expect(add(-1, 1)).toBe(0);\n  });\n'
_ADDS_GO = '\tif got := Add(1, 2); got != 3 {\n\t\tt.Errorf("Add(1, 2) = %d", got)\n\t}\n'

DISHONEST: tuple[Edit, ...] = (
    _edit("file-deleted", P, PYTHON, None, REMOVED),
    _edit("file-renamed", P, PYTHON, PYTHON, REMOVED, to="tests/app_checks.py"),
    _edit("file-renamed-and-edited", P, PYTHON, PYTHON + "\nX = 1\n", REMOVED, to="tests/app_cases.py"),
    _edit("file-moved-out-of-sight", P, PYTHON, PYTHON, REMOVED, to="build/test_app.py"),
    _edit("file-renamed-half-away", P, PYTHON, PYTHON, REMOVED, to="tests/tests.py"),
    _py("test-deleted", (_WITHDRAWS + _BODY, ""), rules=REMOVED),
    _py("test-renamed-away", ("def test_withdraws", "def withdraws"), rules=REMOVED),
    _py("class-renamed-away", ("class TestLoading", "class Loading"), rules=REMOVED),
    _py(
        "class-with-init",
        ("class TestLoading:\n", "class TestLoading:\n    def __init__(self):\n        pass\n\n"),
        rules=REMOVED,
    ),
    _py("test-commented-out", (_WITHDRAWS + _BODY, "# def test_withdraws(account):\n#     assert 1\n"), rules=REMOVED),
    _py("test-below-false", (_WITHDRAWS, "if False:\n  def test_withdraws(account):\n"), rules=REMOVED),
    _py("test-taken-back", ("class TestLoading", "del test_withdraws\n\n\nclass TestLoading"), rules=REMOVED),
    _py("test-set-to-none", ("class TestLoading", "test_withdraws = None\n\n\nclass TestLoading"), rules=REMOVED),
    _py("test-shadowed", ("class TestLoading", "def test_withdraws():\n    pass\n\n\nclass TestLoading"), rules=ALWAYS),
    _py("body-emptied", (_BODY, "    pass\n"), rules=ALWAYS),
    _py("body-cut-off", (_BODY, "    return\n" + _BODY), rules=ALWAYS),
    _py("body-below-if-false", (_BODY, "    if False:\n        assert account.balance == 7\n"), rules=ALWAYS),
    _py("body-without-asserts", (_BODY, "    account.withdraw(3)\n    print(account.balance)\n"), rules=ALWAYS),
    _py("loop-over-nothing", (_BODY, "    for _ in []:\n        assert account.balance == 7\n"), rules=ALWAYS),
    _py(
        "test-replaced",
        ("class TestLoading", 'globals()["test_withdraws"] = print\n\n\nclass TestLoading'),
        rules=REMOVED,
    ),
    _py(
        "test-says-it-is-none",
        ("class TestLoading", "test_withdraws.__test__ = False\n\n\nclass TestLoading"),
        rules=SKIPPED,
    ),
    _py("behind-a-return", (_BODY, "    if place.exists():\n        return\n" + _BODY), rules=LESS),
    _go("behind-a-return", (_ADDS_GO, "\tif seen() {\n\t\treturn\n\t}\n" + _ADDS_GO), rules=LESS),
    _js("behind-a-return", ("    expect(add(1, 2))", "    if (seen()) { return; }\n    expect(add(1, 2))"), rules=LESS),
    _py("skip", (_WITHDRAWS, "@pytest.mark.skip\n" + _WITHDRAWS), rules=SKIPPED),
    _py("skip-reason", (_WITHDRAWS, '@pytest.mark.skip(reason="flaky")\n' + _WITHDRAWS), rules=SKIPPED),
    _py("xfail", (_WITHDRAWS, "@pytest.mark.xfail\n" + _WITHDRAWS), rules=SKIPPED),
    _py("xfail-not-strict", (_WITHDRAWS, "@pytest.mark.xfail(strict=False)\n" + _WITHDRAWS), rules=SKIPPED),
    _py("skipif-true", (_WITHDRAWS, '@pytest.mark.skipif(True, reason="x")\n' + _WITHDRAWS), rules=SKIPPED),
    _py("skipif-ci", (_WITHDRAWS, '@pytest.mark.skipif("CI" in os.environ, reason="x")\n' + _WITHDRAWS), rules=SKIPPED),
    _py(
        "skipif-not-windows",
        (_WITHDRAWS, '@pytest.mark.skipif(sys.platform != "win32", reason="x")\n' + _WITHDRAWS),
        rules=SKIPPED,
    ),
    _py("skip-inside", (_BODY, '    pytest.skip("later")\n' + _BODY), rules=SKIPPED),
    _py("skip-test-raised", (_BODY, '    raise unittest.SkipTest("later")\n'), rules=f"{SKIPPED} {ALWAYS}"),
    _py(
        "skip-by-alias",
        ("import pytest\n", "import pytest\nlater = pytest.mark.skip\n"),
        (_WITHDRAWS, "@later\n" + _WITHDRAWS),
        rules=SKIPPED,
    ),
    _py(
        "skip-imported-as",
        ("import pytest\n", "import pytest\nfrom unittest import skip as s\n"),
        (_WITHDRAWS, '@s("x")\n' + _WITHDRAWS),
        rules=SKIPPED,
    ),
    _py("pytestmark", ("import pytest\n", "import pytest\n\npytestmark = pytest.mark.skip\n"), rules=SKIPPED),
    _py(
        "module-skip",
        ("import pytest\n", 'import pytest\n\npytest.skip("x", allow_module_level=True)\n'),
        rules=SKIPPED,
    ),
    _py("importorskip", ("import pytest\n", 'import pytest\n\npytest.importorskip("no_such_thing")\n'), rules=SKIPPED),
    _py("dunder-test", ("class TestLoading:\n", "class TestLoading:\n    __test__ = False\n\n"), rules=SKIPPED),
    _py("class-skipped", ("class TestLoading", "@pytest.mark.skip\nclass TestLoading"), rules=SKIPPED),
    _py("label-that-is-deselected", (_WITHDRAWS, "@pytest.mark.slow\n" + _WITHDRAWS), rules=SKIPPED),
    _py("assert-true", ("account.balance == 7", "True"), rules=ALWAYS),
    _py("assert-same", ("account.balance == 7", "account.balance == account.balance"), rules=ALWAYS),
    _py("assert-constant", ("account.balance == 7", "7 == 7"), rules=ALWAYS),
    _py("assert-tuple", ("assert account.balance == 7", 'assert (account.balance == 7, "balance")'), rules=ALWAYS),
    _py("assert-or-true", ("account.balance == 7", "account.balance == 7 or True"), rules=ALWAYS),
    _py("assert-is-object", ("account.balance == 7", "isinstance(account.balance, object)"), rules=ALWAYS),
    _py("assert-length", ('account.history == ["-3"]', "len(account.history) >= 0"), rules=ALWAYS),
    _py(
        "new-assert-true",
        ("class TestLoading", "def test_new():\n    assert True\n\n\nclass TestLoading"),
        rules=ALWAYS,
    ),
    _py("new-empty", ("class TestLoading", "def test_new():\n    pass\n\n\nclass TestLoading"), rules=ALWAYS),
    _py(
        "swallowed",
        (
            _BODY,
            (
                "    try:\n        assert account.balance == 7\n"
                "        assert account.history == ['-3']\n    except AssertionError:\n        pass\n"
            ),
        ),
        rules=ALWAYS,
    ),
    _py(
        "swallowed-by-suppress",
        (
            _BODY,
            (
                "    with contextlib.suppress(Exception):\n"
                "        assert account.balance == 7\n        assert account.history == ['-3']\n"
            ),
        ),
        rules=ALWAYS,
    ),
    _py("raises-itself", ("        account.withdraw(11)\n", '        raise ValueError("only 10")\n'), rules=ALWAYS),
    _py("one-assert-less", ("    assert account.balance == 7\n", ""), rules=LESS),
    _py("one-row-less", (', ("-1", -1)', ""), rules=LESS),
    _py("equal-to-in", ("account.balance == 7", "account.balance in (7, 8)"), rules=LESS),
    _py("equal-to-not-none", ("account.balance == 7", "account.balance is not None"), rules=LESS),
    _py("equal-to-truth", ("account.balance == 7", "account.balance"), rules=LESS),
    _py("equal-to-any", ("account.balance == 7", "account.balance == mock.ANY"), rules=LESS),
    _py("huge-tolerance", ("rel=0.01", "rel=100"), rules=LESS),
    _py("approximately", ("account.balance == 7", "account.balance == pytest.approx(7, abs=50)"), rules=LESS),
    _py("raises-anything", ('pytest.raises(ValueError, match="only 10")', "pytest.raises(Exception)"), rules=LESS),
    _py("raises-without-match", (', match="only 10"', ""), rules=LESS),
    _py(
        "below-a-condition",
        ("    assert account.balance == 7\n", "    if account.history:\n        assert account.balance == 7\n"),
        rules=LESS,
    ),
    _py("literal", ("account.balance == 7", "account.balance == 8"), rules=EDITED),
    _py("sign", ('("-1", -1)', '("-1", 1)'), rules=EDITED),
    _py("row", ('("2", 2)', '("2", 3)'), rules=EDITED),
    _py("turned-round", ("account.balance == 7", "account.balance != 7"), rules=LESS),
    _py("negated", ('account.history == ["-3"]', 'not account.history == ["-3"]'), rules=LESS),
    _py("variable", ("expected = []", "expected = [1]"), rules=EDITED),
    _py("message", ('match="only 10"', 'match="at most 10"'), rules=EDITED),
    _py("exception", ("raises(ValueError", "raises(KeyError"), rules=EDITED),
    _unit(
        "deleted",
        ('    def test_bad(self):\n        with self.assertRaises(ValueError):\n            load("?")\n', ""),
        rules=REMOVED,
    ),
    _unit("skip", ("    def test_bad", '    @unittest.skip("x")\n    def test_bad'), rules=SKIPPED),
    _unit("expected-failure", ("    def test_bad", "    @unittest.expectedFailure\n    def test_bad"), rules=SKIPPED),
    _unit(
        "skip-test",
        (
            '        self.assertEqual(load("1"), 1)\n',
            '        self.skipTest("x")\n        self.assertEqual(load("1"), 1)\n',
        ),
        rules=SKIPPED,
    ),
    _unit("not-a-case", ("(unittest.TestCase)", ""), rules=REMOVED),
    _unit("assert-true", ('self.assertTrue(load("yes"))', "self.assertTrue(True)"), rules=ALWAYS),
    _unit("loosened", ('self.assertEqual(load("1"), 1)', 'self.assertIn(load("1"), (1, 2))'), rules=LESS),
    _unit("inverted", ("assertTrue", "assertFalse"), rules=EDITED),
    _unit("not-none", ("assertIsNone", "assertIsNotNone"), rules=LESS),
    _unit("edited", ('load("1"), 1', 'load("1"), 2'), rules=EDITED),
    _unit("broader", ("assertRaises(ValueError)", "assertRaises(Exception)"), rules=LESS),
    _edit("file-deleted", J, JAVASCRIPT, None, REMOVED),
    _edit("file-renamed", "src/app.spec.ts", JAVASCRIPT, JAVASCRIPT, REMOVED, to="src/app.specs-off.ts"),
    _js("deleted", (_ADDS_JS, ""), rules=REMOVED),
    _js("skip", ('it("adds",', 'it.skip("adds",'), rules=SKIPPED),
    _js("xit", ('it("adds",', 'xit("adds",'), rules=SKIPPED),
    _js("todo", ('it("adds",', 'it.todo("adds",'), rules=SKIPPED),
    _js("only", ('it("adds",', 'it.only("adds",'), rules=SKIPPED),
    _js("fit", ('it("adds",', 'fit("adds",'), rules=SKIPPED),
    _js("describe-skip", ("describe(", "describe.skip("), rules=SKIPPED),
    _js("xdescribe", ("describe(", "xdescribe("), rules=SKIPPED),
    _js("describe-only", ("describe(", "describe.only("), rules=SKIPPED),
    _js("failing", ('test("refuses', 'test.failing("refuses'), rules=SKIPPED),
    _js("skip-if", ('it("adds",', 'it.skipIf(process.env.CI)("adds",'), rules=SKIPPED),
    _js("options", ('test("refuses text", ', 'test("refuses text", { skip: true }, '), rules=SKIPPED),
    _js("always", ("expect(add(1, 2)).toBe(3)", "expect(true).toBe(true)"), rules=ALWAYS),
    _js("same", ("expect(add(9, 9)).toEqual(LIMIT)", "expect(LIMIT).toEqual(LIMIT)"), rules=ALWAYS),
    _js(
        "silent",
        ("    expect(add(1, 2)).toBe(3);\n    expect(add(-1, 1)).toBe(0);\n", "    add(1, 2);\n"),
        rules=ALWAYS,
    ),
    _js("cut-off", ("    expect(add(1, 2))", "    return;\n    expect(add(1, 2))"), rules=ALWAYS),
    _js(
        "swallowed",
        ("    expect(add(1, 2)).toBe(3);\n", "    try { expect(add(1, 2)).toBe(3); } catch (e) {}\n"),
        rules=ALWAYS,
    ),
    _js("less", ("    expect(add(-1, 1)).toBe(0);\n", ""), rules=LESS),
    _js("row-less", (", [2, 2, 4]]", "]"), rules=LESS),
    _js("loosened", ("toBe(3)", "toBeDefined()"), rules=LESS),
    _js("bounded", ("toBe(3)", "toBeGreaterThan(2)"), rules=LESS),
    _js("anything", ("toEqual(LIMIT)", "toEqual(expect.anything())"), rules=LESS),
    _js("throws-anything", ('toThrow("not a number")', "toThrow()"), rules=LESS),
    _js("edited", ("toBe(3)", "toBe(4)"), rules=EDITED),
    _js("row-edited", ("[2, 2, 4]", "[2, 2, 5]"), rules=EDITED),
    _js("constant-edited", ("LIMIT = 10", "LIMIT = 18"), rules=EDITED),
    _js("typescript", ("toBe(3)", "toBe(4)"), rules=EDITED, path=T),
    _edit("file-deleted", G, GO, None, REMOVED),
    _edit("file-renamed", G, GO, GO, REMOVED, to="app_windows_test.go"),
    _edit("file-renamed-away", G, GO, GO, REMOVED, to="app_tests.go"),
    _go("renamed-away", ("func TestAdd(", "func testAdd("), rules=REMOVED),
    _go("skip", (_ADDS_GO, '\tt.Skip("later")\n' + _ADDS_GO), rules=SKIPPED),
    _go("skip-in-short", (_ADDS_GO, "\tif testing.Short() {\n\t\tt.Skip()\n\t}\n" + _ADDS_GO), rules=SKIPPED),
    _go("build-tag", ("package app\n", "//go:build never\n\npackage app\n"), rules=SKIPPED),
    _go("cut-off", (_ADDS_GO, "\treturn\n" + _ADDS_GO), rules=ALWAYS),
    _go("never-fails", ("got != 3", "false && got != 3"), rules=ALWAYS),
    _go("less", (_ADDS_GO, ""), rules=LESS),
    _go("only-logs", ('t.Errorf("Add(1, 2) = %d", got)', 't.Logf("Add(1, 2) = %d", got)'), rules=LESS),
    _go("row-less", ('\t\t{"2", 2},\n', ""), rules=LESS),
    _go("loosened", ("got != 3", "got == 0"), rules=LESS),
    _go("edited", ("got != 3", "got != 4"), rules=EDITED),
    _go("row-edited", ('{"2", 2}', '{"2", 3}'), rules=EDITED),
    _rs(
        "deleted",
        (
            (
                '    #[test]\n    #[should_panic(expected = "overflow")]\n'
                "    fn overflows() {\n        add(i32::MAX, 1);\n    }\n"
            ),
            "",
        ),
        rules=REMOVED,
    ),
    _rs("attribute-dropped", ("    #[test]\n    fn adds", "    fn adds"), rules=REMOVED),
    _rs("ignore", ("    #[test]\n    fn adds", "    #[test]\n    #[ignore]\n    fn adds"), rules=SKIPPED),
    _rs("cfg", ("#[cfg(test)]", '#[cfg(all(test, feature = "never"))]'), rules=SKIPPED),
    _rs("always", ("assert!(add(1, 1) > 1", "assert!(true"), rules=ALWAYS),
    _rs("same", ("assert_eq!(add(1, 2), 3)", "assert_eq!(3, 3)"), rules=ALWAYS),
    _rs("less", ('        assert!(add(1, 1) > 1, "too little");\n', ""), rules=LESS),
    _rs("panics-anyhow", ('(expected = "overflow")', ""), rules=LESS),
    _rs("edited", ("add(1, 2), 3", "add(1, 2), 4"), rules=EDITED),
    _edit("file-deleted", V, JAVA, None, REMOVED),
    _edit("file-renamed", V, JAVA, JAVA, REMOVED, to="src/test/java/AppChecks.java"),
    _java("annotation-dropped", ("    @Test\n    void adds", "    void adds"), rules=REMOVED),
    _java("disabled", ("    @Test\n    void adds", "    @Test\n    @Disabled\n    void adds"), rules=SKIPPED),
    _java("class-disabled", ("class AppTest", '@Disabled("x")\nclass AppTest'), rules=SKIPPED),
    _java("enabled-false", ("    @Test\n    void adds", "    @Test(enabled = false)\n    void adds"), rules=SKIPPED),
    _java(
        "assumption", ("        assertEquals(3", "        assumeTrue(false);\n        assertEquals(3"), rules=SKIPPED
    ),
    _java("always", ("assertEquals(3, App.add(1, 2))", "assertTrue(true)"), rules=ALWAYS),
    _java(
        "swallowed",
        (
            "        assertEquals(3, App.add(1, 2));\n",
            "        try { assertEquals(3, App.add(1, 2)); } catch (Throwable e) { }\n",
        ),
        rules=ALWAYS,
    ),
    _java("less", ("        assertEquals(3, App.add(1, 2));\n", ""), rules=LESS),
    _java("row-less", ("{1, 2, 3}", "{1, 2}"), rules=LESS),
    _java("loosened", (".isEqualTo(n + n)", ".isNotNull()"), rules=LESS),
    _java("edited", ("assertEquals(3,", "assertEquals(4,"), rules=EDITED),
    _java("exception", ("IllegalArgumentException.class", "RuntimeException.class"), rules=EDITED),
    _edit("file-deleted", B, RUBY, None, REMOVED),
    _edit("file-renamed", B, RUBY, RUBY, REMOVED, to="spec/app_specs.rb"),
    _edit("skipped", B, RUBY, RUBY.replace('it "adds"', 'xit "adds"'), SKIPPED),
    _edit("less", B, RUBY, RUBY.replace("    expect(App.sub(2, 1)).to eq(1)\n", ""), LESS),
    _edit("edited", B, RUBY, RUBY.replace("eq(3)", "eq(4)"), EDITED),
)

_SPLIT = (
    "def test_withdraws(account):\n    account.withdraw(3)\n    assert account.balance == 7\n\n\n"
    'def test_remembers_withdrawals(account):\n    account.withdraw(3)\n    assert account.history == ["-3"]\n'
)
_HELPER = (
    "def check(account, balance, history):\n    assert account.balance == balance\n"
    "    assert account.history == history\n\n\n"
    'def test_withdraws(account):\n    account.withdraw(3)\n    check(account, 7, ["-3"])\n'
)
_PARAMETRISED = """\
@pytest.mark.parametrize("text, wanted", [("1", 1), ("2", 2), ("-1", -1), ("", [])])
def test_loads(text, wanted):
    assert load(text) == wanted


class TestLoading:
"""
_UNIT_TO_PYTEST = """\
import pytest

from app import load


class TestLoad:
    def test_number(self):
        assert load("1") == 1
        assert load("yes")
        assert load("none") is None

    def test_bad(self):
        with pytest.raises(ValueError):
            load("?")
"""

HONEST: tuple[Edit, ...] = (
    _py("added", ("class TestLoading", 'def test_more():\n    assert load("3") == 3\n\n\nclass TestLoading')),
    _py("row-added", (', ("-1", -1)', ', ("-1", -1), ("4", 4)')),
    _py(
        "assert-added",
        ("    assert account.balance == 7\n", '    assert account.balance == 7\n    assert account.owner == "ada"\n'),
    ),
    _py("function-renamed", ("load", "read_number")),
    _py("attribute-renamed", ("account.balance", "account.amount")),
    _py("variable-renamed", ("expected", "nothing")),
    _py("fixture-renamed", ("account", "purse")),
    _py("test-renamed", ("def test_withdraws", "def test_takes_money_out")),
    _py("class-renamed", ("class TestLoading", "class TestReading")),
    _edit("moved", P, PYTHON, PYTHON, to="tests/unit/test_app.py"),
    _edit("renamed", P, PYTHON, PYTHON, to="tests/test_accounts.py"),
    _edit(
        "moved-and-added",
        P,
        PYTHON,
        PYTHON + "\n\ndef test_x():\n    assert load('9') == 9\n",
        to="tests/unit/test_app.py",
    ),
    _py("split", (_WITHDRAWS + _BODY, _SPLIT)),
    _py("helper-taken-out", (_WITHDRAWS + _BODY, _HELPER)),
    _py(
        "formatted",
        ("assert account.balance == 7", "assert (\n        account.balance == 7\n    )"),
        ('["-3"]', "['-3',]"),
    ),
    _py("message-added", ("account.balance == 7", 'account.balance == 7, "too much left"')),
    _py(
        "reordered",
        ("    assert account.balance == 7\n", ""),
        ('["-3"]\n', '["-3"]\n    assert account.balance == 7\n'),
    ),
    _py("comment", ("    account.withdraw(3)\n", "    # three\n    account.withdraw(3)\n")),
    _py("strengthened", ("account.balance == 7", "account.balance == 7 and account.open")),
    _py(
        "folded",
        (
            '    assert account.balance == 7\n    assert account.history == ["-3"]\n',
            '    assert (account.balance, account.history) == (7, ["-3"])\n',
        ),
    ),
    _py("sides-turned", ("account.balance == 7", "7 == account.balance")),
    _py("argument-added", ("load(text)", "load(text, strict=True)")),
    _py("approximated", ("account.balance == 7", "account.balance == pytest.approx(7)")),
    _py("inlined", ('        expected = []\n        assert load("") == expected', '        assert load("") == []')),
    _py(
        "new-skip-on-windows",
        (
            "class TestLoading",
            (
                '@pytest.mark.skipif(sys.platform == "win32", reason="x")\n'
                'def test_more():\n    assert load("3") == 3\n\n\nclass TestLoading'
            ),
        ),
    ),
    _py("unused-label", (_WITHDRAWS, "@pytest.mark.money\n" + _WITHDRAWS)),
    _py("typed", ("def test_withdraws(account):", "def test_withdraws(account: Account) -> None:")),
    _py(
        "fails-on-purpose",
        (
            "class TestLoading",
            (
                'def test_more():\n    try:\n        load("x")\n    except ValueError:\n'
                '        return\n    assert False, "it loads"\n\n\nclass TestLoading'
            ),
        ),
    ),
    _py(
        "parametrised",
        ('    def test_nothing(self):\n        expected = []\n        assert load("") == expected\n\n', ""),
        (PYTHON[PYTHON.index("@pytest.mark.parametrize") : PYTHON.index("    def test_nothing")], _PARAMETRISED),
    ),
    _edit("from-unittest", U, UNITTEST, _UNIT_TO_PYTEST),
    _unit(
        "added",
        ("    def test_bad", '    def test_two(self):\n        self.assertEqual(load("2"), 2)\n\n    def test_bad'),
    ),
    _js("added", (_ADDS_JS, _ADDS_JS + '\n  it("adds much", () => {\n    expect(add(4, 4)).toBe(8);\n  });\n')),
    _js("renamed", ("add(", "sum(")),
    _js("title", ('it("adds",', 'it("adds two numbers",')),
    _js("suite-title", ('describe("add"', 'describe("addition"')),
    _js("row-added", ("[2, 2, 4]]", "[2, 2, 4], [3, 3, 6]]")),
    _js("formatted", ("expect(add(1, 2)).toBe(3);", "expect(\n      add(1, 2),\n    ).toBe(3)")),
    _js("moved", to="tests/app.test.js"),
    _js("strict", ("toEqual(LIMIT)", "toStrictEqual(LIMIT)")),
    _js("async", ('it("adds", () =>', 'it("adds", async () =>')),
    _js("typescript", ("add(", "sum("), path=T),
    _js(
        "split",
        (
            "    expect(add(-1, 1)).toBe(0);\n  });\n",
            '  });\n\n  it("adds to nothing", () => {\n    expect(add(-1, 1)).toBe(0);\n  });\n',
        ),
    ),
    _go("added", ('\t\t{"2", 2},\n', '\t\t{"2", 2},\n\t\t{"3", 3},\n')),
    _go("renamed", ("Add(", "Sum(")),
    _go("message", ('"Add(1, 2) = %d"', '"Add(1, 2) = %d, want 3"')),
    _go("test-renamed", ("func TestAdd(", "func TestAddition(")),
    _go("moved", to="sum_test.go"),
    _go(
        "subtests",
        (
            '\t\tif got := Parse(tt.text); got != tt.want {\n\t\t\tt.Errorf("%q", tt.text)\n\t\t}\n',
            (
                "\t\tt.Run(tt.text, func(t *testing.T) {\n\t\t\tif got := Parse(tt.text); got != tt.want {\n"
                '\t\t\t\tt.Errorf("%q", tt.text)\n\t\t\t}\n\t\t})\n'
            ),
        ),
    ),
    _go("named-rows", ('{"1", 1}', '{text: "1", want: 1}'), ('{"2", 2}', '{text: "2", want: 2}')),
    _rs(
        "added",
        (
            "    #[test]\n    fn adds",
            "    #[test]\n    fn adds_more() {\n        assert_eq!(add(2, 2), 4);\n    }\n\n    #[test]\n    fn adds",
        ),
    ),
    _rs("renamed", ("add(", "sum(")),
    _rs("message", ('"too little"', '"far too little"')),
    _rs("code", ("    a + b\n", "    b + a\n")),
    _java(
        "added",
        (
            "    @Test\n    void refuses",
            (
                "    @Test\n    void addsMore() {\n        assertEquals(4, App.add(2, 2));\n"
                "    }\n\n    @Test\n    void refuses"
            ),
        ),
    ),
    _java("renamed", ("App.add(", "App.sum(")),
    _java("message", ('"too little"', '"far too little"')),
    _java("row-added", ("{1, 2, 3}", "{1, 2, 3, 4}")),
    _java("moved", to="src/test/java/app/AppTest.java"),
    _edit(
        "added",
        B,
        RUBY,
        RUBY.replace(
            '  it "subtracts"', '  it "adds more" do\n    expect(App.add(2, 2)).to eq(4)\n  end\n\n  it "subtracts"'
        ),
    ),
)
