"""What stands in the navigation: pages in a fixed order, and below laws and findings all there are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from site_pages.laws import FAMILIES, title

REPORTS = (
    ("", "index"),
    ("Batch normalization, claim by claim", "batch-norm"),
    ("Normalizing flows, claim by claim", "normalizing-flows"),
    ("Training Real NVP", "real-nvp"),
    ("How much flowref sees", "power"),
    ("What laws are silent about", "excuses"),
    ("Models of published size", "published"),
    ("How cost grows", "growth"),
    ("Many machines", "cluster"),
    ("Benchmarks", "benchmarks"),
    ("The audit, in text", "audit"),
    ("The audit of JAX, in text", "audit-jax"),
)
ABOUT = (
    ("README", "README"),
    ("Architecture", "ARCHITECTURE"),
    ("Contributing", "CONTRIBUTING"),
    ("Changes", "CHANGELOG"),
    ("The benchmark suite", "benchmarks"),
)


def entries(source: Path) -> list[Any]:
    """The navigation of the pages that were written."""
    return [
        {"Home": "index.md"},
        {"Scorecard": "scorecard.md"},
        {"Findings": ["findings/index.md", *_others(source, "findings")]},
        {"Laws": ["laws/index.md", *_families(source)]},
        {"Reports": [*_named(source, "reports", REPORTS), {"Dashboard": "dashboard.md"}]},
        {"Tutorial": ["tutorial/index.md", *_lessons(source)]},
        {"Options": "options.md"},
        {"Wide families": "families.md"},
        {"About": _named(source, "about", ABOUT)},
    ]


def _named(source: Path, folder: str, pages: Iterable[tuple[str, str]]) -> list[Any]:
    there = [(words, f"{folder}/{name}.md") for words, name in pages]
    return [{words: path} if words else path for words, path in there if (source / path).exists()]


def _others(source: Path, folder: str) -> list[str]:
    return sorted(
        f"{folder}/{path.name}"
        for path in (source / folder).glob("*.md")
        if path.name != "index.md"
    )


def _lessons(source: Path) -> list[str]:
    """The pages of the tutorial in the order in which its index leads to them; then those that it
    forgets.
    """
    every = _others(source, "tutorial")
    text = (source / "tutorial" / "index.md").read_text(encoding="utf-8")
    led = [f"tutorial/{name}" for name in re.findall(r"\]\(([\w-]+\.md)\)", text)]
    return [path for path in led if path in every] + [path for path in every if path not in led]


def _families(source: Path) -> list[Any]:
    found = {path.parent.name for path in (source / "laws").glob("*/index.md")}
    order = [name for name in FAMILIES if name in found] + sorted(found - set(FAMILIES))
    return [
        {title(name): [f"laws/{name}/index.md", *_others(source, f"laws/{name}")]} for name in order
    ]
