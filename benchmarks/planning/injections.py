"""Kinds of fault, each put into one task of a good plan, with the rule that must name it."""

import posixpath
import random
import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace

from good_plans import GoodPlan


@dataclass(frozen=True, slots=True)
class Injected:
    """A plan with one fault."""

    plan: GoodPlan
    rule: str
    """The rule that must report it; `plan file` for the reader."""
    tasks: frozenset[str]
    """The tasks of which one must be named; empty for a fault of the whole plan."""


Inject = Callable[[GoodPlan, random.Random], Injected | None]


def inject(kind: str, plan: GoodPlan, seed: int) -> Injected | None:
    """Return the plan with a fault of this kind; None where the plan offers no place for it."""
    spoilt = replace(plan, document=deepcopy(plan.document), requirements=list(plan.requirements))
    return KINDS[kind](spoilt, random.Random(f"{kind}-{plan.name}-{seed}"))


def _misspell(text: str, choice: random.Random) -> str:
    """Swap, drop or double one letter of a path's longest word, as people and models do."""
    word = max(re.findall(r"[A-Za-z]{3,}", posixpath.splitext(text)[0]), key=len)
    at = choice.randrange(len(word) - 1)
    spelt = choice.choice(
        (word[:at] + word[at + 1] + word[at] + word[at + 2 :], word[:at] + word[at + 1 :], word[: at + 1] + word[at:])
    )
    return text.replace(word, spelt if spelt != word else word[:-1], 1)


def misspelt_file(plan: GoodPlan, choice: random.Random) -> Injected | None:
    task = choice.choice(plan.tasks)
    at = next((at for at, path in enumerate(task["files"]) if path in plan.tree), None)
    if at is None:
        return None
    path = task["files"][at]
    folder, _, name = path.rpartition("/")
    wrong = (
        f"{_misspell(folder, choice)}/{name}"
        if folder and choice.random() < 0.5
        else f"{folder}/{_misspell(name, choice)}".lstrip("/")
    )
    task["files"][at] = wrong
    return Injected(plan, "unmatched-glob", frozenset([task["id"]]))


def stale_glob(plan: GoodPlan, choice: random.Random) -> Injected | None:
    task = choice.choice(plan.tasks)
    folder = task["files"][0].rpartition("/")[0]
    task["files"].append(choice.choice((f"{folder}/legacy/**".lstrip("/"), "src/core/**/*.py", "lib/*.ts")))
    return Injected(plan, "unmatched-glob", frozenset([task["id"]]))


def misspelt_reads(plan: GoodPlan, choice: random.Random) -> Injected | None:
    task = choice.choice(plan.tasks)
    other = choice.choice(sorted(path for path in plan.tree if path.endswith((".py", ".md", ".rst"))))
    task["reads"] = [_misspell(other, choice)]
    return Injected(plan, "unmatched-glob", frozenset([task["id"]]))


def green_acceptance(plan: GoodPlan, choice: random.Random) -> Injected | None:
    task = choice.choice(plan.tasks)
    path = next((path for path in task["files"] if path in plan.tree), None)
    if path is None:
        return None
    ways = [f"test -s {path}", f"grep -q . {path}", f"git diff --exit-code -- {path}"]
    if path.endswith(".py"):
        ways.append(f"python3 -c \"import ast; ast.parse(open('{path}').read())\"")
    task["acceptance"] = [choice.choice(ways)]
    return Injected(plan, "green-on-base", frozenset([task["id"]]))


def cannot_fail(plan: GoodPlan, choice: random.Random) -> Injected | None:
    task = choice.choice(plan.tasks)
    command = task["acceptance"][0]
    ways = (
        f"{command} || true",
        f"{command} 2>&1 | tail -5",
        f"{command}; exit 0",
        f"{command} || echo failed",
        f"bash -c '{'true'}'",
    )
    task["acceptance"] = [choice.choice(ways)]
    return Injected(plan, "cannot-fail", frozenset([task["id"]]))


def overlap(plan: GoodPlan, choice: random.Random) -> Injected | None:
    pairs = [(a, b) for a in plan.tasks for b in plan.tasks if a is not b and not _ordered(plan, a["id"], b["id"])]
    if not pairs:
        return None
    first, second = choice.choice(pairs)
    second["files"].append(choice.choice(first["files"]))
    return Injected(plan, "overlap", frozenset((first["id"], second["id"])))


def _ordered(plan: GoodPlan, first: str, second: str) -> bool:
    needs = {task["id"]: task.get("needs", []) for task in plan.tasks}

    def before(a: str, b: str) -> bool:
        return any(need == a or before(a, need) for need in needs[b])

    return before(first, second) or before(second, first)


def named_outside(plan: GoodPlan, choice: random.Random) -> Injected | None:
    task = choice.choice(plan.tasks)
    mine = {path for each in plan.tasks for path in each["files"]}
    others = sorted(path for path in plan.tree - mine if path.endswith(".py") and "/" in path)
    if not others:
        return None
    path = choice.choice(others)
    task["description"] += "\n" + choice.choice(
        (f"Change `{path}` in the same way.", f"Then update {path}.", f"{path} needs the same.")
    )
    return Injected(plan, "named-outside", frozenset([task["id"]]))


def too_many_files(plan: GoodPlan, choice: random.Random) -> Injected | None:
    task = choice.choice(plan.tasks)
    others = sorted(path for path in plan.tree if path.endswith(".py") and path not in task["files"])
    task["files"] += choice.sample(others, min(6, len(others)))
    return Injected(plan, "many-files", frozenset([task["id"]])) if len(task["files"]) > 3 else None


