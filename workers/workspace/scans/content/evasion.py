"""
`harness`: code that detects its test run, ends or replaces the test runner, or runs what it decodes.

Exits, imports and assignments are read by grammar. Environment variables, killed parents, written reports and decoded
code are read line by line, without comments. Files that shadow a tool or a library are found by name.
Code that is put together at run time is not found.
"""

import re
from collections.abc import Iterable, Iterator

from forgepool.workers.workspace.scans.content.awareness import find_awareness
from forgepool.workers.workspace.scans.content.patches import find_disguise, find_patched, find_replaced
from forgepool.workers.workspace.scans.content.process_exit import ChangedProgram, Oddity, find_program_ends, programs
from forgepool.workers.workspace.scans.findings import ScanFinding, Weight
from forgepool.workers.workspace.scans.subject import Subject, finding, is_granted

_READS = (
    r"(?:environ(?:\.get)?|getenv|env::var(?:_os)?|System\.getenv|Getenv|LookupEnv|process\.env|import\.meta\.env|"
    r"ENV|\$_ENV|\$ENV|Deno\.env\.get|\$\{?)"
)
_OF_CHECKS = r"(?:PYTEST_\w+|FORGEPOOL_\w+|JUNIT_?\w*|JEST_WORKER_ID|VITEST\w*|MOCHA_\w+|NOSE_\w+|NEXTEST\w*)"
_OF_CI = (
    r"(?:CI|GITHUB_(?!TOKEN\b|API_|SERVER_|REPOSITORY)\w+|GITLAB_CI|CIRCLECI|TRAVIS|JENKINS_\w+|BUILDKITE|TF_BUILD|"
    r"CONTINUOUS_INTEGRATION|BUILD_NUMBER)"
)
_BETWEEN = r"[\s.(\[{'\"!?:]*"
_ENVIRONMENT = re.compile(rf"{_READS}{_BETWEEN}\b(?:({_OF_CHECKS})|({_OF_CI}))\b(?!=)")
_NAMED_FIRST = re.compile(rf"['\"](?:({_OF_CHECKS})|({_OF_CI}))['\"]\s+(?:not\s+)?in\s+[\w.]*environ")
_RUNNER = re.compile(
    r"(sys\.(argv|modules)|inspect\.(stack|currentframe)|sys\._getframe|/proc/|psutil|process\.argv|module\.parent|os\.Args|"
    r"__main__)\b.*\b(pytest|py\.test|_pytest|unittest|nose|jest|mocha|vitest|forgepool|xdist)\b|"
    r"\b(pytest|_pytest|unittest|jest|mocha|vitest)\b['\"\]]*\s*(not\s+)?in\s+(sys\.(argv|modules)|str\(|process\.argv)|"
    r"\btesting\.Testing\(\)|flag\.Lookup\(\"test\.|\btypeof\s+(jest|vi|describe|it|expect)\b|"
    r"strings\.HasSuffix\(os\.Args\[0\],\s*\"\.test\"|hasattr\(sys,\s*['\"]_called_from_test"
)
_RESULT = re.compile(
    r"junit[\w.\-]*\.xml|\bTEST-[\w.\-]*\.xml|<testsuites?\b|\btest-?results?[/\w.\-]*\.(xml|json)|"
    r"\bcertificates?\b[/\w.\-]*\.(json|ya?ml|db)|\.last_?run\.json|lastfailed|\.pytest_cache",
    re.IGNORECASE,
)
_WRITES = re.compile(
    r"\bopen\([^)]*,\s*['\"][wax+]|write_(text|bytes)|\.write\(|writeFile|WriteFile|dump\(|fs\.write|copy(file)?\(|"
    r"Files\.write|File\.(write|create)|\bos\.(rename|replace)\(|shutil\.move"
)
_REDIRECTS = re.compile(r">\s*\S|\btee\b")
_ASKED = "this code asks whether it is being tested; let it behave the same everywhere"
_WRITTEN = "this writes a test report or a certificate; leave reports to the test runner"


def find_test_questions(program: ChangedProgram) -> Iterator[Oddity]:
    """Yield the lines that ask who runs the code, and those that forge a test report."""
    for number, text in program.lines:
        if _is_asked(program, text):
            yield Oddity(line=number, text=text, said=_ASKED, certain=not program.in_tests)
        writes = _WRITES.search(text) or (program.language == "bash" and _REDIRECTS.search(text))
        if writes and _RESULT.search(text):
            yield Oddity(line=number, text=text, said=_WRITTEN, certain=not program.in_tests or _is_shared(program))


def _is_asked(program: ChangedProgram, text: str) -> bool:
    """Tell whether a line asks who runs the code. Tests may ask anything, but a `conftest.py` only about CI."""
    if program.in_tests and not _is_shared(program):
        return False
    named = [found for found in (_ENVIRONMENT.search(text), _NAMED_FIRST.search(text)) if found is not None]
    return any(found[1] or not program.in_tests for found in named) or _RUNNER.search(text) is not None


def _is_shared(program: ChangedProgram) -> bool:
    """Tell whether all tests run with this file."""
    return program.path.rpartition("/")[2] == "conftest.py"


_RUN = re.compile(r"(?<![\w.])(exec|eval|compile|Function|loadstring|instance_eval)\s*\(|\|\s*(ba|z|da)?sh\b|\beval\b")
_DECODED = re.compile(
    r"b(16|32|64|85)decode|a85decode|unhexlify|\bfromhex\b|\bdecompress\b|marshal\.loads|codecs\.decode|\batob\(|"
    r"fromCharCode|Buffer\.from\(|base64 (-d|--decode)|Base64\.(decode|getDecoder)|xxd -r"
)
_SAID = "this runs encoded code; write it as plain code"


def find_veiled(program: ChangedProgram) -> Iterator[Oddity]:
    """Yield every line that runs decoded code, in tests and scripts as well."""
    for number, text in program.lines:
        if _RUN.search(text) and _DECODED.search(text):
            yield Oddity(line=number, text=text, said=_SAID)


def scan_harness(subject: Subject) -> Iterator[ScanFinding]:
    """Report `harness`. Lines that an honest change could hold ask for attention, all others block."""
    for file in subject.files:
        why = find_disguise(subject, file)
        if why is not None and not is_granted(subject, file.path):
            yield finding("harness", "blocks", f"{why}; use another name", file.path)
    for program in programs(subject):
        yield from _reported(subject, program, _of_own(program))
    for program in programs(subject, unread=True):
        # Nobody reads these files, so only the findings that concern other files are looked for.
        yield from _reported(subject, program, (*find_replaced(program), *find_awareness(program)))


def _of_own(program: ChangedProgram) -> Iterator[Oddity]:
    yield from find_program_ends(program)
    yield from find_test_questions(program)
    yield from find_awareness(program)
    yield from find_patched(program)
    yield from find_replaced(program)
    yield from find_veiled(program)


def _reported(subject: Subject, program: ChangedProgram, found: Iterable[Oddity]) -> Iterator[ScanFinding]:
    """Yield the first oddity of each line, certain ones first."""
    by_line: dict[int, Oddity] = {}
    for oddity in sorted(found, key=lambda each: (not each.certain, each.line)):
        by_line.setdefault(oddity.line, oddity)
    for oddity in by_line.values() if not is_granted(subject, program.path) else ():
        weight: Weight = "blocks" if oddity.certain else "attention"
        yield finding("harness", weight, oddity.said, program.path, oddity.line, oddity.text)
