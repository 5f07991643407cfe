"""The results that a view drops are kept in files, byte for byte."""

from pathlib import Path

import pytest
from led import Did, Led, archive, ran, read, wrote

from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.view.archive import describe_call, find_dropped
from forgepool.workers.tools.workplace import ToolRefused

TEXTS = ["", "a\r\nb\n\n", "naïve – \x00\x1b[0m", "half a pair: \ud83d", "no end of line"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_result_is_kept_as_it_was(tmp_path: Path, text: str) -> None:
    kept, led = archive(tmp_path / "a"), Led()
    led.model(read("a.py", text))
    kept.write(led.view.deeds)
    data = Path(kept.folder, "step-1.txt").read_bytes()
    assert data.decode(errors="surrogatepass") == text


def test_a_call_is_kept_as_a_person_reads_it(tmp_path: Path) -> None:
    kept, led = archive(tmp_path / "a"), Led()
    led.model(Did(tool="write_file", arguments={"path": "a.py", "content": "é\n", "tags": ["é", 1, None]}, answer="OK"))
    kept.write(led.view.deeds)
    text = Path(kept.folder, "step-1.call.txt").read_text(encoding="utf-8")
    assert (
        text == 'write_file\n--- path\na.py\n--- content\né\n\n--- tags\n["é", 1, null]\n' == describe_call(led.deed(1))
    )


def test_what_was_said_is_kept_with_the_first_call_of_its_turn(tmp_path: Path) -> None:
    kept, led = archive(tmp_path / "a"), Led()
    led.model(ran("ls", "x"), ran("pwd", "y"), said="I found the cause.\nIt is here.")
    kept.write(led.view.deeds)
    texts = [Path(kept.folder, f"step-{step}.call.txt").read_text(encoding="utf-8") for step in (1, 2)]
    assert texts[0].startswith("I found the cause.\nIt is here.\n\nbash\n") and texts[1].startswith("bash\n")


def test_a_step_of_another_conversation_is_written_over(tmp_path: Path) -> None:
    kept = archive(tmp_path / "a")
    for text in ("the first, and longer", "second"):
        led = Led()
        led.model(ran("ls", text))
        kept.write(led.view.deeds)
    assert Path(kept.folder, "step-1.txt").read_text() == "[exit status 0, 0.1 s]\nsecond"


def test_where_it_cannot_be_kept_it_is_said(tmp_path: Path) -> None:
    kept, led = archive(tmp_path / "a"), Led()
    led.model(ran("ls", "x"))
    (tmp_path / "a" / "tmp" / "outputs").write_text("in the way")
    with pytest.raises((ToolRefused, OSError)):
        kept.write(led.view.deeds)


def test_what_is_not_shown_as_it_was_is_dropped() -> None:
    led = Led()
    for number in range(4):
        led.model(wrote(f"f{number}.py", "x"), ran("ls", "y"))
    edit = Edit(cut=led.deed(3).turn, results={4: "masked"}, inputs={7: {}})
    assert [deed.step for deed in find_dropped(led.view.deeds, edit)] == [1, 2, 4, 7]
    assert find_dropped(led.view.deeds, Edit()) == []
