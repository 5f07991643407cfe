"""
Tokens to a tree, by bash's grammar (its POSIX part, `[[`, `((` and `function`).

Why not the grammar's own tree? Tree-sitter's has the right words in the wrong places, without an error node: it takes
`cd x && make 2>&1 | tail` for `(cd x && make) | tail`, and `cat <<E | sh && ls` for `cat | (sh && ls)`.
"""

from dataclasses import replace
from typing import NoReturn

from forgepool.workers.shell.language.refusal import check_depth, refuse
from forgepool.workers.shell.language.syntax import (
    REDIRECTING,
    RESERVED,
    AndOrList,
    Bare,
    Compound,
    Function,
    Pipeline,
    Redirection,
    Region,
    Sequence,
    Simple,
    Statement,
    Token,
    WordPiece,
)
from forgepool.workers.shell.language.words import find_assigned_name, is_plain_name

_ALONE = frozenset([">&-", "<&-"])
_AFTER_CASE_ITEM = frozenset([";;", ";&", ";;&"])


class Parser:
    """Reads one region's tokens from first to last."""

    def __init__(self, region: Region) -> None:
        self._tokens = region.tokens
        self._at = 0
        self._depth = 0
        self.beginnings: set[int] = set()
        """Where commands begin, as the grammar counts them."""

    def parse(self) -> Sequence:
        """
        The whole region.

        Raises:
            Refusal: bash would not accept it, or not as what is read here.
        """
        sequence = self._sequence()
        if self._peek() is not None:
            self._refuse_here()
        return sequence

    # -- lists

    def _sequence(self, *stops: str) -> Sequence:
        parts: list[Statement] = []
        background: list[bool] = []
        self._skip_newlines()
        while self._peek() is not None and not self._stands(*stops):
            parts.append(self._chain())
            ending = self._operator(";", "&")
            background.append(ending == "&")
            if not ending and not self._newline_or_stop(stops):
                self._refuse_here()
            self._skip_newlines()
        return Sequence(parts=tuple(parts), background=tuple(background))

    def _newline_or_stop(self, stops: tuple[str, ...]) -> bool:
        token = self._peek()
        if token is None or token.kind == "newline":
            return True
        return token.kind == "operator" and token.raw in stops

    def _chain(self) -> Statement:
        parts = [self._pipeline()]
        operators: list[str] = []
        while operator := self._operator("&&", "||"):
            self._skip_newlines()
            operators.append(operator)
            parts.append(self._pipeline())
        return parts[0] if len(parts) == 1 else AndOrList(parts=tuple(parts), operators=tuple(operators))

    def _pipeline(self) -> Statement:
        while self._keyword("!"):
            pass
        parts = [self._command()]
        while self._operator("|", "|&"):
            self._skip_newlines()
            parts.append(self._command())
        return parts[0] if len(parts) == 1 else Pipeline(parts=tuple(parts))

    # -- commands

    def _command(self) -> Statement:
        self._depth += 1
        check_depth(self._depth)
        statement = self._any_command()
        self._depth -= 1
        return statement

    def _any_command(self) -> Statement:
        token = self._peek()
        if token is None:
            refuse("it ends where a command should follow", "write the command out")
        if token.kind in ("test", "sum"):
            if token.kind == "test":
                self.beginnings.add(token.start)
            return self._redirected("{", Sequence(parts=(Bare(token=self._next()),), background=(False,)))
        if self._operator("("):
            body = self._sequence(")")
            self._expect(")")
            return self._redirected("(", body)
        if token.kind == "word" and token.raw in RESERVED:
            return self._reserved(token)
        return self._simple_or_function()

    def _reserved(self, token: Token) -> Statement:
        match token.raw:
            case "{":
                self._next()
                body = self._sequence("}")
                self._expect("}")
                return self._redirected("{", body)
            case "if":
                return self._if()
            case "while" | "until":
                self._next()
                return self._redirected("while", self._sequence("do"), self._do_group())
            case "for":
                return self._for()
            case "case":
                return self._case()
            case "function":
                return self._function_by_word()
            case "time":
                return self._timed()
        return refuse(
            f"the reserved word {token.raw!r} stands where a command should",
            "write plain commands, and each construct in full",
        )

    def _redirected(self, kind: str, *parts: Sequence, words: tuple[Token, ...] = (), variable: str = "") -> Compound:
        redirections = []
        while (redirection := self._redirection()) is not None:
            redirections.append(redirection)
        return Compound(kind=kind, parts=parts, words=words, variable=variable, redirections=tuple(redirections))  # type: ignore[arg-type]

    def _do_group(self) -> Sequence:
        self._expect("do")
        body = self._sequence("done")
        self._expect("done")
        return body

    def _if(self) -> Compound:
        parts = []
        while self._keyword("if", "elif"):
            parts.append(self._sequence("then"))
            self._expect("then")
            parts.append(self._sequence("elif", "else", "fi"))
        if self._keyword("else"):
            parts.append(self._sequence("fi"))
        self._expect("fi")
        return self._redirected("if", *parts)

    def _for(self) -> Compound:
        self._next()
        token = self._next()
        if token.kind == "sum":
            self._operator(";")
            self._skip_newlines()
            return self._redirected("for", self._do_group())
        if token.kind != "word" or not is_plain_name(token.raw):
            refuse("a loop's variable is not a plain name", "write for name in one two; do ...; done")
        words: list[Token] = []
        self._skip_newlines()
        if self._keyword("in"):
            while (word := self._peek()) is not None and word.kind == "word":
                words.append(self._next())
            if not self._operator(";") and not self._at_newline():
                self._refuse_here()
        else:
            self._operator(";")
        self._skip_newlines()
        return self._redirected("for", self._do_group(), words=tuple(words), variable=token.raw)

    def _case(self) -> Compound:
        self._next()
        words = [self._word()]
        parts: list[Sequence] = []
        self._skip_newlines()
        self._expect("in")
        self._skip_newlines()
        while not self._keyword("esac"):
            self._operator("(")
            words.append(self._word())
            while self._operator("|"):
                words.append(self._word())
            self._expect(")")
            parts.append(self._sequence(*_AFTER_CASE_ITEM, "esac"))
            if not self._operator(*_AFTER_CASE_ITEM) and not self._stands("esac"):
                self._refuse_here()
            self._skip_newlines()
        return self._redirected("case", *parts, words=tuple(words))

    def _function_by_word(self) -> Function:
        self._next()
        name = self._word()
        if self._operator("("):
            self._expect(")")
        return self._function(name)

    def _function(self, name: Token) -> Function:
        self._skip_newlines()
        if not is_plain_name(name.raw.replace("-", "_")):
            refuse(f"the function's name {name.raw!r} is not a plain one", "name functions by letters, digits and _")
        body = self._command()
        if not isinstance(body, Compound):
            refuse("a function's body is not in braces", "write name() { ...; }")
        return Function(name=name.raw, body=body)

    def _timed(self) -> Statement:
        timed = [self._next()]
        self.beginnings.add(timed[0].start)
        if (token := self._peek()) is not None and token.raw == "-p":
            timed.append(self._next())
        token = self._peek()
        if token is None or token.kind != "word" or token.raw in RESERVED or token.raw.startswith("-"):
            refuse("`time` stands before something other than a plain command", "time one plain command")
        command = self._simple_or_function()
        if not isinstance(command, Simple):
            refuse("`time` stands before a function's definition", "time one plain command")
        if command.words:
            self.beginnings.remove(command.words[0].start)
        return replace(command, timed=tuple(timed))

    # -- simple commands

    def _simple_or_function(self) -> Statement:
        assignments: list[Token] = []
        words: list[Token] = []
        redirections: list[Redirection] = []
        while (token := self._peek()) is not None:
            if (redirection := self._redirection()) is not None:
                redirections.append(redirection)
            elif token.kind == "word" and not words and find_assigned_name(token) is not None:
                assignments.append(self._next())
            elif token.kind == "word":
                words.append(self._next())
            elif token.kind == "operator" and token.raw == "(":
                return self._defined(words, assignments or redirections)
            else:
                break
        if not (words or assignments or redirections):
            self._refuse_here()
        self._check(words)
        if words:
            self.beginnings.add(words[0].start)
        return Simple(assignments=tuple(assignments), words=tuple(words), redirections=tuple(redirections))

    def _defined(self, words: list[Token], others: object) -> Function:
        if len(words) != 1 or others:
            self._refuse_here()
        self._next()
        self._expect(")")
        return self._function(words[0])

    def _check(self, words: list[Token]) -> None:
        if words and words[0].raw in RESERVED:
            refuse(
                f"the reserved word {words[0].raw!r} stands where a program should",
                "write plain commands, and each construct in full",
            )
        first = words[0].parts[:1] if words else ()
        if first and isinstance(first[0], WordPiece) and not first[0].quoted and "=" in words[0].raw:
            refuse(
                f"the command {words[0].raw!r} looks like an assignment",
                "write NAME=value, the name of letters, digits and _",
            )

    def _redirection(self) -> Redirection | None:
        token = self._peek()
        descriptor = ""
        if token is not None and token.kind == "number":
            descriptor, token = token.raw, self._peek(1)
        if token is None or token.kind != "operator" or token.raw not in REDIRECTING:
            return None
        if descriptor:
            self._next()
        operator = self._next()
        alone = operator.body is not None or operator.raw in _ALONE
        target = None if alone else self._word()
        return Redirection(descriptor=descriptor, operator=operator, target=target)

    # -- tokens

    def _peek(self, further: int = 0) -> Token | None:
        where = self._at + further
        return self._tokens[where] if where < len(self._tokens) else None

    def _next(self) -> Token:
        token = self._peek()
        if token is None:
            refuse("it ends in the middle of a construct", "write each construct in full")
        self._at += 1
        return token

    def _word(self) -> Token:
        token = self._peek()
        if token is None or token.kind != "word":
            self._refuse_here()
        return self._next()

    def _stands(self, *raws: str) -> bool:
        token = self._peek()
        return token is not None and token.kind in ("operator", "word") and token.raw in raws

    def _operator(self, *raws: str) -> str:
        token = self._peek()
        if token is None or token.kind != "operator" or token.raw not in raws:
            return ""
        return self._next().raw

    def _keyword(self, *raws: str) -> bool:
        token = self._peek()
        if token is None or token.kind != "word" or token.raw not in raws:
            return False
        self._next()
        return True

    def _expect(self, raw: str) -> None:
        if not self._stands(raw):
            self._refuse_here()
        self._next()

    def _at_newline(self) -> bool:
        token = self._peek()
        return token is not None and token.kind == "newline"

    def _skip_newlines(self) -> None:
        while self._at_newline():
            self._at += 1

    def _refuse_here(self) -> NoReturn:
        token = self._peek()
        where = "at its end" if token is None else f"at {token.raw[:20]!r}"
        refuse(f"it is no shell script that can be read, {where}", "write plain commands, joined by && or ; or |")
