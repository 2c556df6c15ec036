# SPDX-License-Identifier: Apache-2.0
"""The coordinator's certificates: made, or checked and used as they are.

Sites prove themselves with a key pair that the coordinator has enrolled; the
coordinator proves itself with a certificate that the sites' copy of ``ca.crt`` vouches
for. Private keys are readable by their owner only, and nothing is ever overwritten.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
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
#: How long new certificates hold; the longest that all TLS libraries accept.
DAYS = 825
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
    _check(tls, named)
    return tls


def _issue(tls: Tls, hosts: Iterable[str], start: datetime.datetime) -> None:
    """Write a certificate for `hosts` and the authority that vouches for it.

    The authority's key is forgotten at once: nobody can issue a second certificate.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509 import oid

    authority_key = ec.generate_private_key(ec.SECP384R1())
    server_key = ec.generate_private_key(ec.SECP384R1())
    names = dict.fromkeys([*hosts, *OWN_NAMES])
    own = _builder(_AUTHORITY, authority_key, authority_key, start)
    server = (
        _builder("afcl coordinator", server_key, authority_key, start)
        .add_extension(
            x509.SubjectAlternativeName([_general_name(name) for name in names]),
            critical=False,
        )
        .add_extension(
            x509.ExtendedKeyUsage([oid.ExtendedKeyUsageOID.SERVER_AUTH]),
            critical=False,
        )
    )
    for path, builder in ((tls.ca, own), (tls.cert, server)):
        signed = builder.sign(authority_key, hashes.SHA384())
        write_new(path, signed.public_bytes(form.Encoding.PEM))
    write_new(
        tls.key,
        server_key.private_bytes(
            form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
        ),
        secret=True,
    )


def _builder(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    authority_key: ec.EllipticCurvePrivateKey,
    start: datetime.datetime,
) -> x509.CertificateBuilder:
    """Return a certificate of the authority's, to be signed: its own, or another's."""
    from cryptography import x509

    identity = x509.SubjectKeyIdentifier.from_public_key
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key
    is_authority = key is authority_key
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(_AUTHORITY))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks differ between sites: valid since yesterday.
        .not_valid_before(start - datetime.timedelta(days=1))
        .not_valid_after(start + datetime.timedelta(days=DAYS - 1))
        .add_extension(
            x509.BasicConstraints(
                ca=is_authority, path_length=0 if is_authority else None
            ),
            critical=True,
        )
        .add_extension(_usage(is_authority), critical=True)
        .add_extension(identity(key.public_key()), critical=False)
        .add_extension(issuer(authority_key.public_key()), critical=False)
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


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise InputError(f"{host!r} is no host name: write it in ASCII") from error


def _check(tls: Tls, hosts: Iterable[str]) -> None:
    """Refuse certificates that no site could connect to."""
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
    now = datetime.datetime.now(datetime.UTC)
    ends = {
        tls.cert: server.not_valid_after_utc,
        tls.ca: max(one.not_valid_after_utc for one in authorities),
    }
    for path, end in ends.items():
        if end < now:
            raise InputError(
                f"{path} expired on {end:%Y-%m-%d}: renew it, or give an empty folder "
                "to have certificates made and send the new ca.crt to every site"
            )
    for host in hosts:
        if not _covers(server, host):
            raise InputError(
                f"{tls.cert} is not made out to {host}: renew it, or give an empty "
                "folder to have certificates made"
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
