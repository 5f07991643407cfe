"""Find the queue that a command is about: in this home, in a hub, or at the address of an API."""

from pathlib import Path
from typing import Annotated

import typer

from forgepool.orchestrator.journal.store import is_being_written
from forgepool.orchestrator.merge_queue.http.service import api_token
from forgepool.orchestrator.merge_queue.remote.hub import HubQueue
from forgepool.orchestrator.merge_queue.remote.server import ServerQueue
from forgepool.orchestrator.merge_queue.submit import origin_of
from forgepool.orchestrator.run import run_folder
from forgepool.orchestrator.run.hub import CannotRun
from forgepool.orchestrator.run.run_folder import KeptRun
from forgepool.workers.schema.settings import Settings
from forgepool.workers.workspace.refs import board_ref, sign_ref, submission_ref, submissions_of
from forgepool.worktrees.git.git import Git, GitFailed, without_password
from forgepool.worktrees.hub.hub import HubFacts, HubUnusable, inspect_hub
from forgepool.worktrees.hub.mirror import Mirror, open_mirror

Hub = Annotated[
    str | None,
    typer.Option(
        metavar="HUB", help="Path or URL of the queue's repository; default: the origin of the clone you are in."
    ),
]
Server = Annotated[str | None, typer.Option(metavar="URL", help="Ask the queue's HTTP API there, not the repository.")]
TokenFile = Annotated[Path | None, typer.Option(help="The API's token; default: FORGEPOOL_GATE_API_TOKEN.")]


def server_queue(server: str, token_file: Path | None, settings: Settings) -> ServerQueue:
    """Raises CannotRun where there is no token."""
    return ServerQueue(url=server, token=api_token(settings, token_file, option="--server"))


def hub_queues(hub: str | None, target: str | None, settings: Settings) -> list[HubQueue] | None:
    """
    The queues of a hub, of one target or of all; None where this home keeps what is meant.

    Raises:
        CannotRun: neither this home nor the hub has a queue.
        HubUnusable, GitFailed: a hub that was named cannot be asked.
    """
    homes = _kept_here(settings)
    try:
        mirror, facts = _mirror_of(hub, settings)
        mine = [one for one in homes if one.options.hub == facts.url and target in (None, one.options.target)]
        if any(is_being_written(one.folder) for one in mine):
            return None
        queues = [HubQueue(mirror, one) for one in _targets(mirror, facts, target)]
        if mine and all(one.look().silence for one in queues):
            return None
    except (HubUnusable, GitFailed):
        if hub is None and homes:
            return None
        raise
    if queues:
        return queues
    if homes and hub is None:
        return None
    where = without_password(facts.url)
    raise CannotRun(
        f"{where} has no queue{f' for {target}' if target else ''}; name another repository with --hub, or start one: "
        f"forgepool queue serve --repo {where} --target {target or 'BRANCH'}"
    )


def one_of(queues: list[HubQueue], entry: str) -> HubQueue:
    """The queue that has the entry. Raises CannotRun where several may be meant."""
    if len(queues) == 1:
        return queues[0]
    having = [one for one in queues if one.knows(entry)]
    if len(having) == 1:
        return having[0]
    named = ", ".join(one.target for one in having or queues)
    why = f"'{entry}' is in several queues" if having else f"no queue has an entry '{entry}'"
    raise CannotRun(f"{why}; name one with --target: {named}")


def _kept_here(settings: Settings) -> list[KeptRun]:
    names = [one for one in run_folder.run_names(settings) if one.startswith("gate-")]
    return [run_folder.open_run(settings, one, with_course=False) for one in names]


def _mirror_of(hub: str | None, settings: Settings) -> tuple[Mirror, HubFacts]:
    """Prefer the clone in the current folder: it has most of the objects already."""
    helper = settings.git_credential_helper
    try:
        here = inspect_hub(".").local
    except HubUnusable as unusable:
        if hub is None:
            raise HubUnusable(f"{unusable}; or name the queue's repository with --hub") from unusable
        facts = inspect_hub(hub, credential_helper=helper)
        return open_mirror(facts.url, settings.cache, credential_helper=helper), facts
    assert here is not None, "a folder has its repository here"
    facts = inspect_hub(hub or origin_of(Git(git_dir=here)) or ".", credential_helper=helper)
    return Mirror(path=here, hub=facts.url, credential_helper=helper), facts


def _targets(mirror: Mirror, facts: HubFacts, target: str | None) -> list[str]:
    """The branches that have, or had, a queue which shows itself in the hub, or submissions that wait for one."""
    wanted, asked = target or "*", target or facts.default_branch or "main"
    refs = mirror.hub_refs(board_ref(wanted), sign_ref(wanted), submissions_of(asked))
    prefixes = (board_ref(""), sign_ref(""))
    found = {ref.removeprefix(one) for ref in refs for one in prefixes if ref.startswith(one)}
    if any(ref.startswith(submission_ref(asked, "")) for ref in refs):
        found.add(asked)
    return sorted(found, key=lambda one: (one != facts.default_branch, one))
