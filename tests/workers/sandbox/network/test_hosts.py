from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgepool.workers.sandbox.network.hosts import (
    BadHost,
    Denied,
    Permit,
    forbidden_address,
    host_name,
    permits,
    reach,
    read_rules,
)

LIST = (
    "packages.example.org",
    "*.wild.example.org",
    "odd.example.org:8443",
    "*.wild.example.net:8443",
    "localhost:8080",
    "127.0.0.1:8123",
    "[::1]:8123",
    "10.1.2.3:443",
    "93.184.215.14",
    "[2606:2800:21f:cb07:6820:80da:af6b:8b2c]",
    "Bücher.Example.ORG.",
)


@pytest.mark.parametrize(
    ("host", "port", "permitted"),
    [
        ("packages.example.org", 443, "packages.example.org"),
        ("packages.example.org", 80, "packages.example.org"),
        ("PACKAGES.Example.Org.", 443, "packages.example.org"),
        ("packages.example.org", 22, None),
        ("packages.example.org", 8443, None),
        ("packages.example.org..", 443, None),
        (".packages.example.org", 443, None),
        ("sub.packages.example.org", 443, None),
        ("evil-packages.example.org", 443, None),
        ("packages.example.org.evil.net", 443, None),
        ("packages-example.org", 443, None),
        ("packages.example.org\0.evil.net", 443, None),
        ("packages.example.org\n", 443, None),
        (" packages.example.org", 443, None),
        ("evil.net#packages.example.org", 443, None),
        ("user@packages.example.org", 443, None),
        ("packages.example.org:443", 443, None),
        ("packages%2eexample.org", 443, None),
        ("packages\u3002example.org", 443, "packages.example.org"),
        ("packages.example.org".translate({ord("a"): "\uff41"}), 443, "packages.example.org"),
        ("p\u0430ckages.example.org", 443, None),
        ("", 443, None),
        (".", 443, None),
        ("a.wild.example.org", 443, "a.wild.example.org"),
        ("a.b.wild.example.org", 80, "a.b.wild.example.org"),
        ("wild.example.org", 443, None),
        ("notwild.example.org", 443, None),
        ("a.wild.example.org", 8443, None),
        ("a.wild.example.net", 8443, "a.wild.example.net"),
        ("a.wild.example.net", 443, None),
        ("odd.example.org", 8443, "odd.example.org"),
        ("odd.example.org", 443, None),
        ("127.0.0.1", 8123, "127.0.0.1"),
        ("127.0.0.1", 8124, None),
        ("127.1", 8123, None),
        ("2130706433", 8123, None),
        ("0x7f000001", 8123, None),
        ("0x7f.0.0.1", 8123, None),
        ("0177.0.0.1", 8123, None),
        ("127.0.0.01", 8123, None),
        ("127.0.0.1.", 8123, "127.0.0.1"),
        ("\uff11\uff12\uff17.0.0.1", 8123, "127.0.0.1"),
        ("[::1]", 8123, "::1"),
        ("[0:0:0:0:0:0:0:1]", 8123, "::1"),
        ("[::ffff:127.0.0.1]", 8123, None),
        ("[::1%lo]", 8123, None),
        ("::1", 8123, None),
        ("93.184.215.14", 443, "93.184.215.14"),
        ("[2606:2800:21F:CB07:6820:80DA:AF6B:8B2C]", 443, "2606:2800:21f:cb07:6820:80da:af6b:8b2c"),
        ("bücher.example.org", 443, "xn--bcher-kva.example.org"),
        ("xn--bcher-kva.example.org", 443, "xn--bcher-kva.example.org"),
        ("169.254.169.254", 80, None),
    ],
)
def test_a_list_permits_what_it_names_however_that_is_written(host: str, port: int, permitted: str | None) -> None:
    """A host is compared in one spelling, and refused if it has none. A part of a name never matches."""
    answer = permits(read_rules(LIST), host, port)
    assert (answer.host if isinstance(answer, Permit) else None) == permitted


@pytest.mark.parametrize(
    ("host", "port", "inner"),
    [
        ("packages.example.org", 443, False),
        ("a.wild.example.org", 443, False),
        ("a.wild.example.net", 8443, False),
        ("odd.example.org", 8443, True),
        ("localhost", 8080, True),
        ("10.1.2.3", 443, True),
    ],
)
def test_only_a_host_and_port_written_in_full_may_be_private(host: str, port: int, inner: bool) -> None:
    """A wildcard or a bare name was not meant for a private address."""
    permit = permits(read_rules(LIST), host, port)
    assert isinstance(permit, Permit)
    assert permit.inner is inner


