"""A claim of the notes, the law that judges it, and the code that measures it."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from batch_norm_page.headings import HEADINGS

TRUE, CONDITION, CONVENTION = "True", "True under a condition", "Convention"
WRONG, MISLEADING, UNSOUND, MISSING = "Wrong", "Misleading", "Unsound", "Gap"


@dataclass(frozen=True)
class Claim:
    """A row of the list of claims; ``measure`` returns the sentence that holds the numbers."""

    row: str
    verdict: str
    says: str
    why: str
    laws: tuple[str, ...]
    measure: Callable[[], str]

    @property
    def heading(self) -> str:
        """The claim in a few words, the verdict, and its number."""
        return f"### {HEADINGS[self.row]}: {self.verdict.lower()} ({self.row})"


def claim(row: str, verdict: str, *laws: str) -> Callable[[Callable[[], str]], Claim]:
    """Declare a claim: the decorated function measures it; the first paragraph of its docstring
    says it, the others why.
    """

    def declare(measure: Callable[[], str]) -> Claim:
        paragraphs = [
            " ".join(part.split()) for part in (inspect.getdoc(measure) or "").split("\n\n")
        ]
        return Claim(row, verdict, paragraphs[0], "\n\n".join(paragraphs[1:]), laws, measure)

    return declare


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Standard normal numbers, the same in every run."""
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).to(dtype)


def number(value: float | Tensor) -> str:
    """Two significant digits."""
    value = float(value.detach() if isinstance(value, Tensor) else value)
    if 0.01 <= abs(value) < 100:
        return f"{value:.2g}"
    if value == 0 or 100 <= abs(value) < 10_000:
        return f"{value:.0f}"
    if not math.isfinite(value):
        return str(value)
    mantissa, exponent = f"{value:.1e}".split("e")
    return rf"${mantissa} \cdot 10^{{{int(exponent)}}}$"


def ceiling(error: float | Tensor) -> str:
    """The next power of ten above an error that is rounding, whose digits say nothing and differ
    between machines.
    """
    error = float(error.detach() if isinstance(error, Tensor) else error)
    return f"$10^{{{math.floor(math.log10(max(error, 1e-16))) + 1}}}$"


def largest(value: Tensor) -> Tensor:
    """The largest magnitude."""
    return value.detach().abs().max()


def outcome(call: Callable[[], object]) -> str:
    """The class of the exception that a call raises, with the start of its message; "no error" if
    there is none.
    """
    try:
        call()
    except Exception as error:
        said = re.split(r"[.;] |\n", str(error).replace("`", "'"))[0]
        return f"`{type(error).__name__}: {said}`"
    return "no error"


def mean_of(layer: Any) -> float:
    """The running mean of the first channel."""
    return float(layer.running_mean[0])
