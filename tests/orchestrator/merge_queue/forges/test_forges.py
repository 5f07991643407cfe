"""Both forges are asked the same things in their own formats, and their answers mean the same."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest
from forge_server import PROJECT, REPOSITORY, TOKEN, Fault, ForgeServer, merge_request, pull

from forgepool.orchestrator.merge_queue.bot.admission import wanting
from forgepool.orchestrator.merge_queue.forges.api import Api
from forgepool.orchestrator.merge_queue.forges.codeowners import read_codeowners
from forgepool.orchestrator.merge_queue.forges.github import GitHub, github_api
from forgepool.orchestrator.merge_queue.forges.gitlab import GitLab, gitlab_api
from forgepool.orchestrator.merge_queue.forges.protocol import (
    Forge,
    ForgeAway,
    ForgeRefused,
    Proposed,
    PullRequest,
    dependencies,
)
from forgepool.workers.schema.settings import Settings

HEAD, OTHER = "a" * 40, "c" * 40
KINDS = ("github", "gitlab")


class Opening(Protocol):
    def __call__(self, kind: str, other: ForgeServer | None = None, token: str = TOKEN) -> Api: ...


@pytest.fixture
def api_of(server: ForgeServer, waited: list[float]) -> Iterator[Opening]:
    """Return a function that opens the API of a forge, at the test's server by default."""
    with ExitStack() as stack:

        def opened(kind: str, other: ForgeServer | None = None, token: str = TOKEN) -> Api:
            given: dict[str, Any] = {"github_token": token, "gitlab_token": token}
            url = (other or server).url
            if kind == "github":
                return stack.enter_context(github_api(Settings(**given), url, wait=waited.append))
            return stack.enter_context(gitlab_api(Settings(**given), f"{url}/api/v4", wait=waited.append))

        yield opened


def at(kind: str, api: Api) -> Forge:
    return GitHub(api, REPOSITORY) if kind == "github" else GitLab(api, PROJECT)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def forge(kind: str, api_of: Opening) -> Forge:
    return at(kind, api_of(kind))


@pytest.fixture
def github(api_of: Opening) -> Forge:
    return at("github", api_of("github"))


@pytest.fixture
def gitlab(api_of: Opening) -> Forge:
    return at("gitlab", api_of("gitlab"))


def put(server: ForgeServer, number: int, head: str | None = HEAD, **parts: Any) -> None:
    """Put a change on both forges."""
    text = parts.pop("description", "")
    server.pulls[number] = pull(number, head or HEAD, body=text or None, **parts)
    server.requests[number] = merge_request(number, head, description=text, **parts)


def ready(forge: Forge) -> list[int]:
    return [change.number for change in forge.changes_ready()]


