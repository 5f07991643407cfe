"""
The form of a submission: a ref below `refs/forgepool/for/<target>/` in the hub, to the commit itself or to a tag that
names it and says more.

A tag is an object like a commit: it goes wherever a push goes, and needs no server. Its lines `Key: value` are the
submitter's words: they order the queue, and grant no rights.
"""

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.queue_events import Asks, Card
from forgepool.supervisor.messages.requests import LandingStyle
from forgepool.workers.schema.globs import BadGlob, parse
from forgepool.workers.schema.orders import Message
from forgepool.workers.workspace.refs import submission_ref, submissions_of
from forgepool.worktrees.git.git import CommitId, Git, GitFailed
from forgepool.worktrees.git.objects import find_object, find_objects, read_blob, read_object
from forgepool.worktrees.hub.mirror import Mirror

_CARD = re.compile(r"^Card: (.+)$", re.MULTILINE)
_ASKS = re.compile(r"^Asks: (\S+) (\S+) ([0-9]{1,9})$", re.MULTILINE)
_MOST_CHARACTERS = 5_000_000
_STRANGE = "what its run demands cannot be read here; keep the gate with a later version"


class CardUnreadable(Exception):
    """There is a card, and what it demands is not known; one sentence."""


def write_card_lines(card: Card) -> list[tuple[str, str]]:
    """
    Write the card as lines. A tag's lines are folded, and a description's must not be. `Asks` stands apart for versions
    that cannot read the rest.
    """
    asks = card.asks
    text = base64.b64encode(card.encode().encode()).decode()
    return [("Asks", f"{asks.run} {asks.task} {asks.number}"), ("Card", text)]


def read_card(text: str) -> Card | None:
    """
    Read the card in a tag's text; None where it has none.

    Raises:
        CardUnreadable: it is too long, or of a later version, or names files in a way that no worker could keep to.
    """
    found = _CARD.search(text)
    if found is None:
        return None
    if len(found[1]) > _MOST_CHARACTERS:
        raise CardUnreadable(_STRANGE)
    try:
        card = Card.model_validate_json(base64.b64decode(found[1], validate=True))
    except (ValidationError, binascii.Error, ValueError) as strange:
        raise CardUnreadable(_STRANGE) from strange
    _prove_globs(card)
    return card


def _prove_globs(card: Card) -> None:
    """Check the globs. Those in `extended` are literal paths, so nothing in them can be wrong."""
    for glob in (*(card.files or ()), *card.planned):
        try:
            parse(glob)
        except BadGlob as wrong:
            raise CardUnreadable(
                f"what its run demands cannot be kept to: {wrong}; give it again without it"
            ) from wrong


def read_asks(text: str) -> Asks | None:
    """Read which run is to be told, even where the rest of the card is unreadable."""
    found = _ASKS.search(text)
    try:
        return Asks(run=found[1], task=found[2], number=int(found[3])) if found is not None else None
    except ValidationError:
        return None


CLASSES = ("hotfix", "normal", "low")
STYLES: tuple[LandingStyle, ...] = ("merge", "squash", "rebase")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_]+(?:[/-][A-Za-z0-9_]+)+")
"""Without two of its dashes or slashes side by side: what becomes of it can be told from what becomes of others."""
_MOST_NAME = 100
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
_MOST_TITLE = 200
_MOST_VALUES = 20
"""The most values of one key; further ones are ignored."""


_MOST_REQUEST_BYTES = 10_000
_NO_REQUEST = "it is neither a commit nor a request that this queue can read; push a commit, or a tag of one"


