# SPDX-License-Identifier: Apache-2.0
"""The coordinator's certificates: made, or checked and used as they are.

Sites prove themselves with a key pair that the coordinator has enrolled; the
coordinator proves itself with a certificate that the sites' copy of ``ca.crt`` vouches
for. The authority's key is kept, so that the certificate can be renewed
(:mod:`~afcl.runtime.flower.renewal`) and the sites need no other ``ca.crt`` for years.
Private keys are readable by their owner only, and never overwritten.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from afcl.exceptions import InputError
from afcl.runtime.flower.keys import require_flower, write_new
from afcl.runtime.flower.network import reachable
from afcl.runtime.live.engine import Tls

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

#: What vouches for the coordinator, in a folder of certificates.
CA = "ca.crt"
#: The coordinator's certificate.
CERTIFICATE = "server.crt"
#: Its private key.
KEY = "server.key"
#: The authority's private key, by which certificates are renewed.
CA_KEY = "ca.key"
#: How long new certificates hold; the longest that all TLS libraries accept.
DAYS = 825
#: How long a new authority holds: all its sites need a new one after that.
AUTHORITY_DAYS = 3650
#: What new certificates are made out to besides: how a machine calls itself.
OWN_NAMES: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
_AUTHORITY = "afcl federation authority"


def make_server_certificates(folder: Path, hosts: Iterable[str]) -> Tls:
    """Return the certificates in `folder`, made now if there are none.

    `hosts` are the names and addresses under which the coordinator is reached, the one
    it listens on among them. Files that are there are checked and used as they are.
    """
    require_flower()
    tls = Tls(folder / CA, folder / CERTIFICATE, folder / KEY)
    files = (tls.ca, tls.cert, tls.key)
    missing = [path.name for path in files if not path.exists()]
    named = [reachable(host) for host in hosts]
    if len(missing) == len(files):
        _issue(tls, named, datetime.datetime.now(datetime.UTC))
    elif missing:
        raise InputError(
            f"{folder} has no {' and no '.join(missing)}: complete it, or give an "
            "empty folder to have certificates made"
        )
    check_certificates(tls, named)
    return tls


def _issue(tls: Tls, hosts: Iterable[str], start: datetime.datetime) -> None:
    """Write a certificate for `hosts` and the authority that vouches for it."""
    from cryptography.hazmat.primitives.asymmetric import ec

    authority_key = ec.generate_private_key(ec.SECP384R1())
    server_key = ec.generate_private_key(ec.SECP384R1())
    names = [general_name(name) for name in dict.fromkeys([*hosts, *OWN_NAMES])]
    own = authority_certificate(authority_key, start)
    end = own.not_valid_after_utc
    server = server_certificate(
        server_key.public_key(), names, own, authority_key, start, end
    )
    for path, made in ((tls.ca, own), (tls.cert, server)):
        write_new(path, pem(made))
    for path, key in (
        (tls.key, server_key),
        (tls.ca.with_name(CA_KEY), authority_key),
    ):
        write_new(path, _pem_key(key), secret=True)


def pem(certificate: x509.Certificate) -> bytes:
    """Return a certificate as it stands in its file."""
    from cryptography.hazmat.primitives import serialization as form

    return certificate.public_bytes(form.Encoding.PEM)


def _pem_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization as form

    return key.private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
    )


def authority_certificate(
    key: ec.EllipticCurvePrivateKey, start: datetime.datetime
) -> x509.Certificate:
    """Return what vouches for everything that is signed with a key."""
    from cryptography.hazmat.primitives import hashes

    end = start + datetime.timedelta(days=AUTHORITY_DAYS - 1)
    subject = _name(_AUTHORITY)
    made = _builder(subject, key.public_key(), subject, key, start, end, True)
    return made.sign(key, hashes.SHA384())


def server_certificate(
    public: ec.EllipticCurvePublicKey,
    names: Iterable[x509.GeneralName],
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    start: datetime.datetime,
    latest: datetime.datetime,
) -> x509.Certificate:
    """Return a certificate for the owner of a key, no longer good than `latest`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509 import oid

    end = min(start + datetime.timedelta(days=DAYS - 1), latest)
    subject, issuer = _name("afcl coordinator"), authority.subject
    return (
        _builder(subject, public, issuer, authority_key, start, end, False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage([oid.ExtendedKeyUsageOID.SERVER_AUTH]),
            critical=False,
        )
        .sign(authority_key, hashes.SHA384())
    )


