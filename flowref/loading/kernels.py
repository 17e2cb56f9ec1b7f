"""Calls of a user's stochastic kernel: check its input shape and find the shape of its latents."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from flowref.adapters.user import contributions
from flowref.adapters.user.conventions.call_evidence import Settled
from flowref.adapters.user.inquiry import ROWS
from flowref.loading.draft import Draft
from flowref.loading.instance import Instance
from flowref.model import Dialect, Facts, Kernel, TargetError, draw_points


def kernel_drafted(instance: Instance, dialect: Dialect, facts: Facts) -> Draft:
    """The draft of a kernel, completed by a call. Latents may have any shape; the log-likelihood
    contribution is ``(n,)``.
    """
    target, backend = instance.source.target, instance.backend
    x = draw_points(facts.domain, (ROWS, *facts.event_shape), np.random.default_rng(0))
    with backend.sandbox(0, instance.dtype):
        obj = instance.resting()
        chosen = instance.chosen(obj)
        context = None
        if facts.context_shape is not None:
            drawn = np.random.default_rng(1).standard_normal((ROWS, *facts.context_shape))
            context = backend.tensor(drawn, instance.dtype)
        points = backend.tensor(x, instance.dtype)
        dialect, words = contributions.resolve_kernel(obj, dialect, chosen, points, context)
        drawing = contributions.draws(obj, chosen)
        if drawing is not None:
            facts = replace(facts, kernel=Kernel(drawing))
        assert dialect.push is not None
        z, contribution = dialect.push(obj, points, context)
    for what, value in (("its latents", z), ("its contribution", contribution)):
        if tuple(getattr(value, "shape", ()))[:1] != (ROWS,):
            raise TargetError(
                f"{target}: {what} of {ROWS} points are of shape {tuple(getattr(value, 'shape', ()))}; "
                "expected a row for each point"
            )
    if math.prod(contribution.shape) != ROWS:
        raise TargetError(
            f"{target}: its contributions for {ROWS} points are of shape {tuple(contribution.shape)}; "
            f"expected ({ROWS},)"
        )
    latent = tuple(z.shape[1:])
    why = f"forward maps events of shape {facts.event_shape} to latents of shape {latent}"
    facts = replace(facts, latent_shape=latent)
    return Draft(instance, facts, Settled(dialect), (why,)).saying(
        *kernel_words(dialect, facts), *words
    )


def kernel_words(dialect: Dialect, facts: Facts) -> Iterator[str]:
    """Remarks on a kernel for the target's line."""
    if facts.kernel is not None:
        says = {True: "draws", False: "draws nothing", None: "may draw"}
        there, back = facts.kernel.draws
        yield f"forward {says[there]}, inverse {says[back]}"
    if facts.codomain is None:
        yield "its codomain is not declared"
