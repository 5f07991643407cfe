"""The verdict about a bundle: what does not hold, what is proven, and what no repository can prove."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from forgepool.orchestrator.decisions.reasons import count_of
from forgepool.orchestrator.reports.proof.bundle import BadBundle, LandingProof, ProofBundle
from forgepool.orchestrator.reports.proof.evidence import voting_certificates
from forgepool.orchestrator.reports.proof.prove import Spine, compare_reviews, prove, read_spine
from forgepool.orchestrator.reports.proof.recheck import find_landings_to_check, run_checks_again
from forgepool.orchestrator.reports.proof.seal import check_seal, tell_signers
from forgepool.orchestrator.reports.proof.sums import check_sums
from forgepool.orchestrator.run.hub import open_hub
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.git.git import Git, is_ref


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleVerdict:
    """The outcome of a proof, a sentence for each thing. Nothing is proven where something is broken."""

    broken: tuple[str, ...]
    proven: tuple[str, ...]
    unproven: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def verify_bundle(
    bundle: ProofBundle,
    repo: str,
    settings: Settings,
    *,
    allowed_signers: Path | None = None,
    run_checks: bool = False,
) -> BundleVerdict:
    """
    Prove a bundle against the repository at a path or URL.

    Raises:
        BadBundle: its target is no branch.
        HubUnusable, GitFailed: the repository cannot be read.
        CannotSign: `ssh-keygen` cannot be run.
    """
    name = f"refs/heads/{bundle.target}"
    if not is_ref(name):
        raise BadBundle(f"the bundle's target is '{bundle.target[:80]}', and that is no branch")
    hub = open_hub(repo, settings)
    broken = [*check_seal(bundle, allowed_signers=allowed_signers), *check_sums(bundle)]
    head = hub.heads.get(bundle.target)
    if head is None:
        broken.append(f"{hub.facts.url} has no branch {bundle.target}, on which the run landed")
        return BundleVerdict(broken=tuple(broken), proven=(), unproven=())
    hub.mirror.ensure(head, refs=(name,))
    spine = read_spine(hub.mirror.git, bundle.target, head)
    broken += prove(bundle, hub.mirror.git, spine)
    signers = tuple(tell_signers(bundle, allowed_signers=allowed_signers))
    again: tuple[LandingProof, ...] = ()
    if run_checks and not broken:
        plan_checks = bundle.plan_checks if signers else ()
        again = find_landings_to_check(bundle, hub.mirror, plan_checks)
        broken += run_checks_again(bundle, again, plan_checks, hub.mirror, settings)
    if broken:
        return BundleVerdict(broken=tuple(dict.fromkeys(broken)), proven=(), unproven=())
    evidence = _compare_evidence(bundle, hub.mirror.git, spine)
    return BundleVerdict(
        broken=(),
        proven=tuple(_tell_proven(bundle, evidence, signers, again=len(again))),
        unproven=(
            *_tell_unproven(bundle, spine, signers),
            *_tell_other_evidence(bundle, evidence),
            *(_tell_not_run(bundle, signers, again=len(again)) if run_checks else ()),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _EvidenceCount:
    """The certificates and reviews that were compared with what landed, and the tasks whose review is of another."""

    certificates: int
    reviews: int
    other_reviews: tuple[str, ...]


def _compare_evidence(bundle: ProofBundle, git: Git, spine: Spine) -> _EvidenceCount:
    reviews = tuple(compare_reviews(bundle, git, spine))
    return _EvidenceCount(
        certificates=sum(len(voting_certificates(bundle, git, landing)) for landing in bundle.landings),
        reviews=sum(same for _, same in reviews),
        other_reviews=tuple(task for task, same in reviews if not same),
    )


def _tell_proven(
    bundle: ProofBundle, evidence: _EvidenceCount, signers: tuple[str, ...], *, again: int
) -> Iterator[str]:
    span = f"{bundle.base[:12]}..{bundle.tip[:12]} on {bundle.target}"
    own = count_of(len(bundle.entries), "landing")
    yield f"{own}, exactly those of this run in {span}, in this order, with the trees, parents and trailers told"
    certificates = count_of(evidence.certificates, "certificate")
    yield f"{certificates}, each for the tree that landed and the check as the target had it"
    if evidence.reviews:
        yield f"{count_of(evidence.reviews, 'review')}, each of the very diff that landed"
    yield f"the sums: {count_of(len(bundle.tasks), 'task')}, {count_of(len(bundle.cost.items), 'item')} of the bill"
    if again:
        whose = "the checks" if signers or not bundle.plan_checks else "the target's own checks"
        where = (
            "each landed tree" if again == len(bundle.landings) else f"{again} of {len(bundle.landings)} landed trees"
        )
        yield f"{whose}, run again on this host, are green on {where}"
    for signer in signers:
        yield f"the bundle is signed with {signer}"


def _tell_other_evidence(bundle: ProofBundle, evidence: _EvidenceCount) -> Iterator[str]:
    if others := sum(len(landing.certificates) for landing in bundle.landings) - evidence.certificates:
        yield f"anything by {count_of(others, 'certificate')} of checks without a vote"
    for task in evidence.other_reviews:
        why = "the review did not pass, or was of another diff, as where files are generated"
        yield f"that a reviewer passed the very diff of '{task}' that landed: {why}"


def _tell_not_run(bundle: ProofBundle, signers: tuple[str, ...], *, again: int) -> Iterator[str]:
    if bundle.plan_checks and not signers:
        plan = count_of(len(bundle.plan_checks), "check")
        yield f"that {plan} of the plan would be green again: no signature holds, so the bundle's commands were not run"
    elif again < len(bundle.landings):
        yield f"that {count_of(len(bundle.landings) - again, 'landing')} would pass again: there is no check to run"


def _tell_unproven(bundle: ProofBundle, spine: Spine, signers: tuple[str, ...]) -> Iterator[str]:
    if not signers:
        why = "it is not signed" if not bundle.signatures else "this process has no key for its signature"
        yield f"that the checks and reviews took place, and what they cost: {why}, and anyone can make such a bundle"
    else:
        yield "that the signer's machine was honest: a signature says who wrote the bundle"
    if inner := sum(len(landing.entries) - 1 for landing in bundle.landings):
        yield f"that {count_of(inner, 'commit')} below the top of a batch would pass alone: the checks ran on the top"
    for span in bundle.others:
        between = spine.between(span.after, span.upto) or ()
        landings = count_of(len(between), "commit")
        yield f"anything about {landings} of others, {span.after[:12]}..{span.upto[:12]}, which this run built upon"
    for queue in dict.fromkeys(one.queue for one in bundle.by_queue):
        number = sum(one.queue == queue for one in bundle.by_queue)
        yield f"the checks of {count_of(number, 'landing')} by the merge queue {queue}: see its own report"
