# SPDX-License-Identifier: Apache-2.0
"""A run between processes that a person can watch: ``make federation``.

Five sites that share no cluster, keys and TLS, everything on this machine. One site
comes late. What each command says is printed with its name in front.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import polars as pl

from afcl.data import kmeans_split, make_sd1
from afcl.runtime.flower.network import free_port

SITES = 5
AFCL = [sys.executable, "-c", "import sys; from afcl.cli import main; main()"]


def run(where: Path, name: str, *words: object) -> subprocess.Popen[str]:
    """Start a command; print what it says."""
    print(f"{name:12} $ afcl {' '.join(map(str, words))}", flush=True)
    process = subprocess.Popen(
        [*AFCL, *map(str, words)],
        cwd=where,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )

    def show() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            print(f"{name:12} | {line}", end="", flush=True)

    threading.Thread(target=show, daemon=True).start()
    return process


def main() -> None:
    """Play all parts."""
    where = Path(tempfile.mkdtemp(prefix="afcl-federation-"))
    X, _ = make_sd1(0)
    owner = kmeans_split(X, SITES, random_state=0)
    for site in range(SITES):
        rows = pl.DataFrame(X[owner == site], schema=["height", "weight"])
        rows.write_csv(where / f"{site}.csv")
    port = free_port()
    begin = ("--port", port, "--min-clients", SITES - 1)
    server = run(where, "coordinator", "serve", "--out", "run", *begin)
    parts = [server]
    try:
        for site in range(SITES):
            run(where, f"site-{site}", "keygen", "--out", "keys", "--name", site).wait()
        public = [f"keys/{site}.pub" for site in range(SITES)]
        while not (where / "run" / "tls" / "ca.crt").is_file():
            time.sleep(0.2)
        run(where, "coordinator", "enrol", *public, "--run", "run").wait()
        time.sleep(20)  # until the keys are known
        for site in range(SITES):
            if site == SITES - 1:
                time.sleep(25)  # the late one
            parts.append(
                run(
                    where,
                    f"site-{site}",
                    *("join", f"127.0.0.1:{port}", "--data", f"{site}.csv"),
                    *("--name", f"site-{site}", "--out", f"site-{site}"),
                    *("--ca", "run/tls/ca.crt", "--key", f"keys/{site}"),
                )
            )
        codes = [part.wait(600) for part in parts]
        run(where, "anyone", "status", "run").wait()
        time.sleep(0.5)
    finally:
        for part in parts:
            if part.poll() is None:
                part.terminate()
                part.wait(60)
        shutil.rmtree(where, ignore_errors=True)
    sys.exit(max(codes))


if __name__ == "__main__":
    main()
