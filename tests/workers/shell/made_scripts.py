"""Random scripts over a small vocabulary: well-formed ones, ones with a few changed tokens, and random tokens."""

import random

_WORDS = (
    "m1",
    "m2",
    "rm",
    "git",
    "push",
    "x",
    "-rf",
    "f1",
    "a",
    "'m1'",
    '"rm"',
    "g'i't",
    'p"us"h',
    "\\rm",
    "r\\m",
    "m1x",
    "$v",
    '"$v"',
    "${v}",
    '"${v:-x}"',
    "$'rm'",
    "$'\\x72m'",
    "*",
    "f*",
    "{a,b}",
    "~",
    "'a b'",
    '"a b"',
    "a\\ b",
    "=",
    "--x=y",
    "A=1",
    "1",
    "2",
    "#x",
    "a#b",
    "-",
    "--",
    "{}",
    "[@]",
    "[",
    "]",
    "}",
    "{",
    "!",
    "''",
    '""',
    "é",
    "$(m1 a)",
    '"$(rm x)"',
    "$(m2 | x)",
    "<(m1)",
    "`m1`",
    "$((1+2))",
    "$((i+1))",
    "\\",
    "\\\n",
    "$",
    "$#",
    "$@",
    '"$@"',
    "'a\nb'",
    '"a\nb"',
    "$(echo a; rm b)",
    "${v:-$(rm q)}",
    "a=~",
    ":",
    "echo",
    "cd",
    "in",
    "x{",
    "}#",
    "@(a)",
    "a[1]=2",
    '"a\\\nb"',
    '"$\\\nv"',
    '"$\\\n(rm c)"',
    "$!",
    "${v:-<(m1)}",
    '"${v/<(m1)/}"',
    "v=<(m1)",
    "a<(m1)",
    '"${v:-$(m1 x)}"',
    "${v:+'a b'}",
    "${#v}",
    "${v[0]}",
    "[a-c]*",
    "a\\'b",
    "x=$(m2)y",
    "v=(a b)",
    "v=(a)b",
    "v+=(m1)",
    "v=()",
    "${v:1:2}",
    '"${v%x}"',
    "${v/a/$(m1)}",
    "a$v'b'",
    "$'a\\'b'",
    "~/x",
    "v=~/x",
    "'\\'",
    '"\\\\"',
    "2",
    "é'ü'",
)
_PROGRAMS = ("m1", "m2", "rm", "git", "x", "a", "b", "push", "'rm'", '"git"', "\\rm", "r'm'", "$'rm'")
_OPERATORS = (";", "&&", "||", "|", "\n", ";\n", "|&", "&", "&\n", "&&\n", "\n\n")
_WRAPPERS = (
    "env",
    "env A=1",
    "env -i",
    "env -u v",
    "command",
    "nohup",
    "nice -n 1",
    "timeout 5",
    "timeout -k 1 5",
    "setsid",
    "stdbuf -o0",
    "time",
    "time -p",
    "exec",
    "builtin",
    "command --",
    "xargs",
    "xargs -n1",
    "xargs -I{}",
    "ionice -c2",
    "time -p env",
    "exec -c",
    "find . -maxdepth 0 -exec",
    "v=1 w=$(m1)",
    "bash -c",
    "echo a | xargs",
    "env --",
    "! ",
    "! !",
    "A=1",
    "A=1 B='x y'",
    "eval",
    "env -S 'm1 a'",
    "exec -a q",
)
_REDIRECTS = (
    ">f2",
    "2>f2",
    "2>&1",
    "</dev/null",
    "&>f2",
    ">>f2",
    "> f2",
    "<f1",
    ">|f2",
    "1>f2",
    "<<<x",
    '<<< "$v"',
    ">&2",
    "2>&-",
    ">&f2",
    ">&'f2'",
    "2>&1",
    "0<f1",
    "<<<'m1 a'",
    "3<&0",
)
TOKENS = (
    *_WORDS,
    *_OPERATORS,
    *_REDIRECTS,
    *_WRAPPERS,
    "(",
    ")",
    "{",
    "}",
    "if",
    "then",
    "else",
    "elif",
    "fi",
    "for",
    "i",
    "in",
    "do",
    "done",
    "while",
    "until",
    "case",
    "esac",
    ";;",
    ";&",
    "f()",
    "function",
    "[[",
    "]]",
    "((",
    "))",
    "<<E",
    "<<'E'",
    "<<-E",
    "E\n",
    "\nE\n",
    "\nE \n",
    "\n\tE\n",
    "#",
    "# x\n",
    "$(",
    ")",
    "`",
    "'",
    '"',
    "\\\n",
    " \\\n",
    "\t",
    "coproc",
    "select",
    "time",
    "!",
    "<(",
    ">(",
    "${",
    "}",
    "$'",
    "=~",
    "==",
    "-v",
    "-eq",
    "a[",
    "=(",
    "+=",
    "\r",
    "\f",
    "bash -c",
    "sh -c",
    "eval",
    "trap",
    "find . -exec",
    "\\;",
    "+",
    "echo",
    "| sh",
    "| bash",
    "<<<",
)


