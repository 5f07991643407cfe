"""Assertions that a test makes by calling a function: they are its own, in whichever file of tests they are written."""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from forgepool.supervisor.scans.languages.suite import Assertion, CallSite, Suite, SuiteCase

_DEEPEST = 4


def with_shared(path: str, suite: Suite, others: Mapping[str, Suite], paths: Collection[str]) -> Suite:
    """
    The suite, every case with the assertions of the functions that it calls: those of the same file, and those that it
    imports from `others`, which are some of all `paths`.
    """
    by_name = {
        **{name: case for name, case in _imported(path, suite, others, paths) if case.assertions or case.calls},
        **{_simple(name): case for name, case in suite.support.items() if case.assertions or case.calls},
    }
    bound = _bound(suite)
    by_name = {name: case for name, case in by_name.items() if case.form != "other" and name not in bound}
    if not by_name:
        return suite
    cases = {name: _expanded(case, by_name, suite.imports) for name, case in suite.cases.items()}
    return replace(suite, cases=cases)


def _imported(
    path: str, suite: Suite, others: Mapping[str, Suite], paths: Collection[str]
) -> list[tuple[str, SuiteCase]]:
    found: list[tuple[str, SuiteCase]] = []
    for local, name in suite.imports.items():
        module, _, function = name.rpartition(".")
        files = files_of(module, path, paths) if module else []
        if len(files) != 1 or files[0] not in others or function not in others[files[0]].support:
            continue
        if function not in _bound(others[files[0]]) and function not in others[files[0]].imports:
            found.append((local, others[files[0]].support[function]))
    return found


def files_of(module: str, importer: str, paths: Collection[str]) -> list[str]:
    """The files that an import may mean: of a module without dots, one beside its importer or at the top."""
    end = f"{module.strip('.').replace('.', '/')}.py"
    if "." not in module.strip("."):
        places = {f"{importer.rpartition('/')[0]}/{end}".lstrip("/"), end, f"src/{end}"}
        return sorted(places.intersection(paths))
    return [path for path in paths if path == end or path.endswith(f"/{end}")]


def _bound(suite: Suite) -> frozenset[str]:
    """Names to which the module itself gives a value, whatever else they were."""
    return frozenset(name for value in suite.values for name in re.findall(r"\w+", value.name))


def _expanded(case: SuiteCase, by_name: dict[str, SuiteCase], imports: Mapping[str, str]) -> SuiteCase:
    found: list[Assertion] = []
    seen: set[str] = set()
    level = _called(case, by_name, imports, CallSite(""))
    for _ in range(_DEEPEST):
        level = {name: call for name, call in level.items() if name not in seen}
        seen.update(level)
        below: dict[str, CallSite] = {}
        for name, call in level.items():
            found += (
                replace(one, shared=True, guards=one.guards + call.guards, swallowed=one.swallowed or call.swallowed)
                for one in by_name[name].assertions
            )
            below = {**_called(by_name[name], by_name, imports, call), **below}
        level = below
    # A call that looks like an assertion stands for those of the function that is called.
    own = tuple(one for one in case.assertions if not _is_call_of(one, by_name, seen))
    return replace(case, assertions=(*own, *found)) if found else case


def _called(
    case: SuiteCase, by_name: dict[str, SuiteCase], imports: Mapping[str, str], above: CallSite
) -> dict[str, CallSite]:
    """The functions that a case calls by a name that it gives no value to, each by the freest of its calls."""
    local = {value.name for value in case.values if value.name != _simple(case.name)}
    calls = [
        call._replace(guards=call.guards + above.guards, swallowed=call.swallowed or above.swallowed)
        for call in case.calls
        if call.name in by_name
        and (call.owner in ("", "self", "cls") or call.owner in imports)
        and (call.owner or call.name not in local)
        and call.awaited == (by_name[call.name].form == "async")
    ]
    return {call.name: call for call in sorted(calls, key=lambda one: (one.swallowed, one.guards), reverse=True)}


def _is_call_of(one: Assertion, by_name: dict[str, SuiteCase], seen: Collection[str]) -> bool:
    at = next((i for i, word in enumerate(one.words) if word.text == "()"), 0)
    name = one.words[at - 1].text if at else ""
    return one.relation == "true" and name in seen and bool(by_name[name].assertions)


def _simple(name: str) -> str:
    return name.rpartition("::")[2].rpartition(".")[2]
