"""GitLab, by its REST API (version 4), at gitlab.com or on your own server."""

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

URL = "https://gitlab.com/api/v4"
_STATES: dict[Reported, str] = {"pending": "running", "success": "success", "failure": "failed"}
_ROLES = {"developer": 30, "maintainer": 40, "owner": 50}
_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)+")


class _User(ForgeObject):
    username: str


class _Member(ForgeObject):
    username: str
    access_level: int


class _Request(ForgeObject):
    iid: int
    sha: str | None = None
    """None until GitLab has looked at its branch."""
    title: str
    web_url: str
    draft: bool = False
    description: str | None = None
    state: str
    labels: tuple[str, ...] = ()
    author: _User
    target_branch: str
    source_branch: str = ""
    source_project_id: int | None = None
    """None where the fork is gone."""
    target_project_id: int = 0


class _Approver(ForgeObject):
    user: _User


class _Approvals(ForgeObject):
    approved_by: tuple[_Approver, ...] = ()


class _Status(ForgeObject):
    name: str
    status: str


class GitLab:
    """A project `group/name` at GitLab."""

    def __init__(self, api: Api, project: str, *, label: str = LABEL, context: str = CONTEXT) -> None:
        if not _NAME.fullmatch(project):
            raise ForgeRefused(f"'{project}' is not a GitLab project; use GROUP/NAME", 0)
        self._api, self._label, self._context = api, label, context
        self._project = f"projects/{quote(project, safe='')}"

    def report_status(self, commit: str, state: Reported, summary: str, url: str | None = None) -> None:
        """Set the status. GitLab refuses to repeat one, so a refusal is checked against the current status."""
        wanted = _STATES[state]
        body = {"state": wanted, "name": self._context, "description": shorten_line(summary, 140)}
        target = {"target_url": url} if url else {}
        try:
            self._api.send("POST", f"{self._project}/statuses/{commit}", {**body, **target}, twice=True)
        except ForgeRefused as refused:
            if refused.status != 400 or self._status_of(commit) != wanted:
                raise

    def comment(self, change: int, text: str) -> None:
        self._api.send("POST", f"{self._project}/merge_requests/{change}/notes", {"body": text}, twice=False)

    def changes_ready(self, known: Collection[int] = ()) -> tuple[PullRequest, ...]:
        words = {"state": "opened", "labels": self._label, "scope": "all", "order_by": "created_at", "sort": "asc"}
        requests = self._api.pages(_Request, f"{self._project}/merge_requests", **words)
        found = {request.iid: request for request in requests}
        for number in set(known) - found.keys():
            request = self._api.find(_Request, f"{self._project}/merge_requests/{number}")
            found |= {} if request is None else {number: request}
        ready = [request for _, request in sorted(found.items()) if self._is_ready(request)]
        return tuple(_change(request, request.sha) for request in ready if request.sha)

    def head_of(self, change: int) -> str:
        request = self._request(change)
        if request.sha is None:
            raise ForgeRefused(f"merge request !{change} has no commit", 0)
        return request.sha

    def find_approvers(self, change: PullRequest) -> tuple[str, ...]:
        """
        Return the approvers; none if the change has a newer commit. GitLab does not say which commit was approved: only
        a project that removes approvals at each push is safe.
        """
        path = f"{self._project}/merge_requests/{change.number}/approvals"
        names = [approver.user.username for approver in self._api.get(_Approvals, path).approved_by]
        if self.head_of(change.number) != change.head:
            return ()
        return tuple(name for name in names if name != change.author)

    def members_of(self, owner: str) -> tuple[str, ...] | None:
        """Return direct members only, as GitLab does for CODEOWNERS."""
        if owner.startswith("@@"):
            level = _ROLES.get(owner[2:].lower().removesuffix("s"))
            members = self._api.pages(_Member, f"{self._project}/members")
            return tuple(member.username for member in members if member.access_level == level)
        if not owner.startswith("@"):
            return None
        try:
            members = self._api.pages(_Member, f"groups/{quote(owner[1:], safe='')}/members")
            return tuple(member.username for member in members)
        except ForgeRefused as refused:
            if refused.status == 404:
                return None
            raise

    def note_landed(self, change: int, commit: str, *, contained: bool) -> None:
        self.comment(change, f"Landed as {commit}.")
        if not contained and self._request(change).state == "opened":
            self._api.send("PUT", f"{self._project}/merge_requests/{change}", {"state_event": "close"}, twice=True)

    def find_open(self, head: str, base: str) -> int | None:
        found = self._find_open(head, base)
        return found.iid if found else None

    def _find_open(self, head: str, base: str) -> _Request | None:
        words = {"state": "opened", "scope": "all", "source_branch": head, "target_branch": base}
        found = self._api.pages(_Request, f"{self._project}/merge_requests", **words)
        # A fork may have a branch of the same name.
        own = (one for one in found if one.source_project_id == one.target_project_id)
        return next((one for one in own if (one.source_branch, one.target_branch) == (head, base)), None)

    def propose(self, head: str, base: str, title: str, text: str) -> Proposed:
        path, request, own = f"{self._project}/merge_requests", self._find_open(head, base), make_mark(head)
        if request is not None and own not in (request.description or ""):
            return Proposed(url=request.web_url, written=False)
        words = {"description": f"{own}\n{text}"}
        if request is not None:
            return Proposed(url=self._api.make(_Request, "PUT", f"{path}/{request.iid}", words, twice=True).web_url)
        body = {"source_branch": head, "target_branch": base, "title": title, **words}
        return Proposed(url=self._api.make(_Request, "POST", path, body, twice=False).web_url)

    def _is_ready(self, request: _Request) -> bool:
        return request.state == "opened" and not request.draft and self._label in request.labels

    def _request(self, number: int) -> _Request:
        return self._api.get(_Request, f"{self._project}/merge_requests/{number}")

    def _status_of(self, commit: str) -> str | None:
        """Return the newest status of this name."""
        path = f"{self._project}/repository/commits/{commit}/statuses"
        found = [
            status for status in self._api.pages(_Status, path, name=self._context) if status.name == self._context
        ]
        return found[0].status if found else None


def gitlab_api(settings: Settings, url: str = URL, *, wait: Callable[[float], None] | None = None) -> Api:
    """Return the API at `url` (`https://HOST/api/v4` for your own server), with the token of the settings."""
    token = settings.gitlab_token.get_secret_value().strip() if settings.gitlab_token else ""
    header, variable = "PRIVATE-TOKEN: ", "FORGEPOOL_GITLAB_TOKEN"
    account = ForgeAccount(forge="GitLab", url=url, token=token, header=header, variable=variable)
    return Api(account) if wait is None else Api(account, wait=wait)


def _change(request: _Request, head: str) -> PullRequest:
    depends, unclear = dependencies(request.description or "")
    return PullRequest(
        number=request.iid,
        head=head,
        ref=f"refs/merge-requests/{request.iid}/head",
        target=request.target_branch,
        author=request.author.username,
        title=request.title,
        url=request.web_url,
        depends=depends,
        unclear=unclear,
    )
