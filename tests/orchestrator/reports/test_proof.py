"""A run's bundle is proven by its repository alone, and no changed bundle is."""

import copy
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from people import Person, person_in

from forgepool.orchestrator.reports.proof.bundle import ProofBundle
from forgepool.orchestrator.reports.proof.evidence import check_certificates
from forgepool.orchestrator.reports.proof.prove import read_chain, read_spine
from forgepool.orchestrator.reports.proof.seal import seal
from forgepool.orchestrator.reports.proof.verify import BundleVerdict, verify_bundle
from forgepool.supervisor.checks.certificates import certificate_key, certify
from forgepool.workers.policy.gate_file.document import CheckDefinition
from forgepool.workers.policy.gate_file.reading import read_gate
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import CommitId, Git, GitFailed

pytestmark = pytest.mark.slow

Tampering = Callable[[dict[str, Any], dict[str, Any]], None]
"""Changes the first bundle; the second is another run's."""

_GATE = """\
version: 1
checks:
  sound: "! grep -rq BROKEN --include=*.txt ."
  readme: {run: test -f README.md, paths: [README.md]}
"""
_AUTHOR = """
turns:
  - calls: [{tool: write_file, path: one.txt, content: "one\\n"}]
  - calls: [{tool: finish, summary: "one is there"}]
"""
_REVIEWER = """
family: another
turns:
  - calls: [{tool: read_file, path: one.txt}]
  - calls:
      - tool: verdict
        verdict: pass
        findings: [{severity: low, category: style, file: one.txt, line: 1, claim: It is short., evidence: one}]
        confidence: 0.9
        summary: It is one.
"""
_TASKS = {
    "one": "{id: one, title: Write one, files: [one.txt], agent: {scripted: author.yaml}}",
    "two": "{id: two, needs: [one], files: [two.txt], agent: {command: 'echo two > two.txt'}}",
    "bad": "{id: bad, needs: [two], files: [bad.txt], agent: {command: 'echo BROKEN > bad.txt'}}",
    "late": "{id: late, needs: [two], files: [late.txt], agent: {command: 'echo late > late.txt'}}",
    "other": "{id: other, files: [other.txt], agent: {command: 'echo other > other.txt'}}",
}
_KEY = "k" * 32


@dataclass(frozen=True)
class Night:
    """Two runs on one target, with a person's commit in the midst of the first."""

    person: Person
    bundle: dict[str, Any]
    other: dict[str, Any]

    @property
    def file(self) -> Path:
        """The first run's bundle, as the run wrote it."""
        return next((self.person.folder.parent / "home" / "runs").glob("night-*/report.json"))

    def verify(self, bundle: dict[str, Any], repo: Path | None = None, *, run_checks: bool = False) -> BundleVerdict:
        """Verify a bundle as a stranger does, who has the repository and nothing else."""
        settings = Settings().model_copy(update={"cache": self.person.folder.parent / "stranger"})
        return verify_bundle(
            ProofBundle.model_validate(bundle), str(repo or self.person.folder), settings, run_checks=run_checks
        )


@pytest.fixture(scope="module")
def night(redis_program: str) -> Iterator[Night]:
    folder = Path(tempfile.mkdtemp(prefix="fp-"))
    person = person_in(folder, {"README.md": "read me\n", "forgepool.yaml": _GATE, "author.yaml": _AUTHOR})
    person.write({"reviewer.yaml": _REVIEWER})
    assert _run(person, "night", "one", "two", "bad").status == 1
    tip = person.git("rev-parse", "forgepool/night")
    foreign = person.git("commit-tree", "-p", tip, "-m", "by hand", f"{tip}^{{tree}}")
    person.git("update-ref", "refs/heads/forgepool/night", foreign)
    name = _runs(person, "night")[0].name
    ended = person.forgepool("resume", name, "--plan", str(_plan(person, "night", "one", "two", "late")))
    assert ended.status == 0, ended.out + ended.err
    assert _run(person, "second", "other").status == 0
    bundles = [json.loads((_runs(person, plan)[0] / "report.json").read_text()) for plan in ("night", "second")]
    yield Night(person, *bundles)
    shutil.rmtree(folder)


def _plan(person: Person, name: str, *tasks: str) -> Path:
    path = person.folder.parent / f"{name}.yaml"
    lines = "".join(f"  - {_TASKS[task]}\n" for task in tasks)
    checks = "checks: {extra: test -f README.md}\nreview: {scripted: work/reviewer.yaml}\n"
    path.write_text(f"version: 1\nname: {name}\ntarget: forgepool/night\n{checks}tasks:\n{lines}")
    path.write_text(path.read_text().replace("scripted: author", "scripted: work/author"))
    return path


