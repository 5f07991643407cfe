"""
The guard of a hub: a hook that lets only the gate move the branches under it.

The gate is known by a **token**, which it gives with its push as a push option. The hub holds a digest of the token,
which the hook compares. The token itself lies beside it, readable only by the hub's owner. So a gate on this host and
of this user needs no set-up; any other must be given the token. An earlier hook is kept beside the new one and run
after it. It is restored when the guard is removed.

Why a pre-receive hook, and no reference-transaction hook, which would see `git commit` in a working copy as well? The
latter gets no push options, so it could not recognise the gate. Why no ssh key and no user name? Hubs are folders, too.

What this does not protect from: users who may write the hub's files. They can remove the hook, or read the token if
they own it. They can move a branch without a push (`git commit` in a working copy, `git update-ref`, `git fetch`).
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
    """The guard of a hub. `hub` is its git folder; without targets there is no guard."""

    hub: Path
    targets: tuple[str, ...]
    hook: Path
    in_force: bool
    """True if our hook is where git looks for it, unchanged."""
    kept: Path | None
    """The earlier hook, which is run as well."""

    @property
    def token(self) -> Path:
        return _state(self.hub) / "token"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """The changes to undo, apart from the hook."""

    settings: Mapping[str, str | None] = field(default_factory=dict)
    """Changed settings of the hub, with their values before."""
    config_digest: str = ""
    """The digest of the configuration as we left it, to notice later changes."""
    made_hooks: bool = False


def protect(where: str, targets: Iterable[str]) -> Protection:
    """
    Guard these branches of a hub on this host, in addition to those guarded already. A repeated call changes nothing.

    Raises:
        CannotProtect: the hub is elsewhere, has no such branch, or its hooks are shared with other repositories.
        HubUnusable: there is no repository.
    """
    facts = _on_this_host(where)
    git = Git(git_dir=_local(facts))
    wanted = sorted({*_targets(git.git_dir), *targets})
    _refuse_unknown(git, wanted)
    hooks = find_hooks(git)
    refuse_strange(hooks)
    _write_state(git, wanted, made_hooks=not hooks.is_dir())
    _set_config(git, facts.bare)
    place(hooks, git.git_dir)
    return protection(where)


def unprotect(where: str, targets: Iterable[str] = ()) -> Protection:
    """
    Remove the guard from these branches, or from all together with the hook. A repeated call changes nothing.

    Raises:
        CannotProtect: as for `protect`, or a named branch is not guarded.
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
    """Return the present guard of a hub on this host."""
    git = Git(git_dir=_local(_on_this_host(where)))
    hook = find_hooks(git) / "pre-receive"
    kept = find_kept_hook(hook.parent)
    targets = _targets(git.git_dir)
    in_force = bool(targets) and is_ours(hook) and os.access(hook, os.X_OK)
    return Protection(
        hub=git.git_dir, targets=targets, hook=hook, in_force=in_force, kept=kept if is_there(kept) else None
    )


def gate_option(token: str) -> str:
    """Return the push option that identifies the gate."""
    return f"{_OPTION}={token}"


def token_at(hub: str) -> str | None:
    """Return the token of the gate of a hub on this host; None if there is none that this user can read."""
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
    """Refuse a mistyped name, which would leave the intended branch without a guard."""
    branches = git.text("for-each-ref", "--format=%(refname)", "refs/heads").splitlines()
    for target in targets:
        if not is_ref(f"refs/heads/{target}") or f"refs/heads/{target}" not in branches:
            there = ", ".join(branch.removeprefix("refs/heads/") for branch in branches[:10]) or "none"
            raise CannotProtect(f"{git.git_dir}: there is no branch '{target}'; branches are: {there}")


def find_hooks(git: Git) -> Path:
    """
    Return the folder in which git looks for this hub's hooks.

    Raises:
        CannotProtect: it is set for all repositories of a user or a host, not for this one.
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
    output = git.run("config", *source, "--includes", "--get", name, ok=(0, 1, 128), env=env)
    return output.text if output.status == 0 else None


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
    Advertise push options, and name a bare hub's hooks, so that no user's configuration leads git elsewhere.

    Not in a working copy: a relative path there is another folder for `git commit` than for a push.
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
    hooks = find_hooks(git)
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
    """Restore the configuration byte for byte, or setting by setting if it was changed since."""
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