class Maker:
    """Makes scripts from one random source, so that the same seed makes the same scripts."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def script(self) -> str:
        """Return one script of a random kind."""
        kind = self._chance.random()
        if kind < 0.2:
            return self._soup()
        text = self._list(3)
        return self._mutated(text) if kind < 0.6 else text

    def _pick(self, *choices: str) -> str:
        return self._chance.choice(choices)

    def _soup(self) -> str:
        count = self._chance.randint(1, 9)
        return "".join(self._pick(*TOKENS) + self._pick(" ", " ", " ", "") for _ in range(count))

    def _mutated(self, text: str) -> str:
        for _ in range(self._chance.randint(1, 2)):
            at = self._chance.randint(0, len(text))
            drop = self._chance.choice((0, 0, 1, 2))
            text = text[:at] + self._pick(*TOKENS, "", " ") + text[at + drop :]
        return text

    def _list(self, depth: int) -> str:
        parts = [self._command(depth)]
        for _ in range(self._chance.choice((0, 0, 1, 1, 2))):
            operator = self._pick(*_OPERATORS)
            gap = self._pick(" ", " ", "", " \\\n")
            parts.append(gap + operator + self._pick(" ", " ", "") + self._command(depth))
        return "".join(parts)

    def _command(self, depth: int) -> str:
        if depth <= 0 or self._chance.random() < 0.55:
            return self._simple()
        return self._chance.choice(
            (self._group, self._branch, self._loop, self._case, self._function, self._text, self._heredoc, self._test)
        )(depth - 1)

    def _simple(self) -> str:
        words = [self._pick(*_PROGRAMS)]
        words += [self._pick(*_WORDS) for _ in range(self._chance.choice((0, 1, 1, 2, 3)))]
        for _ in range(self._chance.choice((0, 0, 0, 1, 2))):
            words.insert(self._chance.randint(0, len(words)), self._pick(*_REDIRECTS))
        if self._chance.random() < 0.35:
            words.insert(0, self._pick(*_WRAPPERS))
        return self._pick(" ", " ", " ", "  ", "\t", " \\\n ").join(words)

    def _group(self, depth: int) -> str:
        inner = self._list(depth)
        return self._pick(
            f"( {inner} )",
            f"({inner})",
            f"{{ {inner}; }}",
            f"{{ {inner}\n}}",
            f"m1 $( {inner} )",
            f'm2 "$({inner})"',
            f"! {{ {inner}; }}",
            f"({inner}) >f2",
            f"{{ {inner}; }} 2>&1 | m1",
            f"m1 <( {inner} )",
            f"time {{ {inner}; }}",
            f"v=$({inner})",
            f"m2 ${{v:-$({inner})}}",
            f'v="a$({inner})b" m1',
            f"arr=(a $({inner}) b)",
            f"( {inner}\n)",
            f"export v=$({inner})",
            f'[ -n "$({inner})" ]',
            f"cat < <({inner})",
            f"m1 >f$({inner})",
        )

    def _branch(self, depth: int) -> str:
        one, two = self._list(depth), self._list(depth)
        return self._pick(
            f"if {one}; then {two}; fi",
            f"if {one}\nthen {two}\nelse m1\nfi",
            f"if m1; then {one}; elif m2; then {two}; fi",
            f"if ! m1; then {one}; else {two}; fi > f2",
        )

    def _loop(self, depth: int) -> str:
        inner = self._list(depth)
        return self._pick(
            f"for i in a b; do {inner}; done",
            f"for i in $(m1) *\ndo {inner}\ndone",
            f"while m1 x; do {inner}; break; done",
            f"until m1; do {inner}; break; done",
            f"for ((i=0;i<2;i++)); do {inner}; done",
            f"for i in 1 2; do m1 $((i+1)); {inner}; done",
            f"m1 | while read -r v; do {inner}; done",
            f"while read v; do {inner}; done <f1",
            f"for v in x 'a b'; do m1 \"$v\"; {inner}; done",
        )

    def _case(self, depth: int) -> str:
        one, two = self._list(depth), self._list(depth)
        return self._pick(
            f"case x in a) {one};; x|y) {two};; esac",
            f"case $v in\n(x) {one} ;;\n*) {two} ;;\nesac",
            f"case x in *) {one}\nesac",
            f'case "$v" in "") {one};; esac',
            f"case a in a) {one};& b) {two};; esac",
        )

    def _function(self, depth: int) -> str:
        inner = self._list(depth)
        call = self._pick("f", "f x", "A=1 f", "f | m1", "command f")
        return self._pick(
            f"f() {{ {inner}; }}; {call}",
            f"f () {{\n{inner}\n}}\n{call}",
            f"function f {{ {inner}; }}\n{call}",
            f"f() ( {inner} )\n{call}",
            f"function f() {{ {inner}; }} >f2; {call}",
            f'f() {{ "$@"; {inner}; }}; f rm x',
            f'f() {{ m1 "$@"; }}; f {inner}',
        )

    def _text(self, depth: int) -> str:
        inner = self._list(depth)
        single = "'" + inner.replace("'", "'\\''") + "'"
        double = '"' + inner.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`") + '"'
        quoted = self._pick(single, double, double)
        return self._pick(
            f"bash -c {quoted}",
            f"sh -c {quoted}",
            f"eval {quoted}",
            f"bash -euc {quoted} a b",
            f"bash <<< {quoted}",
            f"echo {quoted} | bash",
            f"echo {quoted} | sh",
            f"printf '%s\\n' {quoted} | bash -s",
            f"trap {quoted} EXIT",
            f"env bash -c {quoted}",
            f"timeout 5 sh -c {quoted}",
            f"find . -name f1 -exec sh -c {quoted} \\;",
            f'bash -c "{inner}"',
            f"eval {inner}",
            f"find . -maxdepth 0 -exec {inner} \\;",
            f"xargs bash -c {quoted}",
            f"printf {quoted} | bash",
            f"echo a | xargs -I{{}} sh -c {quoted}",
            f"exec bash -c {quoted}",
        )

    def _heredoc(self, depth: int) -> str:
        inner = self._list(depth)
        return self._pick(
            f"m1 <<E\n{inner}\nE\n",
            f"m1 <<'E'\n{inner}\nE\n",
            f"bash <<E\n{inner}\nE\n",
            f"bash <<'E'\n{inner}\nE\n",
            f"cat <<'E' | sh\n{inner}\nE\n",
            f"m1 <<-E\n\t{inner}\n\tE\n",
            f"m1 <<E && m2\na $({inner}) b\nE\n",
            f'm1 "$(cat <<E\n{inner}\nE\n)"',
            f"m1 <<E >f2 | m2\n{inner}\nE\n",
            f'm1 - <<"E" x\n{inner}\nE\n',
            f"m1 <<A <<B\n{inner}\nA\nrm\nB\n",
            f"m1 <<E\n{inner}\nE \nE\n",
            "m1 <<E\n`rm x`\nE\n",
            "m1 <<E\n\\$(rm)\nE\n",
            f"(m1 <<E\n{inner}\nE\n)",
            f"cat <<E | bash\n{inner}\nE\nm2",
        )

    def _test(self, depth: int) -> str:
        inner = self._list(depth)
        return self._pick(
            f"[[ -n $v ]] && {inner}",
            f"[ x = x ] && {inner}",
            f"[[ $v == a* || -f f1 ]]; {inner}",
            f"(( 1 + 1 )) && {inner}",
            f"[[ a =~ ^(a|b)$ ]] && {inner}",
            f"[[ -n $({inner}) ]]",
            f'test -n "$v" || {inner}',
            f"[[ 1 -eq 1 ]] && {inner}",
            f"i=1; (( i++ )); {inner}",
            f"v='a[$(rm)]'; [[ v -eq 1 ]]; {inner}",
            f"i='a[$(rm q)]'; m1 $((i+1)); {inner}",
        )
