"""Laws of function transformations: the same call through functional_call, vmap and compile."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.outcomes import (
    attempt,
    compared,
    needs_modules,
    not_estimator,
    probes,
    tolerance_of,
)
from flowref.model import CONTRACT, Batch, Mapped, Residual, Subject, Unsupported, law


def through(subject: Subject, batch: Batch, how: str, note: str, refusal: str = "") -> Residual:
    """A plain call against one in another manner. ``refusal``: why an error is no violation, if it
    is none.
    """
    assert subject.call is not None
    call, pairs = subject.call, []
    for which, points in probes(subject, batch):
        plain = call(which, points, batch.context)
        other, error = attempt(call, which, points, batch.context, how=how)
        if error and refusal:
            raise Unsupported(f"{refusal} ({error})")
        if error:
            note, other = (
                f"{which} raised {error}",
                Mapped(np.full(np.shape(plain.value), np.nan), None),
            )
        pairs.append((plain, other, tolerance_of(subject, which)))
    return compared(pairs, len(batch.x), note)


@law(
    "conduct/functional-call",
    former="hygiene/functional-call",
    needs={"call"},
    effort=2,
    applies=lambda subject: needs_modules(subject) or not_estimator(subject),
    source="torch.func.functional_call; a derived weight computed ahead of the call does not follow",
)
def functional_call(subject: Subject, batch: Batch) -> Residual:
    """Parameters handed in through functional_call have the effect of the same parameters stored in
    the object.
    """
    return through(
        subject,
        batch,
        "functional_call",
        "stored parameters were used in place of those handed in",
        "it refuses",
    )


@law(
    "conduct/vmap-compatible",
    former="hygiene/vmap-compatible",
    needs={"call"},
    force=CONTRACT,
    promise="vmap",
    effort=2,
    source="torch.func.vmap",
)
def vmap_compatible(subject: Subject, batch: Batch) -> Residual:
    """A call mapped over single points by vmap returns what the batched call returns."""
    return through(subject, batch, "vmap", "the mapped call differs")


@law(
    "conduct/compile-equal",
    former="hygiene/compile-equal",
    needs={"call"},
    force=CONTRACT,
    promise="compile",
    effort=1,
    size=7,
    thorough=True,
    source="torch.compile keeps the meaning of what it compiles",
)
def compile_equal(subject: Subject, batch: Batch) -> Residual:
    """The compiled call returns what the plain call returns."""
    return through(subject, batch, "compile", "the compiled call differs")
