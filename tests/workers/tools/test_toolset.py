import json
from collections.abc import Sequence

import pytest

from forgepool.workers.sandbox.run.background import Background
from forgepool.workers.tools.commands.red_phase import RedPhase, confirm_red_phase_tool
from forgepool.workers.tools.endings import ASK, commit_plan_tool, finish_tool
from forgepool.workers.tools.tool import Arguments, Tool, ToolAnswer, ToolKind, make_typed_tool
from forgepool.workers.tools.toolset import reading, working


def named(name: str, kind: ToolKind) -> Tool:
    return make_typed_tool(name, "Does it.", Arguments, lambda arguments, workplace: ToolAnswer(text=""), kind=kind)


MORE = (named("symbols", "read"), named("rename", "write"), named("docs", "read"))


def offers(tools: Sequence[Tool]) -> str:
    """Return the tools as a provider would be sent them."""
    return json.dumps([(tool.name, tool.offer.description, tool.offer.schema) for tool in tools])


def everything() -> tuple[Tool, ...]:
    ending = (ASK, commit_plan_tool(lambda paths: None), finish_tool(lambda: None))
    red = confirm_red_phase_tool(RedPhase())
    with Background() as background:
        return (*working("gpt", background, (red,), ending), *working("claude", background)[-1:])


def test_exploring_offers_nothing_that_could_write() -> None:
    """Only a server's reading tools are offered, and no command."""
    tools = reading(MORE, (ASK,))
    assert [tool.name for tool in tools] == ["read_file", "glob", "grep", "docs", "symbols", "ask"]
    assert {tool.kind for tool in tools} == {"read", "end"}


@pytest.mark.parametrize(("family", "edits"), [("gpt", "apply_patch"), ("claude", "edit_file"), ("qwen", "edit_file")])
def test_each_family_edits_as_it_was_taught(family: str, edits: str) -> None:
    with Background() as background:
        names = [tool.name for tool in working(family, background)]
    assert [name for name in names if name in ("edit_file", "apply_patch")] == [edits]
    assert len(set(names)) == len(names)


def test_the_same_phase_and_family_are_offered_the_same_bytes() -> None:
    """Neither the order nor the servers' start order matters. Tools that families share come first."""
    with Background() as one, Background() as other:
        assert offers(working("gpt", one, MORE)) == offers(working("gpt", other, MORE[::-1]))
        assert offers(reading(MORE)) == offers(reading(MORE[::-1]))
        names = [[tool.name for tool in working(family, one)] for family in ("gpt", "claude")]
        assert names[0][:-1] == names[1][:-1]
        assert names[0][:3] == [tool.name for tool in reading()]


@pytest.mark.parametrize("tool", everything(), ids=lambda tool: tool.name)
def test_every_offer_is_a_closed_schema(tool: Tool) -> None:
    """Models are told each tool's arguments, and that there are no others."""
    schema = tool.offer.schema
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert tool.offer.description.endswith(".")
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert [name for name, each in properties.items() if not each.get("description")] == []
