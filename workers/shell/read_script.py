"""
Reads a bash script: `read_script` gives the facts of what it would run, or says that they cannot be known.

The parser makes a tree of the script, and tree-sitter's grammar must find its commands at the same places. `ScriptWalk`
goes through the tree, and `performer` follows what each command runs. The package's docstring has the reasons.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import tree_sitter
import tree_sitter_bash

from forgepool.workers.shell.language.parser import Parser
from forgepool.workers.shell.language.refusal import DEEPEST, Refusal, check_number, encode, refuse
from forgepool.workers.shell.language.scanner import Scanner
from forgepool.workers.shell.language.script import (
    Arithmetic,
    Definition,
    Execution,
    Inherited,
    Input,
    ReadFile,
    Redirect,
    ShellScript,
    ShellWord,
    Unparseable,
)
from forgepool.workers.shell.language.syntax import (
    AndOrList,
    Bare,
    Compound,
    Function,
    Parts,
    Pipeline,
    Redirection,
    Sequence,
    Simple,
    Statement,
    Token,
    name_set,
)
from forgepool.workers.shell.language.words import (
    check_operands,
    find_assigned_index,
    find_assigned_name,
    is_array,
    is_number,
    is_plain_name,
    names_in,
    read_assigned_value,
    read_word,
    regions_in,
)
from forgepool.workers.shell.performer import Performer
from forgepool.workers.shell.programs.builtins import DECLARING, split_declaration
from forgepool.workers.shell.programs.effects import check_definable
from forgepool.workers.shell.programs.shells import check_dialect
from forgepool.workers.shell.redirections import find_opened, find_piped_input, input_of
from forgepool.workers.shell.script_facts import ScriptReading, StatementPlace
from forgepool.workers.shell.written_files import Printed, find_printed

_KINDS = name_set(
    """
    ansi_c_string arithmetic_expansion array binary_expression brace_expression c_style_for_statement case_item
    case_statement command command_name command_substitution comment compound_statement concatenation
    declaration_command do_group elif_clause else_clause expansion extglob_pattern file_descriptor file_redirect
    for_statement function_definition heredoc_body heredoc_content heredoc_end heredoc_redirect heredoc_start
    herestring_redirect if_statement list negated_command number parenthesized_expression pipeline
    postfix_expression process_substitution program raw_string redirected_statement regex simple_expansion
    special_variable_name string string_content subscript subshell ternary_expression test_command test_operator
    unary_expression unset_command variable_assignment variable_assignments variable_name while_statement word
    """
)
"""Nodes of the grammar that this module was written for; any other one is refused."""
_RUNS = frozenset(["declaration_command", "unset_command", "test_command"])
_DEEPEST = 8 * DEEPEST
_FLAT = frozenset(["list", "pipeline", "binary_expression", "concatenation"])
"""Nodes that nest by their length, not their depth."""
_UNKNOWN = ShellWord(text="", static=False)
_UNKNOWN_OUTPUT = Printed()
_CD = frozenset(["cd"])
_LEAVING = frozenset(["exit", "return", "break", "continue"])


class ScriptWalk(Performer):
    """Reads texts into the facts of one `ScriptReading`."""

    def __init__(self, reading: ScriptReading) -> None:
        super().__init__(reading)
        self._parsed: dict[int, Sequence] = {}
        self._scanners: list[Scanner] = []
        """Kept, so that no two regions ever have the same id."""

    def read(self, text: str, place: StatementPlace) -> None:
        source = encode(text)
        self.reading.count_bytes(len(source))
        check_dialect(text, place.dialect)
        sequence = self._parse(source, place)
        self._sequence(sequence, place)

    def _parse(self, source: bytes, place: StatementPlace) -> Sequence:
        scanner = Scanner(source)
        self._scanners.append(scanner)
        top = scanner.read()
        if scanner.bash_only and place.dialect != "bash":
            refuse(f"sh is given {scanner.bash_only}, which only bash reads so", "run it by bash")
        beginnings: set[int] = set()
        sequence = Sequence(parts=(), background=())
        for region in (*scanner.regions, top):
            parser = Parser(region)
            sequence = self._parsed[id(region)] = parser.parse()
            beginnings |= parser.beginnings
            check_number(len(beginnings))
        check_agreement(frozenset(beginnings), find_grammar_commands(source))
        self._note(scanner)
        return sequence

    def _note(self, scanner: Scanner) -> None:
        self.reading.evaluated.update(scanner.evaluated)
        self.reading.facts.extend(Arithmetic(text=text) for text in scanner.sums if not text.isdecimal())
        for name in scanner.defaulted:
            self.reading.assign(name, _UNKNOWN, numeric=False)

    # -- statements

    def _statement(self, statement: Statement, place: StatementPlace, given: Input) -> None:
        match statement:
            case Simple():
                self._simple(statement, place, given)
            case Bare(token=token):
                self._bare(token, place)
            case Pipeline(parts=parts):
                self._pipeline(parts, place, given)
            case AndOrList():
                self._chain(statement, place, given)
            case Sequence():
                self._sequence(statement, place)
            case Compound():
                self._compound(statement, place)
            case Function(name=name, body=body):
                self._function(name, body, place)

    def _sequence(self, sequence: Sequence, place: StatementPlace) -> None:
        for statement, background in zip(sequence.parts, sequence.background, strict=True):
            before = place.folder
            where = place.apart() if background else place
            where.own, where.surely = where.own and not background, where.surely and not background
            self._statement(statement, where, Inherited())
            if place.folder != before and not _surely_went(statement, place):
                place.perhaps = (before, place.folder) if before is not None and place.folder is not None else ()
                place.folder = None

    def _pipeline(self, parts: tuple[Statement, ...], place: StatementPlace, given: Input) -> None:
        for part in parts:
            inside = place.apart()
            inside.own, inside.surely = inside.own and len(parts) == 1, inside.surely and len(parts) == 1
            self._statement(part, inside, given)
            given = find_piped_input(part)

    def _chain(self, chain: AndOrList, place: StatementPlace, given: Input) -> None:
        """After `&&` the part before has worked; after `||` it has failed, so its `cd` went nowhere."""
        beginning = place.folder
        self._statement(chain.parts[0], place, given)
        for index, (operator, part) in enumerate(zip(chain.operators, chain.parts[1:], strict=True)):
            reached = place.folder
            surely, place.surely = place.surely, False
            if operator == "||" and reached != beginning:
                place.folder = beginning if index == 0 and _runs(chain.parts[0], _CD) else None
            self._statement(part, place, Inherited())
            place.surely = surely
            if operator == "||":
                place.folder = reached if _runs(part, _LEAVING) else (None if place.folder != reached else reached)

    def _compound(self, compound: Compound, place: StatementPlace) -> None:
        inside = place.apart() if compound.kind == "(" else place
        start, before = len(self.reading.facts), place.folder
        self._redirections(compound.redirections, place)
        self._words(compound.words, inside)
        if compound.variable:
            numeric = bool(compound.words) and all(is_number(word.parts) for word in compound.words)
            self.reading.assign(compound.variable, _UNKNOWN, numeric=numeric)
        own = inside.own
        inside.own = own and compound.kind in "{("
        for part in compound.parts:
            self._sequence(part, inside)
            if compound.kind not in "{(" and inside.folder != before:
                inside.folder = None
        inside.own = own
        if compound.kind in ("for", "while") and inside.folder != before:
            self.reading.unplace(start)

    def _function(self, name: str, body: Statement, place: StatementPlace) -> None:
        check_definable(name)
        self.reading.functions.add(name)
        self.reading.facts.append(Definition(name=name))
        start = len(self.reading.facts)
        inside = place.apart()
        inside.own = False
        self._statement(body, inside, Inherited())
        self.reading.defer(start)
        if inside.folder != place.folder:
            place.folder = None

    def _bare(self, token: Token, place: StatementPlace) -> None:
        if token.kind == "sum":
            return
        self._words(token.operands, place)
        self.reading.evaluated.update(check_operands(token.operands))
        self.reading.count_command()
        argv = [
            _literal("[["),
            *(_literal(each.raw) if each.kind == "operator" else read_word(each) for each in token.operands),
            _literal("]]"),
        ]
        self.reading.facts.append(Execution(argv=tuple(argv), cwd=place.folder, script=place.script))

    # -- simple commands

    def _simple(self, simple: Simple, place: StatementPlace, given: Input) -> None:
        self._words((*simple.assignments, *simple.words), place)
        self._redirections(simple.redirections, place, find_printed(simple))
        for token in simple.assignments:
            self._assignment(token)
        if not simple.words:
            return
        if simple.timed:
            self._timed(simple, place)
        if simple.words[0].raw in DECLARING:
            self._declaration(simple.words, place)
            return
        argv = tuple(read_word(word) for word in simple.words)
        self.execute(argv, place, input_of(simple.redirections, given))

    def _timed(self, simple: Simple, place: StatementPlace) -> None:
        words = (*simple.timed, *simple.assignments, *simple.words)
        argv = tuple(read_word(word) for word in words)
        self.reading.facts.append(Execution(argv=argv, cwd=place.folder, wrapper=True, script=place.script))

    def _declaration(self, words: tuple[Token, ...], place: StatementPlace) -> None:
        argv = tuple(read_word(word) for word in words)
        arrays, rest = split_declaration(argv)
        self.reading.count_command()
        self.reading.facts.append(Execution(argv=argv, cwd=place.folder, script=place.script))
        for token in words[len(words) - len(rest) :]:
            self._declared(token, place, array=arrays)

    def _declared(self, token: Token, place: StatementPlace, *, array: bool) -> None:
        name = find_assigned_name(token)
        if name is not None:
            _check_splitting(token, place)
            self._assignment(token)
            if not is_array(token):
                self.reading.note_declared(name, read_assigned_value(token)[0])
        elif is_plain_name(token.raw):
            name = token.raw
        else:
            refuse(f"a variable is declared as {token.raw!r}, which is no plain name", 'write NAME="value"')
        if array:
            self.reading.arrays.add(name)

    def _assignment(self, token: Token) -> None:
        name = find_assigned_name(token)
        assert name is not None
        index = find_assigned_index(token)
        if index is not None:
            self.reading.evaluated.update(names_in(index))
        if index is not None or is_array(token):
            self.reading.arrays.add(name)
        value, numeric = read_assigned_value(token)
        self.reading.assign(name, value, numeric=numeric)

    def _redirections(
        self, redirections: tuple[Redirection, ...], place: StatementPlace, printed: Printed = _UNKNOWN_OUTPUT
    ) -> None:
        for redirection in redirections:
            if redirection.target is not None:
                self._parts(redirection.target.parts, place)
            if redirection.operator.body is not None:
                self._parts(redirection.operator.body.parts, place)
            if (found := find_opened(redirection)) is not None:
                mode, path = found
                self.reading.facts.append(Redirect(mode=mode, path=path, cwd=place.folder))
                self.reading.changeable |= mode == "write" and path.text != "/dev/null"
                if mode == "write":
                    surely, appends = place.own and place.surely, ">>" in redirection.operator.raw
                    self.reading.written.note_redirect(place.folder, path, printed, surely=surely, appends=appends)

    def _words(self, tokens: tuple[Token, ...], place: StatementPlace) -> None:
        for token in tokens:
            self._parts(token.parts, place)

    def _parts(self, parts: Parts, place: StatementPlace) -> None:
        """Walk through the regions that run to fill the holes."""
        for region in regions_in(parts):
            self._sequence(self._parsed[id(region)], place.apart())


def _check_splitting(token: Token, place: StatementPlace) -> None:
    """Refuse `export A=$b` for a plain `sh`, which may make several words of it."""
    if place.dialect != "bash" and read_word(token).several:
        refuse(f"sh may make several words of {token.raw!r}", 'write export NAME="$value"')


def _literal(text: str) -> ShellWord:
    return ShellWord(text=text, static=True, written=text)


def _runs(statement: Statement, programs: frozenset[str]) -> bool:
    return isinstance(statement, Simple) and bool(statement.words) and statement.words[0].raw in programs


def _surely_went(statement: Statement, place: StatementPlace) -> bool:
    """Return whether the next statement runs in the new folder or not at all."""
    if isinstance(statement, AndOrList):
        parts = (statement.parts[0], statement.parts[-1])
        return (
            len(statement.parts) == 2
            and statement.operators == ("||",)
            and _runs(parts[0], _CD)
            and _runs(parts[1], _LEAVING)
        )
    return place.stops_on_error and _runs(statement, _CD)


def read_script(text: str, *, folder: Path, read_file: ReadFile | None = None) -> ShellScript | Unparseable:
    """
    Return the facts of a bash script that starts in `folder`.

    `read_file` gives the texts of script files by their absolute paths, `..` and symlinks not resolved. Files for
    which it gives None stay `opaque`. It ends soon for every text, and raises nothing.
    """
    reading = ScriptReading(read_file=read_file)
    try:
        ScriptWalk(reading).read(text, StatementPlace(folder=folder))
        return ShellScript(facts=reading.finish())
    except Refusal as refusal:
        return Unparseable(why=refusal.why, instead=refusal.instead)
    except Exception as surprise:  # a mistake of ours must not become a permission
        return Unparseable(
            why=f"reading it went wrong ({type(surprise).__name__})", instead="write it as shorter, plainer commands"
        )


# -- the grammar's opinion


def find_grammar_commands(source: bytes) -> frozenset[int]:
    """
    Return the bytes at which the words begin that the grammar takes for a command's name.

    Raises:
        Refusal: it does not understand the script.
    """
    # A parser of its own for each script: nothing of one is left for the next, nor shared between threads.
    tree = tree_sitter.Parser(_language()).parse(source)
    root = tree.root_node
    if root.has_error:
        _refuse_disagreement()
    return frozenset(_beginnings(root))


def _beginnings(root: tree_sitter.Node) -> Iterator[int]:
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        if node.is_missing or depth > _DEEPEST or (node.is_named and node.type not in _KINDS):
            _refuse_disagreement()
        if node.type == "command_name" or node.type in _RUNS:
            yield node.start_byte
        below = depth if node.type in _FLAT else depth + 1
        waiting.extend((child, below) for child in node.children)


def check_agreement(found: frozenset[int], grammar: frozenset[int]) -> None:
    if found != grammar:
        _refuse_disagreement()


@cache
def _language() -> tree_sitter.Language:
    return tree_sitter.Language(tree_sitter_bash.language())


def _refuse_disagreement() -> None:
    refuse(
        "it can be read in more than one way",
        "write plain commands on lines of their own, long texts into files with the file tools",
    )
