"""Write `reports/normalizing-flows.md`: every claim of a tutorial on normalizing flows, measured.

Usage: `python reports/tools/normalizing_flows.py`. Every number on the page is computed by this run,
in less than a minute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from batch_norm_page.claim import CONVENTION, UNSOUND, Claim
from flowref import registry
from flowref.model import ADVICE, CONTRACT
from flows_page import beyond, maps

REPORTS = Path(__file__).parents[1]
PLURAL = {CONVENTION: "is a convention", UNSOUND: "are unsound as code"}

HEAD = """# Normalizing flows, claim by claim

A common tutorial on flows, from the change of variables to continuous flows. Its claims, 001-1 to
001-27, are paraphrased, with whether they are true, why, a measured number, and the law that checks
them. Of {total} claims {counts}.

The code of the tutorial can be audited with one bug at a time, under the number of its claim:

    flowref audit 'flowref_zoo.seeds.flows:make?rows=001-14'

The correct layers are in `flowref.reference`. The page is written by `python
reports/tools/normalizing_flows.py`. Where no law is named, the claim is not about what a layer
computes, or the layer cannot be called and is refused with what it raises.
"""


class Section(NamedTuple):
    """Claims of one theme, in the order in which they are read."""

    title: str
    claims: tuple[Claim, ...]


SECTIONS = (
    Section(
        "Maps and their log-determinants",
        (maps.change_of_variables, maps.exponential, maps.folds),
    ),
    Section(
        "Couplings",
        (
            maps.coupling,
            maps.coupling_log_det,
            maps.trace,
            maps.inverse_of_the_coupling,
            maps.chunks,
            maps.odd_features,
        ),
    ),
    Section(
        "Other bijections",
        (maps.convolution, maps.batch_norm, maps.spline, maps.residual, maps.defaults),
    ),
    Section(
        "Beyond bijections",
        (
            beyond.absolute,
            beyond.random_sign,
            beyond.rad,
            beyond.divergence,
            beyond.augmentation,
            beyond.metropolis,
            maps.filament,
        ),
    ),
    Section(
        "Continuous flows",
        (
            beyond.noise_of_a_solve,
            beyond.sign_of_the_trace,
            beyond.backwards,
            beyond.exact_trace,
            beyond.crossing,
            beyond.closed_trace,
        ),
    ),
)


def named(law_id: str) -> str:
    """A law by its id, with its force where that is not a claim."""
    law = registry.find_law(law_id)
    return f"`{law.id}`" + (f" ({law.force})" if law.force in (ADVICE, CONTRACT) else "")


def paragraphs(claim: Claim) -> Iterator[str]:
    """A claim as the page has it."""
    laws = ", ".join(named(law) for law in dict.fromkeys(claim.laws))
    yield claim.heading
    yield f"> {claim.says}"
    yield claim.why
    yield f"*Measured:* {claim.measure()} *Law:* {laws or 'none'}."


def page() -> str:
    """The whole page."""
    torch.manual_seed(0)
    claims = [claim for section in SECTIONS for claim in section.claims]
    counts = Counter(claim.verdict for claim in claims)
    verdicts = [
        f"{count} {PLURAL.get(verdict, 'are ' + verdict.lower())}"
        for verdict, count in counts.most_common()
    ]
    listed = f"{', '.join(verdicts[:-1])} and {verdicts[-1]}".replace("1 are ", "1 is ")
    parts = [HEAD.format(total=len(claims), counts=listed)]
    for section in SECTIONS:
        parts.append(f"## {section.title}")
        for claim in section.claims:
            parts += paragraphs(claim)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def main() -> None:
    """Write the page."""
    torch.set_num_threads(1)
    (REPORTS / "normalizing-flows.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