def requirement_without_task(plan: GoodPlan, choice: random.Random) -> Injected | None:
    at = choice.randrange(len(plan.requirements))
    plan.requirements[at] = replace(plan.requirements[at], tasks=())
    plan.requirements.append(
        replace(plan.requirements[at], id="R99", text="The rest", tasks=tuple(t["id"] for t in plan.tasks))
    )
    return Injected(plan, "uncovered", frozenset())


def task_without_requirement(plan: GoodPlan, choice: random.Random) -> Injected | None:
    gone = plan.requirements.pop(choice.randrange(len(plan.requirements)))
    return Injected(plan, "without-requirement", frozenset(gone.tasks))


def used_before_made(plan: GoodPlan, choice: random.Random) -> Injected | None:
    pairs = [(a, b) for a in plan.tasks for b in plan.tasks if a is not b and not _ordered(plan, a["id"], b["id"])]
    if not pairs:
        return None
    maker, user = choice.choice(pairs)
    name = plan.symbols.get(maker["id"], choice.choice(("split_fields", "RetryPolicy", "parse_header_line")))
    way = choice.choice(("Add the function `{}`.", "Introduce a new class `{}` for it.", "Implement `{}()` there."))
    maker["description"] += "\n" + way.format(name)
    use = choice.choice(("Call `{}` where it applies.", "Use `{}()` for this.", "It is built on `{}`."))
    user["description"] += "\n" + use.format(name)
    return Injected(plan, "used-before-made", frozenset([user["id"]]))


def protected_path(plan: GoodPlan, choice: random.Random) -> Injected | None:
    task = choice.choice(plan.tasks)
    task["files"].append(
        choice.choice(
            (
                ".github/workflows/tests.yml",
                ".pre-commit-config.yaml",
                ".gitlab-ci.yml",
                "poetry.lock",
                "forgepool.yaml",
            )
        )
    )
    return Injected(plan, "protected-path", frozenset([task["id"]]))


def no_proof(plan: GoodPlan, choice: random.Random) -> Injected | None:
    task = choice.choice(plan.tasks)
    del task["acceptance"]
    task.pop("guards", None)
    return Injected(plan, "no-proof", frozenset([task["id"]]))


def missing_test(plan: GoodPlan, choice: random.Random) -> Injected | None:
    task = choice.choice(plan.tasks)
    ways = ("python3 -m pytest -q {}", "pytest {} -x", "python3 {}", "grep -q assert {}")
    task["acceptance"] = [
        choice.choice(ways).format(
            choice.choice(("tests/test_new_behaviour.py", "tests/unit/check_it.py", "scripts/verify.py"))
        )
    ]
    return Injected(plan, "missing-file", frozenset([task["id"]]))


def too_long(plan: GoodPlan, choice: random.Random) -> Injected | None:
    choice.choice(plan.tasks)["duration_s"] = "9h"
    return Injected(plan, "too-long", frozenset())


def duplicate(plan: GoodPlan, choice: random.Random) -> Injected | None:
    task = deepcopy(choice.choice(plan.tasks))
    task["id"] += "-again"
    plan.tasks.append(task)
    plan.requirements.append(replace(plan.requirements[0], id="R98", tasks=(task["id"],)))
    return Injected(plan, "duplicate", frozenset([task["id"]]))


def vague(plan: GoodPlan, choice: random.Random) -> Injected | None:
    task = choice.choice(plan.tasks)
    del task["title"]
    task["description"] = choice.choice(("", "Fix it.", "Implement this", "TODO"))
    return Injected(plan, "vague", frozenset([task["id"]]))


def unknown_skill(plan: GoodPlan, choice: random.Random) -> Injected | None:
    task = choice.choice(plan.tasks)
    task["agent"] = {"builtin": {"skill": choice.choice(("coder", "test-writer", "backend"))}}
    return Injected(plan, "unknown-skill", frozenset([task["id"]]))


def cycle(plan: GoodPlan, choice: random.Random) -> Injected | None:
    first, second = plan.tasks[0], plan.tasks[-1]
    first["needs"], second["needs"] = [second["id"]], [first["id"]]
    return Injected(plan, "plan file", frozenset([first["id"]]))


def unknown_need(plan: GoodPlan, choice: random.Random) -> Injected | None:
    task = choice.choice(plan.tasks)
    task["needs"] = [*task.get("needs", []), "setup"]
    return Injected(plan, "plan file", frozenset([task["id"]]))


def wrong_form(plan: GoodPlan, choice: random.Random) -> Injected | None:
    task = choice.choice(plan.tasks)
    task[choice.choice(("dependencies", "estimate", "tests", "steps"))] = "3"
    return Injected(plan, "plan file", frozenset([task["id"]]))


def zero_tasks(plan: GoodPlan, choice: random.Random) -> Injected | None:
    plan.tasks.clear()
    return Injected(plan, "plan file", frozenset())


KINDS: Mapping[str, Inject] = {
    each.__name__.replace("_", " "): each
    for each in (
        misspelt_file,
        stale_glob,
        misspelt_reads,
        green_acceptance,
        cannot_fail,
        missing_test,
        no_proof,
        overlap,
        named_outside,
        too_many_files,
        protected_path,
        used_before_made,
        requirement_without_task,
        task_without_requirement,
        duplicate,
        vague,
        unknown_skill,
        too_long,
        cycle,
        unknown_need,
        wrong_form,
        zero_tasks,
    )
}
