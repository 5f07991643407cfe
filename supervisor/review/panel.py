"""
The choice of reviewers: models of other families than the author's, and than one another.

The author's families are taken out before any model is asked, from the first choice to the last resort. Where none is
left there is a sentence that says what would be right, and never a model of the author's family.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from forgepool.supervisor.messages.requests import MODELLESS, Author, ReviewRequest
from forgepool.workers.agents.families import UNKNOWN, are_apart, is_apart, is_same_model
from forgepool.workers.context.transcript.usage import Price
from forgepool.workers.llm.provider import Provider
from forgepool.workers.llm.routing.chain import Contender, ModelChain
from forgepool.workers.llm.routing.lane import BatchLane
from forgepool.workers.llm.routing.open import open_models
from forgepool.workers.llm.routing.table import Table
from forgepool.workers.llm.scripted import MODEL, ScriptedModel, scripts_in
from forgepool.workers.schema.settings import Settings

ROUTE = "review"
"""The kind of work whose models review, where the plan names none."""
_SCRIPTED_WINDOW = 200_000
_UNNAMED = "name one in the plan's `review`, or in models.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """One reviewer that can be asked."""

    name: str
    """The name of its transcript."""
    provider: Provider
    first: str
    """The model that is asked first."""
    families: Mapping[str, str]
    """By model's name, of all that may answer."""
    price: Price
    window_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    reviewers: tuple[Seat, ...]
    """At least one."""
    judge: Seat | None = None
    told: str = ""
    """The sentence about fewer reviewers than were wanted."""


@dataclass(slots=True, kw_only=True)
class _Group:
    """Contenders of one family."""

    family: str
    contenders: list[Contender] = field(default_factory=list)


def author_families(authors: Iterable[Author]) -> tuple[str, ...]:
    """Return the families of all authors, with `unknown` where a model of unknown family took part."""
    found: dict[str, None] = {}
    for author in authors:
        found |= dict.fromkeys(author.families)
        if not author.families and (author.models or author.agent not in MODELLESS):
            found[UNKNOWN] = None
    return tuple(found)


def panel(request: ReviewRequest, table: Table, settings: Settings) -> Panel | str:
    """
    Return the reviewers, or the sentence that says why there are none.

    Raises:
        ModelFailed: a model that the plan names is none, or a script is written wrongly.
    """
    authors = author_families(request.authors)
    if UNKNOWN in authors:
        why = "a model that worked on it is of no known family, so no reviewer can be shown to be of another"
        return f"{why}; give its model a `family` in models.yaml"
    if request.policy.script is not None:
        return _scripted(request, request.policy.script, authors)
    return _of_table(request, table, settings, authors)


def _scripted(request: ReviewRequest, text: str, authors: Sequence[str]) -> Panel | str:
    attempt = request.attempt
    models: list[ScriptedModel] = []
    scripts = scripts_in(text)
    for number, script in enumerate(scripts, start=1):
        model = ScriptedModel(script, attempt=attempt, name=f"script of reviewer {number}")
        if are_apart(model.family, [*authors, *(one.family for one in models)]):
            models.append(model)
    if not models:
        mend = "give the script a `family:` that is another"
        return f"the scripted reviewer is of the author's family ({_listed(authors)}); {mend}"
    return _seated(request, [_script_seat(number, model) for number, model in enumerate(models, start=1)])


def _script_seat(number: int, model: ScriptedModel) -> Seat:
    return Seat(
        name=f"{number}-{model.family}",
        provider=model,
        first=MODEL,
        families={MODEL: model.family},
        price=lambda given, answered: 0.0,
        window_tokens=_SCRIPTED_WINDOW,
    )


def _of_table(request: ReviewRequest, table: Table, settings: Settings, authors: Sequence[str]) -> Panel | str:
    chain = _everybody(request, table, settings)
    others = [one for one in chain.contenders if is_apart(one.candidate, authors)]
    if request.independence == "other_model":
        others += _other_models(request, table, settings, authors, chain.contenders)
    able = [one for one in others if not one.wanting]
    if not able:
        return _nobody(request, others, authors)
    if request.policy.reviewers == 1:
        # One reviewer may fall back to a third family; several may not, or two might meet in one.
        return Panel(reviewers=(make_seat(1, others, chain, table),))
    groups = [group for group in _grouped(others) if not all(one.wanting for one in group.contenders)]
    return _seated(request, [make_seat(at, group.contenders, chain, table) for at, group in enumerate(groups, start=1)])


