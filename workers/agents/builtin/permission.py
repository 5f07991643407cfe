"""
The policy's decision on each tool call, which is recorded before anything is done.

A denied call is answered with the reason. A call that needs a person's yes is denied too, or the task waits with the
question, as the plan says. A yes holds for that very call, when the model makes it again.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from forgepool.workers.context.transcript.entries import CallJudged, Transcript, now
from forgepool.workers.llm.messages import ToolCall
from forgepool.workers.policy.judgement import PolicyJudgement, judge_call
from forgepool.workers.policy.layers import Policy
from forgepool.workers.policy.rule import Ground
from forgepool.workers.schema.orders import Reply
from forgepool.workers.schema.policy_rules import Unattended
from forgepool.workers.tools.tool import PersonAsked, Tool, ToolAnswer

Rule = Callable[[ToolCall, Tool], ToolAnswer | None]
"""Returns the answer to a call that must not be carried out, else None."""

_YES = {"yes", "y", "ok", "okay", "allow", "allowed"}
_MOST_SHOWN = 600


def allow_all(call: ToolCall, tool: Tool) -> None:
    """Allow every call: for a conversation whose tools are its caller's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rulings:
    """Applies the policy of one phase to the calls of one attempt."""

    policy: Policy
    root: Path
    """The worktree, resolved."""
    tmp: Path | None = None
    """The folder that commands see as `/tmp`; None where that is not known."""
    unattended: Unattended
    replies: Sequence[Reply]
    transcript: Transcript

    def __call__(self, call: ToolCall, tool: Tool) -> ToolAnswer | None:
        if tool.kind == "end":
            return None
        ground = Ground(root=self.root, home=Path.home(), tmp=self.tmp)
        judged = judge_call(self.policy, tool.name, call.arguments, ground)
        if judged.decision == "prompt":
            return self._prompted(call, judged)
        self._write_down(call, judged)
        if judged.decision == "deny":
            return ToolAnswer(text=f"not run, the policy denies it: {judged.reason}", is_error=True)
        return None

    def _prompted(self, call: ToolCall, judged: PolicyJudgement) -> ToolAnswer | None:
        """Answer a call that needs a person's yes."""
        question = _question(call, judged)
        reply = next((reply for reply in reversed(self.replies) if reply.question == question), None)
        if reply is not None:
            return self._as_answered(call, judged, reply)
        self._write_down(call, judged)
        if self.unattended == "deny":
            text = f"not run, it needs a person's yes and no person is there: {judged.reason}; do it another way"
            return ToolAnswer(text=text, is_error=True)
        text = "not run: a person is asked, and the work waits. After a yes, make the same call again"
        return ToolAnswer(text=text, is_error=True, ends=PersonAsked(question=question))

    def _as_answered(self, call: ToolCall, judged: PolicyJudgement, reply: Reply) -> ToolAnswer | None:
        words = reply.answer.lower().replace(",", " ").replace(".", " ").split()
        yes = bool(words) and words[0] in _YES
        reason = f"{reply.by or 'a person'} said {reply.answer[:80]!r} to it"
        settled = PolicyJudgement(
            decision="allow" if yes else "deny", rule=judged.rule, reason=reason, commands=judged.commands
        )
        self._write_down(call, settled)
        return None if yes else ToolAnswer(text=f"not run: {reason}", is_error=True)

    def _write_down(self, call: ToolCall, judged: PolicyJudgement) -> None:
        self.transcript.append(
            CallJudged(
                at=now(),
                call_id=call.id,
                tool=call.name,
                decision=judged.decision,
                rule=judged.rule,
                reason=judged.reason,
                commands=judged.commands,
            )
        )


def _question(call: ToolCall, judged: PolicyJudgement) -> str:
    """Return the question about a call: the same for the same call, and for no other."""
    about = call.arguments.get("command") or call.arguments.get("path") or call.arguments.get("input") or ""
    text = str(about)
    mark = ""
    # Arguments not shown in full are named by their hash: a yes to one text of a file is none to another.
    if len(text) > _MOST_SHOWN or [about] != list(call.arguments.values()):
        whole = json.dumps(call.arguments, sort_keys=True).encode()
        mark = f" [its arguments' sha256: {hashlib.sha256(whole).hexdigest()[:16]}]"
    shown = f" `{text[:_MOST_SHOWN]}`{mark}" if text else ""
    return f"May the agent use {call.name}{shown}? {judged.reason}. Answer yes or no."
