"""`forgepool gate protect`: a hub's branches are moved by their gate alone, or by anybody again."""

from typing import Annotated

import typer

from orchestrator.cli.say import say, say_json
from worktrees.pre_receive import CannotProtect
from worktrees.protect import Protection, protection, unprotect
from worktrees.protect import protect as guard


class NotProtected(typer.BadParameter):
    """What cannot be guarded, or left unguarded."""

    def format_message(self) -> str:
        return self.message


def protect(
    hub: Annotated[str, typer.Argument(metavar="HUB", help="Path or file:// URL of a repository on this host.")],
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="BRANCH", help="A branch that only the gate may move; may be given again."),
    ] = None,
    off: Annotated[bool, typer.Option("--off", help="Take the guard away: from --target, or from all.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> int:
    """
    Let a hub refuse pushes to a branch that do not come from the gate.

    It puts a pre-receive hook into the hub; one that is there is kept, and run as well. Again does nothing. It does not
    hold whoever may write the hub's files. Exit status: 0 done, 2 wrong usage.
    """
    if not off and not target:
        raise NotProtected("no branch is named; right would be --target BRANCH, once for each branch under the gate")
    try:
        before = protection(hub)
        now = unprotect(hub, target or ()) if off else guard(hub, target or ())
    except CannotProtect as wrong:
        raise NotProtected(str(wrong)) from wrong
    if as_json:
        say_json(_as_json(now, changed=now != before))
    else:
        _tell(before, now)
    return 0


def _as_json(now: Protection, *, changed: bool) -> dict[str, object]:
    return {
        "hub": str(now.hub),
        "targets": list(now.targets),
        "in_force": now.in_force,
        "hook": str(now.hook),
        "kept_hook": str(now.kept) if now.kept else None,
        "token_file": str(now.token) if now.targets else None,
        "changed": changed,
    }


def _tell(before: Protection, now: Protection) -> None:
    if not now.targets:
        took = f"; {now.hook} is as it was before" if before.targets else ""
        say(f"{now.hub}: no branch is gated{took}")
        return
    say(f"{now.hub}: gated: {', '.join(now.targets)}{'' if now != before else ', as before'}")
    say(f"hook:   {now.hook}")
    if now.kept:
        say(f"        run as well: {now.kept}")
    say(f"token:  {now.token}; a gate of another host or user is given it in FORGEPOOL_GATE_TOKEN")
