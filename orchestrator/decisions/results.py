"""
From an answer to the events it leads to. Pure. An unexpected answer leads to none.

Every answer is told by id and token: one given to an earlier sending of the same id is not taken for the present one.
"""

from forgepool.orchestrator.decisions.locks import beyond
from forgepool.orchestrator.decisions.orders.purse import ROUNDED_USD
from forgepool.orchestrator.decisions.plan_index import PlanIndex
from forgepool.orchestrator.decisions.reviews.post_merge import describe_red_target, landings_of
from forgepool.orchestrator.decisions.reviews.task_reviews import park_unapproved
from forgepool.orchestrator.journal.events import (
    CheckAnswered,
    CheckDoubted,
    ContextRebuilt,
    Event,
    GateHalted,
    LandingAnswered,
    MessageTaken,
    MoneyAsked,
    OrderAnswered,
    PathsAsked,
    ReviewAnswered,
    WaveAnswered,
    WaveReviewAnswered,
    WorkKept,
)
from forgepool.orchestrator.plan.budget import Use
from forgepool.orchestrator.plan.readiness import ready
from forgepool.orchestrator.state.review import Outstanding
from forgepool.orchestrator.state.run import RunState
from forgepool.orchestrator.state.task import TaskState
from forgepool.supervisor.messages.answers import CheckResult, Doubt, Landing, Review
from forgepool.supervisor.train.model import Ids
from forgepool.workers.context.profile_switch import ContextTold
from forgepool.workers.queue import replies
from forgepool.workers.queue.replies import MessageStarted
from forgepool.workers.schema.orders import WorkResult

OrderNote = MessageStarted | replies.PathRequest | replies.WorkNote | replies.MoneyRequest | ContextTold
Answer = OrderNote | WorkResult | Doubt | CheckResult | Review | Landing


def receive_answer(course: PlanIndex, state: RunState, answer: Answer) -> list[Event]:
    """Return the events of an answer; none for one that comes too late, twice, or unasked."""
    match answer:
        case WorkResult():
            return _worked(course, state, answer)
        case Doubt():
            return _doubted(state, answer)
        case CheckResult():
            return _checked(course, state, answer)
        case Review():
            return _reviewed(state, answer)
        case Landing():
            return _landed(course, state, answer)
        case _:
            return _noted(course, state, answer)


def _noted(course: PlanIndex, state: RunState, note: OrderNote) -> list[Event]:
    match note:
        case MessageStarted():
            return _taken(state, note)
        case replies.PathRequest():
            return _asked(course, state, note)
        case replies.WorkNote():
            return _kept(state, note)
        case replies.MoneyRequest():
            return _asked_for_money(state, note)
        case ContextTold():
            return _rebuilt(state, note)


def _rebuilt(state: RunState, note: ContextTold) -> list[Event]:
    task = state.task_of(note.order_id)
    if task is None or task.phase != "running" or task.message is None or task.message.token != note.token:
        return []
    told = note.model_dump(exclude={"kind", "order_id", "token"})
    return [ContextRebuilt(task=task.id, attempt=task.attempt, **told)]


def _kept(state: RunState, note: replies.WorkNote) -> list[Event]:
    task, attempt = _task_of_order(state, note.order_id), note.order_id.rpartition(".")[2]
    if task is None or not attempt.isdecimal() or int(attempt) in state.tasks[task].works:
        return []
    use = state.tasks[task].uses.get(int(attempt))
    if not (note.commit or note.withheld) and (use is None or use.spent is not None):
        return []
    mends = state.tasks[task].mends if int(attempt) == state.tasks[task].attempt else None
    told = note.model_dump(exclude={"kind", "order_id"})
    return [WorkKept(task=task, attempt=int(attempt), mends=mends, **told)]


def _taken(state: RunState, note: MessageStarted) -> list[Event]:
    message = state.outstanding().get(note.message_id)
    if message is None or message.token != note.token:
        return []
    if state.holder(message) == f"{note.host}/{note.pid}":
        return []
    return [MessageTaken(message_id=note.message_id, host=note.host, pid=note.pid)]


def find_asking_task(state: RunState, question: replies.PathRequest | replies.MoneyRequest) -> TaskState | None:
    """The task whose attempt under way asks this; None for one that is over."""
    task = state.task_of(question.order_id)
    return task if task is not None and task.message and task.message.token == question.token else None


def _asked(course: PlanIndex, state: RunState, question: replies.PathRequest) -> list[Event]:
    """
    Nothing, where it holds the paths already, and where the question is open or answered.
    """
    task = find_asking_task(state, question)
    if task is None or not beyond(course, task, question.paths):
        return []
    if question.number in task.asks:
        return []
    return [PathsAsked(task=task.id, attempt=task.attempt, number=question.number, paths=question.paths)]


def _asked_for_money(state: RunState, request: replies.MoneyRequest) -> list[Event]:
    """Nothing, where it has more than it knows of already, and where the same is asked for."""
    task = find_asking_task(state, request)
    if task is None or knows_less(task, request) or is_asked(task, request):
        return []
    known = task.money
    usd, tokens = (0.0, 0) if known is None else (known.usd, known.tokens)
    asked = {"kinds": request.kinds, "usd": max(request.needs_usd, usd), "tokens": max(request.needs_tokens, tokens)}
    return [MoneyAsked(task=task.id, attempt=task.attempt, **asked)]


