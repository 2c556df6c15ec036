# SPDX-License-Identifier: Apache-2.0
"""What the engine's logs say, in one line that says what to do."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from pathlib import Path

from afcl.runtime.flower.log_file import read_log

#: A SuperNode that gets no answer does not say why, and tries again.
NO_ANSWER = "no answer from the coordinator yet: wrong address, not started, or TLS?"
_PLAIN = "the coordinator speaks plain text: join with --insecure, without --ca"
GIVE_CA = "give the coordinator's ca.crt with --ca"
#: The engine says the same of a key it does not know (any more) and of one that is
#: online. It takes a site for online until it has been silent for a minute.
KEY_REFUSED = (
    "the coordinator does not know this key, has revoked it, or has a site online with "
    "it: ask for 'afcl enrol' with the .pub file, or, if the site has just been cut "
    "off, join again in a minute"
)
#: What a site is told whose engine was sent home after it had joined.
PUT_OUT = (
    "the coordinator has cut this site off: its key was revoked, or its engine was "
    "begun anew; ask whoever runs the coordinator, then join again"
)
#: What a SuperNode's log says, and what it means; the first that fits counts.
_REFUSALS = {
    "[code: 2004]": KEY_REFUSED,
    "[code: 2001]": (
        "the coordinator admits only enrolled sites: make a key with 'afcl keygen', "
        "have its .pub file enrolled, and join with --key"
    ),
    "mismatch, certificate is not valid for": (
        "the coordinator's certificate is not made out to this address: "
        "join at a name or address that it was made for"
    ),
    "certificate has expired": (
        "the coordinator's certificate has expired: tell whoever runs the coordinator"
    ),
    "CERTIFICATE_VERIFY_FAILED": (
        "the coordinator's certificate is not vouched for by this ca.crt: "
        "get the file from whoever runs the coordinator"
    ),
    "WRONG_VERSION_NUMBER": _PLAIN,
    "RECORD_LAYER_FAILURE": _PLAIN,  # the same, from OpenSSL 3.2 on
    "Exit Code: 606": (
        "the coordinator runs another version of Flower: "
        "install the same 'afcl[flower]' as there"
    ),
    "Unable to parse the private key file": (
        "the key cannot be used: give the private file that 'afcl keygen' made"
    ),
    "address already in use": "the site's port is taken: choose another with --port",
}
#: So many attempts to connect take about five seconds; the pauses are random.
_ATTEMPTS = 4
_ERROR = re.compile(r"\bERROR\b|^[\w.]+(Error|Exception|Exit): |: error: ")
_REFUSED = re.compile(r"Failed to initialize the connection to the SuperLink\.\n(.+)")
#: A coordinator in trouble of its own, such as a full disk, refuses nobody.
_ITS_OWN = "Server error '5"
_JOINED = re.compile(r"SuperNode ID: (\d+)")
#: It gives up at the first error of the coordinator's, and says so in passing.
_HEART = re.compile(r"HTTPStatusError: Server error .*/send-node-heartbeat")
_SENT_HOME = "SuperNode terminated gracefully"
#: A SuperLink that does not let a key in, with the key as Python writes bytes.
_TURNED_AWAY = re.compile(
    r"\[ApiError:2004\] Attempted to register SuperNode with public key: (b'[^']+')"
)


def node_id(log: Path) -> str | None:
    """Return the id under which a SuperNode has joined, or None if it has not yet."""
    found = _JOINED.search(read_log(log))
    return None if found is None else found[1]


def refusal(log: Path) -> str | None:
    """Return in one line why a SuperNode is not let in, or None if nothing says so.

    A SuperNode that cannot reach the coordinator keeps trying and does not say why;
    `unreachable` does. Here it counts as refused after a few attempts.
    """
    text = read_log(log)
    if _JOINED.search(text):
        return None
    if known := meaning(text):
        return known
    found = _REFUSED.search(text)
    if found and not found[1].startswith(_ITS_OWN):
        return f"the coordinator refused: {found[1]}"
    if text.count("Connection attempt failed") >= _ATTEMPTS:
        return NO_ANSWER
    return None


def sent_home(log: Path) -> bool:
    """Whether a SuperNode that has ended was told to, after it had joined."""
    text = read_log(log)
    return 0 <= text.rfind("SuperNode ID: ") < text.rfind(_SENT_HOME)


def owes_answer(log: Path) -> bool:
    """Whether a SuperNode has been asked something, and has not sent what it says."""
    text = read_log(log)
    return text.rfind("Received successfully") > text.rfind("Sent successfully")


def heart_stopped(log: Path) -> bool:
    """Whether a SuperNode has ceased to tell the coordinator that it is there."""
    return _HEART.search(read_log(log)) is not None


def turned_away(text: str) -> list[bytes]:
    """Return the public keys (PEM) that a SuperLink's log says were not let in."""
    found = []
    for written in _TURNED_AWAY.findall(text):
        with suppress(ValueError, SyntaxError):  # a stranger may send what it likes
            found.append(bytes(ast.literal_eval(written)))
    return found


def meaning(text: str) -> str | None:
    """Return in one line what the engine's own words mean, None if they are unknown."""
    return next((line for sign, line in _REFUSALS.items() if sign in text), None)


def last_words(log: Path) -> str:
    """Return the line of a log that says best why its process ended."""
    lines = [line.strip() for line in read_log(log).splitlines()]
    lines = [line for line in lines if line and "For more information" not in line]
    for at, line in enumerate(lines[:-1]):
        if "Exit Code: " in line:
            return lines[at + 1]
    errors = [line for line in lines if _ERROR.search(line)]
    if errors:
        return errors[-1]
    return lines[-1] if lines else f"see {log}"
