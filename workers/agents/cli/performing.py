"""Performs one attempt by one of the programs: finds it, gives it its task and keys, runs it and reads its output."""

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from forgepool.workers.agents.briefing.card_sections import CardSection
from forgepool.workers.agents.briefing.task_card import task_card, write_priors
from forgepool.workers.agents.cli.aider import AIDER
from forgepool.workers.agents.cli.claude import CLAUDE
from forgepool.workers.agents.cli.codex import CODEX
from forgepool.workers.agents.cli.opencode import OPENCODE
from forgepool.workers.agents.cli.program import CliAgentProgram, ProgramInvocation, ProgramJob, Vendor
from forgepool.workers.agents.cli.record import Record, Redaction, judge_program
from forgepool.workers.agents.contract import AgentAnswer, Assignment, task_variables
from forgepool.workers.agents.families import program_families
from forgepool.workers.agents.render_transcript import write_log
from forgepool.workers.context.transcript.entries import ConversationStarted, Finished, Transcript, TurnSaid, now
from forgepool.workers.llm.messages import Text, user
from forgepool.workers.llm.provider import ModelFailed
from forgepool.workers.llm.routing.breaker import Breaker, Shut
from forgepool.workers.policy.gate_file.kept_paths import GUIDANCE
from forgepool.workers.queue.broker import connect
from forgepool.workers.sandbox.network.outlet import open_outlet
from forgepool.workers.sandbox.run.process import Command, Ended, run
from forgepool.workers.sandbox.sandbox_profile import private
from forgepool.workers.schema.capabilities import missing_extra
from forgepool.workers.schema.orders import AcpAgent, CliAgent
from forgepool.workers.schema.settings import secret
from forgepool.workers.workspace.checkpoints import Keeper, keep_hub
from forgepool.workers.workspace.workspace import Workspace
from forgepool.worktrees.checkouts.trees import is_folder, remove_rubbish
from forgepool.worktrees.commits.compose import tree_of

_TOLD_FIRST = (
    "You work alone, in this folder, a git worktree; no questions are answered. Change what the task below asks for "
    "and nothing else. Do not commit, stash, switch branches or push: what you leave in the files is taken as your "
    "work, and others commit it. Tests and linters are run on it afterwards; run them yourself first. When everything "
    "is done, end with a summary of what you changed."
)
_CARD_CHARACTERS = 320_000
"""The windows of the programs' models are not known here. This is 0.40 of 200,000 tokens."""


def write_prompt(assignment: Assignment, priors: Sequence[CardSection]) -> Path:
    """Write the prompt to a file: a command line is limited in length, and visible to every user of the host."""
    parts = [_TOLD_FIRST]
    # The programs are kept from reading a repository's settings, and some of them read its rules only with these.
    parts += [f"The repository's rules are in {name}: read them first." for name in _rules(assignment.worktree)]
    prompt = assignment.tmp / "prompt.md"
    card, _ = task_card(assignment.order, mending=assignment.mending, priors=priors).within(_CARD_CHARACTERS)
    prompt.write_text("\n\n".join([*parts, card]), encoding="utf-8", errors="replace")
    return prompt


def _rules(worktree: Path) -> list[str]:
    return [name for name in GUIDANCE if (worktree / name).is_file()]


PROGRAMS: Mapping[str, CliAgentProgram] = {each.name: each for each in (CLAUDE, CODEX, OPENCODE, AIDER)}

_VERSION_S = 30.0
_OURS = ("ANTHROPIC_", "OPENAI_", "OPENROUTER_", "GEMINI_", "CLAUDE_", "CODEX_", "OPENCODE_", "AIDER_", "LITELLM_")
"""Beginnings of the variables that steer programs, which the host sets and not a plan."""
_ONLY_BUBBLEWRAP = "only bubblewrap can let it reach that and nothing else; install bubblewrap on the worker's host"
Lookup = Callable[[str], str | None]
Keep = Callable[[Transcript], AbstractContextManager[Keeper]]
"""Keeps a transcript elsewhere while it grows."""
_PARTING_S, _STOPPED_S = 15.0, 2.0
"""Longest wait for the hub to have the whole transcript, and that of an attempt that is stopped."""


def _keep_nowhere(transcript: Transcript) -> AbstractContextManager[Keeper]:
    return nullcontext(Keeper())


def perform_cli(
    assignment: Assignment, *, stop: Callable[[], bool], priors: Sequence[CardSection] = (), lookup: Lookup = secret
) -> AgentAnswer:
    """
    Run the order's program in the worktree.

    `priors` are the card's sections about earlier tasks, from `write_priors`. `lookup` returns the host's keys and
    servers' addresses by the names of their variables.
    """
    agent = assignment.order.agent
    if not isinstance(agent, CliAgent):
        raise TypeError(f"a '{agent.kind}' agent is no command line agent; call what performs it")
    return perform_program(assignment, PROGRAMS[agent.program], agent.model, stop=stop, priors=priors, lookup=lookup)


