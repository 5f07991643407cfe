"""The page of commands and options, and the manual pages, agree with the program."""

from forgepool.orchestrator.cli.app import GROUPS
from tests.project.cli_reference import PAGE, page
from tests.project.man_pages import man_pages


def test_the_page_of_commands_is_what_the_program_says() -> None:
    assert PAGE.read_text() == page(), "run `.venv/bin/python tests/project/cli_reference.py`"


def test_each_command_has_a_manual_page_whose_lines_are_no_requests_by_accident() -> None:
    pages = dict(man_pages())
    shown = {line.removeprefix("### ").replace(" ", "-") for line in page().splitlines() if line.startswith("### ")}
    assert shown | {"forgepool"} == pages.keys() and len(shown) > len([*GROUPS.values()])
    known = (".TH ", ".SH ", ".B ", ".TP", ".PP", ".br")
    lines = [line for text in pages.values() for line in text.splitlines()]
    assert [line for line in lines if line.startswith((".", "'")) and not line.startswith(known)] == []
    assert "\\-\\-otlp URL" in pages["forgepool-export"]