def test_changes_with_the_label_are_ready_and_drafts_closed_and_others_are_not(
    server: ForgeServer, forge: Forge, kind: str
) -> None:
    put(server, 3, description="Words.\n\nDepends-On: #2\n", target="release", author="bob")
    put(server, 4, labels=["other"])
    put(server, 5, draft=True)
    put(server, 6, state="closed")
    (change,) = forge.changes_ready()
    ref = "refs/pull/3/head" if kind == "github" else "refs/merge-requests/3/head"
    assert (change.number, change.head, change.ref, change.target) == (3, HEAD, ref, "release")
    assert (change.author, change.title, change.depends, change.unclear) == ("bob", "Change 3", (2,), "")
    assert change.url.endswith("/3") and server.lost == []


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_changes_of_all_pages_are_ready_each_once(server: ForgeServer, forge: Forge, count: int) -> None:
    server.per_page = 2
    for number in range(1, count + 1):
        put(server, number)
    assert ready(forge) == list(range(1, count + 1))
    assert len(server.seen) == max(1, -(-count // 2))
    assert all(seen.query["per_page"] == "100" for seen in server.seen)


def test_what_a_list_has_overlooked_is_asked_for_before_it_is_thought_gone(server: ForgeServer, forge: Forge) -> None:
    for number in (1, 2, 3, 4):
        put(server, number)
    put(server, 5, labels=["other"])
    put(server, 6, state="closed")
    put(server, 7, draft=True)
    server.overlooked = {2, 3}
    assert ready(forge) == [1, 4]
    assert [change.number for change in forge.changes_ready(known=[1, 2, 5, 6, 7, 8])] == [1, 2, 4]


def test_a_next_page_elsewhere_is_not_fetched_so_that_the_token_stays_here(server: ForgeServer, github: Forge) -> None:
    server.per_page, server.elsewhere = 1, "http://127.0.0.2:1"
    put(server, 1)
    put(server, 2)
    with pytest.raises(ForgeRefused, match=r"for the next page, 127\.0\.0\.2; it was not asked"):
        github.changes_ready()


def test_a_page_that_fails_is_no_short_list(server: ForgeServer, forge: Forge, waited: list[float]) -> None:
    server.per_page = 1
    put(server, 1)
    put(server, 2)
    server.faults = [None, *[Fault(502, "<html>")] * 4]
    with pytest.raises(ForgeAway, match=r"has an error of its own \(502"):
        forge.changes_ready()
    assert waited == [1.0, 2.0, 4.0]
    server.faults = [None, Fault(503, ""), None]
    assert ready(forge) == [1, 2]


def test_a_status_is_reported_on_the_commit(server: ForgeServer, forge: Forge, kind: str) -> None:
    forge.report_status(HEAD, "pending", "waits behind 3 others", "https://gate.example/e/1")
    forge.report_status(HEAD, "success", "x " * 200)
    forge.report_status(HEAD, "failure", "red\nand more")
    first, second, third = server.sent()
    if kind == "github":
        assert {seen.path for seen in server.seen} == {f"/repos/octo/shop/statuses/{HEAD}"}
        assert (first["state"], second["state"], third["state"]) == ("pending", "success", "failure")
        assert first["context"] == "forgepool/gate"
    else:
        assert {seen.path for seen in server.seen} == {f"/api/v4/projects/group%2Fsub%2Fshop/statuses/{HEAD}"}
        assert (first["state"], second["state"], third["state"]) == ("running", "success", "failed")
        assert first["name"] == "forgepool/gate"
    assert first["target_url"] == "https://gate.example/e/1" and "target_url" not in second
    assert len(second["description"]) == 140 and third["description"] == "red and more"


def test_a_status_that_is_there_already_is_reported_and_another_refusal_is_none(
    server: ForgeServer, forge: Forge, waited: list[float]
) -> None:
    forge.report_status(HEAD, "pending", "waits")
    forge.report_status(HEAD, "pending", "still waits")
    server.faults = [Fault(400, {"message": {"status": ["Cannot transition"]}})]
    with pytest.raises(ForgeRefused, match=r"refuses POST .* \(400\): status: Cannot transition"):
        forge.report_status(OTHER, "pending", "waits")
    assert waited == []


def test_a_comment_is_sent_once(server: ForgeServer, forge: Forge, kind: str) -> None:
    forge.comment(3, "Returned: `test` is red.")
    (seen,) = server.seen
    where = "/repos/octo/shop/issues/3/comments" if kind == "github" else "/merge_requests/3/notes"
    assert seen.path.endswith(where) and seen.body == {"body": "Returned: `test` is red."}


def test_a_comment_that_may_have_arrived_is_not_sent_again(
    server: ForgeServer, forge: Forge, waited: list[float]
) -> None:
    server.faults = [Fault(0, acted=True)]
    with pytest.raises(ForgeAway, match="it may have arrived or not"):
        forge.comment(3, "Once.")
    server.faults = [Fault(502, "", acted=True)]
    with pytest.raises(ForgeAway):
        forge.comment(3, "Once.")
    assert len(server.seen) == 2 and waited == []


def test_a_comment_that_was_not_looked_at_is_sent_again(server: ForgeServer, forge: Forge, waited: list[float]) -> None:
    server.faults = [Fault(429, {"message": "Slow down"}, {"retry-after": "7"})]
    forge.comment(3, "Once.")
    assert len(server.seen) == 2 and waited == [7.0]


def test_a_status_is_sent_again_after_the_line_broke(server: ForgeServer, forge: Forge, waited: list[float]) -> None:
    server.faults = [Fault(0), Fault(503, "busy", {"retry-after": "5"})]
    forge.report_status(HEAD, "success", "landed")
    assert waited == [1.0, 5.0] and len(server.sent()) == 3


LIMITS = [
    (Fault(429, {"message": "x"}, {"retry-after": "30"}), 30.0),
    (Fault(403, {"message": "You have exceeded a secondary rate limit"}), 60.0),
    (Fault(403, {"message": "x"}, {"retry-after": "2"}), 2.0),
    (Fault(403, {"message": "x"}, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"}), 1.0),
    (Fault(429, "Retry later", {"ratelimit-remaining": "0", "ratelimit-reset": "1"}), 1.0),
    (Fault(429, "x", {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}), 0.0),
]


@pytest.mark.parametrize(("fault", "pause"), LIMITS, ids=range(len(LIMITS)))
def test_a_limit_is_waited_for_as_long_as_the_forge_says(
    server: ForgeServer, forge: Forge, waited: list[float], fault: Fault, pause: float
) -> None:
    put(server, 1)
    server.faults = [fault]
    assert ready(forge) == [1] and waited == [pause]


def test_a_limit_that_lasts_is_told_and_not_waited_for(server: ForgeServer, forge: Forge, waited: list[float]) -> None:
    server.faults = [Fault(403, {"message": "API rate limit exceeded"}, {"retry-after": "3000"})]
    with pytest.raises(ForgeAway, match="limited our requests; asking again in 3000 s") as away:
        forge.changes_ready()
    assert away.value.after_s == 3000.0 and waited == [] and len(server.seen) == 1


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            Fault(401, {"message": "Bad credentials"}),
            "rejects the token: Bad credentials; set a valid one",
        ),
        (Fault(403, {"message": "Resource not accessible"}), "does not allow this token POST .*: Resource not access"),
        (Fault(404, {"message": "Not Found"}), "has nothing at POST .*: the name is wrong, or the token may not see"),
        (
            Fault(422, {"message": "Validation Failed", "errors": [{"field": "x", "message": "is long"}]}),
            "Failed; is l",
        ),
        (Fault(400, {"error": "state is missing"}), r"refuses POST .* \(400\): state is missing"),
        (Fault(301, {"message": "Moved"}, {"location": "https://forge.example/new"}), "moved POST .* to https://forge"),
        (Fault(418, "<html>short and stout</html>"), r"refuses POST .* \(418\)$"),
        (Fault(422, {"message": f"no {TOKEN} here"}), r"no \[key hidden\] here"),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Fault) else "",
)
def test_a_no_is_one_sentence_and_is_not_asked_again(
    server: ForgeServer, forge: Forge, waited: list[float], fault: Fault, said: str
) -> None:
    server.faults = [fault]
    with pytest.raises(ForgeRefused, match=said) as refused:
        forge.comment(1, "text")
    assert refused.value.status == fault.status and "\n" not in str(refused.value)
    assert waited == [] and len(server.seen) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("<html>", "something other than JSON"),
        ({}, "something other than a list"),
        ([{"number": 1}], "unexpectedly: '.*': field req"),
    ],
)
def test_an_answer_nobody_understands_is_no_empty_list(
    server: ForgeServer, forge: Forge, answer: object, said: str
) -> None:
    server.faults = [Fault(200, answer)]
    with pytest.raises(ForgeAway, match=said):
        forge.changes_ready()


