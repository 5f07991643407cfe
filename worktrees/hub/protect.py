"""
A guard at the hub: a hook that lets the branches under a gate be moved by that gate alone.

The gate is known by a **token**. It gives it with its push, as a push option; the hub holds a digest, by which the hook
tells the token and from which nobody makes one. The token itself lies beside it, readable by the hub's owner alone, so
that a gate on this host and of this user needs no set-up; any other is given it. A hook that was there before is kept
beside the new one and run after it, and comes back as it was when the guard is taken away.

Why a pre-receive hook, and no reference-transaction hook, which would see `git commit` in a working copy as well: that
one is told no push options, so it could not know the gate. Why no key of ssh and no user name: hubs are folders, too.

What this does not protect from: whoever may write the hub's files. They can take away the hook, read the token if they
are its owner, or move a branch without a push (`git commit` in a working copy, `git update-ref`, `git fetch` into it).
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from forgepool.worktrees.git.git import Git, is_ref, without_password
from forgepool.worktrees.hub.hub import HubFacts, inspect_hub, is_url
from forgepool.worktrees.hub.pre_receive import (
    CannotProtect,
    find_kept_hook,
    is_ours,
    is_there,
    lines,
    place,
    refuse_strange,
    take_away,
    write_file,
)

_OPTION = "forgepool-gate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """How a hub is guarded. `hub` is its git folder; without targets there is no guard."""

    hub: Path
    targets: tuple[str, ...]
    hook: Path
    in_force: bool
    """Is the hook where git looks for it, as it was put there?"""
    kept: Path | None
    """The hook that was there before, and is run as well."""

    @property
    def token(self) -> Path:
        return _state(self.hub) / "token"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """What was changed besides the hook, to be undone."""

    settings: Mapping[str, str | None] = field(default_factory=dict)
    """Settings of the hub that were changed, with their values before."""
    config_digest: str = ""
    """Of the configuration as it was left, to know whether somebody has changed it since."""
    made_hooks: bool = False


def protect(where: str, targets: Iterable[str]) -> Protection:
    """
    Guards these branches of a hub on this host, besides those that are guarded already. Again does nothing.

    Raises:
        CannotProtect: the hub is elsewhere, has no such branch, or its hooks are not its own to change.
        HubUnusable: there is no repository.
    """
    facts = _on_this_host(where)
    git = Git(git_dir=_local(facts))
    wanted = sorted({*_targets(git.git_dir), *targets})
    _refuse_unknown(git, wanted)
    hooks = _hooks(git)
    refuse_strange(hooks)
    _write_state(git, wanted, made_hooks=not hooks.is_dir())
    _set_config(git, facts.bare)
    place(hooks, git.git_dir)
    return protection(where)


def unprotect(where: str, targets: Iterable[str] = ()) -> Protection:
    """
    Takes the guard from these branches; from all, and the hook with it, without any. Again does nothing.

    Raises:
        CannotProtect: as `protect`, or a branch that is named is not guarded.
    """
    git = Git(git_dir=_local(_on_this_host(where)))
    guarded, named = _targets(git.git_dir), set(targets)
    if strange := sorted(named - set(guarded)):
        raise CannotProtect(f"{git.git_dir}: '{strange[0]}' is not gated; gated are: {', '.join(guarded) or 'none'}")
    left = [target for target in guarded if named and target not in named]
    if left:
        write_file(_state(git.git_dir) / "targets", lines(left), 0o644)
    elif _state(git.git_dir).is_dir():
        _take_away(git)
    return protection(where)


def protection(where: str) -> Protection:
    """How a hub on this host is guarded now."""
    git = Git(git_dir=_local(_on_this_host(where)))
    hook = _hooks(git) / "pre-receive"
    kept = find_kept_hook(hook.parent)
    targets = _targets(git.git_dir)
    in_force = bool(targets) and is_ours(hook) and os.access(hook, os.X_OK)
    return Protection(
        hub=git.git_dir, targets=targets, hook=hook, in_force=in_force, kept=kept if is_there(kept) else None
    )


def gate_option(token: str) -> str:
    """The push option by which a push is known as the gate's."""
    return f"{_OPTION}={token}"


def token_at(hub: str) -> str | None:
    """The token of the gate of a hub on this host, for whoever may read it; None where there is none to be read."""
    if is_url(hub) and not hub.startswith("file:"):
        return None
    folder = Path(unquote(urlsplit(hub).path) if is_url(hub) else hub)
    for git_folder in (folder, folder / ".git"):
        try:
            return (_state(git_folder) / "token").read_text().strip() or None
        except OSError:
            continue
    return None


def _on_this_host(where: str) -> HubFacts:
    if is_url(where) and not where.startswith("file:"):
        shown = without_password(where)
        raise CannotProtect(f"{shown}: not on this host; run this where the repository is, with its path there")
    return inspect_hub(where)


def _local(facts: HubFacts) -> Path:
    assert facts.local is not None, "a hub on this host has a folder"
    return facts.local


def _state(hub: Path) -> Path:
    return hub / "forgepool" / "gate"