def perform_program(
    assignment: Assignment,
    program: CliAgentProgram,
    model: str | None,
    *,
    stop: Callable[[], bool],
    priors: Sequence[CardSection] = (),
    lookup: Lookup = secret,
    keep: Keep = _keep_nowhere,
) -> AgentAnswer:
    executable = shutil.which(program.name, path=assignment.env.get("PATH"))
    if executable is None:
        missing = f"{program.name} is not on the worker's PATH; install it there: {program.install}"
        return AgentAnswer(ended="failed", detail=missing, trouble="unavailable")
    given, keys = _given(program, model, lookup), _keys(program, model)
    if keys and not any(name in given for name in keys):
        return _keyless(program, model)
    if assignment.confined.level == "landlock" and keys:
        detail = f"{program.name} needs its model's server; {_ONLY_BUBBLEWRAP}"
        return AgentAnswer(ended="failed", detail=detail, trouble="unavailable")
    job = _job(assignment, model, executable, given, priors)
    with _let_out(assignment, program, job) as let_out:
        return _perform(let_out, program, job, stop, keep)


def find_installed(path: str | None) -> dict[str, str]:
    """Return the programs on a PATH with their versions; `unknown` where one is not printed in half a minute."""
    executables = {name: shutil.which(name, path=path) for name in PROGRAMS}
    return {name: _version(executable) for name, executable in executables.items() if executable is not None}


def _version(executable: str) -> str:
    with private({}, None) as own:
        argv, log = (executable, "--version"), own.tmp / "version.log"
        ended = run(Command(argv=argv, cwd=own.tmp, env=own.env, log=log, timeout_s=_VERSION_S, confined=own.confined))
    number = re.search(r"\d+\.\d+\.\d+\S*", ended.tail) if ended.succeeded else None
    return number[0] if number else "unknown"


def _keys(program: CliAgentProgram, model: str | None) -> tuple[str, ...]:
    return tuple(key for vendor in program.vendors(model) for key in vendor.keys)


def _given(program: CliAgentProgram, model: str | None, lookup: Lookup) -> dict[str, str]:
    """Return the host's keys and addresses of the model's vendor, and of no other."""
    names = [name for vendor in program.vendors(model) for name in (*vendor.keys, vendor.address) if name]
    return {name: value for name in names if (value := lookup(name)) is not None}


def _keyless(program: CliAgentProgram, model: str | None) -> AgentAnswer:
    names = " or ".join(_keys(program, model))
    detail = f"{program.name} has no key; set {names} where the worker runs"
    return AgentAnswer(ended="failed", detail=detail, trouble="authentication")


def _job(
    assignment: Assignment,
    model: str | None,
    executable: str,
    given: Mapping[str, str],
    priors: Sequence[CardSection],
) -> ProgramJob:
    return ProgramJob(
        executable=executable,
        model=model,
        title=assignment.order.title,
        worktree=assignment.worktree,
        home=assignment.home,
        tmp=assignment.tmp,
        prompt=write_prompt(assignment, priors),
        limits=assignment.order.limits,
        given=given,
        confined=assignment.confined.level != "off",
    )


@contextmanager
def _let_out(assignment: Assignment, program: CliAgentProgram, job: ProgramJob) -> Iterator[Assignment]:
    """Yield the assignment, with a way to the model's server through the sandbox, if there is one."""
    if assignment.confined.level == "off":
        yield assignment
        return
    servers = (_server(vendor, job.given) for vendor in program.vendors(job.model) if _is_given(vendor, job.given))
    with open_outlet((*assignment.order.network, *servers)) as (outlet, env):
        confined = replace(assignment.confined, outlet=outlet)
        yield replace(assignment, confined=confined, env={**assignment.env, **env})


def _is_given(vendor: Vendor, given: Mapping[str, str]) -> bool:
    return any(key in given for key in vendor.keys)


def _server(vendor: Vendor, given: Mapping[str, str]) -> str:
    """Return a vendor's host, or host and port of the address that replaces it, which may be private."""
    address = given.get(vendor.address)
    if address is None:
        return vendor.host
    parts = urlsplit(address)
    return f"{parts.hostname}:{parts.port or (80 if parts.scheme == 'http' else 443)}"


