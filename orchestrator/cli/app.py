"""
The frame of the command line: its commands, in groups and imported when chosen; failures as one sentence and a status.
"""

import gc
import os
import sys
import time
from collections.abc import Collection
from difflib import get_close_matches
from importlib import import_module
from typing import Annotated

import typer
from typer._click import Command, Context, HelpFormatter  # typer carries its own click
from typer._click.exceptions import NoArgsIsHelpError, NoSuchOption, UsageError  # typer carries its own click
from typer._click.shell_completion import CompletionItem
from typer.core import TyperGroup

from forgepool.orchestrator.cli import raise_missed_interrupt
from forgepool.orchestrator.cli.output.say import complain, hush, say
from forgepool.worktrees.errors import InfrastructureError, UserError

START = """\
Forgepool runs coding tasks in parallel and lands only what passes its checks.

  forgepool demo             see a batch land on a sample project
  forgepool init             propose a forgepool.yaml for this repository
  forgepool do "GOAL"        have a goal planned, and run the plan after your yes
  forgepool run plan.yaml    run a plan
  forgepool --help           list all commands"""

EXAMPLES = """\
Examples:
  forgepool init --write                         propose checks for a repository
  forgepool check plan.yaml                      preview a plan
  forgepool run plan.yaml --workers 4            run it
  forgepool gate check --base main --head HEAD   ask whether a branch may land
  forgepool logs RUN TASK                        read the logs of a task

Exit status: 0 all landed, 1 something did not land, 2 wrong usage or plan,
3 infrastructure, 130 interrupted and resumable.
Documentation: README.md and docs/ in Forgepool's repository."""

GROUPS = {
    "Start": {
        "demo": ("cli.demo.demo", "See a batch land on a sample project, with a worker killed in the middle"),
        "init": ("cli.init", "Propose a forgepool.yaml for this repository"),
        "check": ("cli.run.check", "Check a plan and show what would run when"),
        "schema": ("cli.run.schema", "Print the JSON Schema of a file you write, for your editor"),
        "doctor": ("cli.hosts", "Show what this machine lacks, and how to get it"),
    },
    "Runs": {
        "run": ("cli.run.run", "Run a plan"),
        "resume": ("cli.run.run", "Continue an interrupted run"),
        "runs": ("cli.run.show", "List the runs of this host"),
        "status": ("cli.run.show", "Show how a run stands"),
        "events": ("cli.run.show", "Show what happened in a run"),
        "brief": ("cli.run.show", "Show what the lead of a run thinks"),
        "report": ("cli.run.report", "Show what landed, by which checks, and what did not and why"),
        "verify": ("cli.run.report", "Prove a run's report from its repository alone"),
        "logs": ("cli.run.show", "Print the logs of a task"),
        "spend": ("cli.run.show", "Add up what models have used, by day, project, model or task"),
        "attention": ("interfaces.web.serve", "List everything that needs you, with the command that ends it"),
        "watch": ("interfaces.watch.command", "Show all runs and queues in this terminal, and act there"),
        "serve": ("interfaces.web.serve", "Show all runs and queues in a browser"),
        "clean": ("cli.run.clean", "List or remove what ended runs left in their repositories"),
        "add": ("cli.planning.add", "Add tasks to a run"),
        "cancel": ("cli.run.requests", "Cancel a run, or one of its tasks"),
        "budget": ("cli.run.requests", "Give a run another budget"),
        "salvage": ("cli.agents.salvage", "Get work that did not land"),
        "retry": ("cli.run.retry", "Retry tasks, with a note or another model"),
    },
    "Questions and approvals": {
        "answer": ("cli.run.requests", "Answer a task's question"),
        "say": ("cli.run.requests", "Say something to the lead of a run"),
        "approve": ("cli.run.requests", "Let a waiting candidate land"),
        "reject": ("cli.run.requests", "Send a candidate back with a reason"),
    },
    "Merge gate": {
        "gate": ("cli.queue.gate_check", "Check whether one change may land"),
        "queue": ("cli.queue.gate_check", "Serve a merge queue in front of a branch, submit to it, follow it"),
    },
    "Other programs": {
        "acp": ("interfaces.acp.command", "Run plans from an editor, by the Agent Client Protocol"),
        "mcp": ("interfaces.mcp.command", "Let agents and editors use Forgepool, by the Model Context Protocol"),
        "export": ("interfaces.export.command", "Export a run as a trace, for OpenTelemetry"),
    },
    "Agents and models": {
        "models": ("cli.hosts", "List models, prices, and which can be asked"),
        "policy": ("cli.agents.policy", "Show and test what agents may do"),
        "sandbox": ("cli.agents.sandbox", "Run a command in the sandbox of agents and checks"),
        "context": ("cli.agents.context", "Show and change how conversations are kept short"),
        "transcript": ("cli.agents.conversation", "Show the conversation of an agent"),
        "record": ("cli.agents.conversation", "Print a conversation as a script for the scripted model"),
    },
    "More hosts": {
        "worker": ("cli.hosts", "Work on this host for runs that share a Redis"),
        "supervisor": ("cli.hosts", "The same, for checks, reviews and landings only"),
        "hosts": ("cli.hosts", "List the hosts, drain one, readmit one"),
    },
    "Planning": {
        "plan": ("cli.planning.command", "Write a plan file for a goal, by a model that reads the repository"),
        "do": ("cli.planning.command", "Plan a goal, show the plan, and run it after your yes"),
        "simulate": ("cli.simulate", "Try Forgepool's decisions on a virtual clock"),
    },
}
"""For each heading and command: the module of `orchestrator` that registers it, and its line in the help."""
_MODULES = {name: module for group in GROUPS.values() for name, (module, _) in group.items()}
_SILENT = ("runs", "status", "events", "attention", "spend", "watch")
"""
Commands without logs: they read journals, where logs cost a tenth of their start; or they own the terminal.
"""
_LONGEST_HELP = 200


