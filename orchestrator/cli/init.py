"""`forgepool init`: proposes a `forgepool.yaml` to a person. It runs nothing, and commits nothing."""

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.say import complain, say, say_json
from orchestrator.commits import Repository, open_repository
from orchestrator.hub import CannotRun
from supervisor.demands import GATE_FILE
from supervisor.detected.projects import detect
from supervisor.detected.proposals import EXAMPLE, Detected, committed, gate_file

_NOTHING = 1


def register(app: typer.Typer) -> None:
    app.command()(init)


def init(
    repo: Annotated[str, typer.Option(help="A folder of the repository; its HEAD is looked at.")] = ".",
    write: Annotated[
        bool, typer.Option("--write", help=f"Write {GATE_FILE} into the work tree, where there is none.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> int:
    """Propose a forgepool.yaml by what is committed: checks, with reasons, for a person to correct and commit."""
    repository = open_repository(repo)
    files = committed(repository.git, repository.commit("HEAD"))
    detected = detect(files)
    text = gate_file(detected) if detected.proposals else ""
    written = _write(repository, text) if write and text else None
    if as_json:
        say_json(
            {
                "checks": [one.as_json() for one in detected.proposals],
                "notes": list(detected.notes),
                "text": text,
                "has_one": GATE_FILE in files.paths,
                "written": str(written) if written else None,
            }
        )
        return 0 if text else _NOTHING
    if not text:
        return _tell_nothing(detected)
    if written is None:
        say(text.rstrip("\n"))
        return complain(_what_now(has_one=GATE_FILE in files.paths), 0)
    return complain(f"{written} has {_counted(detected)}; read and correct it, try it, then commit it. {_TRY}", 0)


_TRY = f"Try it: forgepool gate check --base HEAD~1 --head HEAD --plan-checks {GATE_FILE}"


def _write(repository: Repository, text: str) -> Path:
    """
    The file, which was not there before.

    Raises:
        CannotRun: there is one, or no work tree to put it into.
    """
    if repository.top is None:
        raise CannotRun(f"{repository.facts.url} is bare, so there is no work tree to write into; leave out --write")
    path = repository.top / GATE_FILE
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as there:
        raise CannotRun(f"{path} is there already and is left as it is; leave out --write to see a proposal") from there
    return path


def _what_now(*, has_one: bool) -> str:
    if has_one:
        return f"the repository has a {GATE_FILE} already, and only that counts; this is what would be proposed today"
    return f"nothing was written; --write puts this into {GATE_FILE} for you to read, correct and commit"


def _tell_nothing(detected: Detected) -> int:
    for note in detected.notes:
        complain(note, 0)
    complain(
        f"nothing at the top of this repository says how it is checked; write a {GATE_FILE} of your own, such as this:",
        0,
    )
    say(EXAMPLE.rstrip("\n"))
    return _NOTHING


def _counted(detected: Detected) -> str:
    count = len(detected.proposals)
    return "one check" if count == 1 else f"{count} checks"
