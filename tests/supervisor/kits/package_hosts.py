"""
A company's network on loopback: an index behind TLS and a password, its authority, and a proxy with another password.
"""

import base64
import datetime
import hashlib
import http.server
import io
import json
import socket
import socketserver
import ssl
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOST = "index.corp.example"
"""A name that only the company's proxy can resolve."""
PASSWORD, PROXY_PASSWORD = "open-sesame-index", "open-sesame-proxy"


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def wheel() -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("corpdemo.py", "SAID = 'from the company'\n")
        info = "corpdemo-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: corpdemo\nVersion: 1.0\n")
        tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{info}/WHEEL", tag)
        archive.writestr(f"{info}/RECORD", f"corpdemo.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return made.getvalue()


def tarball() -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in (
            ("package/package.json", json.dumps({"name": "corpdemo", "version": "1.0.0", "main": "index.js"})),
            ("package/index.js", "module.exports = 'from the company'\n"),
        ):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return made.getvalue()


@dataclass
class Company:
    port: int = 0
    proxy_port: int = 0
    authority: Path = Path()
    asked: list[str] = field(default_factory=list)
    """Paths requested from the index with the right password."""
    refused: list[str] = field(default_factory=list)
    tunnels: list[str] = field(default_factory=list)
    """Hosts to which the proxy connected."""

    @property
    def place(self) -> str:
        return f"{HOST}:{self.port}"

    def url(self, path: str, *, password: bool = True) -> str:
        return f"https://{f'ann:{PASSWORD}@' if password else ''}{self.place}{path}"

    @property
    def proxy(self) -> str:
        return f"http://ann:{PROXY_PASSWORD}@127.0.0.1:{self.proxy_port}"


@contextmanager
def company(folder: Path) -> Iterator[Company]:
    found = Company(authority=folder / "corp.pem")
    chain = _certificate(found.authority, folder / "chain.pem")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(chain)
    with ExitStack() as stack:
        index = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(found))
        index.socket = tls.wrap_socket(index.socket, server_side=True, do_handshake_on_connect=False)
        found.port = index.server_address[1]
        proxy = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _proxy(found))
        found.proxy_port = proxy.server_address[1]
        for server in (index, proxy):
            server.daemon_threads = True
            server.block_on_close = False
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
        yield found


def _handler(of: Company) -> type[http.server.BaseHTTPRequestHandler]:
    class Index(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization") not in (basic("ann", PASSWORD), f"Bearer {PASSWORD}"):
                of.refused.append(self.path)
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="corp"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            of.asked.append(self.path)
            kind, content = _content(of, self.path)
            self.send_response(200 if content else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_HEAD = do_GET  # noqa: N815 - the standard library's name

        def log_message(self, format: str, *words: object) -> None: ...

    return Index


def _content(of: Company, path: str) -> tuple[str, bytes]:
    name = "corpdemo-1.0-py3-none-any.whl"
    match path:
        case "/simple/corpdemo/":
            digest = hashlib.sha256(wheel()).hexdigest()
            # An absolute link, as some indexes have.
            link = of.url(f"/files/{name}", password=False)
            return "text/html", f'<a href="{link}#sha256={digest}">{name}</a>'.encode()
        case "/npm/corpdemo":
            dist = {"tarball": of.url("/npm/corpdemo.tgz", password=False)}
            version = {"name": "corpdemo", "version": "1.0.0", "dist": dist}
            said = {"name": "corpdemo", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
            return "application/json", json.dumps(said).encode()
        case "/npm/corpdemo.tgz":
            return "application/octet-stream", tarball()
        case _:
            return "application/zip", wheel() if path == f"/files/{name}" else b""


def _proxy(of: Company) -> type[socketserver.BaseRequestHandler]:
    class Proxy(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += self.request.recv(1)
            first, *fields = head.decode().split("\r\n")
            place = first.split()[1]
            if f"Proxy-Authorization: {basic('ann', PROXY_PASSWORD)}" not in fields or place != of.place:
                self.request.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
            of.tunnels.append(place)
            with socket.create_connection(("127.0.0.1", of.port)) as other:
                self.request.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                back = threading.Thread(target=_pass, args=(other, self.request), daemon=True)
                back.start()
                _pass(self.request, other)
                back.join()

    return Proxy


def _pass(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while piece := one.recv(65536):
            other.sendall(piece)
        other.shutdown(socket.SHUT_WR)


def _certificate(authority: Path, chain: Path) -> Path:
    """Make an authority and a certificate for the index; the authority goes into a file with comments."""
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    signer, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def made(name: str, public: Any, extension: x509.ExtensionType) -> x509.Certificate:
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Corp")])
        return (
            x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number(), now - day, now + day)
            .add_extension(extension, critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
            .sign(signer, hashes.SHA256())
        )

    pem = serialization.Encoding.PEM
    root = made("Corp", signer.public_key(), x509.BasicConstraints(ca=True, path_length=None)).public_bytes(pem)
    authority.write_bytes(b"# The company's authority\n" + root)
    leaf = made(HOST, key.public_key(), x509.SubjectAlternativeName([x509.DNSName(HOST)])).public_bytes(pem)
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain.write_bytes(private + leaf)
    return chain
