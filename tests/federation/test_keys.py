# SPDX-License-Identifier: Apache-2.0
"""Keys and certificates: their form, their permissions, what is refused."""

import datetime
import socket
import ssl
import stat
import threading

import pytest

pytest.importorskip("flwr", reason="the network needs Flower: afcl[flower]")

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from afcl.exceptions import InputError
from afcl.runtime.flower import certificates, keys
from afcl.runtime.flower.certificates import make_server_certificates
from afcl.runtime.flower.keys import make_site_key
from afcl.runtime.live.engine import Tls

pytestmark = pytest.mark.federation


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_site_key_has_the_form_that_ssh_keygen_makes(tmp_path):
    private, public = make_site_key(tmp_path / "new" / "folder", "site-a")
    assert (private.name, public.name) == ("site-a", "site-a.pub")
    key = serialization.load_ssh_private_key(private.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    assert key.curve.name == "secp384r1"
    said = serialization.load_ssh_public_key(public.read_bytes())
    assert said == key.public_key()
    assert private.read_bytes().startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----\n")
    kind, _, owner = public.read_text().split()
    assert (kind, owner) == ("ecdsa-sha2-nistp384", "site-a")


def test_private_keys_are_for_their_owner_only(tmp_path):
    private, _ = make_site_key(tmp_path)
    tls = make_server_certificates(tmp_path, ["127.0.0.1"])
    secrets = (private, tls.key, tls.ca.with_name(certificates.CA_KEY))
    assert [mode(path) for path in secrets] == [0o600] * 3
    assert mode(tls.cert) == mode(tls.ca) == 0o644


def test_two_site_keys_differ(tmp_path):
    assert (
        make_site_key(tmp_path, "a")[1].read_text().split()[1]
        != make_site_key(tmp_path, "b")[1].read_text().split()[1]
    )


@pytest.mark.parametrize("there", ["site", "site.pub"])
def test_a_key_is_never_overwritten(tmp_path, there):
    (tmp_path / there).write_text("mine")
    with pytest.raises(InputError, match=f"{there} is there already"):
        make_site_key(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "mine"


@pytest.mark.parametrize("name", ["", "../site", "a b", "-x", "a\nb"])
def test_a_key_needs_a_plain_name(tmp_path, name):
    with pytest.raises(InputError, match="cannot name a key"):
        make_site_key(tmp_path, name)


def test_certificates_name_every_host(tmp_path):
    hosts = ["0.0.0.0", "198.51.100.7", "coordinator.example.org"]
    tls = make_server_certificates(tmp_path, hosts)
    server = x509.load_pem_x509_certificate(tls.cert.read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [
        "coordinator.example.org",
        "localhost",
    ]
    assert [str(a) for a in names.get_values_for_type(x509.IPAddress)] == [
        "127.0.0.1",
        "198.51.100.7",
        "::1",
    ]
    left = server.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    assert 800 < left.days < 825


def test_certificates_hold_in_a_strict_handshake(tmp_path):
    tls = make_server_certificates(tmp_path, ["127.0.0.1"])
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(tls.cert, tls.key)
    theirs = ssl.create_default_context(cafile=tls.ca)
    theirs.verify_flags |= ssl.VERIFY_X509_STRICT
    left, right = socket.socketpair()

    def serve():
        with ours.wrap_socket(left, server_side=True) as end:
            end.sendall(b"welcome")

    server = threading.Thread(target=serve)
    server.start()
    with theirs.wrap_socket(right, server_hostname="127.0.0.1") as end:
        assert end.recv(7) == b"welcome"
    server.join(10)


def test_certificates_that_are_there_are_used(tmp_path):
    first = make_server_certificates(tmp_path, ["127.0.0.1"])
    content = [path.read_bytes() for path in (first.ca, first.cert, first.key)]
    again = make_server_certificates(tmp_path, ["127.0.0.1", "localhost"])
    assert again == first
    assert content == [path.read_bytes() for path in (again.ca, again.cert, again.key)]


def test_a_certificate_for_a_whole_domain_is_good_for_its_hosts(tmp_path):
    make_server_certificates(tmp_path, ["*.example.org"])
    make_server_certificates(tmp_path, ["a.example.org"])
    for other in ("example.org", "a.b.example.org", "a.example.com"):
        with pytest.raises(InputError, match=f"not made out to {other}"):
            make_server_certificates(tmp_path, [other])


def test_expired_certificates_are_refused(tmp_path):
    tls = Tls(
        *(
            tmp_path / name
            for name in (certificates.CA, certificates.CERTIFICATE, certificates.KEY)
        )
    )
    then = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    certificates._issue(tls, ["127.0.0.1"], then)
    with pytest.raises(InputError, match=r"server\.crt expired on 2022-04-04: renew"):
        make_server_certificates(tmp_path, ["127.0.0.1"])
    (tmp_path / certificates.CA_KEY).unlink()
    with pytest.raises(InputError, match=r"without ca\.key only who issued it can"):
        make_server_certificates(tmp_path, ["127.0.0.1"])


@pytest.mark.parametrize(
    "gone", [certificates.CA, certificates.CERTIFICATE, certificates.KEY]
)
def test_an_incomplete_folder_is_refused(tmp_path, gone):
    make_server_certificates(tmp_path, ["127.0.0.1"])
    (tmp_path / gone).unlink()
    with pytest.raises(InputError, match=f"has no {gone}: complete it"):
        make_server_certificates(tmp_path, ["127.0.0.1"])
    assert not (tmp_path / gone).exists()


@pytest.mark.parametrize(
    "bad", [certificates.CA, certificates.CERTIFICATE, certificates.KEY]
)
def test_files_that_are_no_certificates_are_refused(tmp_path, bad):
    make_server_certificates(tmp_path, ["127.0.0.1"])
    (tmp_path / bad).write_text("nothing of the kind")
    with pytest.raises(InputError, match="holds no certificates that can be used"):
        make_server_certificates(tmp_path, ["127.0.0.1"])


def test_files_that_cannot_be_read_are_refused(tmp_path):
    make_server_certificates(tmp_path, ["127.0.0.1"])
    (tmp_path / certificates.KEY).unlink()
    (tmp_path / certificates.KEY).mkdir()
    with pytest.raises(InputError, match=r"server\.key cannot be read"):
        make_server_certificates(tmp_path, ["127.0.0.1"])


def test_a_key_of_another_certificate_is_refused(tmp_path):
    make_server_certificates(tmp_path / "a", ["127.0.0.1"])
    other = make_server_certificates(tmp_path / "b", ["127.0.0.1"])
    (tmp_path / "a" / certificates.KEY).write_bytes(other.key.read_bytes())
    with pytest.raises(InputError, match="is not the key of"):
        make_server_certificates(tmp_path / "a", ["127.0.0.1"])


def test_a_host_that_cannot_be_in_a_certificate_is_refused(tmp_path):
    with pytest.raises(InputError, match="is no host name"):
        make_server_certificates(tmp_path, ["zürich.example.org"])
    assert not any(tmp_path.iterdir())


def test_without_flower_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(keys, "find_spec", lambda name: None)
    for make in (
        lambda: make_site_key(tmp_path),
        lambda: make_server_certificates(tmp_path, []),
    ):
        with pytest.raises(InputError, match=r"pip install 'afcl\[flower\]'"):
            make()
