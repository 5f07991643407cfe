import os
from pathlib import Path

from forgepool.workers.tools.lsp.documents import differences, stamps


def test_every_change_is_seen_whoever_made_it(tmp_path: Path) -> None:
    """New, changed and removed files are told apart, even if size and time are the same."""
    for name in ("same", "grown", "sly", "gone"):
        (tmp_path / f"{name}.py").write_text("one\n")
    (tmp_path / "notes.txt").write_text("one\n")
    before = stamps(tmp_path, {".py"})
    was = (tmp_path / "sly.py").stat()
    (tmp_path / "sly.py").write_text("two\n")
    os.utime(tmp_path / "sly.py", ns=(was.st_atime_ns, was.st_mtime_ns))
    (tmp_path / "grown.py").write_text("one\ntwo\n")
    (tmp_path / "gone.py").unlink()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "new.py").write_text("")
    (tmp_path / "notes.txt").write_text("two\n")
    fates = differences(before, stamps(tmp_path, {".py"}))
    assert {Path(path).relative_to(tmp_path).as_posix(): fate for path, fate in fates.items()} == {
        "sly.py": "changed",
        "grown.py": "changed",
        "gone.py": "deleted",
        "sub/new.py": "created",
    }


def test_what_is_not_the_projects_own_is_not_looked_at(tmp_path: Path) -> None:
    """Hidden folders, packages and links are left out."""
    for folder in (".git", ".venv", "node_modules", "src"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.py").write_text("")
    (tmp_path / "link.py").symlink_to(tmp_path / "src" / "x.py")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert list(stamps(tmp_path, {".py"})) == [str(tmp_path / "src" / "x.py")]
