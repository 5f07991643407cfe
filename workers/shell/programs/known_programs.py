"""
Tables for the policy: git's options before its subcommand, options with two spellings, files that commands write.

Programs that are not in them are judged by their words alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from forgepool.workers.shell.language.script import ShellWord
from forgepool.workers.shell.language.syntax import name_set

TRUSTED = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/opt/homebrew/bin"})
"""Folders whose programs are what their names say."""

ONE_DASH = frozenset({"find", "go", "java", "javac", "openssl", "ffmpeg", "terraform", "gcc", "cc", "clang", "g++"})
"""Programs whose long options have one dash, so that letters are not bundled."""

_TREES = (frozenset({"-r", "-R", "--recursive"}), frozenset({"-f", "--force"}))
ALIKE: dict[str, tuple[frozenset[str], ...]] = {
    **dict.fromkeys(("rm", "cp", "mv", "chmod", "chown", "chgrp"), _TREES),
    "git": (
        frozenset({"-f", "--force"}),
        frozenset({"-n", "--no-verify"}),
        frozenset({"-d", "--delete"}),
    ),
    "sed": (frozenset({"-i", "--in-place"}),),
    "kill": (frozenset({"-9", "-KILL", "-SIGKILL"}),),
}
"""Groups of options with one meaning, by program."""

TAKES_NUMBERS = frozenset({"kill"})
"""Programs whose unknown words are process numbers (`kill $!`), never options."""

ANY_OPTION = name_set(
    """
    cat cmp column comm cut diff du echo egrep fgrep file grep head hexdump ls md5sum nl od paste rev sha1sum sha256sum
    stat strings tac tail wc
    """
)
"""Programs that only look, whatever options a pattern such as `*` gives them."""

_GIT_FLAGS = frozenset(
    {"-p", "--paginate", "-P", "--no-pager", "--bare", "--no-replace-objects", "--no-lazy-fetch", "--no-optional-locks"}
    | {"--no-advice", "--literal-pathspecs", "--glob-pathspecs", "--noglob-pathspecs", "--icase-pathspecs"}
    | {"--html-path", "--man-path", "--info-path", "-v", "--version", "-h", "--help"}
)
_GIT_HARMLESS = ("color.", "advice.", "core.quotepath=", "core.pager=cat", "pager.", "log.date", "diff.renames")
"""Prefixes of settings that make git run nothing."""


def git_words(words: tuple[ShellWord, ...]) -> tuple[tuple[ShellWord, ...], str]:
    """
    Return git's words from the subcommand on, and why an option before it is refused ("" if none is).

    An unknown option may take the next word for its value, and then the subcommand is another.
    """
    at, wrong = 0, ""
    while at < len(words):
        word = words[at]
        if not word.static and not word.text.startswith("-"):
            break
        if not word.text.startswith("-"):
            break
        taken, why = _git_option(word, words[at + 1 : at + 2])
        wrong, at = wrong or why, at + taken
    return words[at:], wrong


def git_folders(words: tuple[ShellWord, ...]) -> Iterator[ShellWord]:
    """Yield the folders of git's `-C` before its subcommand, in order; one that is empty changes nothing."""
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        if words[at].static and words[at].text == "-C":
            yield from (word for word in words[at + 1 : at + 2] if word.text or not word.static)
        at += _git_option(words[at], words[at + 1 : at + 2])[0]


def _git_option(word: ShellWord, following: tuple[ShellWord, ...]) -> tuple[int, str]:
    """Return how many words the option takes, and what is wrong with it."""
    name, equals, value = word.text.partition("=")
    if not word.static and not equals:
        return 1, f"git's option {word.shown} cannot be known; write it out"
    if word.text in _GIT_FLAGS:
        return 1, ""
    if name == "-C":
        if following and following[0].several:
            return 2, f"git -C is given {following[0].shown}, which may be several words; put it into quotes"
        return 2, "" if following else "git -C names no folder; name one"
    if name in ("-c", "--config-env"):
        setting = value if equals else following[0].text if following else ""
        harmless = word.static and all(each.static for each in following) and _is_harmless(setting)
        why = "" if harmless else f"git {name} can make git run any program; leave it out"
        return 1 if equals else 2, why
    if name in ("--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--attr-source"):
        taken = 1 if equals or name == "--exec-path" else 2
        return taken, f"git {name} leads git elsewhere than to the worktree; leave it out, or use git -C FOLDER"
    return 1, f"git has {word.shown} before its subcommand, which is not known here; write it after the subcommand"


def _is_harmless(setting: str) -> bool:
    lowered = setting.lower()
    if lowered.startswith("pager."):
        return lowered.partition("=")[2] in ("false", "no", "off", "0", "cat")
    return (lowered.startswith(_GIT_HARMLESS) and not lowered.startswith("core.pager=")) or lowered == "core.pager=cat"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenOperand:
    """An operand that a command writes, changes or removes."""

    word: ShellWord
    follow: bool = True
    """The file behind a link is changed, not the link."""
    whole: bool = False
    """Everything below it is changed too."""
    beneath: tuple[ShellWord, ...] = ()
    """The sources that land in it where it is a folder."""