class HubRequest(Message):
    """A request about one entry, as it lies in the hub: a blob below the submissions' refs."""

    do: Literal["cancel", "retry", "hold", "release", "reclass"]
    """A push may ask for these. Pauses, grants and approvals are given on the queue's host."""
    task: Annotated[str, Field(min_length=1, max_length=200)]
    text: Annotated[str, Field(max_length=20)] = ""
    by: str = ""
    candidate: Annotated[str, Field(max_length=64)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A pushed submission, as far as it can be read."""

    ref: str
    at: CommitId
    """The object the ref is at: a commit, or a tag."""
    name: str
    commit: CommitId
    branch: str = ""
    """The name that people know it by, such as `feature/base`; empty where that is `name`."""
    title: str = ""
    by: str = ""
    said: Mapping[str, tuple[str, ...]]
    """The further lines of a tag, by key in lower case."""
    card: Card | None = None
    """The card, if a run submitted it."""
    asks: Asks | None = None
    """The run that is to be told, if one is, and its own name for the task."""
    request: PersonRequest | None = None
    """A person's word about an entry, which lies there in place of a commit."""
    wrong: str = ""
    """Why it cannot be taken in; one sentence."""


def entry_name(text: str) -> str:
    """
    A name that may stand in refs and files: `feature/a` becomes `feature--a`. Where that could be another's name as
    well, a digest of the whole tells them apart. A name remains what it is.
    """
    name = text.replace("/", "--")
    if (_PLAIN_NAME.fullmatch(text) or _PLAIN_PATH.fullmatch(text)) and len(name) <= _MOST_NAME:
        return name
    return _with_digest(text)


def earlier_name(text: str) -> str:
    """Return the name that earlier versions gave this entry, when `feature/a` and `feature-a` were one."""
    fit = _UNFIT.sub("-", text).strip("-")
    plain = re.fullmatch(r"[A-Za-z0-9_/-]+", text)
    return fit if plain and fit and len(fit) <= _MOST_NAME else _with_digest(text)


def _with_digest(text: str) -> str:
    fit = _UNFIT.sub("-", text).strip("-")
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    return f"{fit[: _MOST_NAME - 10] or 'entry'}-{digest}"


def entry_of(asks: Asks) -> str:
    """Under which name a run gives the candidates of a task."""
    return entry_name(f"{asks.run}/{asks.task}")


def tag_text(commit: str, name: str, said: Iterable[tuple[str, str]], *, by: str, at: float) -> str:
    """The text of the tag object that submits a commit, with what is said of it."""
    lines = [f"{key}: {' '.join(value.split())}" for key, value in said]
    head = [f"object {commit}", "type commit", f"tag {name}", f"tagger {by} <> {int(at)} +0000"]
    return "\n".join([*head, "", f"Forgepool: let {name} in", "", *lines, ""])


def read_submissions(mirror: Mirror, target: str, at: Mapping[str, CommitId]) -> list[Submission]:
    """Fetch and read what lies under the submission refs of the target. Raises GitFailed."""
    refs = {ref: one for ref, one in sorted(at.items()) if ref.startswith(submission_ref(target, ""))}
    lacking = _fetch(mirror, refs) if refs else frozenset()
    return [
        _lacking(target, ref, one) if ref in lacking else read_submission(mirror.git, target, ref, one)
        for ref, one in refs.items()
    ]


def _fetch(mirror: Mirror, refs: Mapping[str, CommitId]) -> frozenset[str]:
    """Fetch the refs; return those whose objects the hub itself lacks."""
    # By flat names: `a` and `a/b` may both be submitted, one after the other, and git keeps no two such refs.
    specs = {ref: f"+{ref}:refs/hub/submitted/{hashlib.sha256(os.fsencode(ref)).hexdigest()}" for ref in refs}
    try:
        mirror.fetch(*specs.values())
    except GitFailed:
        return frozenset(ref for ref, spec in specs.items() if _is_lacking(mirror, spec))
    return frozenset()


_LACKS = re.compile(r"(?:not our ref|could not read|bad object|missing \w+|unable to \w+) [0-9a-f]{40}", re.IGNORECASE)


def _is_lacking(mirror: Mirror, spec: str) -> bool:
    """Fetch one ref; tell whether the hub says that it lacks some of it. Raises GitFailed for all other trouble."""
    try:
        mirror.fetch(spec)
    except GitFailed as failed:
        if _LACKS.search(failed.stderr) is None:
            raise
        return True
    return False


def _lacking(target: str, ref: str, at: CommitId) -> Submission:
    name = entry_of_ref(target, ref)
    blank = Submission(ref=ref, at=at, name=name, commit=at, said={})
    return _refused(blank, "the hub does not have all of it; push it again")


def entry_of_ref(target: str, ref: str) -> str:
    """The entry that a submission's ref is of."""
    return entry_name(ref.removeprefix(submission_ref(target, "")))


def in_order(found: Sequence[Submission]) -> list[Submission]:
    """Order submissions so that each comes after what it needs; those in a circle keep the order given."""
    left, done = {one.name: one for one in found}, list[Submission]()
    while left:
        free = [one for one in left.values() if left.keys().isdisjoint(one.said.get("needs", ()))]
        for one in free or list(left.values())[:1]:
            done.append(left.pop(one.name))
    return done


def pattern(target: str) -> str:
    return submissions_of(target)


def read_submission(git: Git, target: str, ref: str, at: CommitId) -> Submission:
    """Read the submission or request at the ref; its objects are here."""
    name, branch = entry_of_ref(target, ref), ref.removeprefix(submission_ref(target, ""))
    blank = Submission(ref=ref, at=at, name=name, branch=_own_name(branch, name), commit=at, said={})
    facts, peeled = find_objects(git, (at, f"{at}^{{commit}}"))
    if facts is not None and facts.kind == "blob":
        return _read_request(git, blank)
    if facts is None or peeled is None:
        return _refused(blank, "it names no commit; push a commit, or a tag of one")
    commit = CommitId(peeled.id)
    text = os.fsdecode(read_object(git, at)[1]).removesuffix("\n") if facts.kind == "tag" else ""
    said = _said(text) if text else {}
    title, author = (*git.text("show", "-s", "--format=%s%n%an", commit).split("\n"), "", "")[:2]
    by = said.get("by", (author,))[0]
    asks = read_asks(text)
    read = Submission(
        ref=ref,
        at=at,
        name=name,
        branch=_own_name(said.get("branch", (branch,))[0], name),
        commit=commit,
        title=_plain(title),
        by=_plain(by),
        said=said,
        asks=asks if asks is not None and entry_of(asks) == name else None,
    )
    try:
        return replace(read, card=read_card(text))
    except CardUnreadable as strange:
        return replace(read, wrong=str(strange))


def _refused(blank: Submission, why: str) -> Submission:
    return replace(blank, wrong=why)


def _own_name(branch: str, name: str) -> str:
    """The branch's own name; empty where it is the entry's, or where it would not lead to this entry."""
    fits = branch != name and branch.isprintable() and entry_name(branch) == name
    return branch if fits and len(branch) <= _MOST_TITLE else ""


def _read_request(git: Git, blank: Submission) -> Submission:
    """Read a request. It gives no right that submitting under the entry's name does not give already."""
    try:
        facts = find_object(git, blank.at)
        if facts is None or facts.size > _MOST_REQUEST_BYTES:
            return _refused(blank, _NO_REQUEST)
        request = HubRequest.model_validate_json(read_blob(git, blank.at))
    except ValidationError:
        return _refused(blank, _NO_REQUEST)
    return replace(
        blank, request=PersonRequest(**{**dict(request), "task": entry_name(request.task), "by": _plain(request.by)})
    )


def _said(text: str) -> dict[str, tuple[str, ...]]:
    body = text.split("\n\n", 1)[-1]
    found: dict[str, tuple[str, ...]] = {}
    for line in body.splitlines()[1:]:
        key, colon, value = line.partition(":")
        if colon and value.strip():
            before = found.get(_plain(key.lower()), ())
            found[_plain(key.lower())] = tuple(dict.fromkeys((*before, _plain(value))))[:_MOST_VALUES]
    if needs := found.get("needs"):
        # By the branches' own names, as a person knows them.
        found["needs"] = tuple(entry_name(one) for one in needs)
    return found


def _plain(text: str) -> str:
    """Git keeps any bytes as a name or a title; a journal keeps text."""
    return text.encode(errors="replace").decode().strip()[:_MOST_TITLE]
