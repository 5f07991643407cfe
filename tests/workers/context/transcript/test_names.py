"""Names that an agent needed and was not shown are counted, and names are found in texts."""

from led import Led, ran, read

from forgepool.workers.context.transcript.edit import Edit
from forgepool.workers.context.transcript.names import find_definitions, input_text, names, part_text
from forgepool.workers.llm.messages import Opaque, Text, ToolCall, user


def counted(led: Led) -> tuple[int, int]:
    return led.view.losses.calls, led.view.losses.hit


def worked() -> Led:
    """Return a conversation with two names; one is also in the card, and the first read is cut."""
    led = Led(card=("The task is about known_name.",))
    led.model(read("src/a.py", "src/a.py: known_name far_name"))
    led.model(ran("ls", "other_name"))
    led.use(Edit(cut=3, head=(user(Text(text="it read src/a.py, known_name")),)))
    return led


def test_a_need_is_a_name_that_a_result_had() -> None:
    """A name that the model invented, or that only the card had, is none."""
    led = Led(card=("About card_name.",))
    led.model(ran("grep own_name", "found_name"))
    led.model(ran("grep card_name"))
    assert counted(led) == (0, 0)
    led.model(ran("grep found_name"))
    assert counted(led) == (1, 0)


def test_of_several_results_each_counts() -> None:
    led = Led()
    led.model(ran("ls", "near_name"), ran("pwd", "far_name"))
    led.model(ran("grep far_name"))
    assert counted(led) == (1, 0)


def test_a_need_is_lost_where_only_what_was_cut_had_the_name() -> None:
    led = worked()
    led.model(ran("grep far_name"))
    assert counted(led) == (1, 1)


def test_a_need_that_the_head_or_the_card_or_a_shown_turn_has_is_none_lost() -> None:
    led = worked()
    led.model(ran("cat src/a.py"))
    led.model(ran("grep known_name"))
    led.model(ran("grep other_name"))
    assert counted(led) == (3, 0)


def test_a_turn_that_lost_several_names_counts_once() -> None:
    led = worked()
    led.model(ran("grep far_name"), ran("grep -r far_name ."))
    assert counted(led) == (1, 1)


def test_what_was_fetched_again_is_there_again() -> None:
    led = worked()
    led.model(ran("grep far_name", "far_name = 1"))
    led.model(ran("sed s/far_name/near_name/ src/a.py"))
    assert counted(led) == (2, 1)


def test_an_opening_that_is_cut_away_is_not_shown() -> None:
    led = Led(card=("card", "plan", "texts of files: far_name"))
    led.model(ran("cat a.py", "far_name"))
    led.model(ran("ls", "x"))
    led.use(Edit(cut=3))
    led.model(ran("grep far_name"))
    led.use(Edit(cut=5, opening=2))
    led.model(ran("ls src", "x"))
    assert counted(led) == (1, 0)
    led.use(Edit(cut=7, opening=2))
    led.model(ran("grep -n far_name"))
    assert counted(led) == (2, 1)


def test_names_are_identifiers_and_paths_in_one_spelling() -> None:
    found = names("def load_it(x): import ./src/a.py, src/lib/ and abc; self.idle_s = None")
    assert {"load_it", "src/a.py", "src/lib", "idle_s"} <= found
    assert not found & {"abc", "self", "import", "./src/a.py", "src/lib/"}


def test_definitions_are_found_in_code_as_it_is_shown() -> None:
    """The code has line numbers and is in several languages. Each name is found once, in order."""
    text = "     1\tclass Loader:\n     2\t    async def load(self): ...\n  3: export function save() {\n"
    assert find_definitions(
        text + "pub(crate) fn go()\nfunc (s *Server) Serve()\ndef load(): ...\nprint('class of its own')"
    ) == [
        "Loader",
        "load",
        "save",
        "go",
        "Serve",
    ]


def test_what_a_part_says_is_without_the_marks_of_json() -> None:
    call = ToolCall(id="1", name="bash", arguments={"command": 'say "x"', "lines": [1, 2]})
    assert input_text(call) == part_text(call) == 'say "x"\n[1, 2]'
    assert part_text(Opaque(wire="anthropic", model="m", block={"sealed": "name_inside"})) == ""


def test_a_very_long_word_is_gone_through_once() -> None:
    """It is a blob on one line. Starting again at each letter would take minutes."""
    blob = "y" * 200_000
    assert names(f"{blob} src/a.py a/{blob}") == {blob, "src/a.py", f"a/{blob}"}