def test_a_forge_that_is_not_there_is_away(kind: str, api_of: Opening, waited: list[float]) -> None:
    with ForgeServer() as gone:
        asked = at(kind, api_of(kind, gone))
    with pytest.raises(ForgeAway, match="does not answer at http://127") as away:
        asked.comment(1, "text")
    assert TOKEN not in str(away.value) and waited == [1.0, 2.0, 4.0]


def test_no_token_and_a_wrong_one_name_the_variable(kind: str, api_of: Opening) -> None:
    variable = f"FORGEPOOL_{kind.upper()}_TOKEN"
    with pytest.raises(ForgeRefused, match=f"needs a token; set {variable}"):
        api_of(kind, token=" ")
    with pytest.raises(ForgeRefused, match=f"set a valid one in {variable}"):
        at(kind, api_of(kind, token="wrong")).changes_ready()


def test_tokens_are_in_no_text_of_the_settings() -> None:
    given: dict[str, Any] = dict.fromkeys(("github_token", "gitlab_token", "gate_token"), TOKEN)
    settings = Settings(**given)
    assert TOKEN not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"


def change_of(forge: Forge) -> PullRequest:
    (change,) = forge.changes_ready()
    return change


def approve(
    server: ForgeServer, *names: str, commit: str = HEAD, state: str = "APPROVED", association: str = "MEMBER"
) -> None:
    said = {"state": state, "commit_id": commit, "author_association": association}
    given = [{**said, "user": {"login": name}} for name in names]
    server.reviews.setdefault(1, []).extend(given)
    server.approvals.setdefault(1, []).extend(name for name in names if state == "APPROVED")


