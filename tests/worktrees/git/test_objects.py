"""A long-lived reader of objects answers as a new git process would, whatever happens to it or to its repository."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from repositories import Hub, git

from forgepool.workers.sandbox import tree
from forgepool.worktrees.git import objects
from forgepool.worktrees.git.git import Git, GitFailed
from forgepool.worktrees.git.objects import (
    close_readers,
    find_object,
    find_objects,
    read_blob,
    read_object,
    write_object,
)


@pytest.fixture
def repository(hub: Hub) -> Git:
    close_readers()
    return Git(git_dir=hub.path)


def _written(repository: Git, content: bytes) -> str:
    return repository.text("hash-object", "-w", "--stdin", stdin=content)


def _reader_pid(repository: Git) -> int:
    return objects._readers[repository.git_dir]._process.pid


@pytest.mark.parametrize("content", [b"", b"a", b"\n", b"no newline", b"\0\n\0", b"x" * 300_000])
def test_bytes_come_back_as_they_were_written(repository: Git, content: bytes) -> None:
    blob = _written(repository, content)
    facts = find_object(repository, blob)
    assert facts == (blob, "blob", len(content))
    assert read_blob(repository, blob) == content


def test_names_of_every_kind_are_answered_in_order(repository: Git, hub: Hub) -> None:
    tip, blob = hub.tip(), _written(repository, b"one")
    found = list(find_objects(repository, (tip, "0" * 40, f"{tip}^{{tree}}", blob, f"{tip}:no/such\nname\n", tip)))
    assert [facts and facts.kind for facts in found] == ["commit", None, "tree", "blob", None, "commit"]
    assert found[2] is not None
    assert found[2].id == repository.text("rev-parse", f"{tip}^{{tree}}")


def test_what_is_written_later_is_found(repository: Git) -> None:
    later = repository.text("hash-object", "--stdin", stdin=b"later")
    assert find_object(repository, later) is None
    assert _written(repository, b"later") == later
    assert read_blob(repository, later) == b"later"
    repository.run("repack", "-a", "-d", "-q")
    assert read_blob(repository, later) == b"later"


def test_a_missing_object_or_another_kind_is_one_sentence(repository: Git, hub: Hub) -> None:
    with pytest.raises(GitFailed, match="there is no object"):
        read_object(repository, "0" * 40)
    with pytest.raises(GitFailed, match="is a commit and not a blob"):
        read_blob(repository, hub.tip())


def test_an_object_is_written_though_git_removes_its_empty_folder_meanwhile(
    repository: Git, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, removed = os.open, list[Path]()

    def open_late(file: Path, flags: int, mode: int = 0o777) -> int:
        if not removed:
            removed.append(file.parent)
            repository.run("prune-packed", "-q")
            assert not file.parent.exists()
        return opened(file, flags, mode)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", open_late)
        blob = write_object(repository, "blob", b"late", like=hub.tip())
    assert removed
    assert read_blob(repository, blob) == b"late"


def test_a_name_that_git_dies_of_is_refused_and_the_next_one_answered(repository: Git, hub: Hub) -> None:
    with pytest.raises(GitFailed):
        find_object(repository, f"{hub.tip()}:../outside")
    with pytest.raises(GitFailed, match="NUL"):
        find_object(repository, f"{hub.tip()}\0{hub.tip()}")
    assert find_object(repository, hub.tip()) is not None


def test_a_reader_that_was_killed_or_interrupted_is_replaced(
    repository: Git, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = _written(repository, b"first"), _written(repository, b"second")
    assert read_blob(repository, first) == b"first"
    os.kill(_reader_pid(repository), signal.SIGKILL)
    assert read_blob(repository, first) == b"first"

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(objects, "_parsed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            read_blob(repository, first)
    assert read_blob(repository, second) == b"second"


def test_a_repository_made_again_is_read_anew(repository: Git) -> None:
    gone = _written(repository, b"gone")
    repository.run("repack", "-a", "-d", "-q")
    assert find_object(repository, gone) is not None
    shutil.rmtree(repository.git_dir)
    git(repository.git_dir.parent, "init", "-q", "--bare", str(repository.git_dir))
    assert find_object(repository, gone) is None


def test_a_missing_name_that_looks_like_an_answer_is_missing(repository: Git, hub: Hub) -> None:
    assert find_object(repository, f"{'a' * 40} blob 5\nzzz") is None
    assert find_object(repository, f"{hub.tip()}:{'a' * 40} blob 5") is None
    assert find_object(repository, hub.tip()) is not None


def test_a_malformed_object_hides_no_other(repository: Git, hub: Hub) -> None:
    """A tag calls a commit a blob. A git process that has read the tag then treats the commit as a blob."""
    tip = hub.tip()
    tag = f"object {tip}\ntype blob\ntag v\ntagger a <a@a> 0 +0000\n\nhi\n".encode()
    lying = repository.text("hash-object", "-w", "--literally", "-t", "tag", "--stdin", stdin=tag)
    assert find_object(repository, f"{lying}^{{commit}}") is None
    assert find_object(repository, f"{tip}^{{commit}}") is not None


def test_a_reader_is_no_orphan_of_its_own_process(repository: Git, hub: Hub) -> None:
    assert find_object(repository, hub.tip()) is not None
    reader = _reader_pid(repository)
    assert reader in tree.children(os.getpid())
    assert reader not in tree.orphans_of_mine(set())


def test_a_fork_in_the_middle_of_a_request_repeats_and_awaits_nothing(
    repository: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = _written(repository, b"first"), _written(repository, b"second")
    parsed, forked = objects._parsed, list[int]()

    def forking(taken: bytes, command: str) -> object:
        if not forked:
            forked.append(os.fork())
            if forked[0] == 0:
                os._exit(0)
        return parsed(taken, command)

    monkeypatch.setattr(objects, "_parsed", forking)
    assert read_blob(repository, first) == b"first"
    assert os.waitstatus_to_exitcode(os.waitpid(forked[0], 0)[1]) == 0
    assert read_blob(repository, second) == b"second"
    assert find_object(repository, "0" * 40) is None


def test_a_forked_process_reads_by_its_own_reader(repository: Git) -> None:
    blob = _written(repository, b"both")
    assert read_blob(repository, blob) == b"both"
    ours = _reader_pid(repository)
    if (child := os.fork()) == 0:
        right = read_blob(repository, blob) == b"both" and _reader_pid(repository) != ours
        close_readers()
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert read_blob(repository, blob) == b"both"
    assert _reader_pid(repository) == ours


def test_there_are_never_many_readers(hub: Hub, tmp_path: Path) -> None:
    for number in range(8):
        copy = Git(git_dir=tmp_path / f"{number}.git")
        git(tmp_path, "clone", "-q", "--bare", str(hub.path), str(copy.git_dir))
        assert find_object(copy, hub.tip()) is not None
    assert len(objects._readers) <= 4
    with pytest.raises(GitFailed):
        find_object(Git(git_dir=tmp_path / "none.git"), hub.tip())
