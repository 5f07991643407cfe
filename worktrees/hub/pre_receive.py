"""
The hook that refuses pushes to guarded branches, and the care for a hook that was there before it.

All facts about a hub (its targets, its gate's digest) are in that hub, not in the script. So a folder of hooks may
serve several hubs, and the script passes everything at a hub without a gate.
"""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

_KEPT = "forgepool-kept"
_MARK = "# The hook of `forgepool queue protect`"
_HOOK = r"""#!/bin/sh
# The hook of `forgepool queue protect`: the branches named in forgepool/gate/targets are moved by the gate alone.
# `forgepool queue protect HUB --off` takes it away. A hook that was here before is in forgepool-kept, and run as well.

gate=$(git rev-parse --git-common-dir)/forgepool/gate || exit 1
kept=${0%/*}/forgepool-kept/pre-receive
given=

is_gated() {
    named=$(git symbolic-ref -q "$1") || named=$1
    while read -r target; do
        [ "$named" = "refs/heads/$target" ] && return 0
    done <"$gate/targets"
    return 1
}

comes_from_gate() {
    digest=
    read -r digest <"$gate/digest"
    count=0
    while [ "$count" -lt "${GIT_PUSH_OPTION_COUNT:-0}" ]; do
        eval "option=\$GIT_PUSH_OPTION_$count"
        count=$((count + 1))
        case $option in
        forgepool-gate=*)
            given=yes
            told=$(printf %s "${option#forgepool-gate=}" | git hash-object --stdin)
            [ -n "$digest" ] && [ "$told" = "$digest" ] && return 0
            ;;
        esac
    done
    return 1
}

updates=
while read -r old new ref; do
    updates="$updates$old $new $ref
"
    [ -d "$gate" ] || continue
    if [ ! -r "$gate/targets" ] || [ ! -r "$gate/digest" ]; then
        echo "the gate's files in the hub cannot be read; its owner puts them right with: forgepool queue protect" >&2
        exit 1
    fi
    if is_gated "$ref" && ! comes_from_gate; then
        name=${named#refs/heads/}
        if [ -n "$given" ]; then
            echo "$name is moved by its gate alone, and the token of this push is not the gate's:" \
                "FORGEPOOL_GATE_TOKEN must be what is in forgepool/gate/token of the hub" >&2
        else
            echo "$name is moved by its gate alone; push a branch of your own, then: forgepool queue submit BRANCH" >&2
        fi
        exit 1
    fi
done

[ -x "$kept" ] || exit 0
printf %s "$updates" | "$kept" "$@"
"""


class CannotProtect(Exception):
    """The hub cannot be guarded or unguarded; the text says why and what would be right."""


def refuse_strange(hooks: Path) -> None:
    """
    Refuse a foreign hook in the place of ours while an older one is kept.

    Raises:
        CannotProtect: there is such a hook.
    """
    hook, kept = hooks / "pre-receive", find_kept_hook(hooks)
    if not is_there(hook) or is_ours(hook) or not is_there(kept) or _same(hook, kept):
        return
    raise CannotProtect(
        f"{hook} is not the gate's, and an older one is kept in {kept}; remove the one that is not wanted, "
        "or make one of both, in the first place"
    )


def _same(first: Path, second: Path) -> bool:
    """Was an earlier call interrupted between keeping the old hook and placing ours?"""
    return first.is_file() and second.is_file() and first.read_bytes() == second.read_bytes()


def find_kept_hook(hooks: Path) -> Path:
    """Return the path where an earlier hook is kept."""
    return hooks / _KEPT / "pre-receive"


def is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def is_ours(hook: Path) -> bool:
    return hook.is_file() and not hook.is_symlink() and _MARK.encode() in hook.read_bytes()


def place(hooks: Path, hub: Path) -> None:
    """Place our hook in the folder, and keep the one before it; there is a hook at every moment."""
    hook, kept = hooks / "pre-receive", find_kept_hook(hooks)
    for folder in (hooks, kept.parent):
        if not folder.is_dir():
            folder.mkdir(parents=True)
            folder.chmod(0o755)
    write_file(kept.parent / "hubs", lines({*_hubs(kept.parent), str(hub)}), 0o644)
    if is_there(hook) and not is_ours(hook):
        _copy(hook, kept, down=True)
    if not (is_ours(hook) and hook.read_bytes() == _HOOK.encode()) or not os.access(hook, os.X_OK):
        write_file(hook, _HOOK.encode(), 0o755)


def take_away(hooks: Path, hub: Path, is_guarded: Callable[[Path], bool]) -> None:
    """Restore the folder as it was before. The hook stays while the folder serves another guarded hub."""
    folder = hooks / _KEPT
    others = [second for second in _hubs(folder) if second != str(hub) and is_guarded(Path(second))]
    if others:
        write_file(folder / "hubs", lines(others), 0o644)
        return
    _put_back(hooks / "pre-receive", folder / "pre-receive")
    shutil.rmtree(folder, ignore_errors=True)


def _put_back(hook: Path, kept: Path) -> None:
    if is_there(kept):
        _copy(kept, hook, down=False)
    elif is_ours(hook):
        hook.unlink()


def _hubs(folder: Path) -> list[str]:
    """List the hubs guarded by the hook beside this folder; several may share a folder of hooks."""
    return (folder / "hubs").read_text().splitlines() if (folder / "hubs").is_file() else []


def _copy(source: Path, goal: Path, *, down: bool) -> None:
    """Copy a hook. A relative link still leads to the same place one folder further down or up."""
    draft = goal.with_name(f".{goal.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    if source.is_symlink():
        leads = str(source.readlink())
        draft.symlink_to(leads if leads.startswith("/") else f"../{leads}" if down else leads.removeprefix("../"))
    else:
        shutil.copy2(source, draft)
    draft.replace(goal)


def lines(words: Iterable[str]) -> bytes:
    return "".join(f"{word}\n" for word in sorted(words)).encode()


def write_file(path: Path, content: bytes, mode: int) -> None:
    """Write the file atomically: whenever the process dies, it has content and mode or is untouched."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.chmod(mode)
    draft.replace(path)
