"""
Judgements of what an agent wants: a tool, a call, a file, a command, a host.

The strictest finding decides: one denied command among a hundred denies them all. What cannot be known is denied with
an advice how to write it, and what no rule mentions is never allowed. The sandbox holds what a policy cannot see.
"""

import fnmatch
import glob
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import JsonValue

from forgepool.workers.policy.command import ProgramCall, make_call
from forgepool.workers.policy.layers import (
    Access,
    Policy,
    Touch,
    Verdict,
    on_call,
    on_host,
    on_tool,
    on_touch,
    on_variable,
)
from forgepool.workers.policy.rule import (
    READERS,
    SHELLS,
    STRICTNESS,
    WRITERS,
    Ground,
    HostPattern,
    ResolvedPath,
    Unresolved,
    unknown,
)
from forgepool.workers.schema.policy_rules import Decision
from forgepool.workers.shell.language.script import (
    Execution,
    Fact,
    Redirect,
    ShellScript,
    ShellWord,
    Unparseable,
    VariableAssignment,
)
from forgepool.workers.shell.performer import join_folder
from forgepool.workers.shell.programs.known_programs import find_written
from forgepool.workers.shell.read_script import read_script
from forgepool.workers.tools.files.patch import Update, read_patch
from forgepool.workers.tools.workplace import ToolRefused

_MOST_SCRIPT_BYTES = 32 * 1024
_STREAMS = ("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty", "/dev/zero", "/dev/full")
"""Files that any command may read and write."""
_SAID: dict[Decision, str] = {
    "allow": "allowed",
    "audit": "allowed, and recorded,",
    "prompt": "left to a person",
    "deny": "denied",
}
_MAYBE = "a word cannot be known before it runs (write it out; or put -- or ./ before a file) and may make it this"
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.]*://\S*|$")
_AT_HOME = re.compile(r"~([a-z_][\w.-]*)?(/[\w./@%+-]*)?", re.ASCII)
_CD = ShellWord(text="cd", static=True, written="cd")
_TMP = (Path("/tmp"), Path("/var/tmp"))
_MOST_MATCHES, _MOST_NAMES = 1_000, 50_000
"""The files of a pattern that are judged, and the names that are looked through for them: links can make loops."""
_RAISING = frozenset({"sudo", "doas", "su", "runuser", "pkexec", "chroot", "nsenter", "unshare"})
"""Wrappers that run a command as another user or elsewhere, which no rule for the command alone covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyJudgement:
    decision: Decision
    rule: str | None
    """The id of the deciding rule; None where no rule decided."""
    reason: str
    """The reason and what to do instead, for the model and for a person."""
    commands: tuple[tuple[str, ...], ...] | None = None
    """All commands found; None where there are none or they cannot be known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finding:
    """The decision on one thing in a command."""

    decision: Decision
    rule: str | None
    reason: str


def judge_tool(policy: Policy, tool: str) -> PolicyJudgement:
    """Judge a tool as such, whatever its arguments."""
    verdict = policy.decide(partial(on_tool, tool=tool))
    return _as_judgement(_finding(verdict, f"the tool {tool}"))


def judge_path(policy: Policy, tool: str, access: Access, path: str, ground: Ground) -> PolicyJudgement:
    """Judge a tool's access to a file."""
    place = ground.place(path, writes=access == "write")
    if isinstance(place, Unresolved):
        return PolicyJudgement(decision="deny", rule=None, reason=f"{path}: cannot be resolved: {place.why}")
    touch = Touch(access=access, place=place)
    verdict = policy.decide(partial(on_touch, tool=tool, touch=touch))
    return _as_judgement(_finding(verdict, f"{tool} of {path}"))


def judge_host(policy: Policy, host: HostPattern) -> PolicyJudgement:
    verdict = policy.decide(partial(on_host, host=host))
    return _as_judgement(_finding(verdict, f"the host {host.text}"))