def _other_models(
    request: ReviewRequest, table: Table, settings: Settings, authors: Sequence[str], asked: Sequence[Contender]
) -> list[Contender]:
    """
    Other models of the authors' families: those that would be asked anyway, then the rest of the table's.

    None where it is not known of some author which models had a hand in the work.
    """
    if any(author.families and not author.models for author in request.authors):
        return []
    own = [model for author in request.authors for model in author.models]
    names = [] if request.policy.by else [name for name in table.models if table.models[name].family in authors]
    rest = (_open(request, table, settings, name) for name in names)
    found = (*asked, *(one for chain in rest for one in chain.contenders[:1]))
    fit = {
        one.pair: one
        for one in reversed(found)
        if not is_apart(one.candidate, authors)
        and not is_same_model(one.candidate.model, own)
        and not is_same_model(one.candidate.id, own)
    }
    return list(reversed(fit.values()))


def _everybody(request: ReviewRequest, table: Table, settings: Settings) -> ModelChain:
    """The models that the plan names, in its order, and no others; else those of the route."""
    named = [_open(request, table, settings, model) for model in request.policy.by]
    if not named:
        return _open(request, table, settings)
    contenders = [
        one
        for model, chain in zip(request.policy.by, named, strict=True)
        for one in chain.contenders
        if one.candidate.model == model
    ]
    return ModelChain(contenders=tuple(contenders), breaker=named[0].breaker, why="named in the plan")


def _open(request: ReviewRequest, table: Table, settings: Settings, model: str | None = None) -> ModelChain:
    return open_models(
        table,
        task_type=ROUTE,
        phase="review",
        model=model,
        capped=request.cost_usd is not None or request.policy.limits.cost_usd is not None,
        closed=request.closed_accounts,
        run=request.run,
        settings=settings,
    )


def take_lane(panel: Panel, lane: BatchLane, *, fits: bool) -> Panel:
    """Seat the first reviewer in the batch lane, which says why where it cannot be: also if the change does not fit."""
    seat = panel.reviewers[0]
    if not fits:
        lane.over = "the change is too long to be shown in one call"
    elif isinstance(seat.provider, ModelChain):
        lane.choose(seat.provider)
    return Panel(reviewers=(replace(seat, provider=lane, first=lane.ticket.model or seat.first),))


def _grouped(contenders: Iterable[Contender]) -> list[_Group]:
    """By family, in the order in which these come; who may be of two of them is left out."""
    groups: list[_Group] = []
    for one in contenders:
        kin = [group for group in groups if not is_apart(one.candidate, [group.family])]
        if not kin:
            groups.append(_Group(family=one.candidate.family, contenders=[one]))
        elif len(kin) == 1:
            kin[0].contenders.append(one)
    return groups


def make_seat(number: int, contenders: Sequence[Contender], chain: ModelChain, table: Table) -> Seat:
    """Return a seat for these contenders alone; the first that can be asked speaks."""
    own = ModelChain(contenders=tuple(contenders), breaker=chain.breaker, why=chain.why)
    first = own.model or contenders[0].candidate.model
    families = {one.candidate.model: one.candidate.family for one in contenders}
    return Seat(
        name=f"{number}-{families[first]}",
        provider=own,
        first=first,
        families=families,
        price=own.price,
        window_tokens=table.models[first].window_tokens,
    )


def _seated(request: ReviewRequest, seats: Sequence[Seat]) -> Panel:
    """Seat as many as were wanted, and the next as judge where they may disagree."""
    wanted = request.policy.reviewers
    chosen, rest = tuple(seats[:wanted]), seats[wanted:]
    told = "" if len(chosen) == wanted else f"{wanted} reviewers were asked for, and {len(chosen)} could be had"
    return Panel(reviewers=chosen, judge=rest[0] if rest and len(chosen) > 1 else None, told=told)


def _nobody(request: ReviewRequest, others: Sequence[Contender], authors: Sequence[str]) -> str:
    kind = "family" if request.independence == "other_family" else "family or model"
    who = f"no model of another {kind} than {_listed(authors)}" if authors else "no model"
    where = "of those the plan names" if request.policy.by else f"on the route '{ROUTE}'"
    keys = dict.fromkeys(one.candidate.wants_key for one in others if one.candidate.wants_key)
    wanting = dict.fromkeys(one.wanting for one in others if one.wanting and not one.candidate.wants_key)
    mend = [f"set {' or '.join(keys)} where reviews are done"] * bool(keys) + list(wanting)
    return f"{who} can be asked {where}: {'; '.join(mend) or _UNNAMED}"


def _listed(families: Sequence[str]) -> str:
    return ", ".join(families)
