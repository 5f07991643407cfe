"""
PACE's second stage: the request for a summary from a cheap model, and the check of its answer.

The answer is YAML with six fields. Only its key decisions are used; the harness fills in the rest. An answer that is
incomplete, is not plain YAML, or contradicts a fact is rejected.
"""

import re
from collections.abc import Iterator, Sequence

import yaml

from forgepool.workers.context.edits.prose import honest, strange
from forgepool.workers.context.edits.state import ContextState, SummaryQuestion, SummaryReply
from forgepool.workers.context.transcript.actions import Deed
from forgepool.workers.context.transcript.edit import show_turns
from forgepool.workers.context.transcript.summary import FileRead, Summary
from forgepool.workers.llm.messages import Part, Text, ToolCall, ToolResult
from forgepool.workers.schema.documents import Loader, load
from forgepool.workers.schema.mistakes import DocumentWrong
from forgepool.workers.schema.orders import Message
from forgepool.workers.tools.commands.red_phase import CONFIRM

_LINES = 200
_TEXT_CHARACTERS = 300
_INPUT_CHARACTERS = 200
_RESULT_CHARACTERS = 300
_CARD_CHARACTERS = 4_000
_OUTPUT_TOKENS = 1024
_MOST_CHARACTERS = 16_000
"""The longest answer read, four times its limit."""
_TEST_CHARACTERS = 2_000
_FENCED = re.compile(r"```(?:ya?ml)?[ \t]*\n(.*)\n[ \t]*```", re.DOTALL | re.IGNORECASE)

_INSTRUCTION = """\
Sum up what a coding agent has done so far, for the same agent to go on from. Its conversation is below, oldest first, \
shortened. Answer with one YAML document between ``` fences and nothing else, with all of these fields:

files_read: list of paths
files_written: list of paths
plan_committed: true or false
key_decisions: list of sentences; what was decided or found out, with names and reasons, as short as they allow
last_test_output: text; what matters of it
red_phase_confirmed: true or false

No anchors, no aliases. Put texts in quotes that hold a colon. Invent nothing. What the harness knows is so:
"""


class _Claimed(Message, extra="ignore"):
    """The answer of the model: all six fields are required, others are ignored."""

    files_read: tuple[str, ...]
    files_written: tuple[str, ...]
    plan_committed: bool
    key_decisions: tuple[str, ...]
    last_test_output: str
    red_phase_confirmed: bool


def collect_known(state: ContextState, *, red: bool = False) -> Summary:
    """Collect the known facts, without decisions. `red` says that a failing test was just confirmed."""
    done = [deed for deed in state.deeds if not deed.failed]
    return Summary(
        files_read=tuple(
            FileRead(path=path) for path in dict.fromkeys(read.path for one in done for read in one.reads)
        ),
        files_written=tuple(dict.fromkeys(_written(state.deeds))),
        plan_committed=bool(state.plan) or any(one.call.name == "commit_plan" for one in done),
        last_test_output=_last_test_output(state.deeds),
        red_phase_confirmed=red or any(one.call.name == CONFIRM for one in done),
    )


def question(state: ContextState, truth: Summary) -> SummaryQuestion:
    facts = f"plan_committed: {_yes(truth.plan_committed)}\nred_phase_confirmed: {_yes(truth.red_phase_confirmed)}\n"
    written = "".join(f"- {path}\n" for path in truth.files_written[-_LINES:])
    view = show_turns(state.turns, state.edit)
    card = view[0].text[:_CARD_CHARACTERS]
    lines = [_line(turn.role, part) for turn in view[1:] for part in turn.parts]
    history = "\n".join([line for line in lines if line][-_LINES:])
    return SummaryQuestion(
        kind="yaml",
        instruction=f"{_INSTRUCTION}{facts}files_written:\n{written}",
        text=f"## The task\n\n{card}\n\n## The conversation\n\n{history}\n",
        max_output_tokens=_OUTPUT_TOKENS,
    )


def check_summary(reply: SummaryReply, truth: Summary, state: ContextState) -> Summary | str:
    """Return the checked summary, or a sentence that says why it is rejected."""
    answer = reply.text
    if not answer.strip():
        return reply.why_not or "the answer is empty"
    if len(answer) > _MOST_CHARACTERS:
        return f"the answer has {len(answer):,} characters; at most {_MOST_CHARACTERS:,} are taken"
    found = _FENCED.search(answer)
    claimed = _read(found[1] if found else answer)
    if isinstance(claimed, str):
        return claimed
    for fact in ("plan_committed", "red_phase_confirmed"):
        if getattr(claimed, fact) != getattr(truth, fact):
            return f"the answer says the contrary of what is known: {fact} is {_yes(getattr(truth, fact))}"
    decisions = tuple(text for each in claimed.key_decisions if (text := honest(each).strip()))
    if (wrong := strange("\n".join(decisions), state)) is not None:
        return wrong
    return truth.model_copy(update={"key_decisions": decisions})


def _read(text: str) -> _Claimed | str:
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=Loader)):
            return "the answer has aliases, which no summary needs"
        return load(text, "the answer", _Claimed)
    except (yaml.YAMLError, UnicodeEncodeError, RecursionError):
        return "the answer is not YAML"
    except DocumentWrong as wrong:
        return wrong.mistakes[0]


def _written(deeds: Sequence[Deed]) -> Iterator[str]:
    """Yield the written paths, including those of failed commands of several parts."""
    for deed in deeds:
        if not deed.failed or deed.command:
            yield from (write.path for write in deed.writes if write.path != ".")


def _last_test_output(deeds: Sequence[Deed]) -> str:
    """Return the end of the last test run, which names the failures."""
    tests = (deed for deed in reversed(deeds) if "test" in {deed.action, *deed.does} or deed.call.name == CONFIRM)
    last = next(tests, None)
    return last.whole.strip()[-_TEST_CHARACTERS:] if last else ""


def _line(role: str, part: Part) -> str:
    match part:
        case Text(text=text):
            return f"{role}: {_short(text, _TEXT_CHARACTERS)}" if text.strip() else ""
        case ToolCall(name=name, arguments=arguments):
            said = ", ".join(f"{key}={value}" for key, value in arguments.items())
            return f"call {name}: {_short(said, _INPUT_CHARACTERS)}"
        case ToolResult(text=text, is_error=is_error):
            return f"{'error' if is_error else 'result'}: {_short(text, _RESULT_CHARACTERS)}"
        case _:
            return ""


def _short(text: str, most: int) -> str:
    """Shorten a text to one line with both ends."""
    # A long text is cut before its blanks are looked at: a file may have megabytes.
    near = text if len(text) <= 20 * most else f"{text[: 10 * most]} {text[-10 * most :]}"
    line = " ".join(near.split())
    half = (most - 5) // 2
    return line if len(line) <= most else f"{line[:half]} ... {line[-half:]}"


def _yes(fact: bool) -> str:
    return "true" if fact else "false"