def test_who_approves_is_told_without_the_author(server: ForgeServer, forge: Forge) -> None:
    put(server, 1, author="ada")
    approve(server, "bob", "ada", "eve")
    assert forge.find_approvers(change_of(forge)) == ("bob", "eve")


def test_an_approval_of_an_older_commit_or_taken_back_is_none(server: ForgeServer, github: Forge) -> None:
    put(server, 1)
    approve(server, "old", commit=OTHER)
    approve(server, "bob", "eve", "kim")
    approve(server, "bob", state="CHANGES_REQUESTED")
    approve(server, "eve", state="DISMISSED")
    approve(server, "kim", state="COMMENTED")
    approve(server, "passer-by", association="NONE")
    assert github.find_approvers(change_of(github)) == ("kim",)


def test_nobody_approves_of_a_commit_that_is_the_changes_no_more(server: ForgeServer, gitlab: Forge) -> None:
    put(server, 1)
    approve(server, "bob")
    change = change_of(gitlab)
    put(server, 1, OTHER)
    assert gitlab.find_approvers(change) == () and gitlab.head_of(1) == OTHER


def test_a_merge_request_without_a_commit_is_not_ready(server: ForgeServer, gitlab: Forge) -> None:
    put(server, 1, None)
    assert gitlab.changes_ready() == ()
    with pytest.raises(ForgeRefused, match="!1 has no commit"):
        gitlab.head_of(1)


def test_an_author_whose_account_is_gone_is_no_failure(server: ForgeServer, github: Forge) -> None:
    server.pulls[1] = pull(1, user=None)
    assert change_of(github).author == "ghost"


@pytest.mark.parametrize("contained", [True, False])
def test_a_landed_change_is_told_and_closed_only_where_the_forge_cannot_see_it(
    server: ForgeServer, forge: Forge, kind: str, contained: bool
) -> None:
    put(server, 1)
    forge.note_landed(1, OTHER, contained=contained)
    assert server.sent() == [{"body": f"Landed as {OTHER}."}]
    state = server.pulls[1]["state"] if kind == "github" else server.requests[1]["state"]
    assert (state == "closed") is not contained


def test_owners_approvals_are_asked_for_with_the_members_of_their_groups(
    server: ForgeServer, forge: Forge, kind: str
) -> None:
    put(server, 1)
    server.teams["@octo/core"] = ["bob", "kim"]
    server.groups["octo/core"] = [("bob", 30), ("kim", 40)]
    owners = read_codeowners("*.py @octo/core\n/docs/ @eve\n", "github" if kind == "github" else "gitlab")
    change = change_of(forge)
    server.seen.clear()
    assert wanting(forge, change, ["README"], owners) == () and server.seen == []
    assert [str(one) for one in wanting(forge, change, ["a.py", "docs/x"], owners)] == [
        "a.py needs an approval by @octo/core",
        "docs/x needs an approval by @eve",
    ]
    approve(server, "eve", "zoe")
    assert [one.pattern for one in wanting(forge, change, ["a.py", "docs/x"], owners)] == ["*.py"]
    approve(server, "kim")
    assert wanting(forge, change, ["a.py", "docs/x"], owners) == ()


def test_an_owner_at_gitlab_may_be_a_person_a_group_or_a_role(server: ForgeServer, gitlab: Forge) -> None:
    server.groups = {PROJECT: [("ada", 30), ("bob", 40)], "core": [("kim", 30)]}
    assert gitlab.members_of("@@developers") == ("ada",)
    assert gitlab.members_of("@@maintainer") == ("bob",)
    assert gitlab.members_of("@core") == ("kim",)
    assert gitlab.members_of("@ada") is None and gitlab.members_of("ada@example.com") is None


def test_an_owner_at_github_may_be_a_person_or_a_team(server: ForgeServer, github: Forge) -> None:
    assert github.members_of("@ada") is None
    with pytest.raises(ForgeRefused, match="has nothing at GET /orgs/octo/teams/gone/members"):
        github.members_of("@octo/gone")