def _builder(
    subject: x509.Name,
    public: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    authority_key: ec.EllipticCurvePrivateKey,
    start: datetime.datetime,
    end: datetime.datetime,
    is_authority: bool,
) -> x509.CertificateBuilder:
    """Return a certificate of the authority's, to be signed: its own, or another's."""
    from cryptography import x509

    identity = x509.SubjectKeyIdentifier.from_public_key
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        # Clocks differ between sites: valid since yesterday.
        .not_valid_before(start - datetime.timedelta(days=1))
        .not_valid_after(end)
        .add_extension(
            x509.BasicConstraints(
                ca=is_authority, path_length=0 if is_authority else None
            ),
            critical=True,
        )
        .add_extension(_usage(is_authority), critical=True)
        .add_extension(identity(public), critical=False)
        .add_extension(issued_by(authority_key.public_key()), critical=False)
    )


def _usage(is_authority: bool) -> x509.KeyUsage:
    """Return what a key may be used for: to sign certificates, or to prove itself."""
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def general_name(host: str) -> x509.GeneralName:
    """Return a host as it stands in a certificate."""
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise InputError(f"{host!r} is no host name: write it in ASCII") from error


@dataclass(frozen=True)
class Certificates:
    """What is in a folder of certificates."""

    authorities: list[x509.Certificate]
    server: x509.Certificate

    @property
    def authority_end(self) -> datetime.datetime:
        """When the last authority ends."""
        return max(one.not_valid_after_utc for one in self.authorities)


def read_certificates(tls: Tls) -> Certificates:
    """Read the files of a folder, or say in one line what is wrong with them."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization as form

    try:
        authorities = x509.load_pem_x509_certificates(tls.ca.read_bytes())
        server = x509.load_pem_x509_certificate(tls.cert.read_bytes())
        key = form.load_pem_private_key(tls.key.read_bytes(), None)
    except OSError as error:
        raise InputError(
            f"{error.filename} cannot be read: {error.strerror}"
        ) from error
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{tls.cert.parent} holds no certificates that can be used: {CA} and "
            f"{CERTIFICATE} must be PEM certificates, {KEY} a PEM key without password"
        ) from error
    if key.public_key() != server.public_key():
        raise InputError(f"{tls.key} is not the key of {tls.cert}: give the right one")
    return Certificates(authorities, server)


def check_certificates(tls: Tls, hosts: Iterable[str]) -> None:
    """Refuse certificates that no site could connect to."""
    found = read_certificates(tls)
    again = how_to_renew(tls)
    now = datetime.datetime.now(datetime.UTC)
    ends = {
        tls.cert: found.server.not_valid_after_utc,
        tls.ca: found.authority_end,
    }
    for path, end in ends.items():
        if end < now:
            raise InputError(f"{path} expired on {end:%Y-%m-%d}: {again}")
    for host in hosts:
        if not _covers(found.server, host):
            add = f"{again} --hostname {host}" if can_renew(tls) else again
            raise InputError(f"{tls.cert} is not made out to {host}: {add}")


def can_renew(tls: Tls) -> bool:
    """Whether the authority's key is there."""
    return tls.ca.with_name(CA_KEY).exists()


def how_to_renew(tls: Tls) -> str:
    """Return what to do about certificates that do no more."""
    folder = tls.ca.parent
    if can_renew(tls):
        return f"renew it with afcl certificates {folder} --renew"
    return (
        f"without {CA_KEY} only who issued it can renew it; or give --tls an empty "
        "folder, and send the ca.crt that is made there to every site"
    )


def _covers(server: x509.Certificate, host: str) -> bool:
    from cryptography import x509

    try:
        names = server.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except x509.ExtensionNotFound:
        return False
    known = {str(name) for name in names.get_values_for_type(x509.IPAddress)}
    known |= {name.lower() for name in names.get_values_for_type(x509.DNSName)}
    _, _, parent = host.lower().partition(".")
    return host.lower() in known or f"*.{parent}" in known
