#!/usr/bin/env python3
"""How quick the book is on a phone: Lighthouse's score for performance, of the home page and the guides, the best
of three runs.

    make book && python benchmarks/bench_pages.py

Needs Chromium and npx. A score of 0.9 or more is good. It is of seconds by the clock: let the machine do nothing else.
"""

import functools
import gzip
import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from labkit.labs.catalog import ROOT
from tools.book.browser import CHAPTERS, CHROMIUM, FLAGS, LIGHTHOUSE

SITE = ROOT / "site"
REPEATS = 3


class Quiet(SimpleHTTPRequestHandler):
    """Compresses text, as hosts do, and says nothing of requests."""

    def send_head(self) -> BytesIO | BinaryIO | None:
        file = Path(self.translate_path(self.path))
        if file.suffix not in (".html", ".css", ".js", ".json", ".svg") or not file.is_file():
            return super().send_head()
        body = gzip.compress(file.read_bytes())
        self.send_response(200)
        headers = {"Content-Type": self.guess_type(file), "Content-Encoding": "gzip", "Content-Length": str(len(body))}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        return BytesIO(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def score(url: str) -> float:
    flags = f"--chrome-flags={' '.join(['--headless', *FLAGS])}"
    command = [*LIGHTHOUSE, "--quiet", "--output=json", "--only-categories=performance", flags, url]
    run = subprocess.run(command, env={**os.environ, "CHROME_PATH": str(CHROMIUM)}, capture_output=True, check=True)
    return float(json.loads(run.stdout)["categories"]["performance"]["score"])


def main() -> None:
    if CHROMIUM is None or shutil.which("npx") is None or not SITE.exists():
        print("bench_pages needs Chromium, npx and the site that `make book` builds: not run")
        return
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for page in ("index.html", *CHAPTERS):
        best = max(score(f"http://127.0.0.1:{server.server_port}/{page}") for _ in range(REPEATS))
        print(f"{best:.2f}  {page}")
    server.shutdown()


if __name__ == "__main__":
    main()
