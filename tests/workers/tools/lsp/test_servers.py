"""An order's language servers, with a real one that has faults."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from forgepool.workers.sandbox import tree
from forgepool.workers.schema.confinement import OPEN
from forgepool.workers.tools.lsp.documents import NoAnswer
from forgepool.workers.tools.lsp.servers import LanguageServers, RunningServer

Begin = Callable[..., LanguageServers]
Notes = Callable[[], list[dict[str, object]]]


def _ask(server: RunningServer, within_s: float = 20.0) -> int:
    """Return how many places use the name on the second line of the toy file."""
    path = server.root / "a.toy"

    async def question(talk):  # type: ignore[no-untyped-def]  # its type is heavy to import
        talk.show(path)
        return await talk.references(path, 1, 0)

    return len(server.ask(question, within_s=within_s))


def test_a_server_starts_with_the_first_question_and_dies_with_the_order(begin: Begin, notes: Notes) -> None:
    """A server that is not asked does not start. One that is asked is reused, and none outlives the order."""
    with begin() as servers:
        (server,) = servers.running
        with pytest.raises(FileNotFoundError):
            notes()
        assert (_ask(server), _ask(server)) == (3, 3)
        (began,) = [each for each in notes() if "pid" in each]
        assert tree.alive(int(str(began["pid"])))
    assert not tree.alive(int(str(began["pid"])))


def test_a_server_sees_only_the_environment_of_commands(begin: Begin, notes: Notes, root: Path) -> None:
    """It runs in the worktree without the worker's variables."""
    _ask(begin().running[0])
    began = notes()[0]
    assert began["cwd"] == str(root)
    assert set(began["env"]) <= {"PATH", "LANG", "FORGEPOOL_COMMAND", "LC_CTYPE"}  # type: ignore[call-overload]


def test_a_server_that_dies_is_started_again_once(begin: Begin) -> None:
    """One crash costs the model nothing."""
    assert _ask(begin("crash once").running[0]) == 3


@pytest.mark.parametrize(("fault", "said"), [("crash", "toy: out of ideas"), ("garbage", ""), ("dead", "cannot start")])
def test_a_server_that_dies_again_is_away(begin: Begin, fault: str, said: str) -> None:
    """From then on the model is told at once, in one line, what to use instead."""
    server = begin(fault).running[0]
    for _ in range(2):
        with pytest.raises(NoAnswer, match="toy is away: it ended 2 times; use grep") as away:
            _ask(server)
        assert said in str(away.value)
        assert "\n" not in str(away.value)


def test_a_server_that_hangs_is_given_up(begin: Begin, notes: Notes) -> None:
    """
    A question has a time limit. After two unanswered ones the server is ended, and the next question starts a new one.
    """
    server = begin("hang").running[0]
    for said in ("try once more", "again and was ended", "try once more"):
        with pytest.raises(NoAnswer, match=said):
            _ask(server, within_s=0.2)
    first, second = (int(str(each["pid"])) for each in notes() if "pid" in each)
    assert not tree.alive(first)
    assert tree.alive(second)


def test_a_question_waits_until_the_server_has_read_the_project(begin: Begin, notes: Notes) -> None:
    """Answers during the reading are not reliable."""
    _ask(begin("busy").running[0])
    assert {"read": True} in notes()


def test_a_server_is_told_its_settings(begin: Begin, notes: Notes) -> None:
    """It asks for sections and gets them from the configuration."""
    server = begin("asks").running[0]
    _ask(server)
    _ask(server)
    assert {"settings": [3, None]} in notes()


def test_a_server_knows_the_files_as_they_are_now(begin: Begin, notes: Notes, root: Path) -> None:
    """It is told of changes on the disk before the next question."""
    (root / "b.toy").write_text("def b\n")
    server = begin().running[0]
    assert _ask(server) == 3
    (root / "a.toy").write_text("open\nopen\nopen\nopen\n")
    (root / "b.toy").unlink()
    (root / "c.toy").write_text("def c\n")
    assert _ask(server) == 4
    assert {"watched": [["a.toy", "Changed"], ["b.toy", "Deleted"], ["c.toy", "Created"]]} in notes()
    (root / "a.toy").unlink()
    with pytest.raises(NoAnswer, match=r"a\.toy: no such file"):
        _ask(server)
    (root / "a.toy").write_text("open\nopen\n")
    assert _ask(server) == 2
    assert {"closed": "a.toy"} in notes()


def test_changed_files_are_those_of_the_order(begin: Begin, root: Path) -> None:
    """Changes from before the order do not count."""
    server = begin().running[0]
    assert server.list_changed_files() == ()
    (root / "b.toy").write_text("def b\n")
    assert server.list_changed_files() == (root / "b.toy",)


def test_a_server_is_there_when_its_program_and_its_files_are(root: Path) -> None:
    """Without the program, or without a file in its language, there is no server and no tool."""
    env = {"PATH": os.environ["PATH"]}
    assert LanguageServers(root, env, OPEN, (), lambda name: f"/usr/bin/{name}").running == ()
    (root / "x.py").write_text("")
    assert LanguageServers(root, env, OPEN, (), lambda name: None).running == ()
    both = LanguageServers(root, env, OPEN, (), lambda name: f"/usr/bin/{name}").running
    assert [each.server.name for each in both] == ["basedpyright"]
    only = LanguageServers(root, env, OPEN, (), lambda name: name if name == "pyright-langserver" else None).running
    assert [each.server.name for each in only] == ["pyright"]
