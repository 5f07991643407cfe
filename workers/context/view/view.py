"""
The view: a conversation and what a model is shown of it, as a fold over the transcript's entries.

Rebuilds are entries too: the profile proposes one, and it takes effect when the transcript holds it. So every process
that folds the same entries shows the same view.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from forgepool.workers.context.edits.masks import begins_with_survey, find_answered_turn
from forgepool.workers.context.edits.state import ContextState, EditProposal, Moment, Profile
from forgepool.workers.context.shorten.new_results import mend_edit
from forgepool.workers.context.transcript.actions import Deed, Deeds
from forgepool.workers.context.transcript.edit import Edit, replace_turn, show_turns
from forgepool.workers.context.transcript.names import Losses
from forgepool.workers.context.transcript.usage import Gauge, lengths, turn_length
from forgepool.workers.llm.messages import Part, ToolResult, Turn


def wrong(turns: Sequence[Turn], edit: Edit, lengthened: frozenset[int] = frozenset()) -> str | None:
    """
    Return why the conversation cannot be shown with an edit; None where it can.

    `lengthened` are steps whose results are shown whole where they were shortened, which hides nothing.
    """
    return next(_faults(turns, edit, lengthened), None)


def _faults(turns: Sequence[Turn], edit: Edit, lengthened: frozenset[int]) -> Iterator[str]:
    last = find_answered_turn(turns)
    if not 1 <= edit.cut <= max(1, last):
        yield "it would cut away the model's last turn, or the task"
        return
    if edit.cut > 1 and turns[edit.cut].role != "assistant":
        yield "what follows the cut does not begin with a turn of the model"
    view = show_turns(turns, edit)
    first = 1 + begins_with_survey(turns)
    if view[0].role != "user" or view[0].parts[:first] != turns[0].parts[:first]:
        yield "it does not begin with the task card"
    seen = sum(len(turn.calls) for turn in turns[:last])
    changed = {*edit.results.keys() - lengthened, *edit.inputs}
    if any(step > seen for step in changed) or (not last and not edit.empty):
        yield "it would change what the model has not yet seen"
    yield from _unpaired(view)


def find_shown_from(edit: Edit, deeds: Sequence[Deed]) -> int:
    """Return the step from which an edit shows every result as it entered."""
    masked = max(edit.results, default=0)
    return max(masked, bisect_left(deeds, edit.cut, key=lambda deed: deed.turn)) + 1


def _unpaired(view: Sequence[Turn]) -> Iterator[str]:
    waiting: list[str] = []
    for turn in view:
        if turn.role == "assistant":
            yield from _unanswered(waiting)
            waiting = [call.id for call in turn.calls]
            continue
        for result in turn.results:
            if result.call_id not in waiting:
                yield f"the result of {result.call_id} has no call before it"
            else:
                waiting.remove(result.call_id)
    yield from _unanswered(waiting)


def _unanswered(calls: Sequence[str]) -> Iterator[str]:
    if calls:
        yield f"the call {calls[0]} has no result"


@dataclass(slots=True, kw_only=True)
class ContextView:
    gauge: Gauge
    root: str = ""
    tests: tuple[str, ...] = ()
    archive: str = ""
    plan: str = ""
    planned: tuple[str, ...] = ()
    turns: list[Turn] = field(default_factory=list)
    """The whole conversation."""
    edit: Edit = field(default_factory=Edit)
    rebuilds: int = 0
    losses: Losses = field(default_factory=Losses)
    _sizes: list[int] = field(default_factory=list)
    _shown: list[Turn] = field(default_factory=list)
    _shown_sizes: list[int] = field(default_factory=list)
    _deeds: Deeds = field(default_factory=Deeds)
    _steps: dict[str, int] = field(default_factory=dict)
    _calls: int = 0

    def __post_init__(self) -> None:
        self._deeds = Deeds(root=self.root, tests=self.tests)

    @property
    def shown(self) -> tuple[Turn, ...]:
        return tuple(self._shown)

    @property
    def characters(self) -> int:
        """Return the number of characters shown."""
        return sum(self._shown_sizes)

    def characters_with(self, edit: Edit) -> int:
        return lengths(show_turns(self.turns, edit))

    @property
    def lasting(self) -> int | None:
        """Return how many leading parts of the view outlast the next rebuild; None means those of the first turn."""
        return len(self._shown[0].parts) + self.edit.lasting if self.edit.lasting else None

    @property
    def deeds(self) -> Sequence[Deed]:
        return self._deeds.all

    def say(self, turn: Turn) -> None:
        """Take a turn of either side. Consecutive messages of the user's side form one turn."""
        if turn.role == "user":
            self._add(turn.parts)
            return
        self.gauge.count(turn.model, self.gauge.fixed_characters + self.characters, turn.usage.input_tokens)
        place = len(self.turns)
        self.losses.take(place, turn)
        for call in turn.calls:
            self._calls += 1
            self._steps[call.id] = self._calls
        self._deeds.take_calls(place, turn)
        self._append(turn)

    def answer(self, result: ToolResult, whole: str = "") -> None:
        """Take a tool's result, and its whole text where that was shortened."""
        self._deeds.take_result(result, whole)
        self._add((result,))

    def use(self, edit: Edit) -> None:
        """Apply an edit."""
        self.edit = edit
        self.rebuilds += 1
        self.losses.take_edit(edit, self.turns)
        self._shown = show_turns(self.turns, edit)
        self._shown_sizes = [turn_length(turn) for turn in self._shown]

    def state(self) -> ContextState:
        return ContextState(
            turns=self.turns,
            deeds=self.deeds,
            edit=self.edit,
            rebuilds=self.rebuilds,
            sizes=self._sizes,
            shown_sizes=self._shown_sizes,
            gauge=self.gauge,
            losses=self.losses,
            plan=self.plan,
            root=self.root,
            planned=self.planned,
            archive=self.archive,
        )

    def propose(self, profile: Profile, moment: Moment) -> EditProposal | str | None:
        """Return the profile's proposal, None where it has none, or a sentence where the proposal cannot be shown."""
        if not self.turns:
            return None
        proposal = profile.propose(self.state(), moment)
        if proposal is None:
            return None
        edit = mend_edit(proposal.edit, self.deeds)
        why = wrong(self.turns, edit, self._lengthened(edit))
        return replace(proposal, edit=edit) if why is None else f"{profile.name} proposed what cannot be shown: {why}"

    def _lengthened(self, edit: Edit) -> frozenset[int]:
        """Return the steps whose shortened results an edit shows in full."""
        deeds = ((step, self.deeds[step - 1]) for step in edit.results if 0 < step <= len(self.deeds))
        return frozenset(step for step, deed in deeds if edit.results[step] == deed.whole)

    def _add(self, parts: Sequence[Part]) -> None:
        piece = Turn(role="user", parts=tuple(parts))
        last = len(self.turns) - 1
        if last < 0 or self.turns[last].role != "user":
            self.losses.take(last + 1, piece)
            self._append(piece)
            return
        self.losses.take(last, piece)
        self.turns[last] = _longer(self.turns[last], piece)
        self._sizes[last] += turn_length(piece)
        new = replace_turn(piece, self.edit, self._steps)
        self._shown[-1] = _longer(self._shown[-1], new)
        self._shown_sizes[-1] += turn_length(new)

    def _append(self, turn: Turn) -> None:
        self.turns.append(turn)
        self._sizes.append(turn_length(turn))
        new = replace_turn(turn, self.edit, self._steps)
        self._shown.append(new)
        self._shown_sizes.append(turn_length(new))


def _longer(turn: Turn, piece: Turn) -> Turn:
    return turn.model_copy(update={"parts": (*turn.parts, *piece.parts)})
