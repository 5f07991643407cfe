"""
The questions to models that one proposal of a profile's leads to: what they used, and once in a task what is to be so.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from forgepool.workers.context.edits.state import SummaryQuestion, SummaryReply, nobody
from forgepool.workers.llm.messages import Usage
from forgepool.workers.llm.provider import ModelRequest

Before = Callable[[], bool]
"""Called when it is certain that a model will be asked, and before it is; where it says no, none is."""
Ask = Callable[[SummaryQuestion, ModelRequest, Before], SummaryReply | str]
"""
Asks a model about a conversation, which the request has as its own model is to be asked next. A sentence where nobody
was asked.
"""


def no_one(question: SummaryQuestion, request: ModelRequest, before: Before) -> str:
    """There is nobody to be asked."""
    return nobody(question).why_not


@dataclass(slots=True, kw_only=True)
class Questions:
    ask: Ask
    request: ModelRequest
    fired: Collection[str]
    """What was asked in this task already, of that which is asked once."""
    write_down: Callable[[str], bool]
    """That this is about to be asked, for whoever goes on with the task; whether that is where he finds it."""
    usages: list[Usage] = field(default_factory=list)
    """Of each that a model was asked."""

    def put(self, question: SummaryQuestion) -> SummaryReply:
        if question.once and question.once in self.fired:
            return SummaryReply(why_not="a model was asked before, and nothing came of that")
        answer = self.ask(question, self.request, lambda: self._before(question))
        if isinstance(answer, str):
            return SummaryReply(why_not=answer)
        self.usages.append(answer.usage)
        return answer

    def _before(self, question: SummaryQuestion) -> bool:
        return not question.once or self.write_down(question.once)
