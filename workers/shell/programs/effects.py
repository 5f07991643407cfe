"""What is known of programs and builtins by their names."""

import posixpath

from forgepool.workers.shell.language.refusal import refuse
from forgepool.workers.shell.language.script import Effect, ReadsFile, ShellWord
from forgepool.workers.shell.language.syntax import RESERVED, name_set
from forgepool.workers.shell.programs.builtins import BUILTINS, DECLARING
from forgepool.workers.shell.programs.shells import DIALECTS, unwrap_shell
from forgepool.workers.shell.programs.wrappers import BY_SUBCOMMAND, OWN_OPERANDS, UNSEEN, WRAPPERS, unwrap_runner

_OF_THE_SYSTEM = frozenset(["/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"])
_OF_THE_SHELL = (RESERVED - {"time"}) | {".", "eval", "exec", "source", "trap"}
_LOADERS = ("ld-linux", "ld-musl", "ld.so", "ld64.so")
_RELIED_ON = name_set(
    """
    break cat continue date echo exit grep nproc return seq shift true false wc
    """
)
"""Others whose work is taken for granted when a script is read."""
_WRITE_NOTHING = name_set(
    """
    : . [ [[ break cat cd command continue cut declare dirname basename du echo env exit export false file grep
    head hash local ls nproc nohup printenv printf pwd read readonly return realpath rg seq set shift
    sleep source stat tail test time timeout tr trap true type typeset uname uniq unset wait wc which whoami
    """
)


def effects_of(argv: tuple[ShellWord, ...], *, external: bool) -> tuple[Effect, ...]:
    """
    What a command does besides being run.

    Raises:
        Refusal: it runs something that is not known.
    """
    name = argv[0].text
    if posixpath.basename(name).startswith(_LOADERS):
        refuse("the dynamic loader runs another program", "run that program itself")
    if "/" in name:
        folder, _, base = name.rpartition("/")
        if posixpath.normpath(folder or "/") not in _OF_THE_SYSTEM:
            return (ReadsFile(path=argv[0]),)
        name, external = base, True
    if external and name in _OF_THE_SHELL:
        refuse(
            f"{name!r} is given to a program to run, and is a word of the shell", f"write {name} where a command begins"
        )
    if not external and name in BUILTINS:
        return BUILTINS[name](argv)
    if name in WRAPPERS:
        return WRAPPERS[name](argv)
    if name in DIALECTS:
        return unwrap_shell(argv, DIALECTS[name])
    return unwrap_runner(argv)


def check_definable(name: str) -> None:
    """
    Whether a function of that name leaves the meaning of what is read here as it is.

    Raises:
        Refusal: it does not.
    """
    known = (BUILTINS, WRAPPERS, DIALECTS, DECLARING, OWN_OPERANDS, BY_SUBCOMMAND, UNSEEN, _RELIED_ON, _WRITE_NOTHING)
    if any(name in names for names in known):
        refuse(f"a function is given the name {name!r}, which has a meaning already", "give the function another name")


def may_write(name: str) -> bool:
    """Whether it could change a file that is run later."""
    return name not in _WRITE_NOTHING
