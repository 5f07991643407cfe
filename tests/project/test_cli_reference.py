"""The page of commands and options agrees with the program."""

from tests.project.cli_reference import PAGE, page


def test_the_page_of_commands_is_what_the_program_says() -> None:
    assert PAGE.read_text() == page(), "run `.venv/bin/python tests/project/cli_reference.py`"