def _perform(
    assignment: Assignment, program: CliAgentProgram, job: ProgramJob, stop: Callable[[], bool], keep: Keep
) -> AgentAnswer:
    invocation = program.invoke(job)
    before = _litter(program, job.worktree)
    with Transcript(assignment.transcript) as transcript, keep(transcript) as keeper:
        order = assignment.order
        started = ConversationStarted(at=now(), order_id=order.order_id, model=job.speaker, system=(), tools=())
        transcript.append(started)
        transcript.append(TurnSaid(at=now(), turn=user(Text(text=job.prompt.read_text(encoding="utf-8")))))
        redaction = Redaction(_secrets(program, job))
        record = Record(transcript, program.reader(job), order.limits, redaction, keeper)
        ended = _run(assignment, program, invocation, record, stop)
        _remove(_litter(program, job.worktree) - before)
        answer = judge_program(program.name, ended, record, keys=_keys(program, job.model))
        spent = record.sum_spent(ended.seconds)
        summary = answer.claimed_summary
        transcript.append(Finished(at=now(), ended=answer.ended, detail=answer.detail, summary=summary, spent=spent))
        keeper.keep(changed=False)
        keeper.flush(wait_s=_STOPPED_S if stop() else _PARTING_S)
        return replace(
            answer,
            log_tail=write_log(transcript.entries, assignment.log, redaction.text),
            spent=spent,
            models=tuple(record.models),
            families=program_families(program.name, job.model, record.models),
        )


def _run(
    assignment: Assignment,
    program: CliAgentProgram,
    invocation: ProgramInvocation,
    record: Record,
    stop: Callable[[], bool],
) -> Ended:
    order = assignment.order
    env = _without(assignment.env) | task_variables(order, assignment.tmp)
    env |= invocation.env
    ended = program.runner(
        Command(
            argv=invocation.argv,
            cwd=assignment.worktree,
            env=env,
            # Its output may hold its key, and is kept only without it, in the transcript.
            log=assignment.tmp / "output.log",
            timeout_s=order.limits.wall_s,
            idle_s=order.limits.idle_s,
            keep_bytes=order.limits.output_bytes,
            confined=assignment.confined,
            watch=assignment.worktree,
            stdin=invocation.stdin,
        ),
        stop=lambda: record.enough or stop(),
        hear=record.hear,
    )
    record.end()
    return ended


def _without(env: Mapping[str, str]) -> dict[str, str]:
    """Drop variables that would lead a program, and this host's key with it, to another server."""
    return {name: value for name, value in env.items() if not name.startswith(_OURS)}


def _secrets(program: CliAgentProgram, job: ProgramJob) -> list[str]:
    return [value for name, value in job.given.items() if name in _keys(program, job.model)]


def _litter(program: CliAgentProgram, worktree: Path) -> set[Path]:
    return set(worktree.glob(program.litter)) if program.litter and is_folder(worktree) else set()


def _remove(paths: set[Path]) -> None:
    for path in paths:
        if is_folder(path):
            remove_rubbish(path)
        else:
            path.unlink(missing_ok=True)


def perform_in_fleet(
    assignment: Assignment, workspace: Workspace, agent: CliAgent | AcpAgent, *, stop: Callable[[], bool]
) -> AgentAnswer:
    """
    Run the order's program, unless trouble such as a usage limit has shut it off for all workers.

    A worker that meets a usage limit shuts the program off for the others until the limit ends.
    """
    if isinstance(agent, CliAgent):
        program, model = PROGRAMS[agent.program], agent.model
    elif missing := missing_extra("acp"):
        detail = f"{agent.program} speaks the Agent Client Protocol, for which the worker lacks a part: {missing}"
        return AgentAnswer(ended="failed", detail=detail, trouble="unavailable")
    else:
        from forgepool.workers.agents.cli.acp import acp_program

        program, model = acp_program(agent, workspace.policy(), assignment.worktree), None
    broker = workspace.settings.broker_url
    breaker = Breaker(client=connect(broker) if broker else None)
    pair = (f"cli:{program.name}", model or program.name)
    verdict = breaker.look([pair])[pair]
    if isinstance(verdict, Shut):
        detail = f"{program.name} is shut off: {verdict.why}"
        return AgentAnswer(ended="failed", detail=detail, trouble=verdict.trouble, resets_at=verdict.until)
    priors = write_priors(assignment.order.priors, assignment.tmp, workspace.mirror.git)

    def keep(transcript: Transcript) -> AbstractContextManager[Keeper]:
        # Nothing resumes these programs, so the hub gets their words alone, beside the files of the base.
        files = tree_of(workspace.mirror.git, workspace.base)
        return keep_hub(assignment.order, workspace.checkout, transcript, None, files)

    answer = perform_program(assignment, program, model, stop=stop, priors=priors, keep=keep)
    if answer.trouble is not None:
        breaker.note(pair, ModelFailed(answer.detail, trouble=answer.trouble, resets_at=answer.resets_at))
    elif answer.ended == "finished":
        breaker.praise(pair)
    return answer
