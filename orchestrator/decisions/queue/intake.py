"""Decisions of a queue on submissions, on moves of the hub, and on people's requests. Pure."""

from collections.abc import Iterator, Sequence

from forgepool.orchestrator.decisions.queue.submissions import CLASSES, STYLES, Submission, entry_of
from forgepool.orchestrator.journal.events import (
    CandidateRestored,
    EntryHeld,
    EntryQueued,
    EntryReclassed,
    EntryRefused,
    EntrySubmitted,
    Event,
    GatePaused,
    GateResumed,
    TaskBlocked,
    TaskCancelled,
)
from forgepool.orchestrator.journal.inbox import PersonRequest
from forgepool.orchestrator.journal.queue_events import LAST_WORDS, Asks, Card, Word
from forgepool.orchestrator.state.run import RunState, branch_of
from forgepool.orchestrator.state.steps.train_steps import find_withdrawn_need
from forgepool.orchestrator.state.task import IN_TRAIN, Phase
from forgepool.supervisor.messages.requests import MODELLESS, PERSON, Author, LandingStyle
from forgepool.supervisor.train.model import EntryClass

_MAY_GO = ("queued", "testing", "reviewing", "reviewed", "needs_human")


def of_run(state: RunState, one: Submission) -> list[Event] | None:
    """
    Decide on a run's further submission of an earlier entry, or its withdrawal; None for one that is taken in like any
    other.
    """
    card, asks = one.card, one.asks if one.card is None else one.card.asks
    if asks is None:
        return None
    if entry_of(asks) != one.name:
        why = f"its card is of task '{asks.task}' of run {asks.run}, which gives nothing under this name"
        return [EntryRefused(name=one.name, commit=one.commit, why=why)]
    withdrawn = card is not None and card.withdrawn
    if (wrong := _out_of_turn(state, one.name, asks, readable=card is not None)) is not None:
        word: Word = "withdrawn" if withdrawn else "refused"
        said = one.wrong or wrong
        return [EntryRefused(name=one.name, commit=one.commit, why=said, asks=asks, out_of_turn=True, word=word)]
    if card is not None and withdrawn:
        return _taken_back(state, one, card)
    mine = state.submitted.get(one.name)
    known = mine is not None and mine.card is not None and mine.card.asks == asks
    return [] if known or _is_over(state, one.name, asks) else None


def _out_of_turn(state: RunState, name: str, asks: Asks, *, readable: bool) -> str | None:
    """
    Return why the number is out of turn; None where it is that of the last delegation, or the next.

    A pusher can write any number on a card: one out of turn changes nothing, and each is answered.
    """
    last = _last_number(state, name)
    if last == 0:
        return None if readable else "it is the first that is seen of it"
    if asks.number in (last, last + 1):
        return None
    if asks.number < last:
        return f"a later giving of it was taken in: number {last}, and this is {asks.number}"
    return f"it is number {asks.number} of the givings of it, and the last that came here is {last}"


def _last_number(state: RunState, name: str) -> int:
    """Return the number of the last delegation that came in turn; 0 where none has."""
    entry, refused = state.submitted.get(name), state.refused.get(name)
    given = entry.card.asks.number if entry is not None and entry.card is not None else 0
    turned_away = refused.asks.number if refused is not None and refused.asks is not None else 0
    return max(given, turned_away, state.answered.get(name, (0, "in_line"))[0])


def _taken_back(state: RunState, one: Submission, card: Card) -> list[Event]:
    """Take an entry back. An ended one answers with its outcome; an unknown one will never land."""
    task, mine = state.tasks.get(one.name), state.submitted.get(one.name)
    if _is_over(state, one.name, card.asks):
        return []
    if task is None or mine is None or mine.card is None or mine.card.asks != card.asks:
        why = "it was taken back before it stood in line"
        return [EntryRefused(name=one.name, commit=one.commit, why=why, asks=card.asks, word="withdrawn")]
    may_go = task.phase in _MAY_GO and not task.landing_in_doubt
    return [TaskCancelled(task=task.id)] if may_go else []


def _is_over(state: RunState, name: str, asks: Asks) -> bool:
    """Tell whether the run was told the final outcome."""
    number, word = state.answered.get(name, (0, "in_line"))
    return asks.number < number or (asks.number == number and word in LAST_WORDS)


def card_of(state: RunState, one: Submission) -> Card | None:
    """
    Return the submission's own card, or that of the run whose candidate it replaces: that run is told the outcome even
    if another submitter mends the candidate.
    """
    mine: EntrySubmitted | None = state.submitted.get(one.name)
    if one.card is not None or mine is None or mine.card is None:
        return one.card
    return None if _is_over(state, one.name, mine.card.asks) else mine.card


