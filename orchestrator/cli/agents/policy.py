"""`forgepool policy explain`: what the policy decides on a command, tool, path or host, by which rule, and why."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, get_args

import typer

from forgepool.orchestrator.cli.app import add_group
from forgepool.orchestrator.cli.output.say import say, say_json
from forgepool.orchestrator.run.hub import CannotRun, open_hub
from forgepool.workers.policy.judgement import PolicyJudgement, judge_call, judge_command, judge_host
from forgepool.workers.policy.layers import Policy
from forgepool.workers.policy.rule import Ground, HostPattern
from forgepool.workers.policy.sources import REPOSITORY_FILE, policy_alone, policy_of
from forgepool.workers.schema.mistakes import DocumentWrong, Mistake
from forgepool.workers.schema.orders import PhaseName
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.commits.changes import FileTooLarge, read_file
from forgepool.worktrees.errors import UserError
from forgepool.worktrees.git.git import CommitId, Git
from forgepool.worktrees.hub.hub import HubUnusable, inspect_hub, is_url

_NOTHING = "there is nothing to judge; give a command, --tool, --host, or JSON strings on standard input"


def register(app: typer.Typer) -> None:
    add_group(app, "policy", "The policy: what agents may do.").command()(explain)


def explain(
    command: Annotated[
        str | None,
        typer.Argument(help="A bash script; without one, JSON strings are read from standard input, one per line."),
    ] = None,
    tool: Annotated[str | None, typer.Option(help="A tool, such as write_file.")] = None,
    path: Annotated[str | None, typer.Option(help="The path that the tool would read or write.")] = None,
    host: Annotated[str | None, typer.Option(help="A host on the network, or *.example.org.")] = None,
    phase: Annotated[str, typer.Option(help="plan or execute.")] = "execute",
    policy: Annotated[Path | None, typer.Option(help="Judge by this policy file alone.")] = None,
    repo: Annotated[
        str | None, typer.Option(help="Path or URL of the repository; default: the one you are in, if any.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Show what the policy decides, by which rule, and why; nothing is run. The exit status is 0 for every decision."""
    rules, ground = rules_in_force(repo, phase, policy)
    if any(given is not None for given in (command, tool, path, host)):
        return _tell(*judge(rules, ground, command=command, tool=tool, path=path, host=host), as_json=as_json)
    if sys.stdin is None or sys.stdin.isatty():
        raise UserError(_NOTHING)
    judged = False
    for each in _read_commands():
        judged = True
        say_json(judgement_json(*judge(rules, ground, command=each)))
    if not judged:
        raise UserError(_NOTHING)
    return 0


def rules_in_force(repo: str | None, phase: str, policy: Path | None = None) -> tuple[Policy, Ground]:
    """Return the rules of a phase, and the folder that they are about. Raises UserError."""
    if phase not in get_args(PhaseName):
        raise UserError(f"--phase is '{phase}'; it must be plan or execute")
    rules = policy_alone(policy) if policy else _in_force(repo)
    return rules.during("plan" if phase == "plan" else "execute"), Ground(root=_top(repo), home=Path.home())


def judge(
    rules: Policy,
    ground: Ground,
    *,
    command: str | None = None,
    tool: str | None = None,
    path: str | None = None,
    host: str | None = None,
) -> tuple[dict[str, str], PolicyJudgement]:
    """Return what was asked, by its keys, and what the policy decides. Raises UserError for a wrong host."""
    if host is not None:
        return {"host": host}, judge_host(rules, _host(host))
    if tool is None and path is None:
        return {"command": command or ""}, judge_command(rules, command or "", ground)
    named = tool or "write_file"
    arguments: dict[str, str] = {}
    if path is not None:
        arguments["path"] = path
    if command is not None:
        arguments["command"] = command
    return {"tool": named, **arguments}, judge_call(rules, named, arguments, ground)


def _tell(asked: dict[str, str], judged: PolicyJudgement, *, as_json: bool) -> int:
    if as_json:
        say_json(judgement_json(asked, judged))
        return 0
    say(f"{judged.decision}: {judged.reason}")
    unreadable = "command" in asked and judged.commands is None
    if judged.rule:
        say(f"  by {judged.rule}")
    elif unreadable:
        say("  because its commands cannot be determined")
    elif judged.decision == "prompt":
        say("  by the default, no rule matches")
    for argv in judged.commands or ():
        say(f"  found {json.dumps(argv, ensure_ascii=False)}")
    if judged.rule and unreadable:
        say("  its commands cannot be determined")
    return 0


def judgement_json(asked: dict[str, str], judged: PolicyJudgement) -> dict[str, object]:
    commands = {"commands": judged.commands} if "command" in asked else {}
    return {**asked, **commands, "decision": judged.decision, "rule": judged.rule, "reason": judged.reason}


def _read_commands() -> Iterator[str]:
    """Yield the commands on standard input."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, str):
            raise DocumentWrong(
                "standard input", [Mistake(number, 'is not a JSON string; write "git push", with quotes')]
            )
        yield found


def _host(text: str) -> HostPattern:
    try:
        return HostPattern.of(text)
    except ValueError as wrong:
        raise UserError(f"--host {wrong}") from wrong


def _in_force(repo: str | None) -> Policy:
    """Return the policy of all layers except the plan's."""
    return policy_of(person=Settings().policy_file, repository=_repository_text(repo))


def _repository_text(repo: str | None) -> str | None:
    """Return the `forgepool.yaml` of the default branch; None where no repository is named and none is here."""
    try:
        facts = inspect_hub(repo or ".")
    except HubUnusable:
        if repo is not None:
            raise
        return None
    if facts.default_branch is None:
        return None
    if facts.local is not None:
        git = Git(git_dir=facts.local)
        tip = CommitId(git.text("rev-parse", "--verify", f"refs/heads/{facts.default_branch}"))
    else:
        hub = open_hub(facts.url, Settings())
        git, tip = hub.mirror.git, hub.base_of(None)
        hub.mirror.ensure(tip)
    try:
        found = read_file(git, tip, REPOSITORY_FILE)
    except FileTooLarge as problem:
        raise CannotRun(f"{REPOSITORY_FILE} of {facts.default_branch} is too large: {problem}") from problem
    return None if found is None else found.decode(errors="replace")


def _top(repo: str | None) -> Path:
    """Return the folder where commands would start: the top of the local repository."""
    here = Path.cwd() if repo is None or is_url(repo) else Path(repo)
    resolved = here.resolve()
    return next((one for one in (resolved, *resolved.parents) if (one / ".git").exists()), resolved)
