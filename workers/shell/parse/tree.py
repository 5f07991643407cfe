"""
The door to tree-sitter's grammar of bash, which must find the commands where the parser found them.

A second opinion, of another make: where the two disagree, or the grammar knows no answer, the script is refused. Why
it is not the first opinion: see `parser`, and the chapter.
"""

from collections.abc import Iterator
from functools import cache

from tree_sitter import Language, Node, Parser
from tree_sitter_bash import language

from forgepool.workers.shell.scan.limits import DEEPEST
from forgepool.workers.shell.scan.refusal import refuse

_KNOWN = """
    ansi_c_string arithmetic_expansion array binary_expression brace_expression c_style_for_statement case_item
    case_statement command command_name command_substitution comment compound_statement concatenation
    declaration_command do_group elif_clause else_clause expansion extglob_pattern file_descriptor file_redirect
    for_statement function_definition heredoc_body heredoc_content heredoc_end heredoc_redirect heredoc_start
    herestring_redirect if_statement list negated_command number parenthesized_expression pipeline
    postfix_expression process_substitution program raw_string redirected_statement regex simple_expansion
    special_variable_name string string_content subscript subshell ternary_expression test_command test_operator
    unary_expression unset_command variable_assignment variable_assignments variable_name while_statement word
"""
_KINDS = frozenset(_KNOWN.split())
"""Those known when this was written; another one is a construct nobody has thought about."""
_RUNS = frozenset(["declaration_command", "unset_command", "test_command"])
_DEEPEST = 8 * DEEPEST
_FLAT = frozenset(["list", "pipeline", "binary_expression", "concatenation"])
"""Nested by their length and not by their depth."""


def find_commands(source: bytes) -> frozenset[int]:
    """
    Where, in bytes, the words begin that the grammar takes for a command's name.

    Raises:
        Refusal: it does not understand the script.
    """
    # A parser of its own for each script: nothing of one is left for the next, nor shared between threads.
    tree = Parser(_language()).parse(source)
    root = tree.root_node
    if root.has_error:
        _refuse_disagreement()
    return frozenset(_beginnings(root))


def _beginnings(root: Node) -> Iterator[int]:
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
def _language() -> Language:
    return Language(language())


def _refuse_disagreement() -> None:
    refuse(
        "it can be read in more than one way",
        "write plain commands on lines of their own, long texts into files with the file tools",
    )