def judge_command(
    policy: Policy, text: str, ground: Ground, *, tool: str = "bash", folder: Path | None = None
) -> PolicyJudgement:
    """Judge a bash script that starts in `folder`, by default the worktree. It never raises, and ends soon."""
    try:
        script = read_script(text, folder=folder or ground.root, read_file=partial(_script_text, ground=ground))
        if isinstance(script, Unparseable):
            return PolicyJudgement(decision="deny", rule=None, reason=f"{script.why}; {script.instead}")
        return _judged(policy, script, ground, tool)
    except Exception as bug:  # whatever is wrong with us, it permits nothing
        why = f"it could not be judged ({type(bug).__name__}); write it as plainer commands"
        return PolicyJudgement(decision="deny", rule=None, reason=why)


def _judged(policy: Policy, script: ShellScript, ground: Ground, tool: str) -> PolicyJudgement:
    commands = tuple(each.shown for each in script.executions)
    findings = [finding for fact in script.facts for finding in _findings(policy, fact, ground, tool)]
    if not findings or not commands:
        findings.append(_Finding(decision="prompt", rule=None, reason="no command was found in it; give one to run"))
    first = max(findings, key=lambda each: STRICTNESS[each.decision])
    return PolicyJudgement(decision=first.decision, rule=first.rule, reason=first.reason, commands=commands)


def _findings(policy: Policy, fact: Fact, ground: Ground, tool: str) -> Iterator[_Finding]:
    match fact:
        case Execution():
            yield from _of_execution(policy, fact, ground, tool)
        case Redirect():
            if not _is_stream(fact.path):
                place = _place(fact.path, fact.cwd, ground, writes=fact.mode == "write")
                for each in (place, *_folders_of(fact.path, fact.cwd, ground)):
                    yield from _of_file(policy, fact.path, each, fact.mode, tool)
        case VariableAssignment(name=name):
            by_name = _is_harmless(name)
            find = partial(on_variable, tool=tool, name=name, by_name_alone=by_name)
            verdict = policy.decide(find, silent=None if by_name else "prompt")
            if verdict is not None:
                yield _finding(verdict, f"setting {name}")
        case _:
            return


def _of_execution(policy: Policy, fact: Execution, ground: Ground, tool: str) -> Iterator[_Finding]:
    call = make_call(fact, ground.root)
    for folder in call.folders:
        yield from _of_execution(policy, Execution(argv=(_CD, folder), cwd=fact.cwd), ground, tool)
        fact = replace(fact, cwd=join_folder(fact.cwd, folder))
    shown = _shown(fact)
    if call.wrong:
        yield _Finding(decision="deny", rule=None, reason=f"{shown}: {call.wrong}")
    own = policy.about(call)
    quiet = fact.wrapper and not _RAISING.intersection(call.names)
    verdict = own.decide(
        partial(on_call, tool=tool, call=call, by_name_alone=quiet), silent=None if quiet else "prompt"
    )
    if verdict is not None:
        yield _finding(_floored(verdict, fact, call), shown)
    for touch in _touches(fact, call, ground, reads=policy.restrains_reading):
        if isinstance(touch, Unresolved):
            yield _Finding(decision="deny", rule=None, reason=f"{shown}: {touch.shown}: {touch.why}")
            continue
        verdict = own.decide(partial(on_touch, tool=tool, touch=touch), silent=None)
        if verdict is not None:
            yield _finding(verdict, f"{shown}: {touch.place.shown}")
    yield from _of_hosts(policy, call, shown)


def _floored(verdict: Verdict, fact: Execution, call: ProgramCall) -> Verdict:
    """Turn an `allow` into `audit` for a program of the worktree and for a text that could not be read."""
    if verdict.decision == "allow" and (fact.opaque or call.inside):
        return Verdict(decision="audit", match=verdict.match)
    return verdict


def _touches(fact: Execution, call: ProgramCall, ground: Ground, *, reads: bool) -> Iterator[Touch | Unresolved]:
    """Yield the files a command is known to write, and with `reads` the files all its words name."""
    for written in (each for name in call.names for each in find_written(name, call.all_words)):
        if _is_stream(written.word):
            continue
        place = _place(written.word, fact.cwd, ground, writes=True, follow=written.follow, whole=written.whole)
        yield _touch("write", place, _without_file(call, written.word))
        yield from (_touch("write", each, call) for each in _folders_of(written.word, fact.cwd, ground))
        for source in written.beneath if isinstance(place, ResolvedPath) and _is_folder(place, ground) else ():
            name = source.text.rstrip("/").rpartition("/")[2]
            if source.static and name not in ("", ".", ".."):
                inside = _joined(written.word, name)
                yield _touch("write", _place(inside, fact.cwd, ground, writes=True), call)
    if reads:
        for word in call.words:
            for each in _matched(word, fact.cwd) if word.filled == "files" else (word,):
                if each.static and each.text and not each.text.startswith("-"):
                    yield _touch("read", _place(each, fact.cwd, ground), call)


