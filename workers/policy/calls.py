"""
What a policy says of a tool's call: which files it would touch and what it would run is read from its arguments.

A tool whose arguments name neither is judged as a tool. Those that end a conversation are no matter for a policy: they
do nothing but say something.
"""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from forgepool.workers.policy.judgement import PolicyJudgement, judge_command, judge_path, judge_tool
from forgepool.workers.policy.layers import Policy
from forgepool.workers.policy.matching import Access
from forgepool.workers.policy.rules.place import Ground
from forgepool.workers.policy.rules.rule import READERS, SHELLS, STRICTNESS, WRITERS
from forgepool.workers.tools.files.patch import Add, Delete, Update, read_patch
from forgepool.workers.tools.workplace import ToolRefused


def judge_call(policy: Policy, tool: str, arguments: Mapping[str, JsonValue], ground: Ground) -> PolicyJudgement:
    """The strictest of what it comes to. Arguments that are wrong are left to the tool to complain of."""
    command = arguments.get("command")
    if tool in SHELLS and isinstance(command, str):
        return judge_command(policy, command, ground, tool=tool)
    access: Access = "write" if tool in WRITERS else "read"
    judged = [judge_path(policy, tool, access, path, ground) for path in _paths(tool, arguments)]
    return max(judged, key=lambda each: STRICTNESS[each.decision], default=None) or judge_tool(policy, tool)


def _paths(tool: str, arguments: Mapping[str, JsonValue]) -> Iterator[str]:
    path = arguments.get("path")
    if tool in WRITERS | READERS and isinstance(path, str) and path:
        yield path
    patch = arguments.get("input")
    if tool == "apply_patch" and isinstance(patch, str):
        yield from _patched(patch)


def _patched(patch: str) -> Iterator[str]:
    try:
        changes = read_patch(patch)
    except ToolRefused:
        return
    for change in changes:
        match change:
            case Add(path=path) | Delete(path=path):
                yield path
            case Update(path=path, moved_to=target):
                yield path
                if target is not None:
                    yield target