@given(st.text(), st.integers(min_value=0, max_value=70000))
def test_an_empty_list_allows_nothing(host: str, port: int) -> None:
    """An empty list never means no restriction."""
    assert isinstance(permits((), host, port), Denied)


@given(st.text(max_size=30) | st.text(alphabet="a1.-x:[]%@/0", max_size=30))
def test_a_spelling_is_final(host: str) -> None:
    """Normalising a normalised name changes nothing, and the result is plain text that can be logged."""
    try:
        name = host_name(host)
    except BadHost as bad:
        assert str(bad).isascii()
        assert str(bad).isprintable()
        return
    again = f"[{name}]" if ":" in name else name
    assert host_name(again) == name
    assert name.isascii()
    assert name.isprintable()
    assert not set(name) & set(" /@#?%\\\"'")


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "*",
        "*.org",
        "*.",
        "**.example.org",
        "*.*.example.org",
        "a*.example.org",
        "packages.*",
        "https://packages.example.org",
        "packages.example.org/simple",
        "packages.example.org:",
        "packages.example.org:0",
        "packages.example.org:65536",
        "packages.example.org:080",
        "packages.example.org:https",
        "user:secret@packages.example.org",
        "127.0.0.1",
        "10.0.0.5",
        "[::1]",
        "::1",
        "127.1:80",
        "*.127.0.0.1:80",
        "169.254.169.254:80",
        "[fd00:ec2::254]:80",
        "[::ffff:169.254.169.254]:80",
        "0.0.0.0:80",
        "[::1%lo]:80",
        "224.0.0.1:80",
        "stra\u00dfe.example.org",
        "two words.example.org",
    ],
)
def test_a_pattern_that_names_no_host_or_far_too_many_is_refused(pattern: str) -> None:
    """It is refused with one line when it is read."""
    with pytest.raises(BadHost) as refused:
        read_rules([pattern])
    assert ";" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("host", "port", "written"),
    [
        ("evil.example.com", 443, "[evil.example.com]"),
        ("evil.example.com", 8080, '["evil.example.com:8080"]'),
        ("127.0.0.1", 80, '["127.0.0.1:80"]'),
        ("[::1]", 99, '["[::1]:99"]'),
    ],
)
def test_a_refusal_names_the_host_and_a_pattern_that_lets_it_in(host: str, port: int, written: str) -> None:
    """The suggested pattern would work."""
    denied = permits(read_rules(LIST), host, port)
    assert isinstance(denied, Denied)
    assert f"{host}:{port} " in denied.why
    assert f"network: {written}" in denied.why
    assert isinstance(
        permits(read_rules([written.strip('[]"') if "::" not in written else "[::1]:99"]), host, port), Permit
    )


def test_a_refusal_promises_no_way_to_an_address_that_has_none() -> None:
    """Otherwise a person who follows the sentence would meet the next refusal."""
    denied = permits(read_rules(LIST), "169.254.169.254", 80)
    assert isinstance(denied, Denied)
    assert "no list can allow it" in denied.why


PUBLIC = ("93.184.215.14", "1.1.1.1", "2606:4700:4700::1111", "64:ff9b::101:101", "2002:101:101::1", "::ffff:1.1.1.1")
INNER = (
    "127.0.0.1",
    "127.255.0.9",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "100.64.0.1",
    "192.0.0.8",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "::1",
    "fc00::1",
    "fd12::1",
    "2001:db8::1",
    "100::1",
    "64:ff9b:1::1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "::ffff:127.0.0.1",
    "::ffff:0:127.0.0.1",
    "::127.0.0.1",
    "2002:7f00:1::1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",
)
NEVER = (
    "0.0.0.0",
    "0.1.2.3",
    "169.254.169.254",
    "169.254.0.1",
    "100.100.100.200",
    "168.63.129.16",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "::",
    "fe80::1",
    "fe80::1%2",
    "ff02::1",
    "fd00:ec2::254",
    "::ffff:169.254.169.254",
    "::ffff:0.0.0.0",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
)
KINDS = [*((text, "public") for text in PUBLIC), *((text, "inner") for text in INNER), *((t, "never") for t in NEVER)]


@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_an_address_is_public_private_or_nobodys(text: str, kind: str) -> None:
    """An embedded IPv4 address counts."""
    assert reach(ip_address(text)) == kind


@pytest.mark.parametrize(("text", "kind"), KINDS)
def test_an_allowed_name_does_not_make_its_address_allowed(text: str, kind: str) -> None:
    """Public addresses are always allowed, private ones by a full pattern, and the rest never."""
    bare, full = (Permit(host="a.example.org", port=443, inner=inner) for inner in (False, True))
    assert (forbidden_address(bare, ip_address(text)) is None) is (kind == "public")
    assert (forbidden_address(full, ip_address(text)) is None) is (kind != "never")
