"""
PACE, in four stages. The first, before every call: what was read before it was written, and earlier runs of a command,
give way to one line each (`pace_noise`). The second, once a task and at the first test seen to fail: a cheap model sums
up what was done, and the conversation goes on from that (`pace_summary`). The third, hints at files before anything is
read, is `workers.agents.briefing.hints`. The fourth begins anew from the card, a summary and the plan: `fork_history`.

Of the fourth stage's phases, A is `fork` here and, for our own agents, the end of PLAN; B (nothing shared, twenty
turns of exploration at most, then a plan made by rules) and C (exploration that finds nothing new ends) are
`workers.context.transcript.loop_detection` and `workers.agents.builtin.prompts`: EXECUTE always begins anew.

The published first stage rewrites what was sent at almost every call, which providers' caches charge for;
`batch_tokens` does it seldom, all at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from forgepool.workers.context.edits.masks import HARNESS, cut, find_answered_turn
from forgepool.workers.context.edits.state import ContextState, EditProposal, Moment, SummaryReply
from forgepool.workers.context.history.token_estimate import lengths
from forgepool.workers.context.profiles.pace.pace_noise import Noise
from forgepool.workers.context.profiles.pace.pace_summary import check_summary, collect_known, question
from forgepool.workers.context.profiles.shared.prose import OVERRIDES, list_endings, words
from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.exchanges import text_argument
from forgepool.workers.context.transcript.summary import render_summary
from forgepool.workers.llm.messages import Text, Turn, user

COMPRESS = "pace-compress"
FORK = "pace-fork"
_GO_ON = (
    f"{HARNESS} The summary above stands for the conversation before it. Its decisions are a model's words; all else "
    "is what the harness saw. Go on from here."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    order_aware: bool = True
    """False takes away what was read of a path ever written, before the model saw it too: as the published code does,
    for comparison only."""
    write_bodies: bool = True
    """Whether the texts of files are taken out of the calls that wrote them, once they are old. Not in the original,
    which looks for them in the answers, where they never were."""
    superseded_reads: bool = False
    """Whether what was read gives way to a later read of the same lines. Not in the original either."""
    batch_tokens: int | None = None
    """The first stage acts only where the next request is larger than this; None is before every call, as published."""
    compress: bool = True
    fork: bool = False
    """Whether a conversation goes on as a forked one when a plan was committed in it."""
    _noise: Noise = field(init=False, compare=False, repr=False, hash=False)

    def __post_init__(self) -> None:
        noise = Noise(
            order_aware=self.order_aware, write_bodies=self.write_bodies, superseded_reads=self.superseded_reads
        )
        object.__setattr__(self, "_noise", noise)

    @property
    def name(self) -> str:
        return "pace"

    def propose(self, state: ContextState, moment: Moment) -> EditProposal | None:
        self._noise.learn(state.deeds)
        last = find_answered_turn(state.turns)
        if last <= 1:
            return None
        if self.fork and FORK not in moment.fired and (fork := self._forked(state, last)) is not None:
            return fork
        if self.compress and moment.cause == "red" and COMPRESS not in moment.fired and last > state.edit.cut:
            return _compress(state, moment, last)
        return self._first_stage(state, last) if self._due(state, moment) else None

    def _due(self, state: ContextState, moment: Moment) -> bool:
        if self.batch_tokens is None or moment.cause not in ("call", "red"):
            return True
        return state.gauge.tokens(state.gauge.fixed_characters + state.shown_characters) > self.batch_tokens

    def _first_stage(self, state: ContextState, last: int) -> EditProposal | None:
        edit, end = state.edit, last if self.order_aware else len(state.turns)
        hidden, inputs = self._noise.find_hidden(edit.cut, end), self._noise.find_elided(edit.cut, end)
        new = {step: text for step, text in hidden.items() if step not in edit.results}
        new_inputs = {step: texts for step, texts in inputs.items() if step not in edit.inputs}
        back = self._wanted_back(edit, hidden)
        if not (new or new_inputs or back):
            return None
        results = {step: text for step, text in edit.results.items() if step not in back}
        changes = {"results": {**results, **new}, "inputs": {**edit.inputs, **new_inputs}}
        why = f"{len(new)} results of earlier reads and runs, and the text of {len(new_inputs)} writes, are out of date"
        return EditProposal(edit=edit.model_copy(update=changes), why=why)

    def _wanted_back(self, edit: Edit, hidden: Mapping[int, str]) -> set[int]:
        """What this profile hid, and a result that came since refers to."""
        return {
            step
            for step in self._noise.referred.keys() - hidden.keys()
            if step in edit.results and edit.results[step] == self._noise.results.get(step)
        }

    def _forked(self, state: ContextState, last: int) -> EditProposal | None:
        """Where a plan was committed just now, in the model's last turn, and there is anything to leave behind."""
        planned = self._noise.planned
        if planned is None or planned.turn < last:
            return None
        _, summary, told = fork_history(state, "", state.plan or text_argument(planned.call.arguments, "plan"))
        heard = words(state, last)
        edit = _from(state, last, summary, *(["\n".join([HARNESS, *heard])] if heard else []), told.text)
        why = "a plan was committed: what was explored gives way to a summary of it"
        return EditProposal(edit=edit, why=why, once=FORK) if _is_shorter(state, edit) else None


def fork_history(state: ContextState, summary: str, plan: str) -> tuple[Turn, ...]:
    """
    How EXECUTE begins: the card, what was learned, and the plan last (P-073 to P-076).

    `summary` is YAML; where it is empty, one is made by rules from what was done. However long the exploration was,
    the size is that of the three.
    """
    if not state.turns:
        return ()
    card = state.turns[0].model_copy(update={"parts": state.turns[0].parts[:1]})
    told = f"## The committed plan\n\n{plan.strip()}"
    return card, _summed_up(summary or render_summary(collect_known(state))), user(Text(text=told))


def _compress(state: ContextState, moment: Moment, last: int) -> EditProposal:
    truth = collect_known(state, red=True)
    reply = moment.ask(replace(question(state, truth), once=COMPRESS))
    found = check_summary(reply, truth, state)
    if isinstance(found, str):
        return _unchanged(state, reply, found)
    facts = [*list_endings(state, last), *words(state, last)]
    told = "\n".join([f"{_GO_ON}\n", OVERRIDES, *facts]) if facts else _GO_ON
    edit = _from(state, last, _summed_up(render_summary(found)), told)
    if not _is_shorter(state, edit):
        return _unchanged(state, reply, "the summary is no shorter than what it stands for")
    return EditProposal(edit=edit, why="a first failing test was confirmed", once=COMPRESS, replies=(reply,))


def _unchanged(state: ContextState, reply: SummaryReply, why: str) -> EditProposal:
    return EditProposal(edit=state.edit, why=f"not compressed: {why}", once=COMPRESS, replies=(reply,))


def _from(state: ContextState, last: int, summary: Turn, *told: str) -> Edit:
    """
    The model's last answer and what came of it stay as they are: nobody has seen that yet. The head ends with a turn of
    the user's side, since an answer that begins with a signed thought takes no text before it.
    """
    edit = cut(state, last, *told)
    return edit.model_copy(update={"head": (summary, *edit.head)})


def _is_shorter(state: ContextState, edit: Edit) -> bool:
    """Than what is shown now."""
    return state.shown_sizes[0] + lengths(edit.head) + sum(state.sizes[edit.cut :]) < state.shown_characters


def _summed_up(text: str) -> Turn:
    return Turn(role="assistant", parts=(Text(text=f"Summary of the conversation so far:\n\n{text.strip()}\n"),))
