"""The question before an action: the command that does the same, and what a person has to give."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input, Static

from forgepool.orchestrator.cli.run.requests import login_name
from forgepool.orchestrator.interfaces.watch.widgets import plain
from forgepool.orchestrator.interfaces.web.actions import WebAction, Word
from forgepool.worktrees.errors import InfrastructureError, UserError

KEYS: Mapping[Word, str] = {
    "answer": "a",
    "approve": "y",
    "reject": "x",
    "retry": "r",
    "cancel": "c",
    "context": "o",
    "budget": "b",
    "hold": "h",
    "release": "l",
    "reclass": "p",
    "pause": "z",
    "go": "g",
}

Act = Callable[[str, Mapping[str, str]], str]
"""Does what is asked for about a run; returns what follows."""
TROUBLE = (UserError, InfrastructureError, OSError, sqlite3.Error)
"""Exceptions that are shown as they are: they say what is wrong, and what would be right."""


class ActionDialog(ModalScreen[str]):
    """Asks for what an action needs, does it at Enter, and returns what follows in one sentence."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("enter", "go_on", show=False),
    ]

    def __init__(self, act: Act, run: str, action: WebAction) -> None:
        super().__init__()
        self.act, self.run, self.action, self.is_sure = act, run, action, not action.grave

    def compose(self) -> ComposeResult:
        action = self.action
        about = f" {action.candidate[:12]}" if action.candidate else ""
        with Vertical():
            yield Static(Content.styled(f"{action.label}{about}", "bold"), markup=False)
            yield Static(plain(f"$ {action.command}"), markup=False)
            if action.text:
                choices = f" ({', '.join(action.choices)})" if action.choices else ""
                yield Static(plain(f"{action.text}{choices}:"), markup=False)
                suggest = SuggestFromList(action.choices) if action.choices else None
                yield Input(id="text", suggester=suggest, compact=True)
            if action.named:
                yield Static("Your name:", markup=False)
                yield Input(login_name(), id="by", compact=True)
            yield Static("Enter does it, Esc does not.", id="said", markup=False)

    async def on_input_submitted(self) -> None:
        await self.action_go_on()

    async def action_go_on(self) -> None:
        """Go to the next field; after the last, do it. What ends work is asked for twice."""
        fields = list(self.query(Input))
        later = fields[fields.index(self.focused) + 1 :] if isinstance(self.focused, Input) else []
        if later:
            later[0].focus()
        elif not self.is_sure:
            self.is_sure = True
            self._say(f"Are you sure? Enter again: {self.action.label.lower()}.")
        else:
            await self._do({str(one.id): one.value for one in fields})

    async def _do(self, fields: dict[str, str]) -> None:
        action = self.action
        given = {"do": action.do, "task": action.task, "candidate": action.candidate, **fields}
        try:
            said = await asyncio.to_thread(self.act, self.run, given)
        except TROUBLE as unable:
            self._say(str(unable))
        else:
            self.dismiss(said)

    def _say(self, sentence: str) -> None:
        self.query_one("#said", Static).update(plain(sentence))

    def action_leave(self) -> None:
        self.dismiss("")