def _targets(hub: Path) -> tuple[str, ...]:
    try:
        return tuple((_state(hub) / "targets").read_text().splitlines())
    except FileNotFoundError:
        return ()


def _refuse_unknown(git: Git, targets: Iterable[str]) -> None:
    """A name that is mistyped would leave the branch that is meant without its guard."""
    branches = git.text("for-each-ref", "--format=%(refname)", "refs/heads").splitlines()
    for target in targets:
        if not is_ref(f"refs/heads/{target}") or f"refs/heads/{target}" not in branches:
            there = ", ".join(branch.removeprefix("refs/heads/") for branch in branches[:10]) or "none"
            raise CannotProtect(f"{git.git_dir}: there is no branch '{target}'; branches are: {there}")


def _hooks(git: Git) -> Path:
    """
    The folder in which git looks for this hub's hooks.

    Raises:
        CannotProtect: it is set for all of a user's or a host's repositories, not for this one.
    """
    own = _setting(git, "core.hooksPath", "--local")
    if own:
        return git.git_dir / Path(own).expanduser()
    home = {"HOME": str(Path.home()), "GIT_CONFIG_NOSYSTEM": "0"}
    files = [path for path in (Path.home() / ".gitconfig", Path.home() / ".config/git/config") if path.is_file()]
    for source in (("--system",), *(("--file", str(path)) for path in files)):
        if common := _setting(git, "core.hooksPath", *source, env=home):
            raise CannotProtect(
                f"{git.git_dir}: core.hooksPath is set to '{common}' for more than this repository; "
                f"say where its own hooks are: git --git-dir={git.git_dir} config core.hooksPath FOLDER"
            )
    return git.git_dir / "hooks"


def _setting(git: Git, name: str, *source: str, env: Mapping[str, str] | None = None) -> str | None:
    said = git.run("config", *source, "--includes", "--get", name, ok=(0, 1, 128), env=env)
    return said.text if said.status == 0 else None


def _write_state(git: Git, targets: Iterable[str], *, made_hooks: bool) -> None:
    state = _state(git.git_dir)
    for folder in (state.parent, state):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)  # others push as well, whatever this user's umask
    if not (state / "token").is_file():
        write_file(state / "token", f"{secrets.token_hex(32)}\n".encode(), 0o600)
    token = (state / "token").read_text().strip()
    write_file(state / "digest", f"{git.text('hash-object', '--stdin', stdin=token.encode())}\n".encode(), 0o644)
    if not (state / "record").is_file():
        write_file(state / "config", (git.git_dir / "config").read_bytes(), 0o600)
        _write_record(state, _Record(made_hooks=made_hooks))
    write_file(state / "targets", lines(targets), 0o644)


def _set_config(git: Git, bare: bool) -> None:
    """
    Push options are advertised. A bare hub's hooks are named, so that no user's own configuration leads git elsewhere;
    of a working copy they are not: what is relative there is another folder for `git commit` than for a push.
    """
    state = _state(git.git_dir)
    record = _read_record(state)
    wanted = {"receive.advertisePushOptions": "true"}
    if bare and _setting(git, "core.hooksPath", "--local") is None:
        wanted["core.hooksPath"] = "hooks"
    before = {name: _setting(git, name, "--local") for name in wanted}
    changed = {name: was for name, was in before.items() if was != wanted[name]}
    if not changed:
        return
    record = _Record(settings={**changed, **record.settings}, made_hooks=record.made_hooks)
    _write_record(state, record)
    for name in changed:
        git.run("config", "--local", "--replace-all", name, wanted[name])
    digest = hashlib.sha256((git.git_dir / "config").read_bytes()).hexdigest()
    _write_record(state, _Record(settings=record.settings, config_digest=digest, made_hooks=record.made_hooks))


def _take_away(git: Git) -> None:
    hooks = _hooks(git)
    refuse_strange(hooks)
    take_away(hooks, git.git_dir, lambda other: bool(_targets(other)))
    state = _state(git.git_dir)
    record = _read_record(state)
    _restore_config(git, record)
    shutil.rmtree(state)
    for empty in (state.parent, *([hooks] if record.made_hooks else [])):
        if empty.is_dir() and not any(empty.iterdir()):
            empty.rmdir()


def _restore_config(git: Git, record: _Record) -> None:
    """Byte for byte; by its settings where somebody has changed something else since."""
    config = git.git_dir / "config"
    if hashlib.sha256(config.read_bytes()).hexdigest() == record.config_digest:
        before = (_state(git.git_dir) / "config").read_bytes()
        write_file(config, before, config.stat().st_mode & 0o777)
        return
    for name, was in record.settings.items():
        if was is None:
            git.run("config", "--local", "--unset-all", name, ok=(0, 5))
        else:
            git.run("config", "--local", "--replace-all", name, was)


def _read_record(state: Path) -> _Record:
    return _Record(**json.loads((state / "record").read_text())) if (state / "record").is_file() else _Record()


def _write_record(state: Path, record: _Record) -> None:
    write_file(state / "record", json.dumps(asdict(record)).encode(), 0o600)
