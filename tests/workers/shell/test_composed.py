"""A marked command in every wrapping, and random tokens: each is found or refused."""

import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from made_scripts import TOKENS

from forgepool.workers.shell.language.script import ShellScript, Unparseable
from forgepool.workers.shell.read_script import read_script

FOLDER = Path("/srv/tree")
MARKER = ("git", "push", "marker")
LONGEST_S = 20.0
"""Seconds, far more than any script needs (under one), because machines may be busy."""


def _single(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _double(text: str) -> str:
    return '"' + "".join(f"\\{each}" if each in '\\"$`' else each for each in text) + '"'


_SPELLINGS = (
    "git push marker",
    "'git' push marker",
    "g\"i\"t p'u'sh marker",
    "\\git \\push marker",
    "$'git' $'pu\\x73h' marker",
    "git  \\\n push\tmarker",
)
_PREFIXES = (
    "A=1 ",
    "env ",
    "env A=1 ",
    "env -i -u B ",
    "command ",
    "exec ",
    "nohup ",
    "setsid -w ",
    "nice -n 5 ",
    "ionice -c2 ",
    "chrt -f 1 ",
    "time ",
    "timeout 5 ",
    "timeout -k 1 --signal=KILL 5 ",
    "stdbuf -oL ",
    "sudo ",
    "sudo -u x ",
    "doas ",
    "xargs ",
    "xargs -n1 -0 ",
    "find . -exec ",
    "! ",
    "busybox ",
    "uv run ",
    "npx ",
    "strace ",
    "a | ",
    "a && ",
    "a || ",
    "a; ",
    "a & ",
    "a\n",
    ">f ",
)
_SUFFIXES = (" && a", " || a", "; a", " | a", " &", " > f 2>&1", "\na", " # x", " |& a")
_AROUND = (
    "({})",
    "( {} )",
    "{{ {}; }}",
    "$({})",
    "a $({})",
    'a "b $({}) c"',
    "a <({})",
    "a ${{x:-$({})}}",
    "x=$({})",
    "a > $({})",
    "if a; then {}; fi",
    "if {}; then a; fi",
    "if a; then b; else {}; fi",
    "while {}; do a; done",
    "until a; do {}; done",
    "for i in a b; do {}; done",
    "case a in a) {} ;; esac",
    "f() {{ {}; }}; f",
    "function f {{ {}\n}}",
    '[ -n "$({})" ]',
    "[[ -n $({}) ]]",
    "export x=$({})",
    "x=(a $({}))",
    "cat <<E\n$({})\nE\n",
    "case $({}) in a) b;; esac",
    "for i in $({}); do a; done",
    "{{ {}; }} 2>&1 | a",
    "a | while read x; do {}; done",
)
_IN_TEXT = (
    "bash -c {}",
    "sh -c {}",
    "bash -lc {}",
    "eval {}",
    "trap {} EXIT",
    "bash <<< {}",
    "echo {} | sh",
    "printf '%s\\n' {} | bash",
    "env bash -euc {}",
    "find . -exec sh -c {} \\;",
    "xargs sh -c {}",
    "zsh -c {}",
    "busybox sh -c {}",
)


@st.composite
def _hidden(draw: st.DrawFn) -> str:
    """Draw the marked command, wrapped a few times."""
    text = draw(st.sampled_from(_SPELLINGS))
    for _ in range(draw(st.integers(0, 5))):
        match draw(st.sampled_from(["prefix", "suffix", "around", "text", "heredoc"])):
            case "prefix":
                text = draw(st.sampled_from(_PREFIXES)) + text
            case "suffix":
                text += draw(st.sampled_from(_SUFFIXES))
            case "around":
                text = draw(st.sampled_from(_AROUND)).format(text)
            case "text":
                quote = draw(st.sampled_from([_single, _double]))
                text = draw(st.sampled_from(_IN_TEXT)).format(quote(text))
            case _:
                text = f"bash <<'E'\n{text}\nE\n"
    return text


@settings(max_examples=600)
@given(_hidden())
def test_no_wrapping_hides_a_command(text: str) -> None:
    """The marked command is among the facts, or the script is refused."""
    found = read_script(text, folder=FOLDER)
    if isinstance(found, ShellScript):
        argvs = [tuple(word.text for word in each.argv) for each in found.executions]
        assert any(argv[:3] == MARKER for argv in argvs), text


def test_most_wrappings_are_read() -> None:
    """Refusing everything would satisfy the test above. Each single wrapping that can be understood is."""
    singles = [
        *_SPELLINGS,
        *(prefix + _SPELLINGS[0] for prefix in _PREFIXES),
        *(_SPELLINGS[0] + suffix for suffix in _SUFFIXES),
        *(around.format(_SPELLINGS[0]) for around in _AROUND),
        *(inside.format(quote(_SPELLINGS[0])) for inside in _IN_TEXT for quote in (_single, _double)),
    ]
    refused = [text for text in singles if isinstance(read_script(text, folder=FOLDER), Unparseable)]
    assert set(refused) == {"$(git push marker)", "find . -exec git push marker"}


@settings(max_examples=300)
@given(
    st.one_of(
        st.text(max_size=200),
        st.lists(st.sampled_from(TOKENS), max_size=40).map(" ".join),
        st.lists(st.sampled_from(TOKENS), max_size=40).map("".join),
    )
)
def test_every_text_ends_in_an_answer(text: str) -> None:
    """Any text gives a value, soon."""
    begin = time.process_time()
    assert isinstance(read_script(text, folder=FOLDER), ShellScript | Unparseable)
    assert time.process_time() - begin < LONGEST_S


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(TOKENS), min_size=1, max_size=3),
    st.sampled_from(["", " ", "\n", ";"]),
    st.sampled_from(["", "a ", "a '", 'a "', "[[ ", "cat <<E\n", "a $(("]),
)
def test_repetition_takes_no_time(tokens: list[str], between: str, before: str) -> None:
    """32 KB of repeated tokens take no quadratic time, counted in CPU seconds."""
    unit = between.join(tokens) + between or " "
    text = before + unit * ((32 * 1024 - len(before.encode())) // len(unit.encode()))
    begin = time.process_time()
    found = read_script(text, folder=FOLDER)
    assert isinstance(found, ShellScript | Unparseable)
    assert not (isinstance(found, Unparseable) and "went wrong" in found.why), found
    assert time.process_time() - begin < LONGEST_S