def _folders_of(word: ShellWord, cwd: Path | None, ground: Ground) -> Iterator[ResolvedPath | Unresolved]:
    """Yield the folder that stands before what is unknown in a path, as in `.git/$x`."""
    folder = word.text.rpartition("/")[0]
    if not word.static and folder:
        yield _place(ShellWord(text=folder, static=True, written=folder), cwd, ground)


def _matched(word: ShellWord, cwd: Path | None) -> Iterator[ShellWord]:
    """Yield the files that a pattern stands for now."""
    if cwd is not None:
        for name in islice(_expand(word.written.split("/"), cwd), _MOST_MATCHES):
            yield ShellWord(text=name, static=True, written=name)


def _expand(parts: list[str], cwd: Path) -> Iterator[str]:
    left, waiting = _MOST_NAMES, [("", 0)]
    while waiting and left > 0:
        path, at = waiting.pop()
        left -= 1
        if at == len(parts):
            if os.path.lexists(cwd / path):
                yield path
            continue
        names = [parts[at]]
        if glob.has_magic(parts[at]):
            try:
                there = [each.name for each in (cwd / path).iterdir()]
            except (OSError, ValueError):
                continue
            left -= len(there)
            shown = (name for name in there if parts[at].startswith(".") or not name.startswith("."))
            names = fnmatch.filter(shown, parts[at])
        after = "/" if at + 1 < len(parts) else ""
        waiting.extend((f"{path}{name}{after}", at + 1) for name in reversed(names))


def _without_file(call: ProgramCall, word: ShellWord) -> ProgramCall:
    """Return the command without an unknown word that is a file, so that it does not count as an option too."""
    if word.static or word.several:
        return call
    return replace(
        call,
        words=tuple(each for each in call.words if each is not word),
        all_words=tuple(each for each in call.all_words if each is not word),
    )


def _touch(access: Access, place: ResolvedPath | Unresolved, call: ProgramCall) -> Touch | Unresolved:
    if isinstance(place, Unresolved):
        return place
    return Touch(access=access, place=place, call=call, by_operand=True)


def _place(
    word: ShellWord, cwd: Path | None, ground: Ground, *, writes: bool = False, follow: bool = True, whole: bool = False
) -> ResolvedPath | Unresolved:
    if not word.static and not word.text and (at_home := _AT_HOME.fullmatch(word.written)):
        home = ground.home.parent / at_home[1] if at_home[1] else ground.home
        found = ground.place(f"{home}{at_home[2] or ''}", writes=writes, follow=follow, whole=whole)
        return replace(found, shown=word.written)
    if not word.static or (cwd is None and not word.text.startswith("/")):
        return unknown(word.shown)
    return ground.place(word.text, folder=cwd, writes=writes, follow=follow, whole=whole)


def _joined(folder: ShellWord, name: str) -> ShellWord:
    return ShellWord(text=f"{folder.text.rstrip('/')}/{name}", static=folder.static)


def _is_folder(place: ResolvedPath, ground: Ground) -> bool:
    return place.is_known and (ground.root / place.names[0]).is_dir()


def _of_file(
    policy: Policy, word: ShellWord, place: ResolvedPath | Unresolved, access: Access, tool: str
) -> Iterator[_Finding]:
    if isinstance(place, Unresolved):
        yield _Finding(decision="deny", rule=None, reason=f"{word.shown}: {place.why}")
        return
    # Reading is what commands do by their nature: a rule may restrain it, and none has to permit it.
    touch = Touch(access=access, place=place, by_operand=access == "read")
    verdict = policy.decide(partial(on_touch, tool=tool, touch=touch), silent=None if access == "read" else "prompt")
    if verdict is not None:
        yield _finding(verdict, f"{'writing' if access == 'write' else 'reading'} {word.shown}")