def _run(person: Person, name: str, *tasks: str) -> Any:
    ran = person.forgepool("run", str(_plan(person, name, *tasks)), "--workers", "1")
    assert ran.status in (0, 1), ran.out + ran.err
    assert "page:        " in ran.out
    return ran


def _runs(person: Person, name: str) -> list[Path]:
    return list((person.folder.parent / "home" / "runs").glob(f"{name}-*"))


def _sealed(bundle: dict[str, Any]) -> dict[str, Any]:
    """Return the bundle with the digest of its content, as a forger computes it, and with the signatures it had."""
    sealed = seal(ProofBundle.model_validate(bundle)).model_dump(mode="json")
    return sealed | {"signatures": bundle["signatures"]}


def test_an_honest_run_is_proven_by_its_repository_alone(night: Night) -> None:
    clone = night.person.folder.parent / "clone"
    night.person.git("clone", "-q", "--bare", str(night.person.folder), str(clone))
    alone = {"FORGEPOOL_HOME": str(clone.parent / "none"), "FORGEPOOL_CACHE": str(clone.parent / "none" / "c")}
    found = night.person.forgepool("verify", str(night.file), "--repo", str(clone), **alone)
    assert found.status == 0, found.out + found.err
    assert "proven: 3 landings, exactly those of this run" in found.out
    by_name = night.person.forgepool("verify", night.file.parent.name, "--repo", str(clone))
    assert (by_name.status, by_name.out) == (0, found.out), "a run's name stands for its report"
    assert "proven: 9 certificates, each for the tree that landed" in found.out
    assert "proven: 1 review, each of the very diff that landed" in found.out
    assert "not provable: that the checks and reviews took place" in found.out
    assert "not provable: anything about 1 commit of others" in found.out


def test_a_bundle_says_what_was_read_and_what_was_dropped(night: Night) -> None:
    review = night.bundle["landings"][0]["entries"][0]["review"]
    assert (review["outcome"], review["read"], review["families"]) == ("passed", ["one.txt"], ["another"])
    assert "It is short." in review["dropped"][0]
    assert [task["phase"] for task in night.bundle["tasks"]] == ["landed"] * 3
    assert night.bundle["landings"][0]["commands"]["sound"].startswith("! grep")


def test_checks_that_are_run_again_are_green(night: Night) -> None:
    found = night.person.forgepool("verify", str(night.file), "--repo", str(night.person.folder), "--run-checks")
    assert (
        found.status == 0 and "the target's own checks, run again on this host, are green on each landed" in found.out
    )
    assert "that 1 check of the plan would be green again: no signature holds" in found.out


def _first(bundle: dict[str, Any], place: int = 0) -> Any:
    return bundle["landings"][place]


def _swap_commits(bundle: dict[str, Any], _: Any) -> None:
    first, second = _first(bundle), _first(bundle, 1)
    for one, commit in ((first, second["commit"]), (second, first["commit"])):
        one["commit"] = one["entries"][0]["commit"] = commit


def _drop_landing(place: int) -> Tampering:
    def drop(bundle: dict[str, Any], _: Any) -> None:
        gone = bundle["landings"].pop(place)["entries"][0]["task"]
        bundle["tasks"] = [task for task in bundle["tasks"] if task["id"] != gone]
        bundle["cost"]["items"] = [one for one in bundle["cost"]["items"] if one["task"] != gone]
        last = bundle["landings"][-1]
        bundle |= {"verdict": "2 of 2 tasks landed on forgepool/night", "tip": last["commit"], "reviewed": []}
        bundle["others"] = [{"after": bundle["base"], "upto": _first(bundle)["base"]}] if place == 0 else []
        if place == 1:
            bundle["others"] = [{"after": _first(bundle)["commit"], "upto": last["base"]}]

    return drop


def _shorten_base(bundle: dict[str, Any], other: Any) -> None:
    _drop_landing(0)(bundle, other)
    bundle |= {"base": _first(bundle)["base"], "whole": []}
    bundle["others"] = [{"after": _first(bundle)["commit"], "upto": _first(bundle, 1)["base"]}]


def _add_landing(bundle: dict[str, Any], other: dict[str, Any]) -> None:
    bundle["landings"].append(_first(other))
    bundle["tasks"] += other["tasks"]
    bundle["cost"]["items"] += other["cost"]["items"]
    bundle |= {"tip": other["tip"], "verdict": "4 of 4 tasks landed on forgepool/night"}


def _claim_other_run(bundle: dict[str, Any], other: dict[str, Any]) -> None:
    """Another run's bundle, under this run's name."""
    name = bundle["run"]
    bundle.clear()
    bundle |= copy.deepcopy(other) | {"run": name}