_TAKES_VALUE: dict[str, tuple[str, ...]] = {
    "touch": ("-t", "-d", "-r", "--date", "--reference"),
    "mkdir": ("-m", "--mode"),
    "truncate": ("-s", "--size", "-r", "--reference"),
    "install": ("-m", "--mode", "-o", "--owner", "-g", "--group", "-S", "--suffix"),
    "cp": ("-S", "--suffix"),
    "mv": ("-S", "--suffix"),
    "ln": ("-S", "--suffix"),
    "tee": (),
    "shred": ("-n", "-s"),
    "rsync": ("-e", "--rsh", "--exclude", "--include", "-f", "--filter"),
}
"""Options whose value is the next word and no file."""
_ALL = {"tee", "touch", "mkdir", "truncate", "shred", "mkfifo", "mknod"}
_AWAY = {"rm", "rmdir", "unlink"}
_LAST = {"cp", "install", "rsync", "ln", "mv"}
_AFTER_FIRST = {"chmod", "chown", "chgrp", "setfacl", "setfattr"}
_OUTPUT = {
    "sort": ("-o", "--output"),
    "curl": ("-o", "--output", "--output-dir"),
    "wget": ("-O", "--output-document", "-P", "--directory-prefix"),
    "gcc": ("-o",),
    "cc": ("-o",),
    "tree": ("-o",),
    "git": ("--output",),
    "tar": ("-C", "--directory"),
    "unzip": ("-d",),
}
"""Options whose value is a file or folder that is written."""


def find_written(program: str, words: tuple[ShellWord, ...]) -> tuple[WrittenOperand, ...]:
    """Return the operands that a well-known program writes; none for other programs."""
    if program in _OUTPUT:
        return tuple(WrittenOperand(word=word) for word in _values(words, _OUTPUT[program]))
    if program == "dd":
        return tuple(WrittenOperand(word=_rest(word, 3)) for word in words if word.text.startswith("of="))
    if program in ("sed", "perl"):
        return tuple(_in_place(words))
    operands = _operands(words, _TAKES_VALUE.get(program, ()))
    if program in _AWAY:
        return tuple(WrittenOperand(word=word, follow=False, whole=_is_deep(words)) for word in operands)
    if program in _ALL:
        return tuple(WrittenOperand(word=word) for word in operands)
    if program in _AFTER_FIRST:
        given = any(word.text.startswith("--reference") for word in words)
        return tuple(WrittenOperand(word=word, whole=_is_deep(words)) for word in operands[0 if given else 1 :])
    return tuple(_copied(program, words, operands)) if program in _LAST else ()


def _copied(program: str, words: tuple[ShellWord, ...], operands: tuple[ShellWord, ...]) -> Iterator[WrittenOperand]:
    into = _values(words, ("-t", "--target-directory"))
    sources = operands if into else operands[:-1]
    if program == "mv":
        yield from (WrittenOperand(word=word, follow=False, whole=True) for word in sources if word not in into)
    if program == "install" and any(word.static and word.text in ("-d", "--directory") for word in words):
        yield from (WrittenOperand(word=word) for word in operands)
        return
    for target in into or operands[-1:] if len(operands) > 1 or into else ():
        remote = program == "rsync" and ":" in target.text.partition("/")[0]
        if not remote:
            yield WrittenOperand(word=target, follow=program != "ln", beneath=sources)


def _in_place(words: tuple[ShellWord, ...]) -> Iterator[WrittenOperand]:
    """Yield what `sed -i` and `perl -i` write: every operand but the script."""
    if not any(_bundles(word, "i") or word.text.startswith("--in-place") for word in words):
        return
    given = any(_bundles(word, "e") or _bundles(word, "f") for word in words)
    given = given or any(word.text.startswith(("--expression", "--file")) for word in words)
    operands = _operands(words, ("-e", "-f", "--expression", "--file"), bundled="ef")
    yield from (WrittenOperand(word=word) for word in operands[0 if given else 1 :])


def _bundles(word: ShellWord, letter: str) -> bool:
    text = word.text
    return len(text) > 1 and text[0] == "-" and text[1] != "-" and letter in text[1:]


def _is_deep(words: tuple[ShellWord, ...]) -> bool:
    return any(_bundles(word, "r") or _bundles(word, "R") or word.text.startswith("--r") for word in words)


def _operands(words: tuple[ShellWord, ...], valued: tuple[str, ...], *, bundled: str = "") -> tuple[ShellWord, ...]:
    """Return the words that are neither options nor known values of options."""
    found: list[ShellWord] = []
    skip = ended = False
    for word in words:
        if skip:
            skip = False
        elif ended or not (len(word.text) > 1 and word.text[0] == "-"):
            found.append(word)
        elif word.text == "--":
            ended = True
        else:
            last = word.text[-1] if not word.text.startswith("--") else ""
            skip = word.text in valued or (bool(last) and last in bundled)
    return tuple(found)


def _values(words: tuple[ShellWord, ...], options: tuple[str, ...]) -> tuple[ShellWord, ...]:
    """Return the values of these options: the next word, what follows `=`, or what follows the letter."""
    found: list[ShellWord] = []
    for at, word in enumerate(words):
        name, equals, _ = word.text.partition("=")
        if word.text in options:
            found += words[at + 1 : at + 2]
        elif equals and name.startswith("--") and any(option.startswith(name) and len(name) > 3 for option in options):
            found.append(_rest(word, len(name) + 1))
        elif not word.text.startswith("--") and word.text[:2] in options and len(word.text) > 2:
            found.append(_rest(word, 2))
    return tuple(found)


def _rest(word: ShellWord, start: int) -> ShellWord:
    return ShellWord(text=word.text[start:], static=word.static, several=word.several, written=word.written)
