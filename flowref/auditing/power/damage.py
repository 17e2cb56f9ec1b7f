"""Planted defects: the mutants of the laws and the defects of the specimens, as targets."""

from __future__ import annotations

from dataclasses import dataclass

from flowref import registry

MUTANT, SPECIMEN = "mutant", "specimen"


@dataclass(frozen=True)
class Damage:
    """One planted defect. ``spec``: its target; ``laws``: ids of which at least one must be
    violated; ``kind``: mutant of a law or specimen of the zoo.
    """

    spec: str
    laws: tuple[str, ...]
    kind: str


def damages() -> tuple[Damage, ...]:
    """Return every planted defect whose host can be loaded here, mutants at their default size."""
    planted = [
        Damage(
            str(registry.parse_target(mutant.host).with_options(mutant=mutant.id)),
            (mutant.law,),
            MUTANT,
        )
        for mutant in registry.mutants()
    ]
    for defects in registry.specimens().values():
        planted += [
            Damage(str(registry.parse_target(spec)), laws, SPECIMEN)
            for spec, laws in defects.items()
        ]
    return tuple(planted)
