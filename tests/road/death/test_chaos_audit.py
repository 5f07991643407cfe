"""The audit of `benchmarks/fleet/chaos.py` sees each broken promise, and says nothing of a target that keeps them."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import Repository, make_repository

sys.path.append(str(Path(__file__).parents[3] / "benchmarks" / "fleet"))

from chaos_audit import audit
from chaos_faults import draw_faults, draw_point
from chaos_tasks import CHECKS, Deed
from chaos_world import Branch, World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Three tasks have landed, a fourth must not, and a person has pushed in between."""
    hub = make_repository(tmp_path / "hub", {"README.md": "read me\n"})
    base = hub.git("rev-parse", "main")
    deeds = {name: Deed(name=name, paths=(f"out/{name}.txt",), content=f"{name}\n") for name in ("a", "b")}
    deeds["shared"] = Deed(name="shared", paths=("out/shared.txt",))
    deeds["bad"] = Deed(name="bad", paths=("out/bad.txt",), fate="never")
    branch = Branch(name="main", base=base, checks=CHECKS, deeds=deeds)
    made = World(kind="alone", ground=tmp_path, dice=random.Random(1), hub=hub, branches=[branch])
    for name in ("a", "b", "shared"):
        _land(hub, name, f"out/{name}.txt", f"{name}\n")
    branch.pushed.append(_land(hub, None, "people/1.txt", "mine\n"))
    yield made


def _land(hub: Repository, task: str | None, path: str, text: str) -> str:
    (hub.path / path).parent.mkdir(exist_ok=True)
    (hub.path / path).write_text(text)
    hub.git("add", "-A")
    hub.git("commit", "-q", "-m", f"{path}\n\nForgepool-Task: {task}" if task else path)
    return hub.git("rev-parse", "HEAD")


def test_a_target_that_keeps_every_promise_is_passed(world: World) -> None:
    assert audit(world) == []


@pytest.mark.parametrize(
    ("task", "path", "text", "said"),
    [
        pytest.param("a", "out/a.txt", "a\na\n", "a landed 2 times on main", id="twice"),
        pytest.param("bad", "out/bad.txt", "bad\n", "bad landed and must not", id="what must not"),
        pytest.param("b", "out/b.txt", "BAD\n", "on main is red", id="red"),
        pytest.param("shared", "out/shared.txt", "x\nx\n", "on main is red", id="red by a duplicate"),
        pytest.param("b", "out/else.txt", "b\n", "of b changes ['out/else.txt']", id="another's file"),
        pytest.param("b", "out/b.txt", "invented\n", "with a content that its command did not make", id="invented"),
        pytest.param("nobody", "out/b.txt", "b\nb\n", "says it is of nobody, which is no task", id="no task"),
        pytest.param(None, "out/b.txt", "b\nb\n", "is of no task and of no person", id="no trailer"),
    ],
)
def test_one_more_commit_that_breaks_a_promise_is_seen(
    world: World, task: str | None, path: str, text: str, said: str
) -> None:
    _land(world.hub, task, path, text)
    assert any(said in sentence for sentence in audit(world))


def test_what_is_rewound_is_missed(world: World) -> None:
    world.hub.git("reset", "-q", "--hard", "HEAD~2")
    told = audit(world)
    assert "shared has not landed on main" in told
    assert any(sentence.startswith("a person's push") for sentence in told)


def test_what_is_left_in_the_hub_is_told(world: World) -> None:
    (world.hub.path / ".git" / "refs" / "heads" / "main.lock").touch()
    assert audit(world) == ["left in the hub: .git/refs/heads/main.lock"]


def test_a_seed_draws_the_same_faults_every_time() -> None:
    drawn = [(draw_faults("fleet", dice := random.Random(seed)), draw_point(dice)) for seed in (7, 7, 8)]
    assert drawn[0] == drawn[1] != drawn[2]
