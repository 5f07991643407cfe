"""GitHub, by its REST API (version 2022-11-28), and servers that run its software."""

import re
from collections.abc import Callable, Collection
from urllib.parse import quote

from forgepool.orchestrator.merge_queue.forges.api import Api, ForgeAccount, ForgeObject
from forgepool.orchestrator.merge_queue.forges.protocol import (
    CONTEXT,
    LABEL,
    ForgeRefused,
    Proposed,
    PullRequest,
    Reported,
    dependencies,
    make_mark,
    shorten_line,
)
from forgepool.workers.schema.settings import Settings

URL = "https://api.github.com"
_WORDS = ("APPROVED", "CHANGES_REQUESTED", "DISMISSED")
_HAVE_A_SAY = ("OWNER", "MEMBER", "COLLABORATOR")
_NAME = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_TEAM = re.compile(r"@([A-Za-z0-9_.-]+)/([A-Za-z0-9_.-]+)")


class _User(ForgeObject):
    login: str


class _Label(ForgeObject):
    name: str


class _Repository(ForgeObject):
    id: int


class _Head(ForgeObject):
    sha: str
    ref: str = ""
    repo: _Repository | None = None
    """None where the fork is gone."""


class _Base(ForgeObject):
    ref: str
    repo: _Repository | None = None


class _Pull(ForgeObject):
    number: int
    title: str
    html_url: str
    draft: bool = False
    body: str | None = None
    state: str
    user: _User | None = None
    labels: tuple[_Label, ...] = ()
    head: _Head
    base: _Base


class _Review(ForgeObject):
    state: str
    author_association: str
    commit_id: str | None = None
    user: _User | None = None


class GitHub:
    """A repository `owner/name` at GitHub."""

    def __init__(self, api: Api, repository: str, *, label: str = LABEL, context: str = CONTEXT) -> None:
        if not _NAME.fullmatch(repository):
            raise ForgeRefused(f"'{repository}' is not a GitHub repository; use OWNER/NAME", 0)
        self._api, self._label, self._context = api, label, context
        self._repository = f"repos/{repository}"

    def report_status(self, commit: str, state: Reported, summary: str, url: str | None = None) -> None:
        body = {"state": state, "context": self._context, "description": shorten_line(summary, 140)}
        target = {"target_url": url} if url else {}
        self._api.send("POST", f"{self._repository}/statuses/{commit}", {**body, **target}, twice=True)

    def comment(self, change: int, text: str) -> None:
        self._api.send("POST", f"{self._repository}/issues/{change}/comments", {"body": text}, twice=False)

    def changes_ready(self, known: Collection[int] = ()) -> tuple[PullRequest, ...]:
        words = {"state": "open", "sort": "created", "direction": "asc"}
        found = {pull.number: pull for pull in self._api.pages(_Pull, f"{self._repository}/pulls", **words)}
        for number in set(known) - found.keys():
            pull = self._api.find(_Pull, f"{self._repository}/pulls/{number}")
            found |= {} if pull is None else {number: pull}
        return tuple(_change(pull) for _, pull in sorted(found.items()) if self._is_ready(pull))

    def head_of(self, change: int) -> str:
        return self._pull(change).head.sha

    def find_approvers(self, change: PullRequest) -> tuple[str, ...]:
        """
        Return those whose last review approves the very commit to land. Only members, collaborators and owners count:
        in a public repository anyone may approve.
        """
        last: dict[str, _Review] = {}
        for review in self._api.pages(_Review, f"{self._repository}/pulls/{change.number}/reviews"):
            if review.user is not None and review.state in _WORDS and review.author_association in _HAVE_A_SAY:
                last[review.user.login] = review
        return tuple(
            login
            for login, review in last.items()
            if review.state == "APPROVED" and review.commit_id == change.head and login != change.author
        )

    def members_of(self, owner: str) -> tuple[str, ...] | None:
        team = _TEAM.fullmatch(owner)
        if team is None:
            return None
        path = f"orgs/{quote(team[1])}/teams/{quote(team[2])}/members"
        return tuple(member.login for member in self._api.pages(_User, path))

    def note_landed(self, change: int, commit: str, *, contained: bool) -> None:
        self.comment(change, f"Landed as {commit}.")
        if not contained and self._pull(change).state == "open":
            self._api.send("PATCH", f"{self._repository}/pulls/{change}", {"state": "closed"}, twice=True)

    def find_open(self, head: str, base: str) -> int | None:
        found = self._find_open(head, base)
        return found.number if found else None

    def _find_open(self, head: str, base: str) -> _Pull | None:
        owner = self._repository.split("/")[1]
        words = {"state": "open", "head": f"{owner}:{head}", "base": base}
        found = self._api.pages(_Pull, f"{self._repository}/pulls", **words)
        return next((one for one in found if (one.head.ref, one.base.ref) == (head, base) and _is_own(one)), None)

    def propose(self, head: str, base: str, title: str, text: str) -> Proposed:
        path, pull, own = f"{self._repository}/pulls", self._find_open(head, base), make_mark(head)
        if pull is not None and own not in (pull.body or ""):
            return Proposed(url=pull.html_url, written=False)
        if pull is not None:
            words = {"body": f"{own}\n{text}"}
            return Proposed(url=self._api.make(_Pull, "PATCH", f"{path}/{pull.number}", words, twice=True).html_url)
        body = {"title": title, "head": head, "base": base, "body": f"{own}\n{text}"}
        return Proposed(url=self._api.make(_Pull, "POST", path, body, twice=False).html_url)

    def _is_ready(self, pull: _Pull) -> bool:
        if pull.state != "open" or pull.draft:
            return False
        return any(label.name.lower() == self._label.lower() for label in pull.labels)

    def _pull(self, number: int) -> _Pull:
        return self._api.get(_Pull, f"{self._repository}/pulls/{number}")


def github_api(settings: Settings, url: str = URL, *, wait: Callable[[float], None] | None = None) -> Api:
    """Return the API at `url` (`https://HOST/api/v3` for your own server), with the token of the settings."""
    token = settings.github_token.get_secret_value().strip() if settings.github_token else ""
    header, variable = "Authorization: Bearer ", "FORGEPOOL_GITHUB_TOKEN"
    account = ForgeAccount(forge="GitHub", url=url, token=token, header=header, variable=variable)
    headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
    return Api(account, headers=headers) if wait is None else Api(account, headers=headers, wait=wait)


def _is_own(pull: _Pull) -> bool:
    """Tell a branch of the repository itself from one of a fork, whose owner may be the same."""
    return pull.head.repo is not None and pull.head.repo == pull.base.repo


def _change(pull: _Pull) -> PullRequest:
    depends, unclear = dependencies(pull.body or "")
    return PullRequest(
        number=pull.number,
        head=pull.head.sha,
        ref=f"refs/pull/{pull.number}/head",
        target=pull.base.ref,
        # GitHub shows a deleted account as `ghost`.
        author=pull.user.login if pull.user else "ghost",
        title=pull.title,
        url=pull.html_url,
        depends=depends,
        unclear=unclear,
    )
