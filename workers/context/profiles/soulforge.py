"""
SoulForge's two compactions, which replace all but the last messages at once.

`v2` keeps a state found by rules (`working_state`), and asks a small model for the rest where the rules find little.
`v1` has a model write everything. Both act above `trigger`, and again only after the share was below `reset`.

Unlike the originals they keep the whole card and what a model added once. They extract the state from the whole
conversation each time, and take failures from exit statuses.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forgepool.workers.context.edits.ledger import by_person
from forgepool.workers.context.edits.masks import (
    LABEL,
    Due,
    Threshold,
    before,
    characters,
    find_given_replies,
    keep_unchanged,
    of_window,
    settle_replacement,
)
from forgepool.workers.context.edits.prose import (
    beginning,
    count_lines,
    ends,
    error_lines,
    refusal,
    transcribe_turns,
    whole,
    with_facts,
)
from forgepool.workers.context.edits.state import ContextState, EditProposal, Moment, SummaryQuestion, SummaryReply
from forgepool.workers.context.profiles.working_state import (
    TOOL_RESULTS,
    PlanStep,
    Status,
    WorkingState,
    remarks,
    remember,
    serialise_state,
)
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.edit import Edit, show_turns
from forgepool.workers.context.transcript.exchanges import text_argument
from forgepool.workers.llm.messages import Text, Turn
from forgepool.workers.shell.purpose.file_access import Write

_EDIT_CHARACTERS = 300
_COMMAND_CHARACTERS = 200
_ACTION_CHARACTERS = 120
_RESULT_CHARACTERS = 800
_ERROR_RESULT_CHARACTERS = 1_500
_REQUIREMENT_CHARACTERS = 300
_SHORTEST_REQUIREMENT = 5
_OLD = ("old", "old_string", "old_str", "oldString")
_NEW = ("new", "new_string", "new_str", "newString")
_TOLD_BY = ("command", "pattern", "query", "symbol", "name", "path", "file_path")
_TO_DO = frozenset({"todowrite", "todo_write", "update_plan", "write_todos"})
_STATUS: Mapping[str, Status] = {
    "completed": "done",
    "done": "done",
    "in_progress": "active",
    "active": "active",
    "cancelled": "skipped",
    "skipped": "skipped",
}
_SETTING_UP = re.compile(
    r"(?:^|[;&|]\s*)(?:sudo\s+)?(?:uname|which|command -v|(?:\S*/)?(?:python3?|node|go|cargo|rustc|java|ruby|git)\s+"
    r"(?:--version|-V|version)\b|(?:python3? -m )?pip3?\s+install|uv\s+(?:sync|add|pip install)|poetry\s+install"
    r"|npm\s+(?:i|install|ci)\b|(?:yarn|pnpm)\s+install|apt(?:-get)?\s+install)"
)


def extract_state(
    turns: Sequence[Turn], deeds: Sequence[Deed], *, plan: str = "", most_tool_results: int = TOOL_RESULTS
) -> WorkingState:
    """Return the state after these turns and their deeds. The first turn holds the task card."""
    state = WorkingState(most_tool_results=most_tool_results, plan=plan)
    for turn in turns[1:]:
        take_turn(state, turn)
    for deed in deeds:
        take_deed(state, deed)
    return state


def take_turn(state: WorkingState, turn: Turn) -> None:
    """Take a turn after the first: a person's text is a requirement, a model's text holds remarks."""
    if turn.role == "assistant":
        _remark(state, turn.text)
        return
    for part in turn.parts:
        if not isinstance(part, Text) or not by_person(part.text):
            continue
        if len(said := part.text.strip()) >= _SHORTEST_REQUIREMENT:
            remember(state.requirements, beginning(said, _REQUIREMENT_CHARACTERS))


def _remark(state: WorkingState, text: str) -> None:
    found = remarks(text)
    for decision in found.decisions:
        remember(state.decisions, decision)
    for discovery in found.discoveries:
        remember(state.discoveries, discovery)
    if found.note:
        remember(state.notes, found.note)


def take_deed(state: WorkingState, deed: Deed) -> None:
    if deed.call.name.lower() in _TO_DO:
        if not deed.failed:
            state.steps = _steps(deed.call.arguments)
        return
    _touch(state, deed)
    subject = _subject(deed)
    if deed.failed:
        status = "" if deed.status is None else f"exit status {deed.status}; "
        state.fail(subject, f"{status}{error_lines(deed.whole)}")
    else:
        state.succeed(subject)
        _surroundings(state, deed)
    if (told := _result(deed)) is not None:
        state.report(f"**{deed.call.name}** (step {deed.step}) {subject} → {told}")


def _subject(deed: Deed) -> str:
    if deed.command:
        return f"ran: {beginning(deed.command.strip(), _COMMAND_CHARACTERS)}"
    paths = [*(read.path for read in deed.reads), *(write.path for write in deed.writes)]
    named = (text_argument(deed.call.arguments, key) for key in _TOLD_BY)
    about = next(filter(None, (*paths, *named)), "")
    return f"{deed.call.name}: {beginning(about, _ACTION_CHARACTERS)}".rstrip(": ")


def _touch(state: WorkingState, deed: Deed) -> None:
    """Note the files a deed touched, including those that a failed command of several parts may have touched."""
    for read in deed.reads:
        note = state.touch(read.path)
        note.add("read")
        if not deed.failed:
            note.text = deed.whole
    for write in deed.writes:
        note = state.touch(write.path)
        note.written = True
        note.add(*_written(write, deed))


def _written(write: Write, deed: Deed) -> tuple[str, str]:
    """Return the kind of a write and its detail."""
    match write.how:
        case "create":
            lines = len(text_argument(deed.call.arguments, "content").splitlines())
            return "full write", f"({lines} lines)" if lines else ""
        case "edit":
            return "edited", _edit(deed.call.arguments)
        case "shell":
            return ("perhaps changed", "by a command that failed") if deed.failed else ("changed", "by a command")
        case "delete":
            return "deleted", ""
        case "move":
            return "moved", ""


def _edit(arguments: Mapping[str, object]) -> str:
    old = next((text for key in _OLD if (text := text_argument(arguments, key))), None)
    new = next((text for key in _NEW if (text := text_argument(arguments, key))), "")
    if old is not None:
        return f'"{beginning(old, _EDIT_CHARACTERS)}" → "{beginning(new, _EDIT_CHARACTERS)}"'
    line = arguments.get("line", arguments.get("insert_line"))
    return f"at line {line}" if isinstance(line, int) else ""


def _result(deed: Deed) -> str | None:
    """Return the text kept of a result; None where the files tell it, or nothing."""
    if deed.action == "end" or (deed.reads and deed.action == "read" and not deed.failed):
        return None
    if deed.action == "write" and not deed.command:
        return None
    if deed.failed:
        return ends(deed.whole, _ERROR_RESULT_CHARACTERS)
    return count_lines(deed.whole) if deed.action == "search" else ends(deed.whole, _RESULT_CHARACTERS)


def _surroundings(state: WorkingState, deed: Deed) -> None:
    if deed.command and _SETTING_UP.search(deed.command):
        last = next((line for line in reversed(deed.whole.splitlines()) if line.strip()), "")
        remember(
            state.environment, f"{beginning(deed.command, _ACTION_CHARACTERS)} → {beginning(last, _ACTION_CHARACTERS)}"
        )


def _steps(arguments: Mapping[str, object]) -> tuple[PlanStep, ...]:
    """Read an agent's list of things to do, in the forms that tools use."""
    items = next((value for key in ("todos", "plan") if isinstance(value := arguments.get(key), list)), [])
    found = []
    for item in items:
        if isinstance(item, dict) and (label := text_argument(item, "content") or text_argument(item, "step")):
            status = _STATUS.get(text_argument(item, "status"), "pending")
            found.append(PlanStep(label=beginning(label, _REQUIREMENT_CHARACTERS), status=status))
    return tuple(found[-25:])


