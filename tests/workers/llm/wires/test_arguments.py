"""Which texts count as a call's arguments, and which are malformed."""

import pytest

from forgepool.workers.llm.wires.normal_forms import join_pieces, read_call


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        (" \n", {}),
        ("{}", {}),
        ('{"a": [1, 2.5, null, true, {"b": "é"}]}', {"a": [1, 2.5, None, True, {"b": "é"}]}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
    ],
)
def test_one_json_object_is_arguments(text: str, arguments: dict[str, object]) -> None:
    """An empty text means no arguments."""
    call = read_call(id="c", name="t", text=text)
    assert (call.arguments, call.malformed) == (arguments, None)


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "calc.py" oops}',
        '{"path": "a", "content": "abc',
        '{"cmd": "rm -rf /tmp/x',
        "{'path': 'a'}",
        '{"a": 1,}',
        '{"a": 1} {"b": 2}',
        "[1]",
        '"text"',
        "null",
        '{"a": NaN}',
        '{"a": 1e999}',
        '{"a": 1, "a": 2}',
        '{"a": "\\ud83d"}',
        '{"a": ' * 100_000,
        '{"a": ' + "9" * 5000 + "}",
    ],
    ids=lambda text: text[:20],
)
def test_anything_else_is_kept_as_it_came_and_never_run(text: str) -> None:
    """Broken, cut, ambiguous or unstorable text is never taken for arguments."""
    call = read_call(id="c", name="t", text=text)
    assert (call.arguments, call.malformed) == ({}, text)
    assert call.encode()


def test_halves_of_a_character_are_joined() -> None:
    """A half that stays alone is replaced, because a transcript must be able to hold it."""
    assert join_pieces(["a", "\ud83d", "\ude00"]) == "a\U0001f600"
    assert join_pieces(["a\ud83d"]) == "a\ufffd"
