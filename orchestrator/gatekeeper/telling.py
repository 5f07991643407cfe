"""What happens at a gate, as a person reads it there: of entries that are returned, and not of tasks that fail."""

from orchestrator import events as e
from orchestrator.telling import held_words, sentence


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
        case e.TaskFailed():
            return f"{event.task}: returned, {event.reason.summary}"
        case e.TaskBlocked():
            return f"{event.task}: returned, it needs '{event.by}', which will not land"
        case e.TaskCancelled():
            return f"{event.task}: withdrawn"
        case _:
            return sentence(event, run=run)
