"""Specimens: flows written as users write them, each with named defects and the laws that are to
catch them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Specimen:
    """One factory of a zoo module and its defects.

    ``factory``: a function with an argument ``defect``, with options; the empty string builds the healthy twin.
    ``defects``: name -> ids of the laws of which at least one must be violated.
    """

    factory: str
    defects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def specs(self, module: str) -> dict[str, tuple[str, ...]]:
        """The target spec of every defect of a specimen of ``module``, with its laws."""
        sign = "&" if "?" in self.factory else "?"
        return {
            f"{module}:{self.factory}{sign}defect={name}": laws
            for name, laws in self.defects.items()
        }