def _reorder(bundle: dict[str, Any], _: Any) -> None:
    bundle["landings"][:2] = bundle["landings"][1::-1]


def _set(where: str, value: Any) -> Tampering:
    """Set one value: a path of keys and indices, with dots."""

    def change(bundle: dict[str, Any], _: Any) -> None:
        *way, last = where.split(".")
        at: Any = bundle
        for part in way:
            at = at[int(part)] if isinstance(at, list) else at[part]
        before = at[int(last)] if isinstance(at, list) else at[last]
        assert before != value
        at[int(last) if isinstance(at, list) else last] = value

    return change


def _certificate(**changed: Any) -> Tampering:
    """Change the certificate of `sound`, with the key that fits the change."""

    def change(bundle: dict[str, Any], _: Any) -> None:
        (one,) = [one for one in _first(bundle)["certificates"] if one["check"] == "sound"]
        one |= changed
        words = (one["check"], one["definition"], one["environment"], one["tree"], one["against"])
        one["key"] = certificate_key(*words)

    return change


def _drop_certificate(bundle: dict[str, Any], _: Any) -> None:
    _first(bundle)["certificates"] = [one for one in _first(bundle)["certificates"] if one["check"] != "sound"]


def _double_certificate(bundle: dict[str, Any], _: Any) -> None:
    _first(bundle)["certificates"].append(_first(bundle)["certificates"][0])


def _add_tree_of_other(bundle: dict[str, Any], other: dict[str, Any]) -> None:
    _first(bundle)["certificates"] = _first(other)["certificates"]


def _weaken_plan_check(bundle: dict[str, Any], _: Any) -> None:
    bundle["plan_checks"][0]["run"] = "true"


def _drop_review(bundle: dict[str, Any], _: Any) -> None:
    _first(bundle)["entries"][0]["review"] = None


def _read_more(bundle: dict[str, Any], _: Any) -> None:
    _first(bundle)["entries"][0]["review"]["read"].append("secrets.txt")


def _change_both_files(bundle: dict[str, Any], _: Any) -> None:
    _first(bundle)["entries"][0]["review"] |= {"changed": ["nothing.txt"], "read": ["nothing.txt"]}


def _drop_foreign(bundle: dict[str, Any], _: Any) -> None:
    bundle["others"] = []


def _double_item(bundle: dict[str, Any], _: Any) -> None:
    bundle["cost"]["items"].append(bundle["cost"]["items"][0] | {"input_tokens": 0})


def _reorder_and_tell(bundle: dict[str, Any], other: Any) -> None:
    """The same, with commits of others wherever the order would need some."""
    _reorder(bundle, other)
    before = [bundle["base"], *(one["commit"] for one in bundle["landings"])]
    spans = [{"after": one, "upto": landing["base"]} for one, landing in zip(before, bundle["landings"], strict=False)]
    bundle["others"] = [one for one in spans if one["after"] != one["upto"]]


def _stand_on_tip(bundle: dict[str, Any], _: Any) -> None:
    _first(bundle)["base"] = bundle["tip"]


def _stand_lower(bundle: dict[str, Any], _: Any) -> None:
    _first(bundle, 1)["base"] = bundle["base"]


def _shorten_tip(bundle: dict[str, Any], _: Any) -> None:
    bundle["tip"] = bundle["base"]


def _tell_more_foreign(bundle: dict[str, Any], _: Any) -> None:
    bundle["others"].append({"after": bundle["base"], "upto": bundle["tip"]})


def _say_by_queue(bundle: dict[str, Any], _: Any) -> None:
    """The first landing is said to be a merge queue's, so that no evidence of it is needed."""
    (entry,) = bundle["landings"].pop(0)["entries"]
    told = {"task": "one", "title": "", "commit": entry["commit"], "queue": "gate-x", "entry": "one", "said": []}
    bundle["by_queue"] = [told]
    bundle["others"].insert(0, {"after": bundle["base"], "upto": _first(bundle)["base"]})


def _cost_below_zero(bundle: dict[str, Any], _: Any) -> None:
    bundle["cost"]["items"][0]["cost_usd"] = bundle["cost"]["total_usd"] = -5.0


def _double_landing(bundle: dict[str, Any], _: Any) -> None:
    bundle["landings"].append(_first(bundle, -1))


def _drop_only_landing(bundle: dict[str, Any], _: Any) -> None:
    bundle["landings"].pop()


def _above_last_task(bundle: dict[str, Any], _: Any) -> None:
    _first(bundle)["commit"] = _first(bundle, 1)["commit"]


