"""`forgepool init`: proposes a `forgepool.yaml`, and tries its checks with `--try`. It commits nothing."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import complain, say, say_json, tell_slow
from forgepool.orchestrator.cli.run.check import exit_status_of_base, interruptible, tell_base
from forgepool.orchestrator.launch.commits import Repository, fetch_commit, open_both, open_repository
from forgepool.orchestrator.launch.preflight import check_tip, lacking_tools
from forgepool.orchestrator.launch.prerequisites import only_family
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.supervisor.detection.projects import detect
from forgepool.supervisor.detection.proposals import EXAMPLE, Detected, gate_file, read_committed
from forgepool.supervisor.messages.answers import CheckResult
from forgepool.workers.policy.gate_file.document import GATE_FILE, ReviewWord, voting
from forgepool.workers.policy.gate_file.reading import read_gate_file
from forgepool.workers.policy.network import HostsRefused
from forgepool.workers.policy.sources import require_check_hosts
from forgepool.workers.schema.settings import Settings

_NOTHING = 1
SCHEMA = ".forgepool/forgepool.schema.json"
_REVIEWS: dict[ReviewWord, str] = {
    "self-other-model": "another model of the same family, which is less independent; reports say so",
    "person": "you, by `forgepool approve`",
    "none": "no review: passing checks are enough",
}


def register(app: typer.Typer) -> None:
    app.command()(init)


def init(
    repo: Annotated[str, typer.Option(help="A folder of the repository; its HEAD is examined.")] = ".",
    write: Annotated[
        bool, typer.Option("--write", help=f"Write {GATE_FILE} into the work tree, unless there is one.")
    ] = False,
    try_it: Annotated[
        bool, typer.Option("--try", help=f"Run the checks of {GATE_FILE}, or the proposed ones, on HEAD.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Propose a forgepool.yaml with the checks that the committed files suggest, for you to correct and commit."""
    repository = open_repository(repo)
    files = read_committed(repository.git, repository.commit("HEAD"))
    detected = detect(files)
    text = gate_file(detected) if detected.proposals else ""
    own = repository.top / GATE_FILE if repository.top is not None else None
    is_there = own is not None and own.is_file()
    tries_own = try_it and is_there
    text += _review(as_json=as_json) if text and not tries_own else ""
    written = _write(repository, text) if write and text else None
    tries = try_it and bool(text or is_there)
    if as_json:
        tried = _try_checks(repository, repo, text) if tries else None
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
        return exit_status_of_base(tried) if tried else 0 if text else _NOTHING
    if not text and not tries:
        return _tell_nothing(detected)
    if tries_own:
        committed = ", as committed there; commit a changed one to try it" if GATE_FILE in files.paths else ""
        complain(f"the checks of {GATE_FILE} are run on HEAD{committed}", 0)
    elif written is None:
        say(text.rstrip("\n"))
        complain(_what_now(committed=GATE_FILE in files.paths, is_there=is_there), 0)
    else:
        how = "then commit both" if try_it else "try it, then commit both. Try it: forgepool init --try"
        wrote = f"wrote {written} with {_count_checks(detected)}, and {SCHEMA}, by which editors check it"
        complain(f"{wrote}; read and correct it, {how}", 0)
    return tell_base(_try_checks(repository, repo, text), "HEAD") if tries else 0


def _review(*, as_json: bool) -> str:
    """
    Return the `review:` line where only one vendor's models have a key: the answer of the person at the terminal.

    Without a terminal it is empty, and a hint says how plans can set it.
    """
    family = only_family(Settings())
    if family is None or as_json:
        return ""
    why = (
        f"only models of one family ({family}) have a key here, but reviewers must be of another family than the author"
    )
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        ways = ", ".join(f"`review: {word}`" for word in _REVIEWS)
        complain(f"{why}; write one of {ways} into {GATE_FILE} or a plan, else candidates will wait for a person", 0)
        return ""
    complain(f"{why}. Who should review?", 0)
    for word, meaning in _REVIEWS.items():
        complain(f"  {word}: {meaning}", 0)
    answer = ""
    while answer not in _REVIEWS:
        answer = typer.prompt("review", default="self-other-model", err=True).strip()
    return f"# Who reviews the work of models, unless a plan says otherwise.\nreview: {answer}\n"


def _try_checks(repository: Repository, repo: str, proposal: str) -> CheckResult:
    """
    Run the checks on HEAD: those of the gate file in the work tree, committed or not, else the proposed ones.

    Raises:
        CannotRun: programs or Python modules are missing, or hosts are not allowed; the sentence names all of them.
    """
    own = repository.top / GATE_FILE if repository.top is not None else None
    text = own.read_text(encoding="utf-8") if own is not None and own.is_file() else proposal
    settings, checks = Settings(), read_gate_file(text, GATE_FILE).checks
    with tell_slow("reading the repository; the first copy of a large one takes a while"):
        hub, here = open_both(repo, settings)
        tip = fetch_commit(hub, here, "HEAD")
    lacking = lacking_tools(checks, (), hub, tip, settings)
    try:
        require_check_hosts({check.name: check.network for check in voting(checks)}, settings)
    except HostsRefused as refused:
        # The last: it ends with lines of a file.
        lacking.append(str(refused))
    if lacking:
        raise CannotRun("no check was run: " + "; ".join(lacking))
    with interruptible() as stop, tell_slow("running the checks on HEAD"):
        return check_tip(hub, tip, hub.facts.default_branch or "HEAD", settings, plan_checks=checks, stop=stop)


def _write(repository: Repository, text: str) -> Path:
    """
    Write the new gate file and return its path.

    Raises:
        CannotRun: there is one already, or no work tree.
    """
    if repository.top is None:
        raise CannotRun(f"{repository.facts.url} is bare, so there is no work tree to write into; drop --write")
    path = repository.top / GATE_FILE
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(_write_schema(repository.top) + text)
    except FileExistsError as there:
        raise CannotRun(f"{path} already exists and was not changed; drop --write to see a proposal") from there
    return path


def _write_schema(top: Path) -> str:
    """Write the file's schema beside the repository's skills; return the line by which editors find it, if they can."""
    from forgepool.orchestrator.cli.run.schema import make_schema

    try:
        (top / SCHEMA).parent.mkdir(exist_ok=True)
        (top / SCHEMA).write_text(f"{json.dumps(make_schema('forgepool'), indent=1)}\n", encoding="utf-8")
    except OSError:
        return ""
    return f"# yaml-language-server: $schema={SCHEMA}\n"


def _what_now(*, committed: bool, is_there: bool) -> str:
    if committed:
        return f"the repository already has a {GATE_FILE}, which stays in force; this is today's proposal"
    if is_there:
        return f"there already is a {GATE_FILE}, in force once it is committed; this is today's proposal"
    return f"nothing was written; use --write to put this into {GATE_FILE}, then read, correct and commit it"


def _tell_nothing(detected: Detected) -> int:
    for note in detected.notes:
        complain(note, 0)
    complain(
        f"no checks were found at the top of this repository; write your own {GATE_FILE}, such as:",
        0,
    )
    say(EXAMPLE.rstrip("\n"))
    return _NOTHING


def _count_checks(detected: Detected) -> str:
    count = len(detected.proposals)
    return "one check" if count == 1 else f"{count} checks"
