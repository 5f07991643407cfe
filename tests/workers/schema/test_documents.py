"""A document is read exactly, or refused with one sentence and a line for each mistake."""

import os
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Discriminator, Field, Tag

from forgepool.workers.schema.documents import MAX_BYTES, load, read, read_text
from forgepool.workers.schema.mistakes import MAX_MISTAKES, DocumentWrong, Duration, RelativePath, Slug
from forgepool.workers.schema.orders import Message


class Step(Message):
    id: Slug
    needs: tuple[str, ...] = ()
    kind: Literal["code", "docs"] = "code"
    count: int = Field(default=1, gt=0, le=9)
    share: float = 1.0
    strict: bool = False
    wait_s: Duration = 60.0
    env: dict[str, str] = Field(default_factory=dict)
    folder: RelativePath = "src"


class Sheet(Message):
    name: str = Field(min_length=1)
    steps: tuple[Step, ...] = ()
    words: tuple[str, ...] = Field(default=("a",), min_length=1)
    first: Step | None = None
    either: Annotated[
        Annotated[str, Tag("a word")] | Annotated[Step, Tag("a step")],
        Discriminator(lambda value: "a word" if isinstance(value, str) else "a step"),
    ] = "none"


def mistakes(text: str) -> list[str]:
    with pytest.raises(DocumentWrong) as caught:
        load(text, "a.yaml", Sheet)
    assert str(caught.value).split("\n")[: len(caught.value.mistakes)] == list(caught.value.mistakes)
    return list(caught.value.mistakes)