RICH_SLOTS = 15
DETAILS = "## Additional Details"
_GAP_TOKENS = 2_048
_GAP_CHARACTERS = 12_000
_GAP_MESSAGE_CHARACTERS = 2_000
_GAP_RESULT_CHARACTERS = 1_500
_SHORTEST_GAP = 20
_DETAILS_CHARACTERS = 8_192
_SUMMARY_TOKENS = 8_192
_WHOLE_SHARE = 0.9
"""The share of the window that a model is given to summarise."""

_GAPS = (
    "Below is what the harness recorded of an agent's work, and the beginning of the conversation it recorded it from. "
    "Write only what matters for going on and is missing from the record: reasons, constraints, dead ends. Short "
    "bullet points, exact names, nothing that is in the record already. If nothing is missing, answer COMPLETE."
)
_PROSE = (
    "Below are the earlier messages of an agent's conversation, which will be replaced by your summary. Write what the "
    "agent needs to go on without them: what was asked beyond the task card, what was done to which files, what was "
    "decided and why, what failed and how, what was found out, what remains. Exact paths, names and messages."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compaction:
    trigger: float = 0.7
    reset: float = 0.4
    keep_recent: int = 4
    trigger_tokens: int | None = None
    """Tokens in place of the share `trigger`; `reset` keeps its proportion."""

    def threshold(self, name: str, state: ContextState) -> Threshold:
        shares = {"trigger": self.trigger, "reset": self.reset}
        return of_window(name, state, **shares, keep=self.keep_recent, trigger_tokens=self.trigger_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoulforgeV2(_Compaction):
    max_tool_results: int = 30
    llm_extraction: bool = True

    @property
    def name(self) -> str:
        return "soulforge-v2"

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        threshold = self.threshold(self.name, state)
        due = threshold.due(state, moment)
        if due is None:
            return None
        found = _found(state, due, self.max_tool_results)
        gaps = _gaps(state, moment, due, found) if self.llm_extraction else _Gaps()
        text = serialise_state(found, plan_above=_plan_above(state), room=_room(state, due, threshold))
        details = _carried(state.edit, gaps.text)
        text = f"{text}\n\n{DETAILS}\n{details}" if details else text
        why = f"{found.slots} slots stand in place of {due.cut - state.edit.cut} messages, and {gaps.told}"
        return settle_replacement(state, due, text, why=why, replies=gaps.replies)


@dataclass(frozen=True, slots=True, kw_only=True)
class SoulforgeV1(_Compaction):
    @property
    def name(self) -> str:
        return "soulforge-v1"

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        due = self.threshold(self.name, state).due(state, moment)
        if due is None:
            return None
        older = show_turns(state.turns[: due.cut], state.edit)
        text = whole(older, characters(state.gauge, _WHOLE_SHARE * state.gauge.window_tokens))
        question = SummaryQuestion(
            kind="prose", instruction=_PROSE, text=text, max_output_tokens=_SUMMARY_TOKENS, once=due.attempt
        )
        reply = moment.ask(question)
        if (wrong := refusal(reply, question, state)) is not None:
            return keep_unchanged(state, due, wrong, (reply,))
        why = f"a model summarised {len(older) - 1} messages"
        return settle_replacement(state, due, with_facts(reply.text, state, due.cut), why=why, replies=(reply,))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gaps:
    """The details a model added to the state, and a note whether one was asked."""

    text: str = ""
    told: str = "no model was asked"
    replies: tuple[SummaryReply, ...] = ()


def _gaps(state: ContextState, moment: Moment, due: Due, found: WorkingState) -> _Gaps:
    """Ask a model what the state misses of the turns about to go. Without a useful reply the state stands alone."""
    if found.slots >= RICH_SLOTS:
        return _Gaps()
    conversation = transcribe_turns(
        (state.turns[0], *state.turns[state.edit.cut : due.cut]),
        most=_GAP_CHARACTERS,
        each=_GAP_MESSAGE_CHARACTERS,
        result=_GAP_RESULT_CHARACTERS,
    )
    record = serialise_state(found, room=_GAP_CHARACTERS)
    question = SummaryQuestion(
        kind="gaps",
        instruction=_GAPS,
        text=f"# Record\n\n{record}\n\n# Conversation\n\n{conversation}",
        max_output_tokens=_GAP_TOKENS,
        once=f"{due.attempt}, gaps",
    )
    reply = moment.ask(question)
    if not find_given_replies([reply]):
        return _Gaps()
    wrong = refusal(reply, question, state, shortest=_SHORTEST_GAP)
    if wrong is not None or reply.text.strip().startswith("COMPLETE"):
        return _Gaps(told="a model that was asked added nothing", replies=(reply,))
    return _Gaps(text=reply.text.strip(), told="a model filled gaps", replies=(reply,))


def _carried(edit: Edit, added: str) -> str:
    """Return the details that models added so far, the newest where there are too many."""
    texts = (part.text for turn in edit.head for part in turn.parts if isinstance(part, Text))
    earlier = next((found for text in texts if (found := _details(text))), "")
    return "\n".join(filter(None, (earlier, added)))[-_DETAILS_CHARACTERS:]


def _details(text: str) -> str:
    return text.partition(f"\n{DETAILS}\n")[2] if text.startswith(LABEL) else ""


def _found(state: ContextState, due: Due, most_tool_results: int = TOOL_RESULTS) -> WorkingState:
    deeds = state.deeds[: before(state, due.cut)]
    return extract_state(state.turns[: due.cut], deeds, plan=state.plan, most_tool_results=most_tool_results)


def _room(state: ContextState, due: Due, threshold: Threshold) -> int:
    """
    Return the room for the state: what the card and the kept messages leave of `reset`, or half of it if that is more.
    """
    reset = characters(state.gauge, threshold.reset)
    kept = 1 + len(state.edit.head) + due.cut - state.edit.cut
    stays = state.gauge.fixed_characters + state.shown_sizes[0] + sum(state.shown_sizes[kept:])
    return max(reset // 2, reset - stays)


def _plan_above(state: ContextState) -> bool:
    return bool(state.plan) and state.plan.strip() in state.turns[0].text
