"""
The events of a run. The journal keeps them in order, for ever, and all state is folded from them.

An event states a fact with its evidence. Times are the journal's. Adding a field needs a default, changing the
meaning of one needs a new event: journals of earlier versions must go on being read.
"""

from typing import Annotated

from pydantic import Field, TypeAdapter

from forgepool.orchestrator.journal.ask_events import (
    BudgetAwaited,
    MoneyAsked,
    MoneyGranted,
    MoneyQueued,
    PathsAsked,
    PathsGranted,
    PathsQueued,
    PathsRefused,
)
from forgepool.orchestrator.journal.queue_events import (
    EntryAnswered,
    EntryGiven,
    EntryHeld,
    EntryRecalled,
    EntryReclassed,
    EntryRefused,
    EntrySubmitted,
    EntryTold,
    GateFrozen,
    GateNoticed,
    GatePaused,
    GateResumed,
    GateRuled,
    GateThawed,
    TipMoved,
)
from forgepool.orchestrator.journal.race_events import RacerPromoted, RacerWithdrawn
from forgepool.orchestrator.journal.run_events import (
    BudgetSet,
    CarDissolved,
    CheckAnswered,
    CheckCancelled,
    CheckDoubted,
    CheckSent,
    EntryQueued,
    GateHalted,
    HostMismatched,
    HostReadmitted,
    HostsLacking,
    HostSuspended,
    LandingAnswered,
    LandingIntended,
    MessagesRefused,
    ModelsShut,
    PartRestarted,
    PlanRevised,
    RunEnded,
    RunForecast,
    RunPaused,
    RunResumed,
    RunStarted,
    TasksAdded,
    TasksDropped,
    TasksHeld,
    TreasuryLimited,
    WaveAnswered,
    WaveApproved,
    WaveReviewAnswered,
    WaveReviewSent,
    WaveSent,
    WorkersMissing,
)
from forgepool.orchestrator.journal.task_events import (
    CandidateRestored,
    ContextRebuilt,
    LeadReplied,
    LeadSpoken,
    LockExtended,
    MessageLost,
    MessageTaken,
    OrderAnswered,
    OrderSent,
    ParkedFor,
    ProfileChosen,
    ReviewAnswered,
    ReviewAwaited,
    ReviewSent,
    SurveyFound,
    TaskAlreadyThere,
    TaskApproved,
    TaskBlocked,
    TaskCancelled,
    TaskFailed,
    TaskParked,
    TaskPassedOn,
    TaskRejected,
    TaskReplied,
    TaskReported,
    TaskRetried,
    TaskReturned,
    TaskUnchanged,
    WorkKept,
    list_kept,
)

__all__ = [
    "EVENT",
    "BudgetAwaited",
    "BudgetSet",
    "CandidateRestored",
    "CarDissolved",
    "CheckAnswered",
    "CheckCancelled",
    "CheckDoubted",
    "CheckSent",
    "ContextRebuilt",
    "EntryAnswered",
    "EntryGiven",
    "EntryHeld",
    "EntryQueued",
    "EntryRecalled",
    "EntryReclassed",
    "EntryRefused",
    "EntrySubmitted",
    "EntryTold",
    "Event",
    "GateFrozen",
    "GateHalted",
    "GateNoticed",
    "GatePaused",
    "GateResumed",
    "GateRuled",
    "GateThawed",
    "HostMismatched",
    "HostReadmitted",
    "HostSuspended",
    "HostsLacking",
    "LandingAnswered",
    "LandingIntended",
    "LeadReplied",
    "LeadSpoken",
    "LockExtended",
    "MessageLost",
    "MessageTaken",
    "MessagesRefused",
    "ModelsShut",
    "MoneyAsked",
    "MoneyGranted",
    "MoneyQueued",
    "OrderAnswered",
    "OrderEvent",
    "OrderSent",
    "ParkedFor",
    "PartRestarted",
    "PathsAsked",
    "PathsGranted",
    "PathsQueued",
    "PathsRefused",
    "PlanRevised",
    "ProfileChosen",
    "QueueEvent",
    "RacerPromoted",
    "RacerWithdrawn",
    "ReviewAnswered",
    "ReviewAwaited",
    "ReviewSent",
    "RunEnded",
    "RunEvent",
    "RunForecast",
    "RunPaused",
    "RunResumed",
    "RunStarted",
    "SurveyFound",
    "TaskAlreadyThere",
    "TaskApproved",
    "TaskBlocked",
    "TaskCancelled",
    "TaskEvent",
    "TaskFailed",
    "TaskParked",
    "TaskPassedOn",
    "TaskRejected",
    "TaskReplied",
    "TaskReported",
    "TaskRetried",
    "TaskReturned",
    "TaskUnchanged",
    "TasksAdded",
    "TasksDropped",
    "TasksHeld",
    "TipMoved",
    "TrainEvent",
    "TreasuryLimited",
    "WaveAnswered",
    "WaveApproved",
    "WaveReviewAnswered",
    "WaveReviewSent",
    "WaveSent",
    "WorkKept",
    "WorkersMissing",
    "list_kept",
]

RunEvent = (
    BudgetSet
    | GateHalted
    | HostMismatched
    | HostReadmitted
    | HostsLacking
    | HostSuspended
    | MessagesRefused
    | ModelsShut
    | PartRestarted
    | PlanRevised
    | RunEnded
    | RunForecast
    | RunPaused
    | RunResumed
    | RunStarted
    | TasksAdded
    | TasksDropped
    | TasksHeld
    | TreasuryLimited
    | WorkersMissing
)
OrderEvent = (
    ContextRebuilt
    | LockExtended
    | MessageLost
    | MessageTaken
    | MoneyAsked
    | MoneyGranted
    | MoneyQueued
    | OrderAnswered
    | OrderSent
    | PathsAsked
    | PathsGranted
    | PathsQueued
    | PathsRefused
    | ProfileChosen
    | RacerPromoted
    | RacerWithdrawn
    | WorkKept
)
TaskEvent = (
    BudgetAwaited
    | LeadReplied
    | LeadSpoken
    | CandidateRestored
    | ReviewAnswered
    | ReviewAwaited
    | ReviewSent
    | SurveyFound
    | TaskAlreadyThere
    | TaskApproved
    | TaskBlocked
    | TaskCancelled
    | TaskFailed
    | TaskParked
    | TaskPassedOn
    | TaskRejected
    | TaskReplied
    | TaskReported
    | TaskRetried
    | TaskReturned
    | TaskUnchanged
)
TrainEvent = (
    CarDissolved
    | CheckAnswered
    | CheckCancelled
    | CheckDoubted
    | CheckSent
    | EntryQueued
    | LandingAnswered
    | LandingIntended
    | WaveAnswered
    | WaveApproved
    | WaveReviewAnswered
    | WaveReviewSent
    | WaveSent
)
QueueEvent = (
    EntryAnswered
    | EntryGiven
    | EntryHeld
    | EntryRecalled
    | EntryReclassed
    | EntryRefused
    | EntrySubmitted
    | EntryTold
    | GateFrozen
    | GateNoticed
    | GatePaused
    | GateResumed
    | GateRuled
    | GateThawed
    | TipMoved
)
Event = Annotated[RunEvent | OrderEvent | TaskEvent | TrainEvent | QueueEvent, Field(discriminator="kind")]

EVENT: TypeAdapter[Event] = TypeAdapter(Event)
