"""`forgepool queue protect`: only its queue may move a hub's branch, or everybody may again."""

from typing import Annotated

import typer

from forgepool.orchestrator.cli.output.say import say, say_json
from forgepool.worktrees.hub.pre_receive import CannotProtect
from forgepool.worktrees.hub.protect import Protection, protection, unprotect
from forgepool.worktrees.hub.protect import protect as guard


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

    It puts a pre-receive hook into the hub; a hook that is there already is kept, and run as well. Given again it
    changes nothing. It does not stop people who can write the hub's own files. Exit status: 0 done, 2 wrong usage.
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
