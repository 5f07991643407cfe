"""
The questions to models that one proposal of a profile's leads to: what they used, and once in a task what is to be so.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from forgepool.workers.context.edits.state import Question, Reply, nobody
from forgepool.workers.llm.messages import Usage
from forgepool.workers.llm.provider import Request

Before = Callable[[], bool]
"""Called when it is certain that a model will be asked, and before it is; where it says no, none is."""
Ask = Callable[[Question, Request, Before], Reply | str]
"""
Asks a model about a conversation, which the request has as its own model is to be asked next. A sentence where nobody
was asked.
"""


def no_one(question: Question, request: Request, before: Before) -> str:
    """There is nobody to be asked."""
    return nobody(question).why_not


@dataclass(slots=True, kw_only=True)
class Questions:
    ask: Ask
    request: Request
    fired: Collection[str]
    """What was asked in this task already, of that which is asked once."""
    write_down: Callable[[str], bool]
    """That this is about to be asked, for whoever goes on with the task; whether that is where he finds it."""
    usages: list[Usage] = field(default_factory=list)
    """Of each that a model was asked."""

    def put(self, question: Question) -> Reply:
        if question.once and question.once in self.fired:
            return Reply(why_not="a model was asked before, and nothing came of that")
        answer = self.ask(question, self.request, lambda: self._before(question))
        if isinstance(answer, str):
            return Reply(why_not=answer)
        self.usages.append(answer.usage)
        return answer

    def _before(self, question: Question) -> bool:
        return not question.once or self.write_down(question.once)
