"""The task card, and its quotations from the repository."""

from pathlib import Path

from premade import order, repository

from forgepool.workers.agents.briefing.card_sections import CardSection, TaskCard
from forgepool.workers.agents.briefing.task_card import conventions, files_at_base, task_card
from forgepool.workers.schema.orders import ReasonPack, Reply

REASON = ReasonPack(attempt=1, kind="check_failed", summary="check 'tests' is red", log_tail="# no heading\n")


def section(text: str) -> tuple[CardSection, ...]:
    return (CardSection(name=text, forms=(text,)),)


def whole(sections: tuple[CardSection, ...]) -> str:
    return TaskCard(sections=sections).whole.rstrip("\n")


def test_the_tasks_own_words_are_never_shortened() -> None:
    """The card contains every character of the description, however long."""
    words = "  indented\n\n" + "word " * 40_000 + "\n\n\tend"
    assert words in task_card(order(description=words)).whole


def test_the_card_has_its_sections_in_their_order() -> None:
    """The request and its checks come first, then the known facts, and reasons and answers last."""
    one = order(
        description="Everywhere.",
        files=("src/**",),
        network=("packages.example.org",),
        acceptance=("pytest -q",),
        reasons=(REASON,),
        replies=(Reply(question="# Which?", answer="Both.", by="ann"), Reply(question="", answer="Short.", by="bob")),
    )
    card = task_card(
        one, conventions=section("## Conventions"), priors=section("PRIOR ANALYSIS:"), files=section("## Files")
    )
    assert card.whole == (
        "# Task rename: Call it new\n\nEverywhere.\n\n## Files you may write\n- src/**\n\n"
        "## Hosts that commands may reach\n- packages.example.org\n\n"
        "## Commands that must succeed\n- pytest -q\n\n"
        "## Conventions\n\nPRIOR ANALYSIS:\n\n## Files\n\n"
        "## Why attempt 1 came back: check_failed\ncheck 'tests' is red\nThe end of its log:\n    # no heading\n\n"
        "## A question that was answered by ann\nAsked:\n    # Which?\nAnswer:\nBoth.\n\n"
        "## A word from bob on this task\nShort.\n"
    )


def test_equal_orders_give_equal_cards() -> None:
    assert task_card(order(reasons=(REASON,))) == task_card(order(reasons=(REASON,)))


def test_conventions_are_quoted_once_and_called_the_repositorys(tmp_path: Path) -> None:
    """
    A link from one file name to the other is not quoted again, and a heading in the text does not become the card's.
    """
    git, base = repository(tmp_path / "r", {"AGENTS.md": "# Tabs\nalways\n", "CLAUDE.md": "-> AGENTS.md"})
    said = whole(conventions(git, base))
    assert said.startswith("## Conventions of this repository\nQuoted from its own files at the base commit.")
    assert said.endswith("\n\n    # Tabs\n    always")


def test_long_conventions_are_cut_and_say_so(tmp_path: Path) -> None:
    git, base = repository(tmp_path / "r", {"CLAUDE.md": "x" * 9_000, "AGENTS.md": "first\n"})
    said = whole(conventions(git, base))
    assert "    first\n" in said
    assert "[1,008 more characters are left out; read the file itself]" in said


def test_a_repository_without_conventions_has_no_section(tmp_path: Path) -> None:
    git, base = repository(tmp_path / "r", {"a.py": "", "AGENTS.md/x": "a folder"})
    assert conventions(git, base) == ()


def test_files_are_given_as_they_are_at_the_base(tmp_path: Path) -> None:
    """Binary, missing or large files are named and not quoted."""
    files = {"a.py": "a = 1\n", "b.bin": b"\0\1", "long.py": "x" * 30_000}
    git, base = repository(tmp_path / "r", files)
    (section,) = files_at_base(git, base, ["a.py", "long.py", "b.bin", "gone.py"])
    said = section.forms[0]
    assert said.startswith("## Files as they are at the base commit\n\n### a.py\n\n    a = 1\n\nNot quoted")
    assert said.endswith(": long.py, b.bin, gone.py")
    assert section.forms[-1].endswith(": a.py, long.py, b.bin, gone.py")
    assert files_at_base(git, base, []) == ()