_ENDED: tuple[Phase, ...] = ("failed", "blocked", "cancelled", "needs_human")


def take_in(state: RunState, one: Submission, *, contained: bool) -> list[Event]:
    """
    The entry it becomes, or why it becomes none; empty where it stands in line already, just as it is.

    `contained`: the target has the commit already.
    """
    task = state.tasks.get(one.name)
    if (known := of_run(state, one)) is not None:
        return known
    card = card_of(state, one)
    if (
        task is not None
        and task.phase in IN_TRAIN
        and task.candidate == one.commit
        and state.submitted[one.name].card == card
    ):
        return []
    if (why := one.wrong or _wrong(state, one, contained=contained)) is not None:
        return [EntryRefused(name=one.name, branch=one.branch, commit=one.commit, why=why, asks=one.asks)]
    return [
        EntrySubmitted(
            task=one.name,
            branch=one.branch,
            revision=task.attempt + 1 if task is not None else 1,
            commit=one.commit,
            title=one.title,
            by=one.by,
            author=_author(one),
            klass=_class(one),
            needs=one.said.get("needs", ()),
            style=_style(one),
            card=card,
        )
    ]


def _wrong(state: RunState, one: Submission, *, contained: bool) -> str | None:
    task, klass = state.tasks.get(one.name), _first(one, "class")
    if contained:
        return f"{state.target} has {one.commit[:12]} already"
    if task is not None and task.phase == "landed":
        return f"an entry of that name has landed, as {task.commit[:12]}; submit it under another name"
    if task is not None and (task.phase == "landing" or task.landing_in_doubt):
        return "an entry of that name is landing just now; submit it once that has ended"
    if klass and klass not in CLASSES:
        return f"there is no class '{klass}'; say {', '.join(CLASSES[:-1])} or {CLASSES[-1]}"
    if (style := _first(one, "style")) and style not in STYLES:
        return f"there is no way of landing '{style}'; say {', '.join(STYLES[:-1])} or {STYLES[-1]}"
    return _wrong_need(state, one)


def _wrong_need(state: RunState, one: Submission) -> str | None:
    for need in one.said.get("needs", ()):
        if need == one.name or one.name in _needed_by(state, need):
            return f"it needs '{need}', which needs it in turn; submit what belongs together as one branch"
        if need not in state.tasks:
            return f"it needs '{need}', and no entry of that name was submitted to {state.target}; submit that first"
    return None


def _needed_by(state: RunState, name: str) -> set[str]:
    """Return all that an entry needs, directly or through others."""
    found: set[str] = set()
    left = [name]
    while left:
        entry = state.submitted.get(left.pop())
        new = [need for need in (entry.needs if entry else ()) if need not in found]
        found.update(new)
        left.extend(new)
    return found


def _style(one: Submission) -> LandingStyle | None:
    return next((style for style in STYLES if style == _first(one, "style")), None)


def _author(one: Submission) -> Author:
    """Return the author. The submitter states a model's family; an unstated one could be any family."""
    if one.card is not None:
        # A run's task is nobody's own change, whatever its card says.
        author = one.card.author
        named = author.families or (author.agent in MODELLESS and author.agent != PERSON)
        return author if named else author.model_copy(update={"families": ("unknown",)})
    agent, families = _first(one, "agent"), one.said.get("family", ())
    if agent in ("", PERSON) and not families:
        return Author(agent=PERSON)
    unknown = () if agent == "command" else ("unknown",)
    return Author(agent=agent or "unknown", families=families or unknown)


def _first(one: Submission, key: str) -> str:
    return one.said.get(key, ("",))[0]


def _class(one: Submission) -> EntryClass:
    match _first(one, "class"):
        case "hotfix":
            return "hotfix"
        case "low":
            return "low"
        case _:
            return "normal"


def withdrawn(state: RunState) -> list[Event]:
    """Entries that need what will not land."""
    found: list[Event] = []
    for one in state.train.line.entries:
        by = find_withdrawn_need(state, state.submitted[one].needs) if one in state.submitted else None
        if by is not None and state.tasks[one].phase in ("queued", "testing"):
            found.append(TaskBlocked(task=one, by=by))
    return found


def back_in_line(state: RunState) -> list[Event]:
    """Put entries that a person has approved after all back into the queue; they hold no files of others."""
    pending = [CandidateRestored(task=task.id) for task in state.phases.pending_again() if task.restorable]
    return [*pending, *(EntryQueued(task=task.id) for task in state.in_phase("candidate"))]


