"""`forgepool init`: proposes a `forgepool.yaml` to a person, and tries it with `--try`. It commits nothing."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import complain, say, say_json
from forgepool.orchestrator.cli.run.check import exit_status_of_base, interruptible, tell_base
from forgepool.orchestrator.launch.commits import Repository, fetch_commit, open_both, open_repository
from forgepool.orchestrator.launch.preflight import check_tip, lacking_tools
from forgepool.orchestrator.launch.prerequisites import only_family
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.supervisor.detection.projects import detect
from forgepool.supervisor.detection.proposals import EXAMPLE, Detected, gate_file, read_committed
from forgepool.supervisor.gate.requirements import GATE_FILE
from forgepool.supervisor.gate_file.document import ReviewWord, read_gate_file
from forgepool.supervisor.messages import CheckResult
from forgepool.workers.schema.settings import Settings

_NOTHING = 1
_REVIEWS: dict[ReviewWord, str] = {
    "self-other-model": "another model of the same family; less independent, and told as such",
    "person": "you, by `forgepool approve`",
    "none": "nobody: green checks are enough",
}


def register(app: typer.Typer) -> None:
    app.command()(init)


def init(
    repo: Annotated[str, typer.Option(help="A folder of the repository; its HEAD is looked at.")] = ".",
    write: Annotated[
        bool, typer.Option("--write", help=f"Write {GATE_FILE} into the work tree, where there is none.")
    ] = False,
    try_it: Annotated[
        bool, typer.Option("--try", help=f"Run the checks of {GATE_FILE}, or the proposed ones, on HEAD.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> int:
    """Propose a forgepool.yaml by what is committed: checks, with reasons, for a person to correct and commit."""
    repository = open_repository(repo)
    files = read_committed(repository.git, repository.commit("HEAD"))
    detected = detect(files)
    text = gate_file(detected) if detected.proposals else ""
    text += _review(as_json=as_json) if text else ""
    own = repository.top / GATE_FILE if repository.top is not None else None
    has_one = GATE_FILE in files.paths or (own is not None and own.is_file())
    written = _write(repository, text) if write and text else None
    if as_json:
        tried = _tried(repository, repo, text) if try_it and text else None
        say_json(
            {
                "checks": [one.as_json() for one in detected.proposals],
                "notes": list(detected.notes),
                "text": text,
                "has_one": GATE_FILE in files.paths,
                "written": str(written) if written else None,
                "tried": tried.model_dump(mode="json") if tried else None,
            }
        )
        return (exit_status_of_base(tried) if tried else 0) if text else _NOTHING
    if not text:
        return _tell_nothing(detected)
    if written is None:
        say(text.rstrip("\n"))
        complain(_what_now(has_one=has_one), 0)
    else:
        how = "then commit it" if try_it else "try it, then commit it. Try it: forgepool init --try"
        complain(f"{written} has {_counted(detected)}; read and correct it, {how}", 0)
    return tell_base(_tried(repository, repo, text), "HEAD") if try_it else 0


def _review(*, as_json: bool) -> str:
    """
    The line that says who reviews where only one vendor's models can be asked: as the person at the terminal answers.

    Nobody at the terminal: empty, and it is said how plans can have it.
    """
    family = only_family(Settings())
    if family is None or as_json:
        return ""
    why = f"only models of one family ({family}) have a key here, and work is reviewed by another family"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        ways = ", ".join(f"`review: {word}`" for word in _REVIEWS)
        complain(f"{why}; write one of {ways} into {GATE_FILE} or a plan, else a person is waited for", 0)
        return ""
    complain(f"{why}. Who is to review it?", 0)
    for word, meaning in _REVIEWS.items():
        complain(f"  {word}: {meaning}", 0)
    answer = ""
    while answer not in _REVIEWS:
        answer = typer.prompt("review", default="self-other-model", err=True).strip()
    return f"# Who reviews the work of models, where a plan does not say it.\nreview: {answer}\n"


def _tried(repository: Repository, repo: str, proposal: str) -> CheckResult:
    """
    Run the checks on HEAD: of the gate file in the work tree, committed or not, else those proposed.

    Raises:
        CannotRun: a check's program or Python module is not there.
    """
    own = repository.top / GATE_FILE if repository.top is not None else None
    text = own.read_text(encoding="utf-8") if own is not None and own.is_file() else proposal
    settings, checks = Settings(), read_gate_file(text, GATE_FILE).checks
    hub, here = open_both(repo, settings)
    tip = fetch_commit(hub, here, "HEAD")
    if lacking := lacking_tools(checks, (), hub, tip, settings):
        raise CannotRun("; ".join(lacking))
    with interruptible() as stop:
        return check_tip(hub, tip, hub.facts.default_branch or "HEAD", settings, plan_checks=checks, stop=stop)


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
