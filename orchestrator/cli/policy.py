"""`forgepool policy explain`: what the policy says of a command, a tool, a path or a host, by which rule, and why."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, get_args

import typer

from forgepool.orchestrator.cli.app import CommandGroup
from forgepool.orchestrator.cli.output.say import say, say_json
from forgepool.orchestrator.run.hub import CannotRun, open_hub
from forgepool.workers.policy.calls import judge_call
from forgepool.workers.policy.judgement import PolicyJudgement, judge_command, judge_host
from forgepool.workers.policy.layers import Policy
from forgepool.workers.policy.rules.host import HostPattern
from forgepool.workers.policy.rules.place import Ground
from forgepool.workers.policy.sources import REPOSITORY_FILE, policy_alone, policy_of
from forgepool.workers.schema.orders import PhaseName
from forgepool.workers.schema.settings import Settings
from forgepool.workers.schema.yaml.mistakes import DocumentWrong, Mistake
from forgepool.worktrees.commits.changes import FileTooLarge, read_file
from forgepool.worktrees.git.git import CommitId, Git
from forgepool.worktrees.hub.hub import HubUnusable, inspect_hub, is_url


class BadQuestion(typer.BadParameter):
    """What cannot be asked so."""


def register(app: typer.Typer) -> None:
    policy = typer.Typer(
        cls=CommandGroup, help="The policy: what agents may do.", no_args_is_help=True, rich_markup_mode=None
    )
    policy.command()(explain)
    policy.callback()(_policy)
    app.add_typer(policy, name="policy")


def _policy() -> None:
    """The policy: what agents may do."""


def explain(
    command: Annotated[
        str | None,
        typer.Argument(help="A script for bash; without one, JSON strings are read from standard input, one a line."),
    ] = None,
    tool: Annotated[str | None, typer.Option(help="A tool, such as write_file.")] = None,
    path: Annotated[str | None, typer.Option(help="What the tool is to read or write.")] = None,
    host: Annotated[str | None, typer.Option(help="A host on the network, or *.example.org.")] = None,
    phase: Annotated[str, typer.Option(help="plan or execute.")] = "execute",
    policy: Annotated[Path | None, typer.Option(help="Judge by this file alone.")] = None,
    repo: Annotated[
        str | None, typer.Option(help="Path or URL of the repository; default: the one you are in, if any.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> int:
    """Say what the policy decides, by which rule, and why; nothing is run. Exit status 0 whatever it is."""
    if phase not in get_args(PhaseName):
        raise BadQuestion(f"--phase is '{phase}'; it must be plan or execute")
    rules = (policy_alone(policy) if policy else _in_force(repo)).during("plan" if phase == "plan" else "execute")
    ground = Ground(root=_top(repo), home=Path.home())
    if host is not None:
        return _tell({"host": host}, judge_host(rules, _host(host)), as_json=as_json)
    if tool is not None or path is not None:
        return _tell_of_tool(rules, tool, path, command, ground, as_json=as_json)
    if command is not None:
        return _tell({"command": command}, judge_command(rules, command, ground), as_json=as_json)
    if sys.stdin is None or sys.stdin.isatty():
        raise BadQuestion("nothing is asked; give a command, --tool, --host, or JSON strings on standard input")
    for each in _asked():
        say_json(_with_commands({"command": each}, judge_command(rules, each, ground)))
    return 0


def _tell_of_tool(
    rules: Policy, tool: str | None, path: str | None, command: str | None, ground: Ground, *, as_json: bool
) -> int:
    named = tool or "write_file"
    arguments: dict[str, str] = {}
    if path is not None:
        arguments["path"] = path
    if command is not None:
        arguments["command"] = command
    judged = judge_call(rules, named, arguments, ground)
    return _tell({"tool": named, **arguments}, judged, as_json=as_json)


def _tell(asked: dict[str, str], judged: PolicyJudgement, *, as_json: bool) -> int:
    if as_json:
        say_json(_with_commands(asked, judged))
        return 0
    say(f"{judged.decision}: {judged.reason}")
    say(f"  by {judged.rule}" if judged.rule else "  by no rule")
    for argv in judged.commands or ():
        say(f"  found {json.dumps(argv, ensure_ascii=False)}")
    if "command" in asked and judged.commands is None:
        say("  what it would run cannot be known")
    return 0


def _with_commands(asked: dict[str, str], judged: PolicyJudgement) -> dict[str, object]:
    commands = {"commands": judged.commands} if "command" in asked else {}
    return {**asked, **commands, "decision": judged.decision, "rule": judged.rule, "reason": judged.reason}


def _asked() -> Iterator[str]:
    """The commands on standard input."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, str):
            raise DocumentWrong("standard input", [Mistake(number, 'is no JSON string; write "git push", in quotes')])
        yield found


def _host(text: str) -> HostPattern:
    try:
        return HostPattern.of(text)
    except ValueError as wrong:
        raise BadQuestion(f"--host {wrong}") from wrong


def _in_force(repo: str | None) -> Policy:
    """All layers but the plan's."""
    return policy_of(person=Settings().policy_file, repository=_repository_text(repo))


def _repository_text(repo: str | None) -> str | None:
    """The `forgepool.yaml` of the default branch; none where nobody named a repository, and here is none."""
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
    """The folder that commands would begin in: the repository's, as it lies here."""
    here = Path.cwd() if repo is None or is_url(repo) else Path(repo)
    resolved = here.resolve()
    return next((one for one in (resolved, *resolved.parents) if (one / ".git").exists()), resolved)