_ENTRY = "landings.0.entries.0."
FOUND_BY_GIT: dict[str, tuple[Tampering, str]] = {
    "commits swapped": (_swap_commits, "is not exactly the commits"),
    "first landing dropped": (_drop_landing(0), "is this run's landing of 'one', and the bundle lacks it"),
    "landing in the middle dropped": (_drop_landing(1), "is this run's landing of 'two', and the bundle lacks it"),
    "last landing dropped": (_drop_landing(2), "is this run's landing of 'late', and the bundle lacks it"),
    "base shortened": (_shorten_base, "is this run's landing of 'one', and the bundle lacks it"),
    "landing of another run added": (_add_landing, "as its run"),
    "another run's bundle under this name": (_claim_other_run, "as its run"),
    "landings reordered": (_reorder, "stands on"),
    "another run named": (_set("run", "night-0101-000000-beef"), "as its run"),
    "another task named": (_set(_ENTRY + "task", "uno"), "as its task"),
    "another attempt named": (_set(_ENTRY + "attempt", 2), "as its attempt"),
    "another candidate": (_set(_ENTRY + "candidate", "0" * 40), "brings in"),
    "commit that is nowhere": (_set(_ENTRY + "commit", "1" * 40), "is not in the first-parent history"),
    "landing at a commit that is nowhere": (
        _set("landings.0.commit", "d" * 40),
        "is not proven: dddddddddddd is not in",
    ),
    "landing on a base that is nowhere": (_set("landings.0.base", "d" * 40), "its base dddddddddddd is not in"),
    "landing without a task": (_set("landings.0.entries", []), "commit of its last task: none"),
    "landing above its last task": (_above_last_task, "does not end with the commit of its last task"),
    "tree changed": (_set("landings.0.tree", "2" * 40), "has tree"),
    "base of a landing changed": (_set("landings.1.base", "3" * 40), "stands on"),
    "base that is nowhere": (_set("base", "4" * 40), "the run's base"),
    "tip that is nowhere": (_set("tip", "5" * 40), "does not contain the run's last commit"),
    "person's commit not told": (_drop_foreign, "and not on"),
    "certificate for another tree": (_certificate(tree="6" * 40), "no certificate shows that check 'sound'"),
    "certificate of another definition": (_certificate(definition="7" * 64), "no certificate shows that check 'sound'"),
    "certificate of another check": (_certificate(check="lint"), "which is no check of the target or the plan"),
    "certificate's key changed": (_set("landings.0.certificates.0.key", "8" * 64), "its key does not fit"),
    "certificate's environment changed": (_set("landings.0.certificates.0.environment", "none"), "key does not fit"),
    "red made green": (_set("landings.0.certificates.0.known_failures", ["t"]), "does not fit the failures"),
    "certificate dropped": (_drop_certificate, "no certificate shows that check 'sound'"),
    "certificate doubled": (_double_certificate, "certificates of"),
    "certificates of another tree": (_add_tree_of_other, "no certificate shows that check"),
    "check's command changed": (_set("landings.0.commands.sound", "true"), "is shown as `true`"),
    "plan's check weakened": (_weaken_plan_check, "no certificate shows that check 'extra'"),
    "landings reordered, and the order told": (_reorder_and_tell, "does not come after"),
    "landing on what came later": (_stand_on_tip, "does not stand on"),
    "landing on a commit below its parent": (_stand_lower, "as its first parent"),
    "tip shortened": (_shorten_tip, "the run's tip is said to be"),
    "more commits of others": (_tell_more_foreign, "where no landing needs them"),
    "landing by a queue": (_say_by_queue, "is not the landing of entry 'one' by gate-x"),
    "all checks on another tree": (_set("whole.0.certificates.0.tree", "b" * 40), "all checks on"),
    "all checks on a commit elsewhere": (_set("whole.0.commit", "9" * 40), "which is not in the run's history"),
    "review dropped": (_drop_review, "without the approval that it needs"),
    "review of another diff": (_set(_ENTRY + "review.patch_id", "a" * 64), "was of another diff"),
    "review failed": (_set(_ENTRY + "review.outcome", "failed"), "without the approval that it needs"),
    "reviewer of the author's family": (_set(_ENTRY + "review.families", ["scripted"]), "by the same family"),
    "reviewer read more": (_read_more, "which is not in its diff"),
    "other files reviewed": (_change_both_files, "names other changed files"),
    "cost of one item": (_set("cost.items.0.cost_usd", 5.0), "its items add up to 5.0000"),
    "cost in all": (_set("cost.total_usd", 0.5), "the bill says 0.5000 USD"),
    "waste": (_set("cost.waste_usd", 0.5), "USD for waste"),
    "tokens": (_set("cost.input_tokens", 7), "the bill says 7 input tokens"),
    "item of the bill doubled": (_double_item, "2 times"),
    "item not of the landing": (_set("cost.items.0.landed", False), "the bill has no such item"),
    "item of an attempt that never was": (_set("cost.items.0.number", 9), "and no landing is of it"),
    "cost below zero": (_cost_below_zero, "less than nothing"),
    "very many attempts": (_set("tasks.0.attempts", 10**15), "had 1000000000000000 attempts"),
    "attempts of a task": (_set("tasks.0.attempts", 5), "had 5 attempts"),
    "landing doubled": (_double_landing, "is in 2 landings"),
    "landing dropped, and its task kept": (_drop_only_landing, "and there is no landing of it"),
    "commit of a task": (_set("tasks.0.commit", "c" * 40), "in the list of tasks as cccccccccccc"),
    "cached tokens": (_set("cost.cached_tokens", 7), "the bill says 7 cached tokens"),
    "task that did not land": (_set("tasks.0.phase", "failed"), "in the list of tasks it has not landed"),
    "verdict": (_set("verdict", "30 of 3 tasks landed on forgepool/night"), "the verdict is"),
    "end of the verdict": (_set("verdict", "3 of 3 tasks landed on forgepool/night, 9 reported"), "the verdict is"),
}


