"""The page of a report shows everything and trusts nothing; bundles of any run add up."""

import re
from pathlib import Path
from typing import Any

from plans import RUN, answered, begun, certificate, check_sent, course, landing, queued, sent, task, verdict

from forgepool.orchestrator.journal import events as e
from forgepool.orchestrator.journal.store import Recorded
from forgepool.orchestrator.reports.proof.bundle import ProofBundle
from forgepool.orchestrator.reports.proof.collect import collect
from forgepool.orchestrator.reports.proof.page import render_page
from forgepool.orchestrator.reports.proof.sums import check_sums
from forgepool.orchestrator.run.run_folder import KeptRun, RunOptions
from forgepool.workers.schema.orders import ReasonPack, Spent

_BAD = "<script>alert(1)</script> \"onload='x' \x1b[31mred\x1b[0m \u202etxt.exe & \x00"
OF = course(task("a", title=_BAD), task("b", title="Second"), task("c"))
_USED = Spent(turns=3, input_tokens=9000, cached_tokens=6000, output_tokens=500, cost_usd=0.25)
_REASON = ReasonPack(
    attempt=1, kind="check_failed", summary=_BAD, log_tail=f"x\nE   assert 0 {_BAD}\n", reproduce=f"git fetch {_BAD}"
)


def _bundle(folder: Path, *events: e.Event, hub: str = "/hub") -> ProofBundle:
    options = RunOptions(run=RUN, hub=hub, target="t", workers=1, plan_file="p", plan_file_digest="d")
    start = e.RunStarted(run=RUN, plan_digest="d", hub=hub, target="t", tip="c0")
    recorded = [Recorded(number, 100.0 + number, one) for number, one in enumerate((start, *events), start=1)]
    return collect(KeptRun(folder, options, OF.plan, OF), begun(OF, *events), recorded)


def _batch() -> list[e.Event]:
    """Two tasks that landed together, after one of them failed once."""
    green = verdict("b").model_copy(update={"commits": ("m-a-2", "m-b-1")})
    check = check_sent("b").model_copy(update={"car": ("a", "b")})
    intent = e.LandingIntended(
        task="b",
        message_id=f"{RUN}.b.1.land-1",
        token="t",
        base="c0",
        commit="m-b-1",
        tree="tree-b-1",
        entries=("a", "b"),
        commits=("m-a-2", "m-b-1"),
        certificates=(certificate("tree-b-1"),),
        approvals=(None, None),
        issued_at=100.0,
    )
    return [
        *(sent("a"), answered("a", 1, "verify_failed", spent=_USED, models=("model-x",))),
        e.TaskReturned(task="a", reason=_REASON),
        *(sent("a", 2), answered("a", 2, paths=["x"], spent=_USED, models=("model-x",), token="t")),
        *(sent("b"), answered("b", paths=["y"], spent=_USED.model_copy(update={"cost_usd": None}))),
        *(queued("a"), queued("b"), check, e.CheckAnswered(task="b", result=green, car=("a", "b"))),
        *(intent, e.LandingAnswered(task="b", result=landing("b"), entries=("a", "b"))),
        *(sent("c"), answered("c", 1, "no_change"), e.TaskFailed(task="c", reason=_REASON)),
    ]


def test_tasks_that_land_together_are_one_landing_and_the_bill_tells_the_waste(tmp_path: Path) -> None:
    bundle = _bundle(tmp_path, *_batch())
    (together,) = bundle.landings
    assert [(one.task, one.attempt, one.commit) for one in together.entries] == [("a", 2, "m-a-2"), ("b", 1, "m-b-1")]
    cost = bundle.cost
    assert (cost.total_usd, cost.waste_usd, cost.unknown) == (0.5, 0.25, 1)
    assert (cost.input_tokens, cost.cached_tokens) == (27_000, 18_000)
    assert (bundle.wanted[0].about, bundle.wanted[0].command) == ("c", f"forgepool resume {RUN} --plan FILE")
    assert list(check_sums(bundle)) == []
    assert bundle.tip == "m-b-1" and bundle.others == ()


def test_a_password_in_the_hubs_address_is_in_no_report(tmp_path: Path) -> None:
    bundle = _bundle(tmp_path, hub="https://ada:secret@example.org/x.git")
    assert "secret" not in bundle.encode() + render_page(bundle)


def test_the_page_runs_nothing_loads_nothing_and_shows_hostile_text_as_text(tmp_path: Path) -> None:
    page = render_page(_bundle(tmp_path, *_batch(), hub="/hub/" + _BAD))
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page and "\\u202etxt.exe" in page
    assert not re.search(r"<(script|img|link|iframe|object|a|form|base)\b", page)
    assert not re.search(r"\bon\w+\s*=\s*[\"'][^\"']*[\"']\s*[>/]", page.replace("&quot;", ""))
    assert not re.search(r"\b(src|href)=|url\(|@import", page)
    assert [one for one in page if not one.isprintable() and one != "\n"] == []
    assert "default-src &#x27;none&#x27;" in page


def test_the_page_says_what_went_wrong_in_the_log_s_own_words(tmp_path: Path) -> None:
    bundle = _bundle(tmp_path, *_batch())
    assert [len(one.errors) for one in bundle.tasks] == [0, 0, 1], "of tasks that did not land"
    assert "assert 0 &lt;script&gt;" in render_page(bundle)


def test_every_element_of_the_page_is_closed_and_the_order_is_that_of_a_morning(tmp_path: Path) -> None:
    page = render_page(_bundle(tmp_path, *_batch()))
    opened: list[str] = []
    for end, name in re.findall(r"<(/?)([a-z0-9]+)[^>]*>", page):
        if end:
            assert opened.pop() == name
        elif name != "meta":
            opened.append(name)
    assert opened == []
    heads = re.findall(r"<h2>([^<(]+)", page)
    assert [one.strip() for one in heads] == ["Waits for you", "The bill", "Landed", "Not landed", "Hosts", "Proof"]


def test_a_run_without_an_event_has_a_report(tmp_path: Path) -> None:
    options = RunOptions(run=RUN, hub="/hub", target="t", workers=1, plan_file="p", plan_file_digest="d")
    bundle: Any = collect(KeptRun(tmp_path, options, OF.plan, OF), begun(OF), [])
    assert "No model was used." in render_page(bundle)
