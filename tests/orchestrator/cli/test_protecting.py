"""`forgepool queue protect`: its output and its refusals. The tests of `worktrees` cover the hook itself."""

import json
from pathlib import Path

import pytest
from people import Person, person_in

from forgepool.orchestrator.cli.queue.serve import protect
from forgepool.worktrees.errors import UserError


@pytest.fixture
def hub(tmp_path: Path) -> Person:
    return person_in(tmp_path, {"a.txt": "a\n"})


def said(capsys: pytest.CaptureFixture[str], hub: str, *targets: str, off: bool = False, as_json: bool = True) -> str:
    assert protect(hub, list(targets), off, as_json) == 0
    return capsys.readouterr().out


def test_it_says_what_is_gated_and_never_the_token(hub: Person, capsys: pytest.CaptureFixture[str]) -> None:
    git_folder = hub.folder / ".git"
    first = json.loads(said(capsys, str(hub.folder), "main"))
    assert first == {
        "hub": str(git_folder),
        "targets": ["main"],
        "in_force": True,
        "hook": str(git_folder / "hooks/pre-receive"),
        "kept_hook": None,
        "token_file": str(git_folder / "forgepool/gate/token"),
        "changed": True,
    }
    assert json.loads(said(capsys, str(hub.folder), "main")) == {**first, "changed": False}
    told = said(capsys, str(hub.folder), "main", as_json=False)
    assert "protected: main, as before" in told and "also runs" not in told
    assert (git_folder / "forgepool/gate/token").read_text().strip() not in told
    assert json.loads(said(capsys, f"file://{hub.folder}", off=True))["targets"] == []
    assert "no branch is protected" in said(capsys, str(hub.folder), off=True, as_json=False)


@pytest.mark.parametrize(
    ("where", "targets", "why"),
    [
        ("https://forge.example/a.git", ["main"], "not on this host"),
        ("https://forge.example/a.git", [], "no branch is named"),
    ],
)
def test_it_refuses_in_one_sentence_as_wrong_usage(where: str, targets: list[str], why: str) -> None:
    with pytest.raises(UserError, match=why) as refused:
        protect(where, targets, False, False)
    assert "\n" not in str(refused.value)
