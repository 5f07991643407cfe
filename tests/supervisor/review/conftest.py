"""A host that reviews, its hub, and a server with models of three families."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from gates import Gate
from review_kit import KEY, KEY_VALUE, Desk, Serve, table
from vendors.answers import Brain, Wire
from vendors.server import VendorServer


@pytest.fixture
def desk(gate: Gate) -> Desk:
    return Desk(gate)


@pytest.fixture
def serve(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Start a server with every model of the table; `keyed` are the families whose account has a key here."""
    monkeypatch.setenv(KEY, KEY_VALUE)
    with ExitStack() as until_the_end:

        def go(
            brain: Brain, *, wire: Wire = "anthropic", keyed: str = "claude gpt gemini", route: str = ""
        ) -> VendorServer:
            server = until_the_end.enter_context(VendorServer(brain))
            path = desk.gate.folder / "models.yaml"
            path.write_text(table(server.url, wire, keyed.split(), route or "[gpt-x, claude-x, gemini-x]"))
            desk.gate.settings = desk.gate.settings.model_copy(update={"models": path})
            return server

        yield go
