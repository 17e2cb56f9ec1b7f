"""The navigation: pages in a fixed order, and below laws and findings all there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from site_pages.laws import FAMILIES, title

WELL = (
    ("", "index"),
    ("How much flowref sees", "power"),
    ("Why planted bugs are missed", "missed-bugs"),
    ("Proofs", "proofs"),
    ("Models of published size", "published"),
    ("How cost grows", "growth"),
    ("Many machines", "cluster"),
    ("Benchmarks", "benchmarks"),
    ("Batch normalization, claim by claim", "batch-norm"),
    ("Normalizing flows, claim by claim", "normalizing-flows"),
    ("Training Real NVP", "real-nvp"),
    ("Likelihoods of matching and diffusion", "likelihoods"),
)
# The reference, of which some pages are guides.
REFERENCE = (
    ("Options and promises", "options"),
    ("Command line", "reference/cli"),
    ("Python", "reference/python"),
    ("Laws and adapters in Python", "reference/extending"),
    ("Reference layers", "reference/layers"),
    ("JSON", "guides/json"),
    ("Certificates", "guides/certificates"),
)
ABOUT = (
    ("README", "README"),
    ("Architecture", "ARCHITECTURE"),
    ("Contributing", "CONTRIBUTING"),
    ("Changes", "CHANGELOG"),
    ("The benchmark suite", "benchmarks"),
)


def entries(source: Path, findings: Mapping[str, str]) -> list[Any]:
    """The navigation of the pages that were written; ``findings``: the library of each, by its id."""
    reference = [{words: f"{path}.md"} for words, path in REFERENCE]
    guides = [
        one for one in _led(source, "guides") if one not in {f"{path}.md" for _, path in REFERENCE}
    ]
    return [
        {"Start": ["index.md", {"Tutorial": ["tutorial/index.md", *_led(source, "tutorial")]}]},
        {"Guides": ["guides/index.md", *guides]},
        {"Laws": ["laws/index.md", *_families(source)]},
        {"Findings": ["findings/index.md", *_by_library(source, findings)]},
        {"Scorecard": "scorecard.md"},
        {"Reference": reference},
        {
            "How well it works": [
                *_named(source, "reports", WELL),
                {"Dashboard": "dashboard.md"},
            ]
        },
        {
            "About": [
                *_named(source, "about", ABOUT),
                {"Decisions": ["decisions/index.md", *_others(source, "decisions")]},
                {"Development": _others(source, "development")},
            ]
        },
    ]


def _by_library(source: Path, findings: Mapping[str, str]) -> list[Any]:
    groups: dict[str, list[str]] = {}
    for path in _others(source, "findings"):
        groups.setdefault(findings[Path(path).stem], []).append(path)
    return [{name: groups[name]} for name in sorted(groups, key=str.casefold)]


def _named(source: Path, folder: str, pages: Iterable[tuple[str, str]]) -> list[Any]:
    there = [(words, f"{folder}/{name}.md") for words, name in pages]
    return [{words: path} if words else path for words, path in there if (source / path).exists()]


def _others(source: Path, folder: str) -> list[str]:
    return sorted(
        f"{folder}/{path.name}"
        for path in (source / folder).glob("*.md")
        if path.name != "index.md"
    )


def _led(source: Path, folder: str) -> list[str]:
    """The pages of a folder in the order in which its index leads to them; then those that it
    forgets.
    """
    every = _others(source, folder)
    text = (source / folder / "index.md").read_text(encoding="utf-8")
    led = [f"{folder}/{name}" for name in re.findall(r"\]\(([\w-]+\.md)\)", text)]
    return [path for path in led if path in every] + [path for path in every if path not in led]


def _families(source: Path) -> list[Any]:
    found = {path.parent.name for path in (source / "laws").glob("*/index.md")}
    order = [name for name in FAMILIES if name in found] + sorted(found - set(FAMILIES))
    return [
        {title(name): [f"laws/{name}/index.md", *_others(source, f"laws/{name}")]} for name in order
    ]
