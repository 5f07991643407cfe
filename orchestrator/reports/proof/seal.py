"""
The digest and the signatures of a proof bundle: by the fleet's key, and by a person's SSH key.

The fleet's signature is that of its messages (`workers.queue.signing`), made for a place of its own, so that no message
can stand in for it. An SSH signature is made and verified by `ssh-keygen -Y`.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from forgepool.orchestrator.reports.proof.bundle import ProofBundle, Signature
from forgepool.workers.queue.signing import NotSigned, sign, verify
from forgepool.workers.sandbox.own_processes import run_program
from forgepool.workers.schema.settings import Settings
from forgepool.worktrees.errors import UserError

_PLACE = "report"
_NAMESPACE = "forgepool-report"


class CannotSign(UserError):
    """The bundle cannot be signed with that key. One sentence."""


def seal(bundle: ProofBundle, *, key: Path | None = None) -> ProofBundle:
    """
    Return the bundle with its digest, signed with the fleet's key where this process has one, and with an SSH key.

    Raises:
        CannotSign: `ssh-keygen` does not sign with that key.
    """
    digest = bundle.compute_digest()
    signatures = []
    if Settings().fleet_key is not None:
        signatures.append(Signature(kind="fleet", value=sign(digest, _PLACE)))
    if key is not None:
        signatures.append(Signature(kind="ssh", value=_sign_by_ssh(digest, key)))
    return bundle.model_copy(update={"digest": digest, "signatures": tuple(signatures)})


def _sign_by_ssh(digest: str, key: Path) -> str:
    try:
        status, out, errors = run_program(
            ("ssh-keygen", "-Y", "sign", "-q", "-n", _NAMESPACE, "-f", str(key)), stdin=digest.encode()
        )
    except OSError as trouble:
        raise CannotSign(f"ssh-keygen cannot be run: {trouble}; it comes with OpenSSH 8.1 or newer") from trouble
    if status != 0:
        said = " ".join(errors.decode(errors="replace").split())[:200]
        raise CannotSign(f"{key} cannot sign the bundle: {said}; give an SSH key without a passphrase, or use an agent")
    return out.decode()


def check_seal(bundle: ProofBundle, *, allowed_signers: Path | None = None) -> Iterator[str]:
    """Yield a sentence for each part of the seal that does not hold."""
    if bundle.digest != bundle.compute_digest():
        yield "the bundle was changed: its content has another digest than the one that it names"
    fleet = [one for one in bundle.signatures if one.kind == "fleet"]
    if Settings().fleet_key is not None:
        if not fleet:
            yield "the bundle is not signed with the fleet's key, which this process has (FORGEPOOL_FLEET_KEY)"
        for one in fleet:
            if not _is_of_fleet(one.value, bundle.digest):
                yield "the fleet's signature does not fit: it is by another key, or the bundle was changed since"
    if allowed_signers is not None:
        ssh = [one for one in bundle.signatures if one.kind == "ssh"]
        if not ssh:
            yield f"the bundle has no SSH signature, and {allowed_signers} asks for one"
        for one in ssh:
            if find_signer(one.value, bundle.digest, allowed_signers) is None:
                yield f"the SSH signature is of no key in {allowed_signers}, or the bundle was changed since"


def tell_signers(bundle: ProofBundle, *, allowed_signers: Path | None = None) -> Iterator[str]:
    """Yield who has signed the bundle, for signatures that hold."""
    for one in bundle.signatures:
        if one.kind == "fleet" and Settings().fleet_key is not None and _is_of_fleet(one.value, bundle.digest):
            yield "the fleet's key"
        if one.kind == "ssh" and allowed_signers is not None:
            signer = find_signer(one.value, bundle.digest, allowed_signers)
            if signer is not None:
                yield f"the SSH key of {signer}"


def _is_of_fleet(value: str, digest: str) -> bool:
    try:
        return verify(value, _PLACE) == digest
    except NotSigned:
        return False


def find_signer(value: str, digest: str, allowed_signers: Path) -> str | None:
    """
    Return the name by which a file of allowed signers knows the key of an SSH signature; None where it does not hold.

    Raises:
        CannotSign: `ssh-keygen` cannot be run, or there is no such file.
    """
    if not allowed_signers.is_file():
        raise CannotSign(f"{allowed_signers} is no file; it has a line for each signer: NAME KEYTYPE KEY")
    with tempfile.NamedTemporaryFile("w", prefix="forgepool-", suffix=".sig") as file:
        file.write(value)
        file.flush()
        of_both = ("-s", file.name, "-f", str(allowed_signers))
        try:
            status, out, _ = run_program(("ssh-keygen", "-Y", "find-principals", *of_both))
            names = out.decode(errors="replace").splitlines()
            if status != 0 or not names:
                return None
            verifying = ("ssh-keygen", "-Y", "verify", "-q", "-n", _NAMESPACE, "-I", names[0], *of_both)
            status, _, _ = run_program(verifying, stdin=digest.encode())
        except OSError as trouble:
            raise CannotSign(f"ssh-keygen cannot be run: {trouble}; it comes with OpenSSH 8.1 or newer") from trouble
    return names[0] if status == 0 else None
