"""Function transformations: the same call through functional_call, vmap and compile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from flowref.laws.common.outcomes import attempt
from flowref.laws.common.probes import POINTWISE, Outcomes, Probe, agree, probes
from flowref.laws.common.requirements import has_modules, repeatable
from flowref.model import CONTRACT, Batch, Mapped, Residual, Unsupported, law
from flowref.model.abilities import Flow
from flowref.model.call import How


def through(flow: Flow, batch: Batch, how: How, note: str, refusal: str = "") -> Residual:
    """A plain call compared with one in another manner. ``refusal``: the reason for `Unsupported`
    if an exception is no violation.
    """
    errors: list[str] = []

    def outcomes(probe: Probe) -> Outcomes:
        plain = probe()
        other, error = attempt(probe, how=how)
        if error and refusal:
            raise Unsupported(f"{refusal} ({error})")
        if error:
            errors.append(f"{probe.name} raised {error}")
            other = Mapped(np.full(np.shape(plain.value), np.nan), None)
        yield plain, other

    residual = agree(probes(flow, batch, calls=POINTWISE), outcomes, note)
    return replace(residual, note=errors[-1]) if errors and residual.note else residual


@law(
    "same/manner[functional-call]",
    key="hygiene/functional-call",
    effort=2,
    applies=has_modules & repeatable,
    source="torch.func.functional_call; a derived weight computed ahead of the call does not follow",
    pointwise=True,
)
def functional_call(flow: Flow, batch: Batch) -> Residual:
    """Parameters passed through functional_call have the effect of the same parameters stored in
    the object.
    """
    note = "stored parameters were used in place of those passed in"
    return through(flow, batch, "functional_call", note, "it refuses")


@law(
    "same/manner[vmap]",
    key="hygiene/vmap-compatible",
    force=CONTRACT,
    promise="vmap",
    effort=2,
    source="torch.func.vmap",
)
def vmap_compatible(flow: Flow, batch: Batch) -> Residual:
    """A call mapped over single points by vmap returns what the batched call returns."""
    return through(flow, batch, "vmap", "the mapped call differs")


@law(
    "same/manner[compile]",
    key="hygiene/compile-equal",
    force=CONTRACT,
    promise="compile",
    effort=1,
    size=7,
    thorough=True,
    source="torch.compile keeps the meaning of what it compiles",
)
def compile_equal(flow: Flow, batch: Batch) -> Residual:
    """The compiled call returns what the plain call returns."""
    return through(flow, batch, "compile", "the compiled call differs")
