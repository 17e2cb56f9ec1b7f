"""What the site takes from the repository as it is: docs/, the reports, and the files that they link
to.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

# Markdown of the repository -> where it stands in the site.
TAKEN = {
    "reports/README.md": "reports/index.md",
    "README.md": "about/README.md",
    "ARCHITECTURE.md": "about/ARCHITECTURE.md",
    "CONTRIBUTING.md": "about/CONTRIBUTING.md",
    "CHANGELOG.md": "about/CHANGELOG.md",
    "asv_bench/README.md": "about/benchmarks.md",
    **{
        f"reports/{name}.md": f"reports/{name}.md"
        for name in (
            "batch-norm", "benchmarks", "cluster", "growth", "likelihoods", "missed-bugs", "normalizing-flows", "power", "proofs",
            "published", "real-nvp",
        )
    },
    "reports/findings.md": "findings/index.md",
    "reports/findings-jax.md": "findings/index.md",
    # The scorecard has what these have.
    "reports/audit.md": "scorecard.md",
    "reports/audit-jax.md": "scorecard.md",
    "reports/index.html": "reports/index.md",
}  # fmt: skip
# Pages that the site has in another form, and that are not copied.
WRITTEN = (
    "reports/findings.md", "reports/findings-jax.md", "reports/audit.md", "reports/audit-jax.md",
    "reports/index.html",
)  # fmt: skip
DASHBOARD = {"asv_bench/html/index.html": "dashboard/index.html"}
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s]+)\)")
HREF = re.compile(r'href="([^"#:]+)"')


def copy(root: Path, source: Path) -> None:
    """Copy docs/ and what is taken as it is; their links lead to where things stand."""
    shutil.copytree(root / "docs", source)
    pages = sorted((root / "docs").rglob("*.md"))
    own = {
        f"docs/{name}": name for name in (p.relative_to(root / "docs").as_posix() for p in pages)
    }
    for name, place in {**TAKEN, **own}.items():
        if name in WRITTEN or not (root / name).exists():
            continue
        target = source / place
        target.parent.mkdir(parents=True, exist_ok=True)
        text = (root / name).read_text(encoding="utf-8")
        target.write_text(_led(text, root, Path(name), Path(place), source), encoding="utf-8")


def copy_summary(root: Path, source: Path) -> None:
    """Copy the summary of the benchmarks, with its links led to the site's pages."""
    summary, place = Path("asv_bench/summary.html"), Path("files/asv_bench/summary.html")
    if not (root / summary).exists():
        return

    def led(match: re.Match[str]) -> str:
        meant = os.path.normpath((summary.parent / match[1]).as_posix())
        to = DASHBOARD.get(meant) or TAKEN.get(meant, f"files/{meant}").replace(".md", ".html")
        return f'href="{os.path.relpath(to, place.parent)}"'

    text = HREF.sub(led, (root / summary).read_text(encoding="utf-8"))
    (source / place).parent.mkdir(parents=True, exist_ok=True)
    (source / place).write_text(text, encoding="utf-8")


def _led(text: str, root: Path, name: Path, place: Path, source: Path) -> str:
    """A text with its links leading to where things stand in the site. Files that are no pages are
    copied below files/; where there is a folder and no page, the words stay without a link.
    """

    def led(match: re.Match[str]) -> str:
        words, (address, hash_sign, anchor) = match[1], match[2].partition("#")
        if not address or "://" in address or address.startswith("mailto:"):
            return match[0]
        meant = os.path.normpath((name.parent / address).as_posix())
        meant = f"{meant}/README.md" if f"{meant}/README.md" in TAKEN else meant
        to = TAKEN.get(meant) or _of_docs(root, meant)
        if to is None and (root / meant).is_file():
            # What begins with a dot is not published.
            to = re.sub(r"(^|/)\.", r"\1dot-", f"files/{meant}")
            copy_file(root / meant, source / to)
        if to is None:
            return words if (root / meant).is_dir() else match[0]
        return f"[{words}]({os.path.relpath(to, place.parent)}{hash_sign}{anchor})"

    return LINK.sub(led, text)


def _of_docs(root: Path, meant: str) -> str | None:
    """Where a page of docs/ stands in the site, or the first of a folder of pages."""
    page = f"{meant}/index.md" if (root / meant / "index.md").is_file() else meant
    if page.startswith("docs/") and page.endswith(".md") and (root / page).is_file():
        return page.removeprefix("docs/")
    return None


def copy_file(there: Path, to: Path) -> None:
    """Copy a file to where the site has it."""
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(there, to)