def knows_less(task: TaskState, request: replies.MoneyRequest) -> bool:
    """Tell whether the attempt's limits are larger than it knows, since an answer was lost."""
    use = task.uses.get(task.attempt, Use())
    usd = use.limit_usd is not None and request.has_usd is not None and use.limit_usd > request.has_usd + ROUNDED_USD
    tokens = use.limit_tokens is not None and request.has_tokens is not None and use.limit_tokens > request.has_tokens
    return usd or tokens


def is_asked(task: TaskState, request: replies.MoneyRequest) -> bool:
    """Tell whether it has asked for as much already."""
    ask = task.money
    if ask is None or not set(request.kinds) <= set(ask.kinds):
        return False
    return request.needs_usd <= ask.usd and request.needs_tokens <= ask.tokens


def _worked(course: PlanIndex, state: RunState, result: WorkResult) -> list[Event]:
    task = state.task_of(result.order_id)
    if task is not None and task.message is not None:
        return [OrderAnswered(task=task.id, result=result)] if task.message.token == result.token else []
    late = _task_of_order(state, result.order_id)
    if late is None or result.outcome != "candidate" or not _may_adopt(course, state, late, result):
        return []
    return [OrderAnswered(task=late, result=result)]


def _task_of_order(state: RunState, order_id: str) -> str | None:
    """The task of a late order of this run."""
    stem, _, _ = order_id.rpartition(".")
    run, _, task = stem.partition(f"{state.run}.")
    return task if not run and task in state.tasks else None


def _may_adopt(course: PlanIndex, state: RunState, task_id: str, result: WorkResult) -> bool:
    """
    Tell whether a late candidate of a lost attempt may stand in for the attempt under way.

    It may while no newer one has finished; a task that waits must be free to start, since adopting it takes its lock.
    An attempt that was judged before is over, and so is one that a person was asked about, has cancelled, or has had
    begun afresh; and those before it: they never come back.
    """
    task = state.tasks[task_id]
    if (
        result.attempt <= task.over
        or result.attempt in task.withdrawn
        or any(reason.attempt >= result.attempt for reason in task.reasons)
    ):
        return False
    if task.phase == "running":
        return True
    if task.phase != "pending" or result.attempt != task.attempt:
        return False
    done = course.find_done(state)
    free = ready(course.graph, landed=done, in_flight=course.in_flight(state), waiting=[task_id], slots=1)
    return task_id in free


def _checked(course: PlanIndex, state: RunState, result: CheckResult) -> list[Event]:
    message = _owed(state, result)
    if message is None:
        return []
    if message.kind == "wave":
        return _wave(state, result)
    trial = state.train.line.trials[message.message_id]
    answered: list[Event] = [CheckAnswered(task=message.task, result=result, ahead=trial.ahead, car=trial.car)]
    if result.verdict in ("base_red", "not_configured"):
        red = result.verdict == "base_red"
        why = describe_red_target(state, result, serving=course.serving) if red else result.detail
        answered.append(GateHalted(why=why))
    return answered


def _doubted(state: RunState, note: Doubt) -> list[Event]:
    """Once, and of a trial only."""
    message = _owed(state, note)
    trial = state.train.line.trials.get(note.request_id)
    if message is None or trial is None or trial.failing:
        return []
    return [CheckDoubted(message_id=note.request_id)]


def _wave(state: RunState, result: CheckResult) -> list[Event]:
    """Report a target that is red as a whole: name the landings since it was last green, and blame none of them."""
    answered: list[Event] = [WaveAnswered(result=result)]
    if state.wave.tasks and result.verdict not in ("green", "infrastructure"):
        answered.append(GateHalted(why=f"{landings_of(state.wave)}: {result.detail or result.verdict}"))
    return answered


def _reviewed(state: RunState, result: Review) -> list[Event]:
    message = _owed(state, result)
    if message is None:
        return []
    if message.kind == "wave_review":
        return [WaveReviewAnswered(result=result)]
    return [ReviewAnswered(task=message.task, result=result)]


def _owed(state: RunState, result: Doubt | CheckResult | Review | Landing) -> Outstanding | None:
    message = state.outstanding().get(result.request_id)
    return message if message is not None and message.token == result.token else None


def _landed(course: PlanIndex, state: RunState, result: Landing) -> list[Event]:
    message = _owed(state, result)
    if message is None:
        return []
    landing = state.train.landing
    entries = landing.intent.entries if landing is not None else ()
    answered: list[Event] = [LandingAnswered(task=message.task, result=result, entries=entries)]
    if result.outcome == "refused" and result.unapproved:
        answered.append(
            park_unapproved(state, state.tasks.get(result.unapproved, state.tasks[message.task]), result.detail)
        )
    elif result.outcome == "refused" and not (course.serving and _may_be_of_one_entry(state, entries, result)):
        answered.append(GateHalted(why=result.detail, infrastructure=True))
    return answered


def _may_be_of_one_entry(state: RunState, entries: Ids, result: Landing) -> bool:
    """The hub has refused it, and not yet two in a row, each by itself: others are let in before the hub is judged."""
    train = state.train
    again = train.given_another_chance.issuperset(entries)
    return result.by_hub and (len(entries) > 1 or again or not train.refusals_in_a_row)


def message_of(event: Event) -> str | None:
    """The message to which this event is the answer."""
    match event:
        case OrderAnswered(result=result):
            return result.order_id
        case CheckAnswered(result=result) | ReviewAnswered(result=result) | WaveAnswered(result=result):
            return result.request_id
        case WaveReviewAnswered(result=result):
            return result.request_id
        case LandingAnswered(result=result):
            return result.request_id
        case _:
            return None
