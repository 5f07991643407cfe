"""
CODEOWNERS: whose approval a change of these paths wants. Pure: text and names in, answers out.

The two forges read the same file differently, so the file is read as the one it lies at would. At GitHub the last line
that matches counts, a line without owners frees what it matches, and a pattern with a slash in it begins at the top.
At GitLab that holds within each section; a pattern begins at the top only with a slash before it, a folder is meant
only with a slash behind it, and `!` takes a path out of its section for good.

A line that cannot be read is no rule, as at the forges, and is told in `mistakes`: whoever asks here decides what it is
worth that a rule is missing. A group nobody knows the members of approves of nothing.

Source: the forges' own documentation of the file, and the examples in it.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

Dialect = Literal["github", "gitlab"]

PLACES: Mapping[Dialect, tuple[str, ...]] = {
    "github": (".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"),
    "gitlab": ("CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"),
}
"""Where the file may lie in the target's tree; the first that is there counts."""

_HEADING = re.compile(r"(\^)?\[([^\[\]]+)\](?:\[([^\]]*)\])?(?:\s+(.*))?")
_WORDS = re.compile(r"((?:\\.|[^\s\\])+)(?:\s+(.*))?")
_OWNER = re.compile(r"@@?[\w.-]+(?:/[\w.-]+)*|[^\s@]+@[^\s@]+\.[^\s@]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnersRule:
    """A line: what it is about, and who owns that; nobody does where it says so by naming nobody."""

    pattern: str
    owners: tuple[str, ...]
    line: int
    excludes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Rules of which each is looked at beside those of other sections; a file of GitHub's is one without a name."""

    name: str = ""
    optional: bool = False
    approvals: int = 1
    rules: tuple[OwnersRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Approvals that are still wanted, and for what."""

    section: str
    pattern: str
    owners: tuple[str, ...]
    paths: tuple[str, ...]
    wanted: int
    given: int

    def __str__(self) -> str:
        several = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        count = "an approval" if self.wanted == 1 else f"{self.wanted} approvals (it has {self.given})"
        return f"{self.paths[0]}{several} wants {count} by {' or '.join(self.owners)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Codeowners:
    """A file that was read."""

    dialect: Dialect
    sections: tuple[Section, ...] = ()
    mistakes: tuple[str, ...] = ()
    """Lines that are no rules, and why, in one sentence each."""

    def owners_of(self, path: str) -> tuple[str, ...]:
        """All owners of a path, of optional sections as well; none where nobody owns it."""
        rules = (self._rule(section, path) for section in self.sections)
        return tuple(dict.fromkeys(owner for rule in rules if rule is not None for owner in rule.owners))

    def owners_wanted(self, paths: Iterable[str]) -> tuple[str, ...]:
        """All whose approval may be asked for these paths."""
        demands = (rule.owners for _, rule, _ in self._demands(paths))
        return tuple(dict.fromkeys(owner for owners in demands for owner in owners))

    def missing_approvals(
        self,
        paths: Iterable[str],
        approved_by: Collection[str],
        members: Mapping[str, Collection[str]] | None = None,
    ) -> tuple[Missing, ...]:
        """
        What is wanting for a change of these paths (of a rename both) that these people approve of.

        `members` says who is in a group, by the owner's name as it stands in the file. A person is known by name, with
        or without `@`, or by e-mail address.
        """
        approved = {_plain(name) for name in approved_by}
        missing = []
        for section, rule, touched in self._demands(paths):
            given = len(approved & _eligible(rule.owners, members or {}))
            if given < section.approvals:
                missing.append(
                    Missing(
                        section=section.name,
                        pattern=rule.pattern,
                        owners=rule.owners,
                        paths=touched,
                        wanted=section.approvals,
                        given=given,
                    )
                )
        return tuple(missing)

    def _demands(self, paths: Iterable[str]) -> Iterator[tuple[Section, OwnersRule, tuple[str, ...]]]:
        """Rules that want approvals, with the paths they want them for."""
        touched = sorted(set(paths))
        for section in self.sections:
            found: dict[OwnersRule, list[str]] = {}
            for path in () if section.optional else touched:
                rule = self._rule(section, path)
                if rule is not None and rule.owners:
                    found.setdefault(rule, []).append(path)
            yield from ((section, rule, tuple(of_rule)) for rule, of_rule in found.items())

    def _rule(self, section: Section, path: str) -> OwnersRule | None:
        matching = [rule for rule in section.rules if _matches(self.dialect, rule.pattern, path)]
        if not matching or any(rule.excludes for rule in matching):
            return None
        return matching[-1]


def read_codeowners(text: str, dialect: Dialect) -> Codeowners:
    """The file as that forge reads it."""
    return _read_github(text) if dialect == "github" else _read_gitlab(text)


def _read_github(text: str) -> Codeowners:
    rules, mistakes = [], []
    for number, pattern, words in _lines(text):
        # What stands behind a `#` is a comment here, and part of the line at GitLab.
        owners = tuple(words[: next((i for i, word in enumerate(words) if word.startswith("#")), len(words))])
        strange = [owner for owner in owners if not _OWNER.fullmatch(owner)]
        if pattern.startswith(("!", "\\#")) or "[" in pattern:
            mistakes.append(f"line {number}: '{pattern}' has '!', '[' or '\\#', which GitHub's file does not know")
        elif strange:
            mistakes.append(f"line {number}: '{strange[0]}' is no owner; right would be @user, @org/team or an address")
        else:
            rules.append(OwnersRule(pattern=pattern, owners=owners, line=number))
    return Codeowners(dialect="github", sections=(Section(rules=tuple(rules)),), mistakes=tuple(mistakes))


def _read_gitlab(text: str) -> Codeowners:
    sections: dict[str, Section] = {"": Section()}
    mistakes: list[str] = []
    name, defaults = "", tuple[str, ...]()
    for number, line in _kept(text):
        heading = _HEADING.fullmatch(line)
        if heading is not None:
            name, defaults = heading[2].strip().lower(), _owners(_split(heading[4] or ""), number, mistakes)
            sections[name] = _opened(sections.get(name), heading, number, mistakes)
            continue
        match = _WORDS.match(line)
        pattern, words = (match[1], _split(match[2] or "")) if match else (line, [])
        if line.startswith(("[", "^[")):
            mistakes.append(f"line {number}: '{line}' is no heading; right would be [NAME], ^[NAME] or [NAME][2]")
        owners = _owners(words, number, mistakes) or defaults
        excludes = pattern.startswith("!")
        if not owners and not excludes:
            mistakes.append(f"line {number}: '{pattern}' has no owner, so nobody's approval is wanted for it")
        rule = OwnersRule(pattern=pattern.removeprefix("!"), owners=owners, line=number, excludes=excludes)
        if not _is_readable(rule.pattern):
            mistakes.append(f"line {number}: '{pattern}' has a set of characters that is none")
            continue
        sections[name] = replace(sections[name], rules=(*sections[name].rules, rule))
    return Codeowners(dialect="gitlab", sections=tuple(sections.values()), mistakes=tuple(mistakes))


def _opened(before: Section | None, heading: re.Match[str], number: int, mistakes: list[str]) -> Section:
    """The section that a heading begins or goes on with; of two, the stricter demand counts."""
    optional, name, count = heading[1] is not None, heading[2].strip(), heading[3]
    approvals = int(count) if count and count.isdecimal() else 0 if count is not None else 1
    if approvals < 1:
        mistakes.append(f"line {number}: '{count}' is no number of approvals; one is wanted")
    if before is None:
        return Section(name=name, optional=optional, approvals=max(1, approvals))
    return replace(before, optional=before.optional and optional, approvals=max(before.approvals, approvals))


def _owners(words: Sequence[str], number: int, mistakes: list[str]) -> tuple[str, ...]:
    """GitLab leaves out what is no owner, and keeps the rest of the line."""
    strange = [word for word in words if not _OWNER.fullmatch(word)]
    mistakes += [f"line {number}: '{word}' is no owner; right would be @user, @group or an address" for word in strange]
    return tuple(word for word in words if word not in strange)


def _kept(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), start=1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.strip()


def _lines(text: str) -> Iterator[tuple[int, str, list[str]]]:
    for number, line in _kept(text):
        match = _WORDS.match(line)
        yield (number, match[1], _split(match[2] or "")) if match else (number, line, [])


def _split(words: str) -> list[str]:
    return words.split()


def _plain(name: str) -> str:
    return name.removeprefix("@").casefold()


def _eligible(owners: Iterable[str], members: Mapping[str, Collection[str]]) -> set[str]:
    """Those whose approval counts, with the owners that are groups taken for their members."""
    found: set[str] = set()
    for owner in owners:
        if owner in members:
            found |= {_plain(member) for member in members[owner]}
        elif "/" not in owner and not owner.startswith("@@"):
            found.add(_plain(owner))
    return found


def _matches(dialect: Dialect, pattern: str, path: str) -> bool:
    return _expression(dialect, pattern).fullmatch(path) is not None


def _is_readable(pattern: str) -> bool:
    try:
        _expression("gitlab", pattern)
    except re.error:
        return False
    return True


@lru_cache(maxsize=4096)
def _expression(dialect: Dialect, pattern: str) -> re.Pattern[str]:
    made = _as_gitignore(pattern) if dialect == "github" else _as_fnmatch(pattern)
    return re.compile(made, re.DOTALL)


def _as_gitignore(pattern: str) -> str:
    """As gitignore reads it, but for a last `/*`, which leads no deeper."""
    is_folder, inner = pattern.endswith("/"), pattern.strip("/")
    before = "" if pattern.startswith("/") or "/" in inner else r"(?:.*/)?"
    *parents, last = inner.split("/")
    deeper = "/.+" if is_folder else "" if last == "*" and "/" in pattern else r"(?:/.+)?"
    if last == "**":
        return before + "".join(map(_segment, parents)) + ".+"
    return before + "".join(map(_segment, parents)) + _glob(last, sets=False) + deeper


def _segment(name: str) -> str:
    return r"(?:.*/)?" if name == "**" else _glob(name, sets=False) + "/"


def _as_fnmatch(pattern: str) -> str:
    """As Ruby's `File.fnmatch` reads it with its flags for paths and for files that begin with a dot."""
    whole = pattern if pattern.startswith("/") else f"/**/{pattern}"
    whole += "**/*" if whole.endswith("/") else ""
    *parents, last = whole[1:].split("/")
    return "".join(r"(?:.*/)?" if name == "**" else _glob(name, sets=True) + "/" for name in parents) + _glob(
        last, sets=True
    )


_PIECE = re.compile(
    r"\\(?P<plain>.)|(?P<stars>\*+)|(?P<one>\?)|\[(?P<not>[!^]?)(?P<set>[^\]]+)\]|(?P<other>.)", re.DOTALL
)


def _glob(name: str, *, sets: bool) -> str:
    """The expression of a pattern within one name."""
    return "".join(_piece(match, sets=sets) for match in _PIECE.finditer(name))


def _piece(match: re.Match[str], *, sets: bool) -> str:
    if match["stars"]:
        return "[^/]*"
    if match["one"]:
        return "[^/]"
    if match["set"]:
        inner = re.sub(r"([\\\[\]&~|^])", r"\\\1", match["set"])
        return f"(?!/)[{'^' if match['not'] else ''}{inner}]" if sets else re.escape(match[0])
    return re.escape(match["plain"] or match["other"])
