# SPDX-License-Identifier: Apache-2.0
"""Certificates that end: how long they hold yet, and new ones by the same authority.

A new ``server.crt`` has the old key and needs nothing at the sites. The authority holds
for ten years; when less is left of it than a certificate lasts, it gets a new
``ca.crt`` with the same key, so that sites with the old file and with the new one both
trust the coordinator until the old one ends.
"""

from __future__ import annotations

import datetime
import os
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from afcl.exceptions import InputError
from afcl.runtime.flower.certificates import (
    CA,
    CA_KEY,
    CERTIFICATE,
    DAYS,
    KEY,
    authority_certificate,
    can_renew,
    general_name,
    how_to_renew,
    make_server_certificates,
    pem,
    read_certificates,
    server_certificate,
)
from afcl.runtime.flower.keys import require_flower
from afcl.runtime.flower.network import reachable, split_address
from afcl.runtime.live.engine import Tls

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

#: A certificate is renewed, or warned of, when so many days are left of it.
SOON = 30
#: The same of the authority's: every site needs the new file, which takes time.
AUTHORITY_SOON = 90
#: Seconds for a coordinator to show its certificate.
_PATIENCE = 5.0

Say = Callable[[str], None]


def certificates_for(folder: Path, hosts: Sequence[str], say: Say) -> Tls:
    """Return the certificates in a folder: made if there are none, renewed if need be.

    `say` is told in a line each what was renewed, and what ends soon.
    """
    require_flower()
    tls = tls_in(folder)
    there = all(path.exists() for path in (tls.ca, tls.cert, tls.key))
    if there and can_renew(tls):
        found = read_certificates(tls)
        if _left(found.server.not_valid_after_utc) < SOON:
            renew(folder, (), say)
    tls = make_server_certificates(folder, hosts)
    found = read_certificates(tls)
    for path, end, soon in (
        (tls.cert, found.server.not_valid_after_utc, SOON),
        (tls.ca, found.authority_end, AUTHORITY_SOON),
    ):
        if _left(end) < soon:
            say(f"{path} ends in {_days(end)}: {how_to_renew(tls)}")
    return tls


def tls_in(folder: Path) -> Tls:
    """Return where the certificates of a folder are, or would be."""
    return Tls(folder / CA, folder / CERTIFICATE, folder / KEY)


def renew(folder: Path, hosts: Iterable[str], say: Say) -> None:
    """Make a new server certificate, for the names of the old one and for `hosts`."""
    require_flower()
    tls = tls_in(folder)
    found = read_certificates(tls)
    key = _authority_key(tls, found.authorities)
    now = datetime.datetime.now(datetime.UTC)
    authority = found.authorities[0]
    if _left(authority.not_valid_after_utc) < DAYS:
        old = authority.not_valid_after_utc
        authority = authority_certificate(key, now)
        _replace(tls.ca, pem(authority))
        say(f"{tls.ca} is new: every site needs it by {old:%Y-%m-%d}")
    names = [*_names(found.server), *(general_name(reachable(h)) for h in hosts)]
    public = found.server.public_key()
    end = authority.not_valid_after_utc
    made = server_certificate(
        public,  # type: ignore[arg-type]
        list(dict.fromkeys(names)),
        authority,
        key,
        now,
        end,
    )
    _replace(tls.cert, pem(made))
    say(
        f"{tls.cert} is new: good until {made.not_valid_after_utc:%Y-%m-%d}; the sites "
        "need nothing for it"
    )


def _authority_key(
    tls: Tls, authorities: Sequence[x509.Certificate]
) -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec

    path = tls.ca.with_name(CA_KEY)
    if not path.exists():
        raise InputError(f"{tls.cert} cannot be renewed here: {how_to_renew(tls)}")
    try:
        key = form.load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError):
        key = None
    if (
        not isinstance(key, ec.EllipticCurvePrivateKey)
        or key.public_key() != authorities[0].public_key()
    ):
        raise InputError(f"{path} is not the key of {tls.ca}: restore the right one")
    return key


def _names(server: x509.Certificate) -> list[x509.GeneralName]:
    from cryptography import x509

    try:
        found = server.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return list(found.value)


def _replace(path: Path, content: bytes) -> None:
    """Put a new certificate in the place of the old one, whole; everybody may read."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(content)
    part.chmod(0o644)
    os.replace(part, path)


# ------------------------------------------------------------------ for people


def described(folder: Path) -> list[str]:
    """Return what the certificates in a folder are good for, a line each."""
    require_flower()
    tls = tls_in(folder)
    found = read_certificates(tls)
    names = ", ".join(str(name.value) for name in _names(found.server))
    can = "is there" if can_renew(tls) else f"is not there: {how_to_renew(tls)}"
    server_end = found.server.not_valid_after_utc
    return [
        f"{tls.cert}: for {names}; {_until(server_end)}",
        f"{tls.ca}: for the sites; {_until(found.authority_end)}",
        f"{tls.ca.with_name(CA_KEY)}: to renew them, {can}",
    ]


def ending_soon(address: str, ca: Path) -> list[str]:
    """Return what a site should know of certificates that end soon, a line each.

    A coordinator that cannot be reached is said nothing of.

    Raises
    ------
    InputError
        If the site's own copy of ``ca.crt`` has expired, or is none.
    """
    from cryptography import x509

    ask = "whoever runs the coordinator"
    try:
        found = x509.load_pem_x509_certificates(ca.read_bytes())
    except (OSError, ValueError):
        raise InputError(f"{ca} is no certificate: get ca.crt from {ask}") from None
    end = max(one.not_valid_after_utc for one in found)
    if _left(end) < 0:
        raise InputError(f"{ca} expired on {end:%Y-%m-%d}: get the new one from {ask}")
    lines = []
    if _left(end) < AUTHORITY_SOON:
        lines.append(f"{ca} ends in {_days(end)}: get the new one from {ask}")
    shown = _shown(address, ca)
    if shown is not None and _left(shown) < SOON:
        lines.append(
            f"the coordinator's certificate ends in {_days(shown)}: tell {ask}"
        )
    return lines


def _shown(address: str, ca: Path) -> datetime.datetime | None:
    """Return when the certificate ends that a coordinator shows, None without one."""
    host, port = split_address(address)
    context = ssl.create_default_context(cafile=str(ca))
    try:
        with (
            socket.create_connection((host, int(port)), _PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            shown = secure.getpeercert() or {}
    except (OSError, ValueError):  # why it is so, the engine finds out
        return None
    seconds = ssl.cert_time_to_seconds(str(shown["notAfter"]))
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def _left(end: datetime.datetime) -> int:
    """Return the whole days until then, fewer than none when it is over."""
    return (end - datetime.datetime.now(datetime.UTC)).days


def _days(end: datetime.datetime) -> str:
    left = _left(end)
    return "1 day" if left == 1 else f"{left} days"


def _until(end: datetime.datetime) -> str:
    over = _left(end) < 0
    return f"{'expired on' if over else 'until'} {end:%Y-%m-%d}" + (
        "" if over else f", {_days(end)} left"
    )
