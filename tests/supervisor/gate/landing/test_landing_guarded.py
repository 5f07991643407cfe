"""At a protected hub, only a landing with the queue's token succeeds, and one without it says why not."""

import pytest
from gates import Gate, check
from pydantic import SecretStr

from forgepool.supervisor.gate.land import land
from forgepool.worktrees.hub.protect import protect

TEST = check("! grep -q bad a")


def test_the_gate_of_this_host_lands_on_a_guarded_target_without_set_up(gate: Gate) -> None:
    request = gate.request(gate.entry("one", {"b": "2\n"}), TEST)
    found = gate.examine(request)
    protect(str(gate.hub.path), ["main"])
    landed = gate.land(gate.landing(request, found))
    assert (landed.outcome, landed.commit) == ("landed", found.commit)
    assert gate.hub.tip() == found.commit


@pytest.mark.parametrize("given", [None, "another gate's"])
def test_a_gate_that_cannot_read_the_token_is_refused_unless_it_is_given_it(gate: Gate, given: str | None) -> None:
    request = gate.request(gate.entry("one", {"b": "2\n"}), TEST)
    found = gate.examine(request)
    hidden = protect(str(gate.hub.path), ["main"]).token
    token = hidden.read_text().strip()
    hidden.unlink()
    tip = gate.hub.tip()
    settings = gate.settings.model_copy(update={"gate_token": given and SecretStr(given)})
    refused = land(gate.landing(request, found), settings, stop=lambda: False)
    assert refused.outcome == "refused" and "moved by its gate alone" in refused.detail
    assert token not in refused.detail and gate.hub.tip() == tip
    told = gate.settings.model_copy(update={"gate_token": SecretStr(token)})
    assert land(gate.landing(request, found), told, stop=lambda: False).outcome == "landed"
