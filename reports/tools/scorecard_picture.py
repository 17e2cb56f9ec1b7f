"""The picture of the scorecard in README: the card of a coupling whose log-det is a mean where it should be
a sum. `python reports/tools/scorecard_picture.py`, with Chromium installed.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import flowref
from flowref.scorecard import page

PICTURE = Path(__file__).parent.parent.parent / "docs" / "pictures" / "card.png"
TARGET = "flowref_zoo.specimens.coupling:affine_coupling?defect=log-det-mean"
LAW = "map/log-det"
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
# What is left of the card in the picture.
CUT = (
    ".card .body > h4, .card .body > pre, .card .issue, .card .source { display: none !important }"
)


def main() -> int:
    """Make the picture."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("FLOWREF_CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        sys.stderr.write("no chromium is installed; name one in FLOWREF_CHROMIUM\n")
        return 2
    PICTURE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        file = Path(folder) / "card.html"
        file.write_text(page(flowref.audit([TARGET], laws=LAW)), encoding="utf-8")
        browser = driver.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        view = browser.new_context(
            viewport={"width": 1240, "height": 900}, device_scale_factor=1.25
        )
        tab = view.new_page()
        tab.goto(file.as_uri())
        tab.add_style_tag(content=CUT)
        tab.locator("#open-all").click()
        tab.locator(".card").first.screenshot(path=PICTURE)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
