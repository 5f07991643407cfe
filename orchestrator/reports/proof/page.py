"""
A proof bundle as one HTML page: it loads nothing, runs no script, and reads on a phone, in light and in dark.

The order is that of a morning: the verdict, what waits for a person, the money, then the landings with their evidence.
"""

import shlex
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby

from forgepool.orchestrator.decisions.reasons import count_of, stretch
from forgepool.orchestrator.reports.costs import usd_words
from forgepool.orchestrator.reports.proof.bundle import BillItem, LandedEntry, LandingProof, ProofBundle, TaskOutcome
from forgepool.orchestrator.reports.proof.markup import STYLE, Child, Markup, tag
from forgepool.orchestrator.reports.proof.sums import is_waste
from forgepool.orchestrator.state.task import DONE
from forgepool.supervisor.messages.answers import describe_checks

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def render_page(bundle: ProofBundle) -> str:
    """Return the page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{bundle.plan}: {bundle.verdict}"),
        tag("style", Markup(STYLE)),
    )
    sections = (_synthesis, _wanted, _bill, _landed, _not_landed, _expected, _target, _machines, _proof)
    body = tag("body", _header(bundle), tag("main", (_section(*each(bundle)) for each in sections)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en').text}\n"


def _section(title: str, content: Sequence[Child]) -> Child:
    """Return a section; nothing where it has no content."""
    return tag("section", tag("h2", title), content) if content else None


def _header(bundle: ProofBundle) -> Markup:
    good = bundle.outcome in ("landed", "done")
    took = max(0.0, bundle.ended - bundle.began)
    facts = {
        "run": bundle.run,
        "target": f"{bundle.target}, {bundle.base[:12]} to {bundle.tip[:12]}",
        "repository": bundle.hub,
        "time": f"{_clock(bundle.began)} to {_clock(bundle.ended)}, {stretch(took)}",
    }
    mark = tag("span", "landed" if good else bundle.outcome, class_=f"mark {'good' if good else 'bad'}")
    return tag("header", tag("p", mark, f" {bundle.plan}", class_="plan"), tag("h1", bundle.verdict), _facts(facts))


def _synthesis(bundle: ProofBundle) -> tuple[str, Sequence[Child]]:
    """Return the lead's text as a quotation, and what the harness says of it outside."""
    content: list[Child] = []
    for quoted, lines in groupby(bundle.synthesis, lambda line: line.startswith(">")):
        shown = [_line(line) for line in (one.removeprefix(">").strip() for one in lines) if line]
        content.append(tag("blockquote", shown) if quoted else shown)
    return "Synthesis", content


def _line(line: str) -> Markup:
    if line.startswith("#"):
        return tag("h3", line.lstrip("# "))
    return tag("ul", tag("li", line[2:])) if line.startswith(("- ", "* ")) else tag("p", line)


def _wanted(bundle: ProofBundle) -> tuple[str, Sequence[Child]]:
    rows = [tag("li", tag("b", one.about), f": {one.why}", _command(one.command)) for one in bundle.wanted]
    return f"Waits for you ({len(rows)})", [tag("ul", rows, class_="wanted")] if rows else []


def _bill(bundle: ProofBundle) -> tuple[str, Sequence[Child]]:
    cost = bundle.cost
    if not (cost.input_tokens or cost.output_tokens or cost.total_usd or cost.unknown):
        return "The bill", [tag("p", "No model was used.")]
    cached = f"{cost.cached_tokens / cost.input_tokens:.0%}" if cost.input_tokens else "0%"
    tiles = {
        "in all": _usd(cost.total_usd),
        "attempts that did not land": _usd(cost.waste_usd),
        "reviews": _usd(cost.review_usd),
        "input from caches": cached,
    }
    content: list[Child] = [
        tag("div", (tag("p", tag("b", said), name) for name, said in tiles.items()), class_="tiles")
    ]
    if cost.unknown:
        content.append(tag("p", f"{count_of(cost.unknown, 'attempt or review')} of unknown cost; no sum counts it."))
    content += [tag("p", f"Budget: {line}") for line in cost.budget]
    by_model = _sums((", ".join(one.models) or "no model named", one) for one in cost.items if _used(one))
    by_task = _sums((one.task or "the run as a whole", one) for one in cost.items if _used(one))
    columns = ("", "USD", "did not land", "tokens in", "cached", "out")
    content += [_table(("model", *columns[1:]), by_model), _table(("task", *columns[1:]), by_task)]
    return "The bill", content


