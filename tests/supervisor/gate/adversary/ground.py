"""
One hub with every candidate in it, each for its own branch, and one host that judges them.

All branches begin at the same commit, so the base is checked only once. The hub is written in one stream, without
checkouts.
"""

import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from candidates import SUBMODULE, Candidate, Tree, read_tree

from forgepool.supervisor.gate.check_entry import examine
from forgepool.supervisor.gate.land import land
from forgepool.supervisor.messages.answers import CheckResult, Landing
from forgepool.supervisor.messages.requests import CheckRequest, EntryRef, LandRequest
from forgepool.workers.schema.settings import Settings

TARGET = read_tree(Path(__file__).with_name("parcels.txt"))
NOWHERE = "4e1243bd22c66e76c2ba9eddc1f91394e57f9f83"
PATIENT, IMPATIENT = "patient", "impatient"
_LATER = ("src/parcels/tracking.py", "tests/test_tracking.py", "docs/tracking.md")
_SHORT_S = 4


def never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A candidate's result at the gate; `landing` answers a careless caller who asks to land it anyway."""

    found: CheckResult
    landing: Landing
    base: str
    """The tip of its target before."""
    tip: str
    """The tip of its target afterwards."""
    seconds: float

    @property
    def landed(self) -> bool:
        return self.landing.outcome == "landed"

    @property
    def said(self) -> tuple[str, ...]:
        """Return the rules and checks that stopped it, or `git` if none did."""
        rules = [one.rule for one in self.found.findings if one.weight != "note"]
        checks = [one.check for one in self.found.failures]
        return tuple(dict.fromkeys([*rules, *checks])) or ("git",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The hub and the host. `bases` are the commits that candidates are made on, and `commits` are the candidates."""

    hub: Path
    settings: Settings
    bases: Mapping[str, str]
    commits: Mapping[str, str]

    def request(self, candidate: Candidate) -> CheckRequest:
        entry = EntryRef(
            task=candidate.name,
            attempt=1,
            commit=self.commits[candidate.name],
            ref=f"refs/heads/work/{candidate.name}",
            message=f"{candidate.claim}\n\nForgepool-Task: {candidate.name}\n",
            holds=candidate.holds,
            grants=candidate.grants,
            waive=candidate.waive,
            planned=candidate.planned,
            claims=candidate.claim,
        )
        return CheckRequest(
            request_id=f"r.{candidate.name}.1.check-1",
            token="t",
            run="r",
            hub=str(self.hub),
            target=f"for/{candidate.name}",
            base=self.bases[_kind(candidate)],
            entries=(entry,),
            had_gate_file=True,
            issued_at=1.0,
            start_by=2.0,
        )

    def examine(self, candidate: Candidate) -> CheckResult:
        return examine(self.request(candidate), self.settings, stop=never)

    def land(self, candidate: Candidate, found: CheckResult, **said: object) -> Landing:
        """Ask for a landing whatever the verdict was. If nothing was composed, ask for the candidate itself."""
        asked = self.request(candidate).model_dump(exclude={"decisive", "diagnose"}) | {
            "request_id": f"r.{candidate.name}.1.land-1",
            "commit": found.commit or self.commits[candidate.name],
            "tree": found.tree or NOWHERE,
            "certificates": found.certificates,
        }
        return land(LandRequest.model_validate(asked | said), self.settings, stop=never)

    def try_out(self, candidate: Candidate) -> Tried:
        found = self.examine(candidate)
        landing = self.land(candidate, found)
        tip = _git(self.hub, "rev-parse", f"refs/heads/for/{candidate.name}")
        return Tried(found=found, landing=landing, base=self.bases[_kind(candidate)], tip=tip, seconds=found.seconds)


def make_ground(folder: Path, candidates: Iterable[Candidate]) -> Ground:
    hub = folder / "hub.git"
    _git(folder, "init", "-q", "--bare", "-b", PATIENT, str(hub))
    every = list(candidates)
    subprocess.run(
        ["git", "-C", str(hub), "fast-import", "--quiet"],
        input=b"".join(_stream(every)),
        check=True,
        env=_environment(),
    )
    refs = dict(
        reversed(line.split()) for line in _git(hub, "for-each-ref", "--format=%(objectname) %(refname)").splitlines()
    )
    return Ground(
        hub=hub,
        settings=Settings(home=folder / "home", cache=folder / "cache", host="here"),
        bases={name: refs[f"refs/heads/{name}"] for name in (PATIENT, IMPATIENT)},
        commits={one.name: refs.get(f"refs/heads/work/{one.name}", NOWHERE) for one in every},
    )


def _kind(candidate: Candidate) -> str:
    return IMPATIENT if candidate.hangs else PATIENT


def _targets() -> dict[str, Tree]:
    gate = TARGET["forgepool.yaml"]
    short = gate.content.replace(b"timeout_s: 60", f"timeout_s: {_SHORT_S}".encode())
    return {PATIENT: TARGET, IMPATIENT: TARGET | {"forgepool.yaml": type(gate)(short)}}


def target_of(candidate: Candidate) -> Tree:
    """Return the tree that the candidate was made on."""
    return _targets()[_kind(candidate)]


def _stream(candidates: list[Candidate]) -> Iterable[bytes]:
    """Yield the input of `git fast-import`."""
    first = {path: file for path, file in TARGET.items() if path not in _LATER}
    yield from _commit("refs/heads/first", "first", first)
    for name, tree in _targets().items():
        yield from _commit(f"refs/heads/{name}", "the target", tree, "refs/heads/first")
    for candidate in candidates:
        base = f"refs/heads/{_kind(candidate)}"
        yield f"reset refs/heads/for/{candidate.name}\nfrom {base}\n\n".encode()
        tree = candidate.tree(target_of(candidate))
        work = f"refs/heads/work/{candidate.name}"
        match candidate.shape:
            case "commit":
                yield from _commit(work, candidate.claim, tree, base)
            case "merge":
                yield from _commit(work, candidate.claim, tree, "refs/heads/first", base)
            case "no commit":
                continue


def _commit(ref: str, message: str, tree: Tree, *parents: str) -> Iterable[bytes]:
    yield f"commit {ref}\ncommitter A Person <person@localhost> 1700000000 +0000\n".encode()
    yield _data(message.encode())
    for word, parent in zip(("from", "merge"), parents, strict=False):
        yield f"{word} {parent}\n".encode()
    yield b"deleteall\n"
    for path, file in tree.items():
        if file.mode == SUBMODULE:
            yield b"M %s %s %s\n" % (file.mode.encode(), file.content, path.encode())
        else:
            yield b"M %s inline %s\n" % (file.mode.encode(), path.encode()) + _data(file.content)
    yield b"\n"


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def _git(folder: Path, *argv: str) -> str:
    ran = subprocess.run(["git", *argv], cwd=folder, env=_environment(), check=True, capture_output=True, text=True)
    return ran.stdout.strip()


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
