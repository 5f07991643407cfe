"""
Judgements of the calls for which an agent of the Agent Client Protocol asks permission.

The protocol fixes a call's kind and its paths; its arguments are the agent's own. One that is not understood, and could
change what runs, is refused.
"""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from forgepool.workers.policy.judgement import PolicyJudgement, judge_command, judge_path
from forgepool.workers.policy.layers import Access, Policy
from forgepool.workers.policy.rule import STRICTNESS, Ground

_FOLDERS = ("cwd", "workdir", "directory", "dir_path")
_UNDERSTOOD = {
    *("command", "args", *_FOLDERS),
    # What is said about a command, and does not change it.
    *("description", "title", "reason", "timeout", "timeout_ms", "run_in_background", "is_background"),
    *("call_id", "turn_id", "approval_id", "parsed_cmd", "proposed_execpolicy_amendment", "available_decisions"),
}
_FILES = (*_FOLDERS, "path", "file", "dir", "folder", "source", "destination")
"""Ends of the names of arguments that name files, without a plural's `s`."""
_ACCESS: Mapping[str, tuple[str, Access]] = {
    "read": ("read_file", "read"),
    "search": ("read_file", "read"),
    "edit": ("write_file", "write"),
    "delete": ("write_file", "write"),
    "move": ("write_file", "write"),
}


class NotUnderstood(Exception):
    """An argument that cannot be judged, as the rest of a sentence."""


def judge_permission(policy: Policy, ground: Ground, call: Mapping[str, Any]) -> PolicyJudgement:
    """
    Judge a call by its kind, its paths (`locations`, `content`) and its arguments (`raw_input`).

    A command among them is judged whatever the kind.
    """
    kind, found = call.get("kind") or "other", call.get("raw_input")
    raw = found if isinstance(found, dict) else {}
    try:
        judged = [_judge_execution(policy, ground, raw)] if kind == "execute" or "command" in raw else []
        if kind in _ACCESS:
            tool, access = _ACCESS[kind]
            paths = list(dict.fromkeys([*call.get("locations", ()), *call.get("content", ()), *_paths_among(raw)]))
            paths = paths or (["."] if kind == "search" else [])
            judged += [judge_path(policy, tool, access, path, ground) for path in paths]
    except NotUnderstood as why:
        return _refuse(str(why))
    if judged:
        return max(judged, key=lambda one: STRICTNESS[one.decision])
    if kind == "think":
        return PolicyJudgement(decision="allow", rule=None, reason="thinking changes nothing")
    return _refuse(f"a call of kind '{kind}' without a path or a command cannot be judged")


def _judge_execution(policy: Policy, ground: Ground, raw: Mapping[str, JsonValue]) -> PolicyJudgement:
    if unknown := [name for name, value in raw.items() if name not in _UNDERSTOOD and value]:
        raise NotUnderstood(f"its argument '{unknown[0][:40]}' may change what runs, and cannot be judged")
    folders = {_resolve(ground.root, _path(raw[name])) for name in _FOLDERS if raw.get(name)} or {ground.root}
    folder = folders.pop()
    if folders or not folder.is_relative_to(ground.root):
        raise NotUnderstood("it would run outside the worktree")
    return judge_command(policy, _command(raw), ground, folder=folder)


def _resolve(root: Path, folder: str) -> Path:
    try:
        return (root / folder).resolve()
    except (OSError, RuntimeError, ValueError) as trouble:
        raise NotUnderstood("the folder that it would run in cannot be resolved") from trouble


def _path(value: JsonValue) -> str:
    """Return a path as the sandbox takes it; agents may expand others to something else."""
    if not isinstance(value, str) or value.startswith("~") or "://" in value:
        raise NotUnderstood(f"{str(value)[:40]!r} is no plain path, and cannot be judged")
    return value


def _command(raw: Mapping[str, JsonValue]) -> str:
    """Return the command, which agents write as a text or as words, with further words in `args`; empty without one."""
    command, args = raw.get("command"), raw.get("args") or []
    if not isinstance(args, list):
        raise NotUnderstood("its argument 'args' is no list, and cannot be judged")
    begun = shlex.join(map(str, command)) if isinstance(command, list) else command if isinstance(command, str) else ""
    return f"{begun} {shlex.join(map(str, args))}".strip() if begun else ""


def _paths_among(raw: Mapping[str, JsonValue]) -> Iterator[str]:
    """Yield the arguments that name files, such as `file_path`, `paths` and `destination`."""
    for name, value in raw.items():
        if name.lower().removesuffix("s").endswith(_FILES):
            yield from (_path(each) for each in (value if isinstance(value, list) else [value]) if each)


def _refuse(reason: str) -> PolicyJudgement:
    return PolicyJudgement(decision="deny", rule=None, reason=reason)