def _used(item: BillItem) -> bool:
    return bool(item.models or item.turns or item.input_tokens or item.output_tokens or item.cost_usd != 0.0)


def _sums(items: Iterator[tuple[str, BillItem]]) -> list[tuple[str, ...]]:
    """Return a row for each name, the dearest first."""
    groups: dict[str, list[BillItem]] = defaultdict(list)
    for name, item in items:
        groups[name].append(item)
    dear = sorted(groups.items(), key=lambda each: -sum(one.cost_usd or 0.0 for one in each[1]))
    return [
        (
            name,
            usd_words(sum(one.cost_usd or 0.0 for one in group))
            + (" + unknown" if any(one.cost_usd is None for one in group) else ""),
            usd_words(sum(one.cost_usd or 0.0 for one in group if is_waste(one))),
            f"{sum(one.input_tokens for one in group):,}",
            f"{sum(one.cached_tokens for one in group):,}",
            f"{sum(one.output_tokens for one in group):,}",
        )
        for name, group in dear
    ]


def _landed(bundle: ProofBundle) -> tuple[str, Sequence[Child]]:
    content: list[Child] = [_landing(bundle, landing) for landing in bundle.landings]
    for one in bundle.by_queue:
        facts = {"commit": one.commit, "landed by": f"{one.queue}, as its entry {one.entry}"}
        lines = tag("ul", (tag("li", said) for said in one.said)) if one.said else None
        content.append(tag("article", tag("h3", f"{one.task}: {one.title}"), _facts(facts), lines))
    return f"Landed ({len(bundle.landed)})", content


def _landing(bundle: ProofBundle, landing: LandingProof) -> Markup:
    rows = [
        (
            one.check,
            f"no worse: {count_of(len(one.known_failures), 'known failure')}" if one.known_failures else "green",
            f"{one.seconds:.1f} s" + (", reused" if one.reused else "") + one.traced_words,
            one.host,
            landing.commands.get(one.check, ""),
            one.key[:12],
        )
        for one in landing.certificates
    ]
    of_all = {"on": landing.base, "commit": landing.commit, "tree": landing.tree, "landed": _clock(landing.at)}
    if len(landing.entries) == 1:
        heads = [_entry(landing.entries[0], of_all)]
    else:
        heads = [*(_entry(entry, {"commit": entry.commit}) for entry in landing.entries), tag("h3", "All of them")]
        heads.append(_facts(of_all))
    columns = ("check", "result", "took", "host", "command", "certificate")
    again = [
        f"git show --stat {landing.commit}",
        f"git worktree add --detach /tmp/{landing.commit[:12]} {landing.commit} && cd /tmp/{landing.commit[:12]}",
        *dict.fromkeys(landing.commands.values()),
    ]
    return tag(
        "article",
        heads,
        _table(columns, rows) if rows else tag("p", "No check was asked for (checks: none)."),
        tag("details", tag("summary", "See it again"), [_command(line) for line in again]),
    )


def _entry(entry: LandedEntry, more: dict[str, str]) -> Child:
    title = entry.task if entry.title in ("", entry.task) else f"{entry.task}: {entry.title}"
    by = ", ".join((entry.agent, *entry.models))
    facts = {"by": f"{by}, attempt {entry.attempt}", **_review_facts(entry), **more, "candidate": entry.candidate}
    if entry.grants:
        facts["may change"] = ", ".join(entry.grants)
    if entry.waive:
        facts["waived rules"] = ", ".join(entry.waive)
    if entry.flaky:
        facts["flaky"] = "; ".join(entry.flaky)
    found = [*entry.findings, *(f"review dropped: {line}" for line in (entry.review.dropped if entry.review else ()))]
    folded = tag(
        "details", tag("summary", count_of(len(found), "finding")), tag("ul", (tag("li", one) for one in found))
    )
    return [tag("h3", title), _facts(facts), folded if found else None]


def _review_facts(entry: LandedEntry) -> dict[str, str]:
    facts = {"approved by": entry.approved_by} if entry.approved_by else {}
    review = entry.review
    if review is None:
        return facts
    families = f" ({', '.join(review.families)})" if review.families else ""
    who = (", ".join(review.models) or "a scripted reviewer") + families
    read = len(set(review.read) & set(review.changed))
    said = f"{review.outcome} by {who}, which read {read} of {count_of(len(review.changed), 'changed file')}"
    return facts | {"review": said, "read": ", ".join(review.read[:50])}


