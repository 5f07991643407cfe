"""
What a profile's proposal comes to, as the transcript's entry.
"""

from dataclasses import dataclass
from typing import Any

from forgepool.workers.context.edits.state import Cause, EditProposal
from forgepool.workers.context.history.actions import Deed
from forgepool.workers.context.transcript.entries import Rebuilt, now
from forgepool.workers.context.transcript.usage import sum_usages
from forgepool.workers.context.view.archive import find_dropped
from forgepool.workers.context.view.fold import Fold
from forgepool.workers.context.view.storage import Storage
from forgepool.workers.llm.messages import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilding:
    fold: Fold
    storage: Storage
    cause: Cause
    usages: list[Usage]
    """Of the models that were asked for it."""

    def entry(self, proposal: EditProposal | str | None) -> Rebuilt | None:
        """
        What it drops is stored then. None where there is nothing to tell: nothing changes, and nobody asked or was
        asked.

        A sentence stands for a proposal that cannot be shown.
        """
        if isinstance(proposal, EditProposal) and proposal.edit != self.fold.view.edit:
            return self._changed(proposal)
        if isinstance(proposal, EditProposal):
            told = self.usages or proposal.once or self.cause == "wish"
            return self._entry(proposal.why, once=proposal.once) if told else None
        if proposal is None and not self.usages:
            return None
        return self._entry(proposal or "a model was asked, and nothing was proposed")

    def _changed(self, proposal: EditProposal) -> Rebuilt:
        view = self.fold.view
        gone = find_dropped(view.deeds, proposal.edit)
        if (trouble := self.storage.store(gone)) is not None:
            why = f"nothing is dropped, because it could not be kept: {trouble}"
            return self._entry(why, once=proposal.once)
        new = self._not_before(gone)
        return self._entry(
            proposal.why,
            once=proposal.once,
            edit=proposal.edit,
            after_tokens=self.fold.tokens_of(view.characters_with(proposal.edit)),
            dropped=new,
            archive=self.storage.archive.folder if new else "",
        )

    def _not_before(self, gone: list[Deed]) -> tuple[int, ...]:
        """The steps among them that are shown as they were until now."""
        view = self.fold.view
        before = {deed.step for deed in find_dropped(view.deeds, view.edit)}
        return tuple(deed.step for deed in gone if deed.step not in before)

    def _entry(self, why: str, **changes: Any) -> Rebuilt:
        tokens = self.fold.tokens
        usual: dict[str, Any] = {
            "at": now(),
            "profile": self.fold.profile.name,
            "cause": self.cause,
            "why": why,
            "edit": None,
            "before_tokens": tokens,
            "after_tokens": tokens,
            "window_tokens": self.fold.window_tokens,
            "calls": len(self.usages),
            "usage": sum_usages(self.usages),
        }
        return Rebuilt(**(usual | changes))
