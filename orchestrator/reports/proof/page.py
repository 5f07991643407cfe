"""A proof bundle as one page of HTML."""

from forgepool.orchestrator.reports.proof.bundle import ProofBundle


def render_page(bundle: ProofBundle) -> str:
    """Return the page."""
    return ""
