"""
Comments and strings by the marks that begin them: for languages without a grammar here, and for files too much for one.

No expression here can fail once it has begun, so that a text is read once, however it is quoted.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple


class LexedPiece(NamedTuple):
    """A comment or a string: where it begins and ends, in bytes."""

    start: int
    end: int
    string: bool


_SLASHES = rb"//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?"
_HASH = rb"(?:(?<=\s)|(?<![\s\S]))#[^\n]*"
_DASHES = rb"--[^\n]*"
_MARKUP = rb"<!--(?:[^-]|-(?!->))*+(?:-->)?"
_SEMICOLON = rb";[^\n]*"
_PERCENT = rb"%[^\n]*"
_TRIPLE = rb'"""(?:[^"]|"(?!""))*+(?:""")?|' + rb"'''(?:[^']|'(?!''))*+(?:''')?"
_DOUBLE = rb'(?<!\w)"(?:\\.|[^"\\\n])*+"?'
_SINGLE = rb"(?<!\w)'(?:\\.|[^'\\\n])*+'?"
_TICKS = rb"`(?:\\.|[^`\\\n])*+`?"


def _reader(comments: bytes, *strings: bytes) -> re.Pattern[bytes]:
    return re.compile(b"(?P<comment>" + comments + b")|" + b"|".join(strings), re.DOTALL)


_C = _reader(_SLASHES, _DOUBLE, _SINGLE, _TICKS)
_SHELL = _reader(_HASH, _TRIPLE, _DOUBLE, _SINGLE)
_BOTH = _reader(_HASH + b"|" + _SLASHES, _DOUBLE, _SINGLE)
_SQL = _reader(_DASHES + rb"|/\*(?:[^*]|\*(?!/))*+(?:\*/)?", _DOUBLE, _SINGLE)
_XML = _reader(_MARKUP, rb"(?!)")
_PAGE = _reader(_MARKUP + b"|" + _SLASHES, _DOUBLE, _SINGLE, _TICKS)
_LISP = _reader(_SEMICOLON, _DOUBLE)
_TEX = _reader(_PERCENT, rb"(?!)")
_INI = _reader(_HASH + rb"|(?:(?<=\n)|(?<![\s\S]))[ \t]*;[^\n]*", _DOUBLE, _SINGLE)

_SUFFIXES = (
    (_C, "c h cc cpp cxx hh hpp hxx m mm cs kt kts swift scala dart groovy gradle proto less scss css sol zig"),
    (_C, "go rs java js jsx mjs cjs ts tsx mts cts jsonc json5"),
    (_SHELL, "py pyi pyw sh bash zsh fish rb pl pm r jl yaml yml toml cmake mk ex exs nix graphql ps1 psm1"),
    (_SHELL, "conf env properties rego tcl awk bzl bazel star cfg"),
    (_BOTH, "php tf tfvars hcl"),
    (_SQL, "sql lua hs elm adb ads"),
    (_XML, "xml xsd xsl xslt csproj props targets html htm"),
    (_PAGE, "vue svelte astro"),
    (_LISP, "clj cljs cljc el lisp scm"),
    (_TEX, "tex sty erl hrl"),
    (_INI, "ini"),
)
_NAMES = (
    (_SHELL, "makefile gnumakefile dockerfile containerfile gemfile rakefile procfile justfile cmakelists.txt"),
    (_SHELL, "vagrantfile build workspace .gitignore .gitattributes .dockerignore .editorconfig .env"),
    (_C, "jenkinsfile"),
)
_BY_SUFFIX = {suffix: reader for reader, suffixes in _SUFFIXES for suffix in suffixes.split()}
_BY_NAME = {name: reader for reader, names in _NAMES for name in names.split()}


def find_pieces(path: str, text: bytes) -> Iterator[LexedPiece]:
    """The comments and strings of a text, in its order; none where nothing is known of its language."""
    reader = _reader_of(path, text)
    if reader is not None:
        for found in reader.finditer(text):
            yield LexedPiece(found.start(), found.end(), found["comment"] is None)


def is_code(path: str, text: bytes = b"") -> bool:
    """Is it of a language whose comments and strings are known?"""
    return _reader_of(path, text) is not None


def _reader_of(path: str, text: bytes) -> re.Pattern[bytes] | None:
    name = path.rpartition("/")[2].lower()
    known = _BY_NAME.get(name) or _BY_NAME.get(name.partition(".")[0] if name.startswith("dockerfile.") else "")
    if known is None and "." in name:
        known = _BY_SUFFIX.get(name.rpartition(".")[2])
    return known or (_SHELL if "." not in name and text.startswith(b"#!") else None)
