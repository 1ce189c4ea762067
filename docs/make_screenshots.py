"""Makes the README's pictures anew: ``python docs/make_screenshots.py``; needs chromium.

The postmortem's report as a browser shows it, and the pictures of notebook 00, all of the bundled
sample. Each file stays below `MOST_BYTES`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

import jobplaybook as jp

IMAGES = Path(__file__).parent / "images"
MOST_BYTES = 200_000
_START_HERE = Path(__file__).parent.parent / "notebooks" / "00-start-here.ipynb"
_PAGE = (
    "<meta charset=utf-8><style>body {margin: 12px; background: #fff; columns: 2; column-gap: 24px}"
    " img {width: 100%%; break-inside: avoid}</style>%s"
)


def shoot(page: Path, target: Path, *, width: int, height: int, scale: float = 1.0) -> None:
    """Write a picture of a page's top, in few colours."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        sys.exit("found no chromium: install it (on Debian: apt-get install chromium)")
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "raw.png"
        subprocess.run(
            [
                program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                "--disable-dev-shm-usage", f"--user-data-dir={folder}/profile",
                f"--force-device-scale-factor={scale}", f"--window-size={width},{height}",
                f"--screenshot={raw}", page.as_uri(),
            ],
            check=True, capture_output=True,
        )  # fmt: skip
        Image.open(raw).convert("RGB").quantize(64).save(target, optimize=True)
    if target.stat().st_size > MOST_BYTES:
        sys.exit(f"{target} is larger than {MOST_BYTES:,} bytes: show less of the page")


def main() -> None:
    """Make both pictures."""
    with tempfile.TemporaryDirectory() as folder:
        made = jp.postmortem("sample", folder=Path(folder) / "postmortem")
        assert made.html is not None, "a postmortem always has a report"
        shoot(made.html, IMAGES / "postmortem.png", width=1000, height=1250)
        cells = json.loads(_START_HERE.read_text(encoding="utf-8"))["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", ())]
        pictures = [
            "".join(o["data"]["image/png"]) for o in outputs if "image/png" in o.get("data", {})
        ]
        page = Path(folder) / "pictures.html"
        page.write_text(
            _PAGE % "".join(f'<img src="data:image/png;base64,{p.strip()}">' for p in pictures)
        )
        shoot(page, IMAGES / "start-here.png", width=1240, height=730)


if __name__ == "__main__":
    main()
