"""What happens at a gate, as a person reads it there: of entries that are returned, and not of tasks that fail."""

from orchestrator import events as e
from orchestrator.telling import held_words, sentence, together


def gate_sentence(event: e.Event, *, run: str) -> str | None:
    """None for what is told otherwise, or to nobody."""
    match event:
        case e.RunStarted():
            return f"{event.target} is at {event.tip[:12]}{held_words(event.sandbox)}"
        case e.RunResumed():
            return f"it goes on where it was, the target at {event.tip[:12]}{held_words(event.sandbox)}"
        case e.RunPaused():
            return None
        case e.GateRuled():
            return "; ".join(event.rules.told()) or "no freezes any more, and no cap for one submitter"
        case e.LandingAnswered() if event.result.by_hub:
            return _not_taken(event)
        case e.TaskFailed():
            return f"{event.task}: returned, {event.reason.summary}"
        case e.TaskBlocked():
            return f"{event.task}: returned, it needs '{event.by}', which will not land"
        case e.TaskCancelled():
            return f"{event.task}: withdrawn"
        case _:
            return sentence(event, run=run)


def _not_taken(event: e.LandingAnswered) -> str:
    entries, words = event.entries or (event.task,), event.result.detail
    if len(entries) > 1:
        return f"{together(entries)}: not landed, {words}; each is tried by itself"
    return f"{event.task}: not landed, {words}; it is kept back until: forgepool gate retry {event.task}"
