# SPDX-License-Identifier: Apache-2.0
"""Certificates that end are warned of and renewed, and the sites need nothing new."""

import datetime
import socket
import ssl
import stat
import threading

import pytest

pytest.importorskip("flwr", reason="the network needs Flower: afcl[flower]")

from cryptography import x509

from afcl.exceptions import InputError
from afcl.runtime.flower import certificates, renewal
from afcl.runtime.flower.certificates import CA_KEY, make_server_certificates
from afcl.runtime.flower.renewal import (
    certificates_for,
    described,
    ending_soon,
    renew,
    tls_in,
)

pytestmark = pytest.mark.federation

DAY = datetime.timedelta(days=1)


def made(folder, age, *hosts):
    """Write certificates as they would be if made so many days ago."""
    tls = tls_in(folder)
    now = datetime.datetime.now(datetime.UTC)
    certificates._issue(tls, hosts or ["127.0.0.1"], now - age * DAY)
    return tls


def end_of(path):
    return x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc


def names_of(path):
    found = x509.load_pem_x509_certificate(path.read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def shakes_hands(tls, ca, host="127.0.0.1"):
    """Whether somebody with this ca.crt, and strict, trusts the coordinator."""
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(tls.cert, tls.key)
    theirs = ssl.create_default_context(cadata=ca.decode())
    theirs.verify_flags |= ssl.VERIFY_X509_STRICT
    left, right = socket.socketpair()

    def serve():
        try:
            with ours.wrap_socket(left, server_side=True) as end:
                end.sendall(b"x")
        except ssl.SSLError:
            left.close()

    server = threading.Thread(target=serve)
    server.start()
    try:
        with theirs.wrap_socket(right, server_hostname=host) as end:
            return end.recv(1) == b"x"
    except ssl.SSLError:
        right.close()
        return False
    finally:
        server.join(10)


# ------------------------------------------------------------------ at the coordinator


def test_new_certificates_are_made_and_nothing_is_said(tmp_path):
    said: list[str] = []
    tls = certificates_for(tmp_path, ["127.0.0.1"], said.append)
    assert said == []
    assert 800 < (end_of(tls.cert) - datetime.datetime.now(datetime.UTC)).days < 825
    assert (end_of(tls.ca) - datetime.datetime.now(datetime.UTC)).days > 3600
    before = [path.read_bytes() for path in (tls.ca, tls.cert, tls.key)]
    certificates_for(tmp_path, ["127.0.0.1"], said.append)
    assert [path.read_bytes() for path in (tls.ca, tls.cert, tls.key)] == before


@pytest.mark.parametrize("age", [800, 830, 2000])
def test_a_certificate_that_ends_is_renewed_by_itself(tmp_path, age):
    """Also one that has ended: whoever has the old ca.crt trusts the new one."""
    tls = made(tmp_path, age, "127.0.0.1", "coordinator.example.org")
    ca, key = tls.ca.read_bytes(), tls.key.read_bytes()
    said: list[str] = []
    assert certificates_for(tmp_path, ["127.0.0.1"], said.append) == tls
    (line,) = said
    assert line.startswith(f"{tls.cert} is new: good until {end_of(tls.cert):%Y-%m-%d}")
    assert "the sites need nothing" in line
    assert (tls.ca.read_bytes(), tls.key.read_bytes()) == (ca, key)
    assert names_of(tls.cert)[:2] == ["127.0.0.1", "coordinator.example.org"]
    assert shakes_hands(tls, ca)
    assert shakes_hands(tls, ca, "coordinator.example.org")
    assert stat.S_IMODE(tls.cert.stat().st_mode) == 0o644
    assert {path.name for path in tmp_path.iterdir()} == {
        *("ca.crt", "ca.key", "server.crt", "server.key")
    }


def test_a_certificate_with_time_left_stays(tmp_path):
    tls = made(tmp_path, 780)
    before = tls.cert.read_bytes()
    said: list[str] = []
    certificates_for(tmp_path, ["127.0.0.1"], said.append)
    assert tls.cert.read_bytes() == before
    assert said == []


def test_without_the_authoritys_key_the_days_are_told(tmp_path):
    tls = made(tmp_path, 810)
    (tmp_path / CA_KEY).unlink()
    said: list[str] = []
    certificates_for(tmp_path, ["127.0.0.1"], said.append)
    (line,) = said
    assert line.startswith(f"{tls.cert} ends in 13 days: without ca.key only who ")
    with pytest.raises(InputError, match="cannot be renewed here: without ca.key"):
        renew(tmp_path, (), said.append)


def test_an_authority_that_ends_gets_a_new_file_with_its_old_key(tmp_path):
    """Sites with the old file and with the new one both trust the coordinator."""
    tls = made(tmp_path, 3570)
    old, end = tls.ca.read_bytes(), end_of(tls.ca)
    said: list[str] = []
    certificates_for(tmp_path, ["127.0.0.1"], said.append)
    assert said[0] == f"{tls.ca} is new: every site needs it by {end:%Y-%m-%d}"
    assert len(said) == 2
    assert tls.ca.read_bytes() != old
    assert shakes_hands(tls, old)
    assert shakes_hands(tls, tls.ca.read_bytes())


def test_hosts_are_added_by_renewing(tmp_path):
    tls = made(tmp_path, 0, "a.example.org")
    added = r"server\.crt is not made out to b\.example\.org: renew it with afcl "
    added += r"certificates .* --renew --hostname b\.example\.org"
    with pytest.raises(InputError, match=added):
        make_server_certificates(tmp_path, ["b.example.org"])
    renew(tmp_path, ["b.example.org", "a.example.org"], lambda text: None)
    assert names_of(tls.cert) == [
        *("a.example.org", "localhost", "127.0.0.1", "::1", "b.example.org")
    ]
    make_server_certificates(tmp_path, ["b.example.org"])
    assert shakes_hands(tls, tls.ca.read_bytes(), "b.example.org")


def test_a_key_of_another_authority_renews_nothing(tmp_path):
    tls = made(tmp_path / "a", 0)
    other = made(tmp_path / "b", 0)
    content = other.ca.with_name(CA_KEY).read_bytes()
    before = tls.cert.read_bytes()
    for wrong in (content, b"nothing"):
        (tmp_path / "a" / CA_KEY).write_bytes(wrong)
        with pytest.raises(InputError, match=r"ca\.key is not the key of .*ca\.crt"):
            renew(tmp_path / "a", (), lambda text: None)
    assert tls.cert.read_bytes() == before


def test_certificates_are_described(tmp_path):
    made(tmp_path, 800, "a.example.org")
    server, authority, key = described(tmp_path)
    assert "for a.example.org, localhost, 127.0.0.1, ::1; until 2" in server
    assert server.endswith("23 days left")
    assert authority.endswith("2848 days left")
    assert key.endswith("to renew them, is there")
    (tmp_path / CA_KEY).unlink()
    assert "is not there: without ca.key only who issued it" in described(tmp_path)[2]


def test_an_expired_certificate_is_described_as_such(tmp_path):
    made(tmp_path, 900)
    assert "expired on 2" in described(tmp_path)[0]


# ------------------------------------------------------------------ at a site


@pytest.fixture
def coordinator(monkeypatch):
    """Let a coordinator show a certificate that ends in so many days."""

    def show(days):
        end = datetime.datetime.now(datetime.UTC) + days * DAY
        monkeypatch.setattr(renewal, "_shown", lambda address, ca: end)

    return show


def test_a_site_is_told_what_ends_soon(tmp_path, coordinator):
    tls = made(tmp_path, 0)
    coordinator(31.5)
    assert ending_soon("127.0.0.1:1", tls.ca) == []
    coordinator(12.5)
    assert ending_soon("127.0.0.1:1", tls.ca) == [
        "the coordinator's certificate ends in 12 days: tell whoever runs the "
        "coordinator"
    ]


def test_a_site_is_told_that_its_authority_ends(tmp_path):
    tls = made(tmp_path, 3648 - 60)
    (line,) = ending_soon("127.0.0.1:1", tls.ca)
    assert line == (
        f"{tls.ca} ends in 60 days: get the new one from whoever runs the coordinator"
    )


def test_a_site_does_not_join_with_an_authority_that_has_ended(tmp_path):
    tls = made(tmp_path, 4000)
    with pytest.raises(InputError, match=r"ca\.crt expired on 2.*: get the new one"):
        ending_soon("127.0.0.1:1", tls.ca)
    (tmp_path / "no.crt").write_text("nothing")
    with pytest.raises(InputError, match="is no certificate"):
        ending_soon("127.0.0.1:1", tmp_path / "no.crt")


def test_what_a_coordinator_shows_is_read_from_its_certificate(tmp_path):
    tls = made(tmp_path, 800)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.cert, tls.key)
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        with listening, context.wrap_socket(listening.accept()[0], server_side=True):
            pass

    server = threading.Thread(target=serve)
    server.start()
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    shown = renewal._shown(address, tls.ca)
    server.join(10)
    assert shown == end_of(tls.cert)
    assert renewal._shown(address, tls.ca) is None