def apply_request(state: RunState, request: PersonRequest) -> list[Event] | None:
    """Apply a person's request to the queue; None for one that is granted as in any run."""
    match request.do:
        case "pause":
            return [] if state.paused else [GatePaused(by=request.by, why=request.text)]
        case "go":
            return [GateResumed(by=request.by)] if state.paused or state.halted else []
        case "hold" | "release":
            return list(_held(state, _named(state, request), request))
        case "reclass":
            return list(_reclassed(state, _named(state, request), request))
        case "retry":
            return list(_again(state, request))
        case "grant":
            return list(_granted(state, request))
        case "cancel":
            named = _named(state, request) if request.task is not None else []
            return [TaskCancelled(task=one) for one in named if _may_go(state, one)]
        case _:
            return None


VERBS = {
    "cancel": "withdraw",
    "retry": "try again",
    "hold": "hold",
    "release": "release",
    "pause": "pause",
    "go": "resume",
}


def verb(request: PersonRequest) -> str:
    """Return the request in words, to be put behind "to"."""
    return f"make {request.text}" if request.do == "reclass" else VERBS.get(request.do, request.do)


_WORDS = {"needs_human": "waiting for a person", "failed": "returned", "cancelled": "withdrawn"}


def nothing_to_do(state: RunState, request: PersonRequest) -> str:
    """Return one sentence on why a request changes nothing."""
    task = state.tasks.get(request.task or "")
    if request.task is not None and task is None:
        return f"there is no entry '{request.task}' in the queue of {state.target}"
    if request.do == "reclass" and request.text not in CLASSES:
        return f"there is no class '{request.text}'; say {', '.join(CLASSES[:-1])} or {CLASSES[-1]}"
    if task is not None and _is_of_another(request, state.submitted[task.id]):
        return f"'{task.id}' is another commit by now, {state.submitted[task.id].commit[:12]}"
    where = (
        f"'{branch_of(state, task.id)}' is {_WORDS.get(task.phase, task.phase)}"
        if task is not None
        else "it stands so already"
    )
    return f"there is nothing to {verb(request)}: {where}"


def _named(state: RunState, request: PersonRequest) -> Sequence[str]:
    """Name the entry that the request is about; none where it was said of another commit than the entry's."""
    entry = state.submitted.get(request.task or "")
    if entry is not None and _is_of_another(request, entry):
        return []
    return [one for one in state.tasks if one == request.task]


def _may_go(state: RunState, one: str) -> bool:
    task = state.tasks[one]
    return task.phase in ("queued", "testing", "reviewing", "reviewed", "needs_human") and not task.landing_in_doubt


def _held(state: RunState, names: Sequence[str], request: PersonRequest) -> Iterator[Event]:
    wanted = request.do == "hold"
    for one in names:
        stays = one in state.held or (one in state.train.refused and not wanted)
        if state.tasks[one].phase in IN_TRAIN and stays != wanted:
            yield EntryHeld(task=one, by=request.by, held=wanted)


def _reclassed(state: RunState, names: Sequence[str], request: PersonRequest) -> Iterator[Event]:
    for one in names:
        for klass in CLASSES:
            if klass == request.text and state.tasks[one].phase in IN_TRAIN and state.submitted[one].klass != klass:
                yield EntryReclassed.model_validate({"task": one, "by": request.by, "klass": klass})


def _again(state: RunState, request: PersonRequest) -> Iterator[Event]:
    """The same commit once more; of one that the hub did not take, its landing."""
    for one in _named(state, request):
        task = state.tasks[one]
        if one in state.train.refused:
            yield EntryHeld(task=one, by=request.by, held=False)
        if task.phase in _ENDED and one in state.submitted and not _is_of_another(request, state.submitted[one]):
            yield state.submitted[one].model_copy(update={"revision": task.attempt + 1})


def _granted(state: RunState, request: PersonRequest) -> Iterator[Event]:
    """
    Take the entry in again as another revision of the same commit: findings made without the person's leave no longer
    count.
    """
    for one in _named(state, request):
        task, entry = state.tasks[one], state.submitted.get(one)
        if (
            entry is None
            or _is_of_another(request, entry)
            or task.landing_in_doubt
            or task.phase not in (*IN_TRAIN, *_ENDED)
            or task.phase == "landing"
        ):
            continue
        grants = tuple(dict.fromkeys((*entry.grants, *request.grants)))
        waive = tuple(dict.fromkeys((*entry.waive, *request.waive)))
        if (grants, waive) != (entry.grants, entry.waive):
            told = {"grants": grants, "waive": waive, "granted_by": request.by}
            yield entry.model_copy(update={"revision": task.attempt + 1, **told})


def _is_of_another(request: PersonRequest, entry: EntrySubmitted) -> bool:
    """It was said of a commit that is not the entry's any more."""
    return request.candidate not in ("", entry.commit)
