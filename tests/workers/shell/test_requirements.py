"""The tools a command needs, according to its text, as far as that is certain."""

import pytest

from forgepool.workers.shell.requirements import requirements_of


@pytest.mark.parametrize(
    ("script", "needs"),
    [
        ("ruff check && mypy src", ["program ruff", "program mypy"]),
        ("python3 -m pytest -q", ["program python3", "module pytest"]),
        ("python3 -m a.b", ["program python3", "module a"]),
        ("cat a.txt | jq .", ["program cat", "program jq"]),
        ("sh scripts/x.sh a", ["program sh", "file scripts/x.sh"]),
        ("./x.sh", ["file ./x.sh"]),
        ("uv run pytest", ["program uv"]),
        ("true && echo x > a && test -f a", []),
    ],
)
def test_programs_modules_and_scripts_are_named(script: str, needs: list[str]) -> None:
    assert [f"{one.kind} {one.name}" for one in requirements_of(script)] == needs


@pytest.mark.parametrize(
    "script",
    [
        "test -x tool || tool",
        "if true; then tool; fi",
        "$TOOL run",
        "TOOLS=1 tool",
        ". .venv/bin/activate && tool",
        "for f in *; do tool $f; done",
        "tool (",
    ],
)
def test_what_is_not_certain_is_not_named(script: str) -> None:
    assert "tool" not in [one.name for one in requirements_of(script)]


def test_nothing_is_certain_behind_what_may_install_it() -> None:
    assert [one.name for one in requirements_of("pip install tool && tool")] == ["pip"]


def test_a_script_that_the_command_itself_makes_is_not_asked_for() -> None:
    assert [one.kind for one in requirements_of("printf x > a.sh && sh a.sh")] == ["program"]


def test_a_file_behind_cd_is_not_asked_for() -> None:
    assert "file" not in [one.kind for one in requirements_of("cd sub && sh x.sh")]
