"""Sources are parsed within bounds, and compared without a grammar where they are too large for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stories import Stage, story

from forgepool.workers.workspace.scans.languages.syntax import language_of, parse
from forgepool.workers.workspace.scans.source.grammar import SourceText, find_pieces, sources

_LANGUAGES = ("python", "javascript", "typescript", "tsx", "go", "rust", "java", "bash")


@pytest.mark.parametrize(
    ("path", "text", "language"),
    [
        ("a.py", b"", "python"),
        ("A.PY", b"", "python"),
        ("src/a.d.ts", b"", "typescript"),
        ("a.tsx", b"", "tsx"),
        ("run", b"#!/usr/bin/env python3.11\n", "python"),
        ("run", b"#!/bin/sh -e\n", "bash"),
        ("run", b"#!/usr/bin/env node\n", "javascript"),
        ("run", b"text\n", None),
        ("a.txt", b"#!/bin/sh\n", None),
        (".bashrc", b"", None),
    ],
)
def test_languages_are_known_by_suffix_or_first_line(path: str, text: bytes, language: str | None) -> None:
    assert language_of(path, text) == language


@pytest.mark.parametrize(
    ("language", "sign"),
    [("go", b"~&"), ("go", b"-"), ("python", b"not "), ("typescript", b"!"), ("rust", b"&"), ("bash", b"! ")],
)
def test_signs_nested_in_each_other_by_the_hundred_thousand_end_no_process(language: str, sign: bytes) -> None:
    """In a thread of the usual size they overflow the stack of the Go grammar."""
    parse(language, sign * (249_000 // len(sign)))
    parse(language, sign * (249_000 // len(sign)), texts=True)


def test_nodes_know_their_texts_where_that_is_asked_for() -> None:
    root = parse("python", b"x = 1\n", texts=True)
    assert root is not None
    assert root.children[0].text == b"x = 1"


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("go", b",^|" * 9_000),
        ("go", b"{[" * 100_000),
        ("rust", b'r#"' * 60_000),
        ("bash", b"a(" * 60_000 + b")" * 60_000),
        ("python", b"x = 1\n" * 100_000),
    ],
)
def test_what_is_too_much_for_a_grammar_has_no_tree(language: str, text: bytes) -> None:
    assert parse(language, text) is None


@pytest.mark.parametrize("language", _LANGUAGES)
def test_what_people_write_is_not_too_much(language: str) -> None:
    assert parse(language, b"a(b[1], {c: 2});\n" * 2_000) is not None


def _source(stage: Stage, path: str, text: str, before: str = "") -> SourceText:
    old = {path: before} if before else {}
    (source,) = sources(stage.subject(story(name="x", before=old, after={path: text})))
    return source


@pytest.mark.parametrize(
    ("path", "text", "code"),
    [
        ("a.py", "x = 'é # no' # yes\n", "x = '       '"),
        ("a.py", "x = f'a {b} c'\n", "x = f'  {b}  '"),
        ("a.js", "x = `a ${b} c` // yes\n", "x = `  ${b}  `"),
        ("a.go", 'x := "a" /* b */ + c\n', "x :=             + c"),
        ("a.rb", "x = 'a # b' # c\n", "x ="),
        ("a.sql", "x = 'a -- b' -- c\n", "x ="),
        ("a.c", 'x = "/*"; /* y */ z\n', "x =     ;         z"),
        ("a.yaml", "it's: b # c\n", "it's: b"),
        ("a.html", "a <!-- b --> c\n", "a            c"),
    ],
)
def test_code_is_what_is_neither_string_nor_comment(stage: Stage, path: str, text: str, code: str) -> None:
    assert _source(stage, path, text).code(1).rstrip() == code


@pytest.mark.parametrize("path", ["a.py", "a.rb"])
def test_only_added_lines_of_comments_are_remarks(stage: Stage, path: str) -> None:
    source = _source(stage, path, "# one\n# two\nx = 1  # three\n", before="# one\nx = 1\n")
    assert [(remark.line, remark.text) for remark in source.comments] == [(2, "# two"), (3, "# three")]


@pytest.mark.parametrize("path", ["a.js", "a.c"])
def test_of_a_long_comment_only_the_added_line_is_a_remark(stage: Stage, path: str) -> None:
    source = _source(stage, path, "/*\n one\n two\n*/\nx();\n", before="/*\n one\n*/\nx();\n")
    assert [(remark.line, remark.text) for remark in source.comments] == [(3, " two")]


def test_a_file_too_much_for_its_grammar_still_has_comments(stage: Stage) -> None:
    source = _source(stage, "a.go", "// TODO: one\n" + "\n".join([",^|" * 30] * 300) + "\n")
    assert source.too_much
    assert [remark.text for remark in source.comments] == ["// TODO: one"]


@given(
    st.text(alphabet="\"'`#/*-<!>\\ \nab", max_size=200),
    st.sampled_from(["a.c", "a.py", "a.sql", "a.vue", "a.ini", "a.el"]),
)
def test_pieces_never_overlap_and_lie_within_the_text(text: str, path: str) -> None:
    end = 0
    for piece in find_pieces(path, text.encode()):
        assert end <= piece.start < piece.end <= len(text)
        end = piece.end
