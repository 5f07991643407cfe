"""A person with their own repository who types `forgepool ...` in it."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import warm

ROOT = Path(__file__).parents[3]
_NOBODYS = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
_NAMES = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")


@dataclass(frozen=True)
class Said:
    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Person:
    """`folder` is the work tree of their repository. Forgepool keeps its own files beside it, in `folder.parent`."""

    folder: Path

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "FORGEPOOL_"))}
        kept |= {"XDG_CONFIG_HOME": str(self.folder.parent / "config")}
        kept |= {"FORGEPOOL_HOME": str(self.folder.parent / "home"), "FORGEPOOL_CACHE": str(self.folder.parent / "c")}
        return kept | _NOBODYS | dict.fromkeys(_NAMES, "person")

    def git(self, *argv: str) -> str:
        ran = subprocess.run(["git", *argv], cwd=self.folder, env=self.env, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"git {argv}: {ran.stderr}"
        return ran.stdout.strip()

    def write(self, files: Mapping[str, str | None]) -> None:
        for name, content in files.items():
            path = self.folder / name
            if content is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)

    def commit(self, files: Mapping[str, str | None], message: str = "change") -> str:
        self.write(files)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def forgepool(self, *argv: str, cwd: Path | None = None, **env: str) -> Said:
        ran = warm.forgepool(argv, cwd=cwd or self.folder, env=self.env | env)
        return Said(ran.returncode, ran.stdout, ran.stderr)

    def everything(self) -> dict[str, bytes]:
        """Return every file of the repository with git's own. A command that only reads must not change them."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()
        }


def person_in(folder: Path, files: Mapping[str, str | None]) -> Person:
    """Return a person with a repository that has these files on `main`."""
    work = folder / "work"
    work.mkdir()
    made = Person(work)
    made.git("init", "-q", "-b", "main")
    made.commit(files, "first")
    return made
