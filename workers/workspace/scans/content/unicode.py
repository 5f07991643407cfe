"""
`letters`: text that reads differently from how it runs, by direction marks, invisible characters or look-alike letters.

Prose, strings and translations in any script are fine, as are emoji and Greek letters in formulas. Two scripts in one
identifier are not, nor is a file name that only looks like another.

`unreadable`: a file that runs and that no reviewer can read in a diff.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from forgepool.workers.policy.gate_file.test_paths import is_test_path
from forgepool.workers.workspace.scans.content.binaries import is_text
from forgepool.workers.workspace.scans.content.secrets import is_listing
from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.workers.workspace.scans.languages.syntax import language_of
from forgepool.workers.workspace.scans.source.grammar import SourceText, is_code, sources
from forgepool.workers.workspace.scans.subject import Subject, finding
from forgepool.worktrees.commits.diff import DiffLine, FileDiff, contents

RULE = "letters"
UNREADABLE = "unreadable"

_MOST = 200
_FAR = re.compile(r"\S[ \t]{120,}\S")
"""A run of blanks wider than a screen, with text behind it."""
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_MARKS = frozenset("\u200e\u200f\u061c")
_JOINERS = frozenset("\u200c\u200d")
_UNSEEN = frozenset(
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u200b\u2060\u2061\u2062\u2063\u2064\u206a\u206b\u206c"
    "\u206d\u206e\u206f\u3164\ufeff\uffa0\ufff9\ufffa\ufffb"
)
_BREAKS = frozenset("\r\x0b\x85\u2028\u2029")
_ENDS_A_LINE = frozenset("\r\u2028\u2029")
_NOT_IN_CODE = _BREAKS | _UNSEEN | _MARKS | _JOINERS
_ALONE = _BREAKS | _UNSEEN | _JOINERS
_SMUGGLED = re.compile(r"(?<!\U0001f3f4)[\U000e0000-\U000e007f]{2,}|[\U000e0100-\U000e01ef]{2,}|[\ufe00-\ufe0f]{3,}")
_FLAG = re.compile(r"\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_WORD = re.compile(r"\w+")
_PART = re.compile(r"[^\W_\d]+")
_ALIKE = frozenset(
    # Letters that most fonts draw like ASCII: Cyrillic, Greek, Armenian, Cherokee, letters like signs, Lisu, and Latin.
    "АВСЕНІЈКМОРЅТХУҮԌԚԜаеорсухіјѕһԁԛԝѵѡӏ"
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧοϲϳ"
    "ՍՏՕԼօսցհոզյԁ"
    "ᎪᏴᏟᎠᎬᏀᎻᎢᎫᏞᎷᏃᏢᏒᏚᎢᏙᏔᏃᏧ"
    "ǀǁǂǃꓲꓳꓴꓮꓐꓚꓓꓰꓝꓖꓧꓙꓗꓡꓟꓠꓑꓣꓢꓔꓦꓪꓫꓬꓜ"
    "ɑɡɩ"
)
_DIFFERENT = frozenset(["CYRILLIC", "ARMENIAN", "CHEROKEE", "LISU", "COPTIC", "DESERET", "GEORGIAN"])
"""Scripts that honest words do not mix with others."""
_NEVER_TOUCHED = re.compile(
    r"(?:FULLWIDTH|MATHEMATICAL|DOUBLE-STRUCK|SCRIPT|BLACK-LETTER|CIRCLED|PARENTHESIZED|SQUARED) "
)
_TONGUES = re.compile(
    r"(?:^|/)(?:locales?|i18n|l10n|lang(?:uage)?s?|translations?|messages?|po|intl)(?:/|[._-])"
    r"|\.(?:po|pot|xlf|xliff|arb|strings|ftl)$"
    r"|\.(?:md|markdown|rst|txt|adoc|html?|csv|tsv|tex|srt|vtt)$",
    re.IGNORECASE,
)
_MANIFEST = re.compile(
    r"(?:^|/)(?:package\.json|requirements[\w.-]*\.(?:txt|in)|pyproject\.toml|setup\.(?:py|cfg)|Pipfile|go\.mod|Cargo\.toml"
    r"|Gemfile|pom\.xml|build\.gradle(?:\.kts)?|composer\.json|Dockerfile[\w.-]*)$"
)


def scan_letters(subject: Subject) -> Iterator[ScanFinding]:
    """Report `letters` in file names and added lines. In code, strings and comments are judged apart."""
    for file in subject.files:
        yield from _in_name(file)
    files = [file for file in subject.written if any(_is_looked_at(line.text) for line in file.added)]
    known = {source.file.path: source for source in sources(subject, files)}
    for file in files:
        yield from islice(_new_in_lines(file, known.get(file.path)), _MOST)


def scan_readability(subject: Subject, read: tuple[SourceText, ...]) -> Iterator[ScanFinding]:
    """Report `unreadable` for files that could not be scanned, so that they do not pass for clean."""
    for file in subject.written:
        if file.status != "D" and (file.binary or file.cut) and _is_source(file):
            is_utf_16 = file.binary and is_text(contents(subject.git, [file.id]).get(file.id, b"\0"))
            runs = file.binary and not is_utf_16 and not is_test_path(file.path) and language_of(file.path) is not None
            weight: Weight = "blocks" if runs else "attention"
            what = "holds NUL bytes, so that no diff shows it" if file.binary else "is too large to be scanned"
            what = "is written in UTF-16, which no diff shows" if is_utf_16 else what
            yield finding(UNREADABLE, weight, f"this source file {what}; make it one that can be read", file.path)
        elif _is_source(file):
            yield from _far_behind(file)
    for source in read:
        if source.too_much:
            message = "this source could not be parsed in full; have a person read it"
            yield finding(UNREADABLE, "attention", message, source.file.path)


def _far_behind(file: FileDiff) -> Iterator[ScanFinding]:
    known = {" ".join(line.text.split()) for line in file.removed if _FAR.search(line.text)}
    found = (line for line in file.added if _FAR.search(line.text) and " ".join(line.text.split()) not in known)
    for line in islice(found, 1):
        message = "this line goes on behind a long run of blanks; put the rest on its own line"
        yield finding(UNREADABLE, "attention", message, file.path, line.number, " ".join(line.text.split()))


def _is_source(file: FileDiff) -> bool:
    """Tell whether the file may run. Lock files and other listings do not."""
    if is_listing(file.path):
        return False
    return language_of(file.path) is not None or is_code(file.path) or file.mode == "100755"


def _in_name(file: FileDiff) -> Iterator[ScanFinding]:
    if (file.path.isascii() and file.path.isprintable()) or file.status not in ("A", "R"):
        return
    hidden = [each for each in file.path if each in _TURNING | _NOT_IN_CODE or unicodedata.category(each) == "Cc"]
    if hidden:
        message = f"the name of this file holds {_called(hidden[0])}, which is invisible; rename the file"
        yield finding(RULE, "blocks", message, file.path)
    elif any(_deceives(part) for part in _PART.findall(file.path)):
        message = "the name of this file mixes scripts or looks like another; spell it in one script"
        yield finding(RULE, "blocks", message, file.path)


def _is_looked_at(text: str) -> bool:
    return not text.isascii() or (not text.isprintable() and _odd(text))


def _new_in_lines(file: FileDiff, source: SourceText | None) -> Iterator[ScanFinding]:
    """Yield what added lines hold more often than removed ones. A reformatted line holds as much as before."""
    removed = replace(file, path=file.old_path or file.path, added=file.removed)
    before = Counter(finding_.said for finding_ in _in_lines(removed, source.before if source else None))
    for finding_ in _in_lines(file, source):
        before[finding_.said] -= 1
        if before[finding_.said] < 0:
            yield finding_


def _in_lines(file: FileDiff, source: SourceText | None) -> Iterator[ScanFinding]:
    for line in file.added:
        if not _is_looked_at(line.text):
            continue
        code = _code(file, source, line.number)
        found = _hidden(file, line, code) or _alike(file, line, code, 1 if source and source.language else 2)
        if found is not None:
            weight, message = found
            yield finding(RULE, weight, message, file.path, line.number, line.text)


def _code(file: FileDiff, source: SourceText | None, number: int) -> str | None:
    """Return the line without strings and comments, or None if all of it may be prose."""
    if source is None:
        return None
    if source.language is None and (not is_code(file.path, source.text) or _TONGUES.search(file.path)):
        return None
    return source.code(number)


def _odd(text: str) -> bool:
    return _CONTROL.search(text) is not None or any(each in text for each in "\r\x0b")


def _hidden(file: FileDiff, line: DiffLine, code: str | None) -> tuple[Weight, str] | None:
    """Judge characters that are invisible, or that reverse the text behind them."""
    if turning := next((each for each in line.text if each in _TURNING), None):
        return "blocks", f"{_called(turning)} makes the line read otherwise than it runs; take it out"
    if _SMUGGLED.search(_FLAG.sub("", line.text)):
        return "blocks", "a run of invisible letters hides a text in this line; take it out"
    if code is not None and (unseen := _unseen(line, code)):
        return "blocks", f"{_called(unseen)} stands in the code of this line, unseen; take it out"
    if code is not None and (unseen := next((each for each in line.text if each in _ENDS_A_LINE), None)):
        least: Weight = "attention" if is_test_path(file.path) else "blocks"
        return least, f"{_called(unseen)} ends a line here for some, and not for others; take it out"
    if unseen := _between_ascii(line):
        least = "note" if _TONGUES.search(file.path) else "attention"
        return least, f"{_called(unseen)} stands between plain letters, unseen; take it out, or write it as an escape"
    if code is not None and _CONTROL.search(line.text):
        least = "note" if is_test_path(file.path) else "attention"
        return least, "this line holds a control character; write it as an escape"
    return None


def _unseen(line: DiffLine, code: str) -> str | None:
    """Return an invisible character of the code. A byte order mark at the start is fine."""
    is_first = line.number == 1 and code.startswith("\ufeff")
    return next((each for each in code[is_first:] if each in _NOT_IN_CODE), None)


def _between_ascii(line: DiffLine) -> str | None:
    """Return an invisible character between plain letters, where it has nothing to join or to divide."""
    text = line.text
    for at, each in enumerate(text):
        if each in _ALONE and not (each == "\ufeff" and at == 0 and line.number == 1):
            before, after = text[at - 1 : at], text[at + 1 : at + 2]
            if before.isascii() and after.isascii() and (before + after).strip():
                return each
    return None


def _alike(file: FileDiff, line: DiffLine, code: str | None, least: int) -> tuple[Weight, str] | None:
    """Judge words that look like others: names first, then strings."""
    called = line.text if _MANIFEST.search(file.path) else code
    if called is None:
        return None
    for word in _WORD.findall(called):
        if not word.isascii() and (_is_folded(word) or any(_deceives(part, least) for part in _PART.findall(word))):
            return "blocks", f"'{_escaped(word)}' looks like ASCII and is not, or mixes scripts; spell it in one script"
    if not _TONGUES.search(file.path):
        mixed = next((part for part in _PART.findall(line.text) if not part.isascii() and _is_mixed(part)), None)
        if mixed is not None:
            return "attention", f"'{_escaped(mixed)}' mixes scripts within one word; spell it in one script"
    return None


def _escaped(word: str) -> str:
    return ascii(word)[1:-1][:80]


def _is_folded(word: str) -> bool:
    """Tell whether a language that normalises identifiers would read the word as plain ASCII."""
    return unicodedata.normalize("NFKC", word).isascii() and any(
        _NEVER_TOUCHED.match(unicodedata.name(each, "")) for each in word if not each.isascii()
    )


def _deceives(part: str, least: int = 2) -> bool:
    """Tell whether the part consists of at least `least` look-alikes, or mixes two scripts."""
    if part.isascii():
        return False
    return (len(part) >= least and all(each in _ALIKE for each in part)) or _is_mixed(part)


def _is_mixed(part: str) -> bool:
    """Tell whether ASCII letters stand beside look-alikes, or two scripts that are never mixed."""
    latin = any(each.isascii() for each in part)
    if latin and any(each in _ALIKE for each in part):
        return True
    scripts = {unicodedata.name(each, "?").split(" ", 1)[0] for each in part if not each.isascii()}
    return bool(scripts & _DIFFERENT) and (latin or len(scripts) > 1)


def _called(letter: str) -> str:
    return f"U+{ord(letter):04X} ({unicodedata.name(letter, 'a control character').lower()})"