@pytest.mark.parametrize("name", FOUND_BY_GIT)
def test_a_changed_bundle_is_found_by_git_and_sums_alone(night: Night, name: str) -> None:
    """The forger computes the digest again, so only the repository and the bundle's other parts speak against it."""
    tamper, said = FOUND_BY_GIT[name]
    forged = copy.deepcopy(night.bundle)
    tamper(forged, copy.deepcopy(night.other))
    broken = night.verify(_sealed(forged)).broken
    assert any(said in line for line in broken), "\n".join(broken)
    assert not any("has another digest" in line for line in broken)


def test_json_says_whether_the_report_holds(night: Night, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text(json.dumps(night.bundle | {"hosts": ["another"]}))
    for file, holds in ((night.file, True), (tmp_path / "f.json", False)):
        ran = night.person.forgepool("verify", str(file), "--repo", str(night.person.folder), "--json")
        found = json.loads(ran.out)
        assert (ran.status, found["holds"]) == (int(not holds), holds)
        assert (bool(found["proven"]), bool(found["broken"])) == (holds, not holds)


def test_a_change_of_any_value_without_a_new_digest_is_found(night: Night) -> None:
    forged = copy.deepcopy(night.bundle)
    forged["hosts"] = ["another host: 3 orders"]
    assert night.verify(forged).broken == (
        "the bundle was changed: its content has another digest than the one that it names",
    )


def test_another_repository_does_not_prove_it(night: Night, tmp_path: Path) -> None:
    elsewhere = person_in(tmp_path, {"README.md": "another\n"})
    (said,) = night.verify(night.bundle, elsewhere.folder).broken
    assert "has no branch forgepool/night" in said
    elsewhere.git("branch", "forgepool/night")
    broken = night.verify(night.bundle, elsewhere.folder).broken
    assert any("does not contain the run's last commit" in line for line in broken)


@pytest.mark.parametrize("hidden", ["{run}\x02x", "{run}\x01x\x00", "x\x02\nForgepool-Run: {run}"])
def test_a_landing_whose_trailers_have_control_characters_stays_in_the_history(tmp_path: Path, hidden: str) -> None:
    person = person_in(tmp_path, {"README.md": "read me\n"})
    base, tree = person.git("rev-parse", "HEAD"), person.git("rev-parse", "HEAD^{tree}")
    author = "ada <ada@example.org> 1 +0000"
    for message in (f"Forgepool-Run: {hidden.format(run='r1')}", "Forgepool-Run: r1"):
        head = person.git("rev-parse", "HEAD")
        raw = f"tree {tree}\nparent {head}\nauthor {author}\ncommitter {author}\n\nx\n\n{message}\n"
        (tmp_path / "raw").write_bytes(raw.encode())
        made = person.git("hash-object", "-t", "commit", "-w", "--literally", str(tmp_path / "raw"))
        person.git("update-ref", "HEAD", made)
    history = person.git("rev-list", "--first-parent", "--reverse", "HEAD").split()
    spine = read_spine(Git(git_dir=person.folder / ".git"), "main", CommitId(history[-1]))
    assert [one.id for one in spine.commits] == history and history[0] == base
    assert spine.commits[-1].run == "r1"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (("a", "", "t", "r", "k", "1", "b"), "7 fields are not 6 for each commit"),
        (("a", "", "t", "", "", "", "b", "c a", "t", "", "", ""), "commit b does not stand on a"),
        (("a", "b", "t", "", "", ""), "commit a does not stand on nothing"),
    ],
)
def test_a_history_that_is_no_chain_proves_nothing(fields: tuple[str, ...], said: str) -> None:
    with pytest.raises(GitFailed, match=said):
        read_chain(fields)


