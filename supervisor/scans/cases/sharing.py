"""Assertions that a test makes by calling a function beside it: they are its own, wherever they are written."""

from dataclasses import replace

from supervisor.scans.cases.suite import Assertion, Case, Suite

_DEEPEST = 4


def with_shared(suite: Suite) -> Suite:
    """The suite, every case with the assertions of the functions of the same file that it calls."""
    by_name = {_simple(name): case for name, case in suite.support.items() if case.assertions or case.calls}
    if not by_name:
        return suite
    cases = {name: _expanded(case, by_name) for name, case in suite.cases.items()}
    return replace(suite, cases=cases)


def _expanded(case: Case, by_name: dict[str, Case]) -> Case:
    found: list[Assertion] = []
    seen: set[str] = set()
    level = list(case.calls)
    for _ in range(_DEEPEST):
        callees = [by_name[name] for name in dict.fromkeys(level) if name in by_name and name not in seen]
        seen.update(level)
        found += (replace(one, shared=True) for callee in callees for one in callee.assertions)
        level = [name for callee in callees for name in callee.calls]
    # A call that looks like an assertion stands for those of the function that is called.
    own = tuple(one for one in case.assertions if not _is_call_of(one, by_name))
    return replace(case, assertions=(*own, *found)) if found else case


def _is_call_of(one: Assertion, by_name: dict[str, Case]) -> bool:
    at = next((i for i, word in enumerate(one.words) if word.text == "()"), 0)
    name = one.words[at - 1].text if at else ""
    return one.relation == "true" and name in by_name and bool(by_name[name].assertions)


def _simple(name: str) -> str:
    return name.rpartition("::")[2].rpartition(".")[2]
