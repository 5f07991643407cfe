"""
Code that knows that it is being checked, ends what checks it, or stands in for it.

Read by grammar: where a program is ended, in Python, JavaScript, TypeScript and Go; what is imported and assigned, in
Python. By line, comments left out: the environment, parents that are killed and results that are written, in these and
in Rust, Java, Ruby, PHP and shell. By name, in any language: files that take the place of a tool or a library.
What is put together from pieces at run time is not found.
"""

from collections.abc import Iterator

from forgepool.supervisor.findings import ScanFinding, Weight
from forgepool.supervisor.scans.evasion.obfuscation import find_veiled
from forgepool.supervisor.scans.evasion.patches import find_patched
from forgepool.supervisor.scans.evasion.process_exit import find_program_ends
from forgepool.supervisor.scans.evasion.program import ChangedProgram, Oddity, programs
from forgepool.supervisor.scans.evasion.shadowing import impostor
from forgepool.supervisor.scans.evasion.test_detection import find_test_questions
from forgepool.supervisor.scans.grants import is_granted
from forgepool.supervisor.scans.subject import Subject, finding


def scan_harness(subject: Subject) -> Iterator[ScanFinding]:
    """Findings `harness`."""
    for file in subject.files:
        why = impostor(subject, file)
        if why is not None and not is_granted(subject, file.path):
            yield finding("harness", "blocks", f"{why}; use another name", file.path)
    told: set[tuple[str, int]] = set()
    for program in programs(subject):
        if is_granted(subject, program.path):
            continue
        for oddity in _oddities(program):
            if (program.path, oddity.line) not in told:
                told.add((program.path, oddity.line))
                yield finding("harness", _weight(oddity), oddity.said, program.path, oddity.line, oddity.text)


def _oddities(program: ChangedProgram) -> Iterator[Oddity]:
    found = (*find_program_ends(program), *find_test_questions(program), *find_patched(program), *find_veiled(program))
    yield from sorted(found, key=lambda one: (not one.certain, one.line))


def _weight(oddity: Oddity) -> Weight:
    return "blocks" if oddity.certain else "attention"