def _not_landed(bundle: ProofBundle) -> tuple[str, Sequence[Child]]:
    reported = [task for task in bundle.tasks if task.phase == "reported"]
    idle = [task for task in bundle.tasks if task.phase in DONE - {"landed", "reported"}]
    rest = [task for task in bundle.tasks if task.phase not in DONE]
    content: list[Child] = [_unlanded(task) for task in rest]
    if reported:
        content.append(tag("ul", (tag("li", f"{task.id} reported: {task.detail}") for task in reported)))
    if idle:
        content.append(tag("p", "Nothing to do: ", ", ".join(f"{task.id} ({task.detail})" for task in idle)))
    return f"Not landed ({len(rest)})" if rest else "Reported" if reported else "Nothing to do", content


def _unlanded(task: TaskOutcome) -> Child:
    mark = tag("span", task.phase.replace("_", " "), class_="mark bad")
    reasons = tag("ul", (tag("li", one) for one in task.reasons)) if task.reasons else None
    again = tag("details", tag("summary", "See it again"), _command(task.reproduce)) if task.reproduce else None
    title = task.id if task.title in ("", task.id) else f"{task.id}: {task.title}"
    told = any(one.endswith(f": {task.detail}") for one in task.reasons)
    detail = tag("p", task.detail) if task.detail and not told else None
    errors = tag("pre", "\n".join(task.errors)) if task.errors else None
    return tag("article", tag("h3", title, " ", mark), detail, reasons, errors, again)


def _expected(bundle: ProofBundle) -> tuple[str, Sequence[Child]]:
    known = [task for task in bundle.tasks if task.expected_s is not None and task.seconds is not None]
    rows = [(task.id, stretch(task.expected_s or 0.0), stretch(task.seconds or 0.0)) for task in known]
    lines = [tag("ul", (tag("li", line) for line in bundle.forecast))] if bundle.forecast else []
    tables = [_table(("task", "the plan expected", "first start to end"), rows)] if rows else []
    return "Expected and taken", [*lines, *tables]


def _target(bundle: ProofBundle) -> tuple[str, Sequence[Child]]:
    lines = []
    for one in bundle.whole:
        green = describe_checks(one.certificates) if one.certificates else ""
        lines.append(f"all checks on {one.commit[:12]}: {one.verdict}" + (f" ({green})" if green else ""))
    lines += [f"commits of others between {one.after[:12]} and {one.upto[:12]}" for one in bundle.others]
    return "The target", [tag("ul", (tag("li", line) for line in lines))] if lines else []


def _machines(bundle: ProofBundle) -> tuple[str, Sequence[Child]]:
    groups = {
        "": bundle.hosts,
        "Lost and repeated": bundle.losses,
        "Flaky": bundle.flakes,
        "Refused": bundle.denials,
    }
    lists = [
        [tag("h3", name) if name else None, tag("ul", (tag("li", line) for line in lines))]
        for name, lines in groups.items()
        if lines
    ]
    return "Hosts", lists


def _proof(bundle: ProofBundle) -> tuple[str, Sequence[Child]]:
    kinds = {"fleet": "the fleet's key", "ssh": "an SSH key"}
    signed = ", ".join(kinds[one.kind] for one in bundle.signatures) or "nobody"
    words = f"forgepool verify report.json --repo {shlex.quote(bundle.hub)}"
    text = "The page shows what the bundle report.json says. This proves the bundle from the repository alone:"
    facts = {"digest": bundle.digest, "signed by": signed, "written by": f"Forgepool {bundle.forgepool}"}
    return "Proof", [tag("p", text), _command(words), _facts(facts)]


def _facts(facts: dict[str, str]) -> Markup:
    pairs = ((tag("dt", name), tag("dd", said)) for name, said in facts.items() if said)
    return tag("dl", pairs)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """Return a table; on a narrow page each row stands as a block, with its columns' names."""
    head = tag("thead", tag("tr", (tag("th", name, scope="col") for name in columns)))
    cells = (
        tag("tr", (tag("td", said, data_name=name) for name, said in zip(columns, row, strict=True))) for row in rows
    )
    return tag("table", head, tag("tbody", cells))


def _command(words: str) -> Markup:
    return tag("pre", tag("code", words))


def _usd(amount: float) -> str:
    return f"{usd_words(amount)} USD"


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at)) if at else "unknown"