def test_a_target_that_was_set_back_does_not_prove_it(night: Night, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    night.person.git("clone", "-q", "--bare", str(night.person.folder), str(clone))
    subprocess.run(["git", "-C", clone, "update-ref", "refs/heads/forgepool/night", night.bundle["base"]], check=True)
    broken = night.verify(night.bundle, clone).broken
    assert any("does not contain the run's last commit" in line for line in broken)
    assert sum(line.startswith("the commit of") and "first-parent history" in line for line in broken) == 3


def test_without_any_check_the_plan_has_to_say_so(tmp_path: Path, redis_program: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="fp-"))
    person = person_in(folder, {"README.md": "read me\n"})
    tasks = f"checks: none\ntasks:\n  - {_TASKS['other']}\n"
    (folder / "bare.yaml").write_text(f"version: 1\nname: bare\ntarget: forgepool/night\n{tasks}")
    assert person.forgepool("run", str(folder / "bare.yaml"), "--workers", "1").status == 0
    bundle = json.loads((_runs(person, "bare")[0] / "report.json").read_text())
    bare = Night(person, bundle, bundle)
    assert bare.verify(bundle).broken == ()
    (said,) = bare.verify(_sealed(bundle | {"checks_waived": False})).broken
    assert "the plan does not say `checks: none`" in said
    shutil.rmtree(folder)


def test_a_target_whose_checks_cannot_be_read_proves_nothing(night: Night, tmp_path: Path) -> None:
    person = person_in(tmp_path, {"forgepool.yaml": "version: 1\nchecks: ["})
    git, head = Git(git_dir=person.folder / ".git"), person.git("rev-parse", "HEAD")
    bundle = ProofBundle.model_validate(night.bundle)
    (said,) = check_certificates(bundle, git, head, head, bundle.landings[0].certificates)
    assert "the target's checks cannot be read: " in said


def _bundle_by_hand(folder: Path, gate: str, **changed: Any) -> Night:
    """Return a consistent bundle of one landing, which anyone can make: no run has been, and no check was run."""
    files = {"forgepool.yaml": f"version: 1\n{gate}"} if gate else {}
    person = person_in(folder, files | {"gen.txt": "made\n"})
    base = person.git("rev-parse", "HEAD")
    person.git("checkout", "-q", "-b", "forgepool/night")
    person.commit({"a.txt": "a\n"}, "a\n\nForgepool-Run: r1\nForgepool-Task: a\nForgepool-Attempt: 1")
    top, git = person.git("rev-parse", "HEAD"), Git(git_dir=person.folder / ".git")
    tree = person.git("rev-parse", "HEAD^{tree}")
    checks = read_gate(git, CommitId(base), [CheckDefinition(**one) for one in changed.get("plan_checks", ())]).checks
    certificates = [
        certify(one, checks, inputs=tree, environment="any", seconds=1, host="h").model_dump(mode="json")
        for one in checks
    ]
    entry = {"task": "a", "title": "a", "attempt": 1, "commit": top, "candidate": top, "agent": "x"}
    entry["review"] = changed.pop("review", None)
    landing = {"base": base, "commit": top, "tree": tree, "at": 0, "host": "h", "entries": [entry]}
    sums = ("total_usd", "waste_usd", "review_usd", "unknown", "input_tokens", "cached_tokens", "output_tokens")
    item = {"task": "a", "work": "attempt", "number": 1, "landed": True}
    bundle = {
        "forgepool": "1",
        "run": "r1",
        "plan": "p",
        "plan_digest": "",
        "hub": "h",
        "target": "forgepool/night",
        "base": base,
        "tip": top,
        "began": 0,
        "ended": 0,
        "outcome": "landed",
        "verdict": "1 of 1 task landed on forgepool/night",
        "landings": [landing | {"certificates": certificates}],
        "tasks": [{"id": "a", "title": "a", "phase": "landed", "attempts": 1, "commit": top}],
        "cost": dict.fromkeys(sums, 0) | {"items": [item]},
    }
    bundle = _sealed(bundle | {"signatures": []} | changed)
    return Night(person, bundle, bundle)


_REVIEW = {"patch_id": "0" * 64, "families": ["another"]}


@pytest.mark.parametrize(
    ("gate", "outcome"), [("review: required\nregenerate: [{paths: [gen.txt], run: make}]\n", "passed"), ("", "failed")]
)
def test_a_review_of_another_diff_is_not_told_as_proven(tmp_path: Path, gate: str, outcome: str) -> None:
    made = _bundle_by_hand(tmp_path, "checks: {test: test -f a.txt}\n" + gate, review=_REVIEW | {"outcome": outcome})
    found = made.verify(made.bundle)
    assert found.broken == () and not any("each of the very diff that landed" in line for line in found.proven)
    assert any("that a reviewer passed the very diff of 'a' that landed" in line for line in found.unproven)


