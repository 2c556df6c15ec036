# SPDX-License-Identifier: Apache-2.0
"""Who is who on the network: a site's key pair, the coordinator's certificates.

Sites prove themselves with a key pair that the coordinator has enrolled; the
coordinator proves itself with a certificate that the sites' copy of ``ca.crt`` vouches
for. Private keys are readable by their owner only, and nothing is ever overwritten.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from afcl.exceptions import InputError

if TYPE_CHECKING:
    from cryptography import x509

#: The files in a folder of certificates.
CA, CERTIFICATE, KEY = "ca.crt", "server.crt", "server.key"
#: How long new certificates hold; the longest that all TLS libraries accept.
DAYS = 825
#: What new certificates are made out to besides: how a machine calls itself.
OWN_NAMES: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Tls:
    """Where the coordinator's certificates are; a site needs only `ca`."""

    ca: Path
    cert: Path
    key: Path


def require_flower() -> None:
    """Say what to install if the network engine is not there."""
    if any(find_spec(name) is None for name in ("flwr", "cryptography", "psutil")):
        raise InputError("federation needs Flower: pip install 'afcl[flower]'")


def make_site_key(folder: Path, name: str = "site") -> tuple[Path, Path]:
    """Make a site's key pair in `folder`; return the private and the public file.

    The private file stays at the site; the public one goes to the coordinator.
    """
    require_flower()
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    if not re.fullmatch(r"\w[\w.-]*", name):
        raise InputError(
            f"{name!r} cannot name a key: use letters, digits, '.', '_' and '-'"
        )
    private, public = folder / name, folder / f"{name}.pub"
    for path in (private, public):
        if path.exists():
            raise InputError(f"{path} is there already: use it, or choose another name")
    key = ec.generate_private_key(ec.SECP384R1())
    said = key.public_key().public_bytes(
        form.Encoding.OpenSSH, form.PublicFormat.OpenSSH
    )
    _write(
        private,
        key.private_bytes(
            form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption()
        ),
        secret=True,
    )
    _write(public, said + f" {name}\n".encode())
    return private, public


def make_server_certificates(folder: Path, hosts: Iterable[str]) -> Tls:
    """Return the certificates in `folder`, made now if there are none.

    `hosts` are the names and addresses under which the coordinator is reached, the one
    it listens on among them. Files that are there are checked and used as they are.
    """
    require_flower()
    tls = Tls(folder / CA, folder / CERTIFICATE, folder / KEY)
    files = (tls.ca, tls.cert, tls.key)
    missing = [path.name for path in files if not path.exists()]
    named = [_reachable(host) for host in hosts]
    if len(missing) == len(files):
        _issue(tls, named, datetime.datetime.now(datetime.UTC))
    elif missing:
        raise InputError(
            f"{folder} has no {' and no '.join(missing)}: complete it, or give an "
            "empty folder to have certificates made"
        )
    _check(tls, named)
    return tls


def _reachable(host: str) -> str:
    """Return the address that a coordinator bound to `host` is reached at from here."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


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
    authority = _name("afcl federation authority")

    def certificate(
        subject: x509.Name, key: ec.EllipticCurvePrivateKey, is_authority: bool
    ) -> x509.CertificateBuilder:
        identity = x509.SubjectKeyIdentifier.from_public_key
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority)
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
            .add_extension(
                x509.KeyUsage(
                    digital_signature=not is_authority,
                    content_commitment=False,
                    key_encipherment=False,
                    data_encipherment=False,
                    key_agreement=False,
                    key_cert_sign=is_authority,
                    crl_sign=is_authority,
                    encipher_only=False,
                    decipher_only=False,
                ),
                critical=True,
            )
            .add_extension(identity(key.public_key()), critical=False)
            .add_extension(issuer(authority_key.public_key()), critical=False)
        )

    names = dict.fromkeys([*hosts, *OWN_NAMES])
    own = certificate(authority, authority_key, is_authority=True)
    server = (
        certificate(_name("afcl coordinator"), server_key, is_authority=False)
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
        _write(path, signed.public_bytes(form.Encoding.PEM))
    _write(
        tls.key,
        server_key.private_bytes(
            form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
        ),
        secret=True,
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


def _write(path: Path, content: bytes, secret: bool = False) -> None:
    """Write a new file; a secret is never readable by others, not for a moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = 0o600 if secret else 0o644
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb"
    ) as to:
        to.write(content)
