"""The browser that looks at the built site, for its tests and its benchmark, and the chapters' pages."""

import shutil

from labkit.labs.catalog import phases

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# RxJS, of which the theme is made, raises this for a frame that comes late on a busy machine (ReactiveX/rxjs#6891).
OF_THE_THEME = "executing a cancelled action"
LIGHTHOUSE = ["npx", "--yes", "lighthouse@13.5.0"]  # no dependency of the book: five times as large as all that are
CHAPTERS = [phase.labs[0].chapter.partition("#")[0].removeprefix("docs/").replace(".md", ".html") for phase in phases()]