def test_a_certificate_of_a_check_without_a_vote_is_not_told_as_proven(tmp_path: Path) -> None:
    made = _bundle_by_hand(tmp_path, "checks: {test: test -f a.txt, slow: {run: test -d b, voting: false}}\n")
    found = made.verify(made.bundle)
    assert found.broken == () and any(line.startswith("1 certificate, each for the tree") for line in found.proven)
    assert "anything by 1 certificate of checks without a vote" in found.unproven


@pytest.mark.parametrize("gate", ["", "checks: {own: test -f a.txt}\n"])
def test_commands_of_a_bundle_run_only_where_its_signature_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: str
) -> None:
    made = _bundle_by_hand(tmp_path, gate, plan_checks=[{"name": "planned", "run": "test -d none"}])
    unsigned = made.verify(made.bundle, run_checks=True)
    assert unsigned.broken == () and any("the bundle's commands were not run" in line for line in unsigned.unproven)
    assert any("the target's own checks, run again" in line for line in unsigned.proven) == bool(gate)
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", _KEY)
    signed = seal(ProofBundle.model_validate(made.bundle)).model_dump(mode="json")
    (said,) = made.verify(signed, run_checks=True).broken
    assert "run again here, its checks are not green: 'planned'" in said


def test_checks_are_run_again_in_the_sandbox_even_where_it_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORGEPOOL_SANDBOX", "off")
    outside = tmp_path / "outside"
    made = _bundle_by_hand(tmp_path, f"checks: {{own: 'touch {outside}; test -f a.txt'}}\n")
    assert any("run again on this host" in line for line in made.verify(made.bundle, run_checks=True).proven)
    assert not outside.exists()


def _lie_about_host(bundle: dict[str, Any], _: Any) -> None:
    _first(bundle)["certificates"][0] |= {"host": "elsewhere", "seconds": 0.0}


def _lie_about_money(bundle: dict[str, Any], _: Any) -> None:
    bundle["cost"]["items"][0]["cost_usd"] = 9.0
    bundle["cost"]["total_usd"] = 9.0


def _lie_about_reviewer(bundle: dict[str, Any], _: Any) -> None:
    _first(bundle)["entries"][0]["review"] |= {"models": ["gpt-x"], "families": ["gpt"], "dropped": []}


def _lie_about_person(bundle: dict[str, Any], _: Any) -> None:
    _first(bundle)["entries"][0] |= {"approved_by": "Ada", "review": None}


def _lie_about_environment(bundle: dict[str, Any], other: dict[str, Any]) -> None:
    _certificate(environment="a-better-machine")(bundle, other)


ONLY_BY_SIGNATURE: dict[str, Tampering] = {
    "the checks' host": _lie_about_host,
    "the money, consistently": _lie_about_money,
    "the reviewer": _lie_about_reviewer,
    "a person's approval": _lie_about_person,
    "the sandbox of a check, with its key": _lie_about_environment,
    "the reasons": _set("flakes", ["none at all"]),
}