@pytest.mark.parametrize("name", ["shop", "octo/shop/more", "https://github.com/octo/shop", "octo/../shop", ""])
def test_a_name_that_is_none_is_refused_before_anything_is_asked(
    server: ForgeServer, api_of: Opening, name: str
) -> None:
    with pytest.raises(ForgeRefused, match="use OWNER/NAME"):
        GitHub(api_of("github"), name)
    if name.count("/") == 0 or "//" in name:
        with pytest.raises(ForgeRefused, match="use GROUP/NAME"):
            GitLab(api_of("gitlab"), name)
    assert server.seen == []


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", ()),
        ("This depends on nothing.", ()),
        ("Depends-On: #12", (12,)),
        ("words\r\n- depends-on: !3, #4 #3\r\nmore", (3, 4)),
        ("Depends-On: #1\nDepends-On: #2", (1, 2)),
    ],
)
def test_what_a_change_depends_on_is_read_from_its_description(text: str, numbers: tuple[int, ...]) -> None:
    assert dependencies(text) == (numbers, "")


@pytest.mark.parametrize(
    "said", ["", "other/repo#5", "https://forge.example/octo/shop/pull/5", "the other one", "#1 x"]
)
def test_a_dependency_that_cannot_be_read_is_not_taken_for_none(said: str) -> None:
    numbers, unclear = dependencies(f"Depends-On: {said}")
    assert numbers == () and unclear.startswith(("its Depends-On has ", "its Depends-On is empty"))


def test_a_branch_is_proposed_once_and_then_updated(server: ForgeServer, forge: Forge, kind: str) -> None:
    assert forge.find_open("forgepool/p", "main") is None
    first = forge.propose("forgepool/p", "main", "p: 2 tasks landed", "the report").url
    number = forge.find_open("forgepool/p", "main")
    assert number is not None and first.endswith(f"/{number}")
    assert forge.find_open("forgepool/p", "release") is None, "it is a change to another branch"
    assert forge.propose("forgepool/p", "main", "p: 3 tasks landed", "the report of today") == Proposed(url=first)
    changes = server.pulls if kind == "github" else server.requests
    (change,) = changes.values()
    assert change["title"] == "p: 2 tasks landed", "a person may have changed it"
    field = "body" if kind == "github" else "description"
    assert change[field] == "<!-- forgepool run: forgepool/p -->\nthe report of today"
    assert ready(forge) == [], "the queue's bot leaves it alone"


def test_neither_a_stranger_s_change_nor_a_person_s_text_is_taken_for_ours(
    server: ForgeServer, forge: Forge, kind: str
) -> None:
    """A fork's branch may have our name, and a person may have opened the change before the run."""
    fork = {"ref": "forgepool/p", "sha": HEAD, "repo": {"id": 2}}
    server.pulls = {number: pull(number, body="theirs") for number in (1, 2)}
    server.pulls[1]["head"], server.pulls[2]["head"] = fork, fork | {"repo": None}
    theirs = {"description": "theirs", "source_branch": "forgepool/p"}
    server.requests = {
        number: merge_request(number, source_project_id=project, **theirs) for number, project in ((1, 2), (2, None))
    }
    assert forge.find_open("forgepool/p", "main") is None
    opened = forge.propose("forgepool/p", "main", "p", "the report")
    assert opened.written and opened.url.endswith("/3")
    changes, field = (server.pulls, "body") if kind == "github" else (server.requests, "description")
    changes[3][field] = "By hand.\n\nCloses #3"
    assert forge.propose("forgepool/p", "main", "p", "the report") == Proposed(url=opened.url, written=False)
    assert [one[field] for one in changes.values()] == ["theirs", "theirs", "By hand.\n\nCloses #3"]


def test_a_proposal_that_may_have_arrived_is_not_sent_again(server: ForgeServer, forge: Forge, kind: str) -> None:
    server.faults = [None, Fault(0, acted=True)]
    with pytest.raises(ForgeAway, match="it may have arrived or not"):
        forge.propose("forgepool/p", "main", "p", "the report")
    forge.propose("forgepool/p", "main", "p", "the report")
    assert len(server.pulls if kind == "github" else server.requests) == 1
