"""A certificate authority for the length of one command, and the certificate of a package index's stand-in."""

import datetime
from collections.abc import Iterable
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from forgepool.workers.sandbox.network.hosts import literal

_DAYS = 2
"""Days a certificate is valid; a command ends long before."""


def certificates(hosts: Iterable[tuple[str, int]], folder: Path) -> tuple[str, Path]:
    """Make an authority and a certificate for these hosts; return the first as PEM, the second as a file."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _named("Forgepool, for one command")
    authority = (
        _begin(issuer, issuer, authority_key.public_key(), authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_SIGNS, critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    names = dict.fromkeys(_general_name(host) for host, _ in sorted(hosts))
    leaf = (
        _begin(issuer, _named("package index"), authority_key.public_key(), key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(list(names)), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = folder / "chain.pem"
    chain.touch(mode=0o600)
    chain.write_bytes(private + leaf.public_bytes(serialization.Encoding.PEM))
    return authority.public_bytes(serialization.Encoding.PEM).decode(), chain


def _begin(
    issuer: x509.Name, subject: x509.Name, issuer_key: ec.EllipticCurvePublicKey, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


_SIGNS = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general_name(host: str) -> x509.GeneralName:
    return x509.DNSName(host) if literal(host) is None else x509.IPAddress(ip_address(host))
