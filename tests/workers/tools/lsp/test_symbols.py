"""The four tools over code, with the real basedpyright, and with a toy server for misbehaviour."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pydantic import JsonValue

from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.tools.commands.run import BASH
from forgepool.workers.tools.config import LanguageServer
from forgepool.workers.tools.lsp.servers import LanguageServers, program_finder
from forgepool.workers.tools.lsp.symbols import symbol_tools
from forgepool.workers.tools.tool import ToolAnswer, carry_out
from forgepool.workers.tools.workplace import Workplace

Use = Callable[..., ToolAnswer]
Toy = Callable[[str], Use]

_SHOP = """\
class Shop:
    def open(self, key: int) -> str:
        return "𝔘" + self.name(key) + self.name(key)

    def name(self, key: int) -> str:
        return str(key)


class Door:
    def open(self) -> None: ...


def make() -> Shop:
    return Shop()
"""
_MAIN = """\
from pkg.shop import Door, Shop, make

shop = make()
print("𝔘", shop.open(1), Shop, shop.open("x"))
print(shop.open(1), Door().open())
"""


def _users(servers: LanguageServers, place: Workplace) -> Use:
    tools = (*symbol_tools(servers), BASH)

    def use(tool: str, /, **arguments: JsonValue) -> ToolAnswer:
        return carry_out(ToolCall(id="1", name=tool, arguments=arguments), tools, place)

    return use


@pytest.fixture
def project(place: Workplace) -> Path:
    (place.root / "pkg").mkdir()
    (place.root / "pkg" / "__init__.py").write_text("")
    (place.root / "pkg" / "shop.py").write_text(_SHOP)
    (place.root / "main.py").write_text(_MAIN)
    return place.root


@pytest.fixture
def use(place: Workplace, project: Path) -> Iterator[Use]:
    """Return the tools over a Python project. Skip where there is no language server, but fail in CI."""
    find = program_finder(place.env)
    if find("basedpyright-langserver") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("basedpyright-langserver is not there; install the development dependencies")
        pytest.skip("basedpyright-langserver is not there")
    with LanguageServers(project, place.env, OPEN, (), find) as servers:
        yield _users(servers, place)


@pytest.fixture
def toy(place: Workplace, tmp_path: Path) -> Iterator[Toy]:
    """Return the tools over a file in the toy language, whose server may have a fault."""
    (place.root / "a.toy").write_text("def open\nopen open\nclose 𝔘 smell, bug hint\n")
    program = Path(__file__).with_name("toy.py")
    with ExitStack() as ending:

        def begin(fault: str) -> Use:
            server = LanguageServer(
                name="toy",
                command=(sys.executable, str(program), fault, str(tmp_path / "notes")),
                files={".toy": "toy"},
            )
            servers = LanguageServers(place.root, place.env, OPEN, (server,), shutil.which)
            return _users(ending.enter_context(servers), place)

        yield begin


def test_a_project_is_understood(use: Use, project: Path) -> None:
    """Definitions, uses, a rename and errors are found by name and line, on the current files."""
    assert use("find_symbol", name="Shop").text == "pkg/shop.py:1: class Shop"
    assert use("find_symbol", name="open").text.splitlines() == [
        "pkg/shop.py:2: method open (in Shop)",
        "pkg/shop.py:10: method open (in Door)",
    ]
    assert use("find_symbol", name="Door.open", path="pkg").text == "pkg/shop.py:10: method open (in Door)"
    assert use("find_symbol", name="make", path="pkg/shop.py").text == "pkg/shop.py:13: function make"
    assert use("find_symbol", name="nothing").text.startswith("no definition of nothing was found")

    assert use("find_references", path="pkg/shop.py", line=2, symbol="open").text.splitlines() == [
        'main.py:4: print("𝔘", shop.open(1), Shop, shop.open("x"))',
        "main.py:5: print(shop.open(1), Door().open())",
        "pkg/shop.py:2: def open(self, key: int) -> str:",
    ]
    several = use("find_references", path="main.py", line=5, symbol="open")
    assert (several.is_error, "several things on this line" in several.text) == (True, True)
    assert "pkg/shop.py:2:" in use("find_references", path="main.py", line=5, symbol="shop.open").text
    elsewhere = use("find_references", path="main.py", line=1, symbol="shop.open")
    assert elsewhere.text == "main.py: line 1 of 5 does not have open; it stands on 4, 5"

    assert "changed since the work began" in use("diagnostics").text
    wrong = use("diagnostics", path="main.py").text
    assert wrong.startswith("main.py:4:43 error Argument of type")
    assert len(wrong.splitlines()) == 1

    renamed = use("rename_symbol", path="main.py", line=4, symbol="shop.open", new_name="unlock")
    assert renamed.text.splitlines() == [
        "shop.open is unlock now: 4 places in 2 files",
        f"OK: wrote {len(_MAIN.encode()) + 6} bytes to main.py (iter 14)",
        f"OK: wrote {len(_SHOP.encode()) + 2} bytes to pkg/shop.py (iter 14)",
    ]
    assert (project / "main.py").read_text() == _MAIN.replace("shop.open", "shop.unlock")
    assert (project / "pkg" / "shop.py").read_text() == _SHOP.replace("open(self, key", "unlock(self, key")

    written = (
        "cat > pkg/new.py <<'X'\nfrom pkg.shop import make\nmake().open(3)\nX\nsed -i 's/\"x\"/2/' main.py; sleep 0 &"
    )
    assert not use("bash", command=written).is_error
    assert use("diagnostics").text.startswith("pkg/new.py:2:8 error Cannot access attribute")
    assert "pkg/new.py:2: make().open(3)" in use("find_references", path="pkg/new.py", line=1, symbol="make").text
    use("bash", command="rm pkg/new.py")
    assert use("diagnostics").text == "no errors or warnings in the 2 files changed since the work began"


def test_what_cannot_be_renamed_is_not(use: Use, project: Path) -> None:
    """A name of other code stays, and nothing is written."""
    refused = use("rename_symbol", path="main.py", line=4, symbol="print", new_name="say")
    assert refused.is_error
    assert (project / "main.py").read_text() == _MAIN


def test_without_a_server_no_tool_is_offered(place: Workplace, project: Path) -> None:
    with LanguageServers(project, place.env, OPEN, (), lambda name: None) as servers:
        assert symbol_tools(servers) == ()


def test_what_the_tools_change_is_said_by_their_kind(place: Workplace) -> None:
    """Only the tool that writes may not be used in PLAN."""
    (place.root / "a.toy").write_text("")
    toy = LanguageServer(name="toy", command=("toy",), files={".toy": "toy"})
    with LanguageServers(
        place.root, place.env, OPEN, (toy,), lambda name: f"/{name}" if name == "toy" else None
    ) as servers:
        kinds = {tool.name: tool.kind for tool in symbol_tools(servers)}
    assert kinds == {
        "find_symbol": "read",
        "find_references": "read",
        "rename_symbol": "write",
        "diagnostics": "read",
    }


def test_a_server_that_knows_no_project_is_asked_of_files(toy: Toy) -> None:
    """If it cannot search all files at once, it is asked about those that contain the name."""
    assert toy("none")("find_symbol", name="open").text == "a.toy:1: function open"


def test_a_server_that_says_what_is_wrong_when_it_likes_is_waited_for(toy: Toy, place: Workplace) -> None:
    """Errors come before warnings, hints are left out, and all concern the current text."""
    use = toy("none")
    assert use("diagnostics", path="a.toy").text.splitlines() == [
        "a.toy:3:17 error a bug here [bug]",
        "a.toy:3:10 warning a smell here [smell]",
    ]
    (place.root / "a.toy").write_text("fine\nsmell\n")
    assert use("diagnostics", path="a.toy").text == "a.toy:2:1 warning a smell here [smell]"
    assert use("diagnostics", path="a.toy").text == "a.toy:2:1 warning a smell here [smell]"


def test_a_server_that_names_a_link_to_outside_shows_nothing_of_it(toy: Toy, place: Workplace) -> None:
    """Neither its lines nor questions about the file show the content."""
    (place.root.parent / "outside" / "secret").write_text("def open SECRET\nSECRET\n")
    (place.root / "leak.toy").symlink_to(place.root.parent / "outside" / "secret")
    use = toy("leads out")
    told = use("find_references", path="a.toy", line=1, symbol="open")
    assert "leak.toy:1:" in told.text
    assert "SECRET" not in told.text
    assert "SECRET" not in use("find_symbol", name="open").text


def test_a_server_that_wants_to_be_asked_what_is_wrong_is_asked(toy: Toy) -> None:
    """Its answer counts more than what it sent by itself."""
    assert toy("pulls")("diagnostics", path="a.toy").text == "a.toy:1:1 error asked for"


@pytest.mark.parametrize(
    ("new_name", "said"),
    [
        ("outside", "lies outside the worktree"),
        ("inside_git", "is git's own"),
        ("twice", "two changes overlap; nothing was renamed"),
        ("moved", "it would make, move or remove files as well"),
        ("folder", "folder.toy: is a folder"),
    ],
)
def test_a_rename_that_does_too_much_writes_nothing(toy: Toy, place: Workplace, new_name: str, said: str) -> None:
    """All changes of the server are checked before any is written."""
    (place.root / "folder.toy").mkdir()
    before = (place.root / "a.toy").read_text()
    refused = toy("none")("rename_symbol", path="a.toy", line=2, symbol="open", new_name=new_name)
    assert (refused.is_error, said in refused.text) == (True, True), refused.text
    assert (place.root / "a.toy").read_text() == before


def test_bytes_that_are_no_text_survive_a_rename(toy: Toy, place: Workplace) -> None:
    """Bytes that are not UTF-8, and both kinds of line ends, stay."""
    (place.root / "a.toy").write_bytes(b"def open\r\n\xff \xf0\x9d\x94\x98 open \xfe\nclose\r\n")
    assert not toy("none")("rename_symbol", path="a.toy", line=1, symbol="open", new_name="shut").is_error
    assert (place.root / "a.toy").read_bytes() == b"def shut\r\n\xff \xf0\x9d\x94\x98 shut \xfe\nclose\r\n"


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("find_references", {"path": "b.toy", "line": 1, "symbol": "x"}, "b.toy: no such file"),
        ("find_references", {"path": "x.txt", "line": 1, "symbol": "x"}, "its language is not known here, only .toy"),
        ("find_references", {"path": "../outside/secret", "line": 1, "symbol": "x"}, "lies outside the worktree"),
        ("find_references", {"path": "a.toy", "line": 99, "symbol": "x"}, "line 99 of 3 does not have x"),
        ("find_symbol", {"name": "x", "path": "nowhere"}, "nowhere: no such file or folder"),
        ("diagnostics", {"path": "."}, "is a folder"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused(
    toy: Toy, place: Workplace, tool: str, arguments: dict[str, JsonValue], said: str
) -> None:
    """One line says what is wrong. Most cases need no server to start."""
    (place.root / "x.txt").write_text("x\n")
    refused = toy("none")(tool, **arguments)
    assert (refused.is_error, said in refused.text) == (True, True), refused.text


def test_a_long_answer_is_cut_and_says_so(toy: Toy, place: Workplace) -> None:
    """It says how much there was."""
    (place.root / "a.toy").write_text("open\n" * 500)
    lines = toy("none")("find_references", path="a.toy", line=1, symbol="open").text.splitlines()
    assert len(lines) == 61
    assert lines[-1] == "[500 lines, the first 60 are shown]"


def test_a_dead_server_is_told_to_the_model_in_a_line(toy: Toy) -> None:
    """The conversation continues without it."""
    away = toy("crash")("find_references", path="a.toy", line=1, symbol="open")
    assert away.is_error
    assert away.text == "the language server toy is away: it ended 2 times; use grep (it said: toy: out of ideas)"
