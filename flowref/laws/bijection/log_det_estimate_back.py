"""Estimated log-dets of the way back: those of the inverse map, whatever forward returns."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from flowref.laws.bijection.log_det import brought_back
from flowref.laws.bijection.log_det_estimate import SOURCE, estimator, factors, refuse_large
from flowref.laws.bijection.log_det_unbiased import means, of_a_series
from flowref.laws.common.arithmetic import finite_rows, inside, log_abs_det, resolvable
from flowref.model import BOUND, CONTRACT, STATISTICAL, VOLUME, Array, Batch, Residual, law
from flowref.model.abilities import Differentiable, Invertible, Living


class LivingDifferentiableInvertible(Differentiable, Invertible, Living, Protocol):
    """A map that is called more than once in both directions, and whose Jacobian the framework gives."""


@law(
    "bijection/inverse-log-det-estimate",
    about=VOLUME,
    tolerance=BOUND,
    effort=2,
    size=24,
    scales=(0.0, 0.3),
    local=False,
    applies=estimator,
    source=SOURCE,
)
def inverse_log_det_estimate(flow: LivingDifferentiableInvertible, batch: Batch) -> Residual:
    r"""An estimated log-det that the inverse returns has the sign and the size of
    $\log|\det \partial f^{-1} / \partial z|$, at $z = f(x)$: over four dozen estimates, or four times as
    many where these nearly tell, it is on average between half of $-\log|\det \partial f / \partial x|$ and
    half as much again.

    Eight standard errors are allowed beyond that.
    """
    refuse_large(batch)
    images, _, truth, usable = there_and_back(flow, batch)
    return factors(flow, "inverse", images, truth, usable)


@law(
    "bijection/inverse-log-det-unbiased",
    about=VOLUME,
    force=CONTRACT,
    promise="unbiased-log-det",
    tolerance=STATISTICAL,
    effort=2,
    size=6,
    scales=(0.0, 0.3),
    local=False,
    applies=estimator,
    source=SOURCE,
)
def inverse_log_det_unbiased(flow: LivingDifferentiableInvertible, batch: Batch) -> Residual:
    r"""The mean of log-dets that are promised to be estimated without bias is that of the inverse map in
    what inverse returns, $-\log|\det \partial f / \partial x|$ at $z = f(x)$: within five standard errors
    of four hundred calls on batches that hold each point many times.
    """
    refuse_large(batch)
    images, matrices, truth, usable = there_and_back(flow, batch)
    return means(flow, "inverse", images, truth, usable & of_a_series(flow, matrices))


def there_and_back(
    flow: LivingDifferentiableInvertible, batch: Batch
) -> tuple[Batch, Array, Array, Array]:
    """Images, forward's Jacobians at their points, the log-dets of the inverse there, and where these
    are known: where the inverse came back. What it does elsewhere is the affair of the round trip.
    """
    z, usable = inside(flow, flow.forward(batch.x, batch.context).value)
    matrices = flow.jacobian("forward", batch.x, batch.context)
    truth = -log_abs_det(matrices)
    back = np.asarray(flow.inverse(z, batch.context).value)
    usable = usable & finite_rows(truth) & resolvable(matrices, truth) & brought_back(back, batch.x)
    return Batch(z, batch.context, batch.seed), matrices, truth, usable
