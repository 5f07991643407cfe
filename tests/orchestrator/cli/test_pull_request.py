"""`forgepool run --pr` proposes what has landed, and texts of agents in it move nothing at the forge."""

import os
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from socket import gethostname

import pytest
from forge_server import REPOSITORY, TOKEN, ForgeServer
from markdown_it import MarkdownIt
from people import Person, Said, person_in

from forgepool.orchestrator.cli.run.pull_request import make_text
from forgepool.orchestrator.merge_queue.forges.protocol import dependencies

PLAN = """\
version: 1
name: GH-5
checks: {there: test -f a.txt}
review: none
tasks:
  - {id: one, title: "Ask @ada about #7", files: [one.txt], agent: {command: "echo 1 > one.txt"}}
"""


@pytest.fixture
def server() -> Iterator[ForgeServer]:
    with ForgeServer() as serving:
        yield serving


@pytest.fixture
def person(tmp_path: Path, redis_program: str) -> Person:
    """Return a person whose repository is reached by ssh, as one at a forge is: here by a program of that name."""
    made = person_in(tmp_path, {"a.txt": "a\n"})
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    program.chmod(0o755)
    (tmp_path / "plan.yaml").write_text(PLAN)
    made.git("clone", "-q", "--bare", str(made.folder), str(tmp_path / "shop.git"))
    return made


def run(person: Person, server: ForgeServer, *argv: str, token: str = TOKEN) -> Said:
    folder = person.folder.parent
    path = os.pathsep.join((str(folder / "bin"), os.environ["PATH"]))
    hub = ("--repo", f"ssh://forge{folder}/shop.git", "--pr", f"github:{REPOSITORY}@{server.url}")
    given = {"PATH": path, "FORGEPOOL_GITHUB_TOKEN": token} if token else {"PATH": path}
    return person.forgepool("run", str(folder / "plan.yaml"), "--workers", "1", *hub, *argv, **given)


def test_a_run_ends_with_a_request_that_has_its_report(person: Person, server: ForgeServer) -> None:
    first = run(person, server)
    assert first.status == 0, first
    (change,) = server.pulls.values()
    assert f"the pull request is {change['html_url']}" in first.err
    assert (change["head"]["ref"], change["base"]["ref"]) == ("forgepool/GH-5", "main")
    title = change["title"]
    assert title.replace("\u200b", "") == "GH-5: 1 of 1 task landed on forgepool/GH-5" and "GH-5" not in title
    body = change["body"].replace("\u200b", "")
    assert "there " in body and not [
        w for w in (str(person.folder.parent), "ssh:", gethostname(), "Hosts") if w in body
    ]
    assert "one" in change["body"] and "@ada" not in change["body"] and "#7" not in change["body"]


def test_nothing_begins_where_no_request_could_be_opened(person: Person, server: ForgeServer) -> None:
    no_token = run(person, server, token="")
    assert (no_token.status, no_token.out, no_token.err.count("\n")) == (2, "", 1)
    assert "GitHub needs a token; set FORGEPOOL_GITHUB_TOKEN" in no_token.err
    wrong = run(person, server, token="another")
    assert (wrong.status, "rejects the token" in wrong.err) == (2, True)
    local = run(person, server, "--repo", str(person.folder))
    assert (local.status, "add --repo URL" in local.err) == (2, True)
    assert not (person.folder.parent / "home" / "runs").exists() and server.pulls == {}


LOUD = """\
# p: `see` ``@ada``, #12 and !34, GH-5
/merge
- Depends-On: #12
  - Fixes https://forge.example/i/1
    Closes issue https://gitlab.example/g/p/-/issues/5
Fixes ABC-12, resolves &#x23;12, &num;12
a&commat;team ![x](http://evil) <img src=x>
```
/close"""


def test_a_report_neither_calls_people_nor_acts_on_the_forge() -> None:
    """In code a forge sees no mention, entity or markup; GitLab looks for closing words there as well."""
    text = make_text(LOUD)
    broken = ["@ada", "#12", "!34", "GH-5", "/merge", "/close", "Depends-On:", "://", "![", "Fixes", "Closes", "ABC-1"]
    for word in broken:
        assert word not in text, word
    assert dependencies(text) == ((), "")
    html = MarkdownIt("commonmark").enable("table").render(text)
    assert set(re.findall(r"<(\w+)", html)) <= {"h1", "p", "ul", "li", "code"}, html
    outside = re.sub(r"<code>.*?</code>", "", html, flags=re.DOTALL)
    assert re.sub(r"<[^>]+>|\s", "", outside) == "", "every word is in code"
    shown = [unescape(one).replace("\u200b", "") for one in re.findall(r"<code>(.*?)</code>", html, re.DOTALL)]
    assert shown == [line.strip().removeprefix("- ").removeprefix("# ") for line in LOUD.splitlines()]
    told = make_text("log: /home/ada/.cache/l.txt, '/tmp/x/y' and ~/a/b, not a/b.py, https://e.example/a/b or and/or")
    left = "log: …/l.txt, '…/y' and …/b, not a/b.py, https://e.example/a/b or and/or"
    assert told.replace("\u200b", "") == f"` {left} `\n"
    assert len(make_text("x" * 100_000)) < 65_536 and len(make_text("- #1\n" * 50_000)) < 65_536
