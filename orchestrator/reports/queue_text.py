"""What happens at a gate, as a person reads it there: of entries that are returned, and not of tasks that fail."""

from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.reports.event_text import describe_confinement, sentence, together
from forgepool.orchestrator.state.run import RunState, with_branches


def gate_sentence(event: e.Event, state: RunState) -> str | None:
    """Return one line with the branches' own names; None where a person need not read of the event."""
    line = _sentence(event, state.run)
    return None if line is None else with_branches(state, line + _reported(event))


def _reported(event: e.Event) -> str:
    """What scans found that holds nothing up, of what is green; empty where they found nothing."""
    if not isinstance(event, e.CheckAnswered) or event.result.verdict != "green":
        return ""
    notes = sum(one.weight == "note" for one in event.result.findings)
    return f"; scans report {count_of(notes, 'finding')}, and hold nothing up" if notes else ""


def _sentence(event: e.Event, run: str) -> str | None:
    match event:
        case e.RunStarted():
            return f"{event.target} is at {event.tip[:12]}{describe_confinement(event.sandbox)}"
        case e.RunResumed():
            return f"resumed; the target is at {event.tip[:12]}{describe_confinement(event.sandbox)}"
        case e.RunPaused():
            return None
        case e.GateHalted():
            return f"the queue is paused: {event.why}"
        case e.GateRuled():
            return "; ".join(event.rules.describe_rules()) or "no freezes, and no limit for one submitter"
        case e.LandingAnswered() if event.result.by_hub:
            return _not_taken(event)
        case e.TaskFailed():
            return f"{event.task}: returned: {event.reason.summary}"
        case e.TaskBlocked():
            return f"{event.task}: returned: it needs '{event.by}', which will not land"
        case e.TaskCancelled():
            return f"{event.task}: withdrawn"
        case _:
            return sentence(event, run=run)


def _not_taken(event: e.LandingAnswered) -> str:
    entries, words = event.entries or (event.task,), event.result.detail
    if len(entries) > 1:
        return f"{together(entries)}: not landed, {words}; each is tried by itself"
    return f"{event.task}: not landed, {words}; it is kept back until: forgepool queue retry {event.task}"