def _of_hosts(policy: Policy, call: ProgramCall, shown: str) -> Iterator[_Finding]:
    """Yield the restrictions on hosts in a command's addresses. Permission is the sandbox's grant."""
    if not policy.names_hosts:
        return
    for word in call.all_words:
        if "://" not in word.text:
            continue
        host = _host_in(word.text)
        if host is None:
            continue
        verdict = policy.decide(partial(on_host, host=host), silent=None)
        if verdict is not None and verdict.decision in ("deny", "prompt"):
            yield _finding(verdict, f"{shown}: {host.text}")


def _host_in(text: str) -> HostPattern | None:
    try:
        return HostPattern.of(urlsplit(_ADDRESS.findall(text)[0]).hostname or "")
    except ValueError:
        return None


def _finding(verdict: Verdict | None, thing: str) -> _Finding:
    if verdict is None or verdict.match is None:
        decision = "prompt" if verdict is None else verdict.decision
        return _Finding(decision=decision, rule=None, reason=f"{thing}: no rule speaks of it")
    match = verdict.match
    reason = match.rule.reason or f"{_SAID[match.rule.decision]} by {match.rule.id}"
    if match.likeness == "maybe":
        reason = f"{_MAYBE}: {reason}"
    return _Finding(decision=verdict.decision, rule=match.rule.id, reason=f"{thing}: {reason}")


def _as_judgement(finding: _Finding) -> PolicyJudgement:
    return PolicyJudgement(decision=finding.decision, rule=finding.rule, reason=finding.reason)


def _shown(fact: Execution) -> str:
    text = " ".join(fact.shown)
    return f"`{text}`" if len(text) <= 120 else f"`{text[:120]}...`"


def _is_stream(word: ShellWord) -> bool:
    return word.static and (word.text in _STREAMS or word.text.startswith("/dev/fd/"))


def _is_harmless(name: str) -> bool:
    """Report whether a variable's name is in small letters, a script's own by custom, and not a proxy setting."""
    return name.islower() and not name.endswith("_proxy")


def _script_text(path: Path, ground: Ground) -> str | None:
    """
    Return the text of a script in the worktree or the command's own `/tmp`; None for any other file.

    Raises:
        FileNotFoundError: there is no such file.
    """
    try:
        inside = path.is_relative_to(ground.root)
        above = None if inside else next((each for each in _TMP if path.is_relative_to(each)), None)
        if above is not None and ground.tmp is not None:
            path = ground.tmp / path.relative_to(above)
        real = path.resolve()
        if not real.exists() and (above is None or ground.tmp is not None):
            raise FileNotFoundError(path)
        if not any(real.is_relative_to(each) for each in (ground.root, ground.tmp) if each) or not real.is_file():
            return None
        with real.open("rb") as file:
            raw = file.read(_MOST_SCRIPT_BYTES + 1)
        return raw.decode() if len(raw) <= _MOST_SCRIPT_BYTES else None
    except FileNotFoundError:
        raise
    except (OSError, RuntimeError, ValueError):
        return None


def judge_call(policy: Policy, tool: str, arguments: Mapping[str, JsonValue], ground: Ground) -> PolicyJudgement:
    """Judge a tool's call by the strictest finding. The tool itself complains of wrong arguments."""
    command = arguments.get("command")
    if tool in SHELLS and isinstance(command, str):
        return judge_command(policy, command, ground, tool=tool)
    access: Access = "write" if tool in WRITERS else "read"
    judged = [judge_path(policy, tool, access, path, ground) for path in _paths(tool, arguments)]
    return max(judged, key=lambda each: STRICTNESS[each.decision], default=None) or judge_tool(policy, tool)


def _paths(tool: str, arguments: Mapping[str, JsonValue]) -> Iterator[str]:
    path = arguments.get("path")
    if tool in WRITERS | READERS and isinstance(path, str) and path:
        yield path
    patch = arguments.get("input")
    if tool == "apply_patch" and isinstance(patch, str):
        with suppress(ToolRefused):
            for change in read_patch(patch):
                yield change.path
                if isinstance(change, Update) and change.moved_to is not None:
                    yield change.moved_to