def test_values_and_their_lines() -> None:
    text = "name: a\nsteps:\n  - id: x\n    needs:\n      - p\n      - q\n  - {id: y, share: 2}\n"
    document = read(text, "a.yaml")
    assert document.data == {
        "name": "a",
        "steps": [{"id": "x", "needs": ["p", "q"]}, {"id": "y", "share": 2}],
    }
    lines = {
        ("name",): 1,
        ("steps",): 2,
        ("steps", 0): 3,
        ("steps", 0, "needs"): 4,
        ("steps", 0, "needs", 1): 6,
        ("steps", 1, "share"): 7,
        ("steps", 0, "absent", 5): 3,
        (): 1,
    }
    assert {where: document.line(where) for where in lines} == lines
    assert load(text, "a.yaml", Sheet).steps[1].share == 2.0


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("no", "no"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("007", "007"),
        ("2024-01-31", "2024-01-31"),
        ("0x1f", "0x1f"),
        (".inf", ".inf"),
        ("1e999", "1e999"),
        ("=", "="),
        ('"12"', "12"),
        ("!!str 12", "12"),
        ("12", 12),
        ("-3", -3),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("'<<'", "<<"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("|\n    two\n    lines\n", "two\nlines\n"),
    ],
)
def test_words_mean_what_they_mean_in_yaml_1_2(written: str, meant: object) -> None:
    data = read(f"a: {written}", "a.yaml").data
    assert isinstance(data, dict)
    assert data["a"] == meant
    assert type(data["a"]) is type(meant)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name: a\nstep: []", "2: the file has an unknown key 'step'; did you mean 'steps'?"),
        (
            "name: a\nzzz: 1",
            "2: the file has an unknown key 'zzz'; known keys are: either, first, name, steps, words",
        ),
        (
            "name: a\nsteps:\n- id: x\n  need: []",
            "4: step 'x' has an unknown key 'need'; did you mean 'needs'?",
        ),
        ("name: a\nfirst:\n  id: x\n  knd: 1", "4: 'first' has an unknown key 'knd'; did you mean 'kind'?"),
        ("name: a\neither:\n  id: x\n  knd: 1", "4: 'either' has an unknown key 'knd'; did you mean 'kind'?"),
        ("steps: []", "1: the file lacks the key 'name'"),
        ("name: a\nsteps:\n- kind: code", "3: step 1 lacks the key 'id'"),
        ("name: 3", "1: 'name' must be text, is 3; put it in quotes"),
        ("name: true", "1: 'name' must be text, is true; put it in quotes"),
        ("name:\n- a", "1: 'name' must be text, is a list"),
        ("name: ''", "1: 'name' must not be empty"),
        ("name: a\nsteps: x", "2: 'steps' must be a list, is 'x'"),
        ("name: a\nsteps:", "2: 'steps' must be a list, is empty"),
        ("name: a\nsteps:\n- 4", "3: item 1 of 'steps' must be a mapping of keys to values, is 4"),
        (
            "name: a\nsteps:\n- id: x\n  kind: cod",
            "4: 'kind' of step 'x' must be 'code' or 'docs', is 'cod'",
        ),
        ("name: a\nfirst: {id: x, count: 0}", "2: 'count' of 'first' must be greater than 0, is 0"),
        ("name: a\nfirst: {id: x, count: 10}", "2: 'count' of 'first' must be at most 9, is 10"),
        ("name: a\nfirst: {id: x, count: 1.5}", "2: 'count' of 'first' must be a whole number, is 1.5"),
        ("name: a\nfirst: {id: x, count: true}", "2: 'count' of 'first' must be a whole number, is true"),
        ("name: a\nfirst: {id: x, share: .inf}", "2: 'share' of 'first' must be a number, is '.inf'"),
        ("name: a\nfirst: {id: x, strict: yes}", "2: 'strict' of 'first' must be true or false, is 'yes'"),
        (
            "name: a\nfirst: {id: x, env: [A]}",
            "2: 'env' of 'first' must be a mapping of keys to values, is a list",
        ),
        (
            "name: a\nfirst: {id: x, env: {A: 1}}",
            "2: 'A' of 'env' of 'first' must be text, is 1; put it in quotes",
        ),
        (
            "name: a\nfirst:\n  id: x\n  needs:\n  - a\n  - 2",
            "6: item 2 of 'needs' of 'first' must be text, is 2; put it in quotes",
        ),
        (
            "name: a\nfirst: {id: x, wait_s: 3w}",
            "2: 'wait_s' of 'first' must be a duration such as 90, 90s, 15m or 1h, is '3w'",
        ),
        (
            "name: a\nfirst: {id: x, folder: ../b}",
            "2: 'folder' of 'first' must be a path inside the repository such as src/app, is '../b'",
        ),
        ("name: a\neither: 3", "2: 'either' must be a mapping of keys to values, is 3"),
        ("name: a\n\n# note\nname: b", "4: the key 'name' is written twice (first on line 1); keep one"),
        ("name: a\n[x]: 3", "2: a key must be one word, not a list or a mapping"),
        ("name: a\n<<: {x: 3}", "2: merging with '<<' is not possible here; write the keys out"),
        ("name: !!python/name:os a", "1: the tag '!!python/name:os' has no meaning here; remove it"),
        ('name: "a\\0"', "1: holds a character that no file or command can have"),
        ("name: a\nsteps:\n\t- x", "3: a tab is used to indent; indent with spaces"),
        (
            "name: a: b",
            "1: a ':' stands where no key can be; check the indentation, or put the text in quotes",
        ),
        ("name: 'a\nsteps: []", "2: a quote is not closed"),
        ("name: a\nsteps: [a\n", "3: a list or mapping in brackets is not closed, or lacks a ','"),
        ("name: *b", "1: an alias (*name) is used that no anchor (&name) defines"),
        ("name: a\n---\nname: b", "2: holds a second document after '---'; keep one"),
        ("name: @a", "1: a word begins with a character that YAML keeps for itself; put the text in quotes"),
        ("name: \x01", "1: holds a character that YAML does not allow"),
        ("- a", "1: the file must be a mapping of keys to values, is a list"),
        ("", "1: is empty; write its keys, or remove it"),
        ("# nothing\n", "1: is empty; write its keys, or remove it"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line(text: str, sentence: str) -> None:
    assert f"a.yaml:{sentence}" in mistakes(text)


def test_all_mistakes_are_told_in_the_order_of_their_lines() -> None:
    text = "name: 3\nsteps:\n- id: a\n  id: b\n- count: x\n- kind: y\n  id: q\nxx: 1"
    assert [int(each.split(":")[1]) for each in mistakes(text)] == [1, 4, 5, 5, 6, 8]


def test_a_list_that_may_not_be_empty_is_not_called_so_for_a_wrong_item() -> None:
    assert mistakes("name: a\nwords: []") == ["a.yaml:2: 'words' must not be empty"]
    assert mistakes("name: a\nwords: [3]") == ["a.yaml:2: item 1 of 'words' must be text, is 3; put it in quotes"]
    assert mistakes("name: ''\nwords: [x, 3]") == [
        "a.yaml:1: 'name' must not be empty",
        "a.yaml:2: item 2 of 'words' must be text, is 3; put it in quotes",
    ]


def test_at_most_twenty_mistakes_are_told_and_the_rest_counted() -> None:
    text = "name: a\nsteps:\n" + "- {id: x, count: 0}\n" * 50
    with pytest.raises(DocumentWrong) as caught:
        load(text, "a.yaml", Sheet)
    assert len(caught.value.mistakes) == MAX_MISTAKES
    assert caught.value.left_out == 30
    assert str(caught.value).endswith("a.yaml: 30 more mistakes are not shown")


def test_a_sentence_is_one_line_whatever_was_written() -> None:
    (sentence,) = mistakes('name: a\n"x\\ny\\e[31m": 1')
    assert "\n" not in sentence
    assert sentence.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
        + "".join(
            f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
            for before, name in zip("abcdefg", "bcdefgh", strict=True)
        ),
        f"a: &a {'x' * 1_000_000}\nb: [{','.join(['*a'] * 100)}]",
        "&a [*a]",
        "[" * 3000 + "]" * 3000,
        "{a: " * 3000 + "}" * 3000,
    ],
    ids=["billion laughs", "long text", "itself", "deep lists", "deep mappings"],
)
def test_a_document_that_expands_without_end_is_refused(text: str) -> None:
    with pytest.raises(DocumentWrong, match=r"expands to more than|levels deep|too deeply"):
        read(text, "a.yaml")


