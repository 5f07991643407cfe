"""The words of `[[ ... ]]` whose values bash evaluates."""

from forgepool.workers.shell.parse.words import is_number, is_plain_name
from forgepool.workers.shell.scan.refusal import refuse
from forgepool.workers.shell.scan.tokens import Hole, Token, WordPiece

_ARITHMETIC = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])


def check_operands(operands: tuple[Token, ...]) -> tuple[str, ...]:
    """
    The variables whose values are evaluated as arithmetic.

    Raises:
        Refusal: something else than a number or a variable is.
    """
    evaluated: list[str] = []
    for index, token in enumerate(operands):
        if token.raw in _ARITHMETIC:
            for other in (*operands[index - 1 : index], *operands[index + 1 : index + 2]):
                evaluated.extend(_evaluated(other))
        elif token.raw in ("-v", "-R") and not all(is_plain_name(each.raw) for each in operands[index + 1 : index + 2]):
            refuse(f"[[ {token.raw} ]] evaluates what it is given", 'write [[ -n "$name" ]]')
    return tuple(evaluated)


def _evaluated(token: Token) -> tuple[str, ...]:
    if is_number(token.parts):
        return ()
    holes = [part for part in token.parts if not (isinstance(part, WordPiece) and not part.text)]
    match holes:
        case [Hole(kind="variable", name=name, inner=inner, every=False)] if is_plain_name(name) and all(
            is_number(default) for default in inner
        ):
            return (name,)
        case [WordPiece(text=text)] if is_plain_name(text):
            return (text,)
    return refuse(
        f"[[ ]] evaluates {token.raw!r} as arithmetic, and what comes of that is not known",
        'compare by [ "$x" -gt 0 ]',
    )