@pytest.mark.parametrize("name", ONLY_BY_SIGNATURE)
def test_what_git_cannot_tell_is_found_by_the_fleets_signature(
    night: Night, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    forged = copy.deepcopy(night.bundle)
    ONLY_BY_SIGNATURE[name](forged, copy.deepcopy(night.other))
    unsigned = night.verify(_sealed(forged))
    assert unsigned.broken == (), "git cannot tell"
    assert any("anyone can make such a bundle" in line for line in unsigned.unproven), "and verify says so"
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", _KEY)
    signed = seal(ProofBundle.model_validate(night.bundle)).model_dump(mode="json")
    assert night.verify(signed).broken == ()
    assert "the bundle is signed with the fleet's key" in night.verify(signed).proven
    digest = ProofBundle.model_validate(forged).compute_digest()
    kept = night.verify(forged | {"signatures": signed["signatures"], "digest": digest})
    assert kept.broken == ("the fleet's signature does not fit: it is by another key, or the bundle was changed since",)
    stripped = night.verify(forged | {"digest": digest})
    assert stripped.broken == (
        "the bundle is not signed with the fleet's key, which this process has (FORGEPOOL_FLEET_KEY)",
    )


def test_a_signature_of_another_key_or_another_run_does_not_hold(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", "o" * 32)
    elsewhere = seal(ProofBundle.model_validate(night.bundle)).model_dump(mode="json")
    monkeypatch.setenv("FORGEPOOL_FLEET_KEY", _KEY)
    of_other = seal(ProofBundle.model_validate(night.other)).model_dump(mode="json")
    for signatures in (elsewhere["signatures"], of_other["signatures"]):
        assert "does not fit" in night.verify(night.bundle | {"signatures": signatures}).broken[0]
    monkeypatch.delenv("FORGEPOOL_FLEET_KEY")
    unkeyed = night.verify(elsewhere)
    assert unkeyed.broken == () and any("no key for its signature" in line for line in unkeyed.unproven)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen")
def test_an_ssh_key_signs_and_its_allowed_signer_verifies(night: Night, tmp_path: Path) -> None:
    for name in ("ada", "eve"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    allowed = tmp_path / "allowed"
    allowed.write_text(f"ada@example.org {(tmp_path / 'ada.pub').read_text()}")
    run = night.bundle["run"]

    def signed_by(name: str) -> str:
        path = tmp_path / f"{name}.json"
        path.write_text(night.person.forgepool("report", run, "--json", "--sign-key", str(tmp_path / name)).out)
        return str(path)

    ask = ("--repo", str(night.person.folder), "--allowed-signers", str(allowed))
    good = night.person.forgepool("verify", signed_by("ada"), *ask)
    assert good.status == 0 and "signed with the SSH key of ada@example.org" in good.out, good.out
    bad = night.person.forgepool("verify", signed_by("eve"), *ask)
    assert bad.status == 1 and "does not hold: the SSH signature is of no key in" in bad.out
    unsigned = night.person.forgepool("verify", str(night.file), *ask)
    assert unsigned.status == 1 and "has no SSH signature" in unsigned.out
    forged = json.loads(Path(signed_by("ada")).read_text())
    _lie_about_money(forged, {})
    (tmp_path / "forged.json").write_text(json.dumps(_sealed(forged)))
    changed = night.person.forgepool("verify", str(tmp_path / "forged.json"), *ask)
    assert changed.status == 1 and "or the bundle was changed since" in changed.out
    wrong = night.person.forgepool("report", run, "--json", "--sign-key", str(tmp_path / "none"))
    assert wrong.status == 2 and wrong.err.count("\n") == 1 and "cannot sign the bundle" in wrong.err


BAD_FILES = {
    "no JSON": ("{", "is not JSON; `forgepool report RUN --json > FILE` writes one"),
    "deep": ("[" * 100_000, "is not JSON"),
    "not a bundle": ("{}", "is JSON and no proof bundle"),
    "a list": ("[1]", "is JSON and no proof bundle"),
    "another version": ('{"kind": "forgepool.report", "version": 99}', "is a bundle of version 99, and this Forgepool"),
    "damaged": ('{"kind": "forgepool.report", "version": 1}', "is a damaged bundle: 'forgepool': field required"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_bundle_is_one_sentence(night: Night, tmp_path: Path, name: str) -> None:
    text, said = BAD_FILES[name]
    (tmp_path / "f.json").write_text(text)
    found = night.person.forgepool("verify", str(tmp_path / "f.json"))
    assert (found.status, found.out, found.err.count("\n")) == (2, "", 1) and said in found.err, found.err


def test_a_missing_or_too_large_file_or_repository_is_one_sentence(night: Night, tmp_path: Path) -> None:
    large = tmp_path / "large.json"
    large.touch()
    os.truncate(large, 64_000_001)
    for argv, said in (
        ((str(tmp_path / "none.json"),), "No such file"),
        ((str(large),), "is larger than the 64 MB"),
        ((str(night.file), "--repo", str(tmp_path / "nowhere")), "there is no such folder"),
        ((str(night.file), "--repo", str(tmp_path)), "repository"),
    ):
        found = night.person.forgepool("verify", *argv)
        assert (found.status, found.out, found.err.count("\n")) == (2, "", 1) and said in found.err, found.err


def test_a_page_that_cannot_be_written_is_one_sentence(night: Night, tmp_path: Path) -> None:
    found = night.person.forgepool("report", night.bundle["run"], "--html", str(tmp_path / "none" / "r.html"))
    assert (found.status, found.out, found.err.count("\n")) == (2, "", 1) and "No such file" in found.err, found.err
    good = night.person.forgepool("report", night.bundle["run"], "--html", str(tmp_path / "r.html"))
    assert good.status == 0 and "3 of 3 tasks landed" in (tmp_path / "r.html").read_text()


def test_a_target_that_is_no_branch_is_refused(night: Night, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text(json.dumps(night.bundle | {"target": "--upload-pack=x y"}))
    found = night.person.forgepool("verify", str(tmp_path / "f.json"), "--repo", str(night.person.folder))
    assert found.status == 2 and "is no branch" in found.err