def test_aliases_of_reasonable_size_are_followed() -> None:
    assert read("a: &a [1, 2]\nb: *a", "a.yaml").data == {"a": [1, 2], "b": [1, 2]}


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90", 90), ("0.5", 0.5), ("90s", 90), ("15m", 900), ("1h", 3600), ("1.5h", 5400), ("'2 d'", 172800)],
)
def test_a_duration_is_seconds(written: str, seconds: float) -> None:
    assert load(f"id: a\nwait_s: {written}", "a.yaml", Step).wait_s == seconds


@pytest.mark.parametrize("written", ["0", "-1", "0s", "true", "[]", "~", "''", "1h30m", "nan", "inf"])
def test_what_is_no_duration_is_refused(written: str) -> None:
    with pytest.raises(DocumentWrong, match=r"a\.yaml:2: 'wait_s'"):
        load(f"id: a\nwait_s: {written}", "a.yaml", Step)


@pytest.mark.parametrize("text", ["-a", ".a", "a..b", "a.lock", "a.", "a/b", "a b", "a:b", "é", "a" * 101])
def test_a_slug_that_could_not_be_part_of_a_ref_is_refused(text: str) -> None:
    with pytest.raises(DocumentWrong, match="'id' "):
        load(f"id: '{text}'", "a.yaml", Step)


def test_files_that_cannot_be_read_as_text(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "latin").write_bytes(b"name: a\nx: \xe9\n")
    (tmp_path / "large").write_bytes(b"#" * (MAX_BYTES + 1))
    (tmp_path / "marked").write_bytes(b"\xef\xbb\xbfname: a\n")
    expected = {
        "latin": "n:2: is not UTF-8 text; save the file as UTF-8",
        "large": "n: is larger than 16 MB; split it",
        "absent": "n: there is no such file",
        "pipe": "n: is a named pipe, which is not waited for; give a file",
        ".": "n: cannot be read: Is a directory",
    }
    for file, sentence in expected.items():
        with pytest.raises(DocumentWrong) as caught:
            read_text(tmp_path / file, "n")
        assert str(caught.value) == sentence
    assert load(read_text(tmp_path / "marked", "n"), "n", Sheet).name == "a"


@given(st.text(alphabet=st.sampled_from("ab: -[]{}&*!|>'\"\n\t#%@,?<0\\é"), max_size=60))
def test_no_text_brings_the_reader_down(text: str) -> None:
    """Any text is either a document or a DocumentWrong whose sentences name the file."""
    try:
        load(text, "a.yaml", Sheet)
    except DocumentWrong as wrong:
        assert wrong.mistakes
        assert all(each.startswith("a.yaml:") for each in wrong.mistakes)


@given(st.binary(max_size=200))
def test_no_bytes_bring_the_reader_down(raw: bytes) -> None:
    try:
        load(raw.decode("utf-8", "surrogateescape"), "a.yaml", Sheet)
    except DocumentWrong as wrong:
        assert wrong.mistakes
