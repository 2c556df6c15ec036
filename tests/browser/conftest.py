# SPDX-License-Identifier: Apache-2.0
"""A real Chromium that reaches this machine alone, and pages that must be calm."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def chromium():
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium on this machine: 'make browser' installs Debian's")
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


def at_home(url):
    parts = urlsplit(url)
    return parts.scheme in ("file", "data") or parts.hostname == "127.0.0.1"


@pytest.fixture
def show(chromium):
    """Return a function that opens a page; the page must not complain nor reach out."""
    contexts, complaints = [], []

    def guard(route):
        if at_home(route.request.url):
            route.continue_()
        else:
            complaints.append(f"reached for {route.request.url}")
            route.abort()

    def listen(page):
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda said: (
                complaints.append(said.text)
                if said.type in ("error", "warning")
                else None
            ),
        )
        page.on("dialog", lambda dialog: complaints.append(dialog.message))

    def opened(address, width=1280, scheme="light", calm=True):
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        contexts.append(context)
        context.route("**/*", guard)
        context.set_default_timeout(15_000)
        page = context.new_page()
        if calm:
            listen(page)
        url = address if isinstance(address, str) else address.resolve().as_uri()
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


class Board:
    """A dashboard in a process of its own."""

    def __init__(self, folder, port=0):
        program = "from afcl.cli import main; main()"
        command = [sys.executable, "-c", program, "dashboard", str(folder)]
        self.process = subprocess.Popen(
            [*command, "--port", str(port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout
        line = self.said.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        assert found, line + self.said.read()
        self.url, self.port = found[0], int(found[1])

    def end(self):
        """End this very process, and wait until it is gone."""
        self.process.terminate()
        self.process.wait(timeout=10)
        self.said.close()


@pytest.fixture
def board():
    """Return a way to have dashboards, all of them ended afterwards."""
    running = []

    def start(folder, port=0):
        made = Board(folder, port)
        running.append(made)
        return made

    yield start
    for made in running:
        if made.process.poll() is None:
            made.end()