class CommandGroup(TyperGroup):
    """A group of commands that suggests the nearest one for an unknown name."""

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self._names() and not ctx.resilient_parsing:
            raise UsageError(unknown_command(args[0], self._paths(), ctx.command_path), ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        with formatter.section("Commands"):
            shown = [(name, one) for name, one in self.commands.items() if not one.hidden]
            formatter.write_dl([(name, one.get_short_help_str(_LONGEST_HELP)) for name, one in shown])

    def _names(self) -> Collection[str]:
        return self.commands

    def _paths(self) -> dict[str, str]:
        """Map each name to the words to type, for commands of this group and of groups in it."""
        inner = {
            command: f"{name} {command}"
            for name, group in self.commands.items()
            if isinstance(group, TyperGroup)
            for command, one in group.commands.items()
            if not one.hidden
        }
        return inner | {name: name for name in self.commands}


def add_group(app: typer.Typer, name: str, help_text: str) -> typer.Typer:
    """Add and return a group of commands; one command alone stays below the group's name."""
    group = typer.Typer(cls=CommandGroup, help=help_text, no_args_is_help=True, rich_markup_mode=None)
    group.callback()(lambda: None)
    app.add_typer(group, name=name)
    return group


class AllCommands(CommandGroup):
    """
    The outermost group. Its help has headings and examples; a command's module is imported when the command is chosen.
    """

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        # A shell that completes the first word has given none: parsing none would import pydantic.
        return super().parse_args(ctx, args) if args or not ctx.resilient_parsing else []

    def list_commands(self, ctx: Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        if cmd_name not in self.commands and cmd_name in _MODULES:
            part = typer.Typer(rich_markup_mode=None)
            import_module(f"forgepool.orchestrator.{_MODULES[cmd_name]}").register(part)
            self.commands.update(typer.main.get_group(part).commands)
        return self.commands.get(cmd_name)

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """Complete names by the table alone: a shell waits for each answer."""
        names = {name: words for group in GROUPS.values() for name, (_, words) in group.items()}
        found = [CompletionItem(name, help=words) for name, words in names.items() if name.startswith(incomplete)]
        return [*found, *Command.shell_complete(self, ctx, incomplete)]

    def _names(self) -> Collection[str]:
        return _MODULES

    def _paths(self) -> dict[str, str]:
        context = Context(self)
        for name in _MODULES:
            self.get_command(context, name)
        return super()._paths()

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        for heading, group in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<10}", words) for name, (_, words) in group.items()])

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        formatter.write(f"\n{EXAMPLES}\n")


def unknown_command(name: str, paths: dict[str, str], command_path: str) -> str:
    """Return one sentence that names the nearest command, or the help."""
    if near := get_close_matches(name, paths, n=1):
        return f"unknown command '{name}'; did you mean `{command_path} {paths[near[0]]}`?"
    return f"unknown command '{name}'; `{command_path} --help` lists all commands"


def usage_sentence(mistake: UsageError) -> str:
    """Return one sentence about a mistake on the command line."""
    command = mistake.ctx.command_path if mistake.ctx is not None else "forgepool"
    if isinstance(mistake, NoSuchOption):
        known = [option for option in mistake.possibilities or () if option != "--help"]
        near = get_close_matches(mistake.option_name, known, n=1)
        mend = f"did you mean `{near[0]}`?" if near else f"`{command} --help` lists all options"
        return f"unknown option '{mistake.option_name}' of `{command}`; {mend}"
    said = mistake.format_message().replace("Value error, ", "")
    if said.startswith("unknown command"):
        return said
    return f"{said[:1].lower()}{said[1:].rstrip('.')} (see `{command} --help`)"


WRONG, INFRASTRUCTURE, INTERRUPTED = 2, 3, 130

app = typer.Typer(
    name="forgepool",
    cls=AllCommands,
    help="Run a plan of coding tasks in parallel, and land only what passes its checks.",
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _tell_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        say(f"forgepool {version('forgepool')}")
        raise typer.Exit


@app.callback()
def _forgepool(
    context: typer.Context,
    asked: Annotated[
        bool, typer.Option("--version", "-V", callback=_tell_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        say(START)
        return
    # The command's module is imported by now.
    raise_missed_interrupt()
    gc.freeze()
    gc.enable()
    if context.invoked_subcommand not in _SILENT:
        from forgepool.workers.schema.logs import log_to_stderr

        log_to_stderr()


def main() -> None:
    """Run the command line and exit with its status."""
    sys.exit(_status())


def _status() -> int:
    try:
        returned = app(standalone_mode=False, prog_name="forgepool")
    except typer.Exit as ended:
        return ended.exit_code
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        hush()
        return 0
    except Exception as failure:
        return _complain_of(failure)
    return returned if isinstance(returned, int) else 0


def _complain_of(failure: Exception) -> int:
    """Print one sentence for an exception; return the exit status."""
    match failure:
        case NoArgsIsHelpError():
            sys.stderr.write(f"{failure.message}\n")
            return WRONG
        case UsageError():
            return complain(usage_sentence(failure), WRONG)
        case _:
            return complain(*sentence_and_status(failure))


def _with_way_out(failure: InfrastructureError) -> str:
    """Return the sentence; git's own words say what is wrong, and never what to do."""
    from forgepool.worktrees.git.git import GitFailed

    if not isinstance(failure, GitFailed) or failure.hint:
        return str(failure)
    return f"{failure}; finished work is safe: see that the repository can be read and written, then try again"


def sentence_and_status(failure: Exception) -> tuple[str, int]:
    """
    Return a sentence about an exception, and the exit status. Call it while the exception is handled: the traceback of
    a bug is kept in a file that the sentence names.
    """
    match failure:
        case UserError():
            return str(failure), WRONG
        case InfrastructureError():
            return _with_way_out(failure), INFRASTRUCTURE
        case _:
            return _of_others(failure)


def _of_others(failure: Exception) -> tuple[str, int]:
    import sqlite3

    from pydantic import ValidationError

    from forgepool.workers.queue.broker import BrokerAway
    from forgepool.workers.schema.settings import mistake_in_settings

    if isinstance(failure, ValidationError) and (mistake := mistake_in_settings(failure)):
        return mistake, 2
    if isinstance(failure, sqlite3.Error | OSError):
        return _of_this_machine(failure), 3
    if isinstance(failure, BrokerAway):
        return str(failure), 3
    said = " ".join(str(failure).split())[:200]
    cause = f"{type(failure).__name__}: {said}" if said else type(failure).__name__
    return f"an unexpected error occurred ({cause}); {_kept_traceback()}", 3


def _kept_traceback() -> str:
    """Write the traceback of a bug to a file; return the sentence that names it."""
    import traceback

    from forgepool.workers.schema.settings import Settings

    folder = Settings().home / "logs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
        path.write_text(traceback.format_exc())
    except OSError:
        return f"the details could not be written to {folder}: {traceback.format_exc().strip().splitlines()[-1]}"
    going_on = ", and `forgepool resume` continues the run" if _has_run(sys.argv[1:]) else ""
    return f"{path} has the details; finished work is safe{going_on}"


def _has_run(argv: list[str]) -> bool:
    """Tell whether the command line is one that runs a run or a queue."""
    return argv[:1] in (["run"], ["do"], ["resume"], ["demo"]) or argv[:2] == ["queue", "serve"]


def _of_this_machine(trouble: Exception) -> str:
    """Return the sentence for a disk or file error: the file first, no error number."""
    said = str(trouble)
    if isinstance(trouble, OSError) and trouble.strerror:
        said = f"{trouble.filename}: {trouble.strerror}" if trouble.filename else trouble.strerror
    return f"{said}; finished work is safe: correct this, then run `forgepool resume`"
