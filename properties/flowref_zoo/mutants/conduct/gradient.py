"""Defects of gradients, put into the abilities of a healthy subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from flowref.model import Array, Subject, Unsupported, mutant
from flowref.model.steps import Learn, Trained
from flowref_zoo.mutants.combinators import at, multiplied, promising, wrapped

COUPLING = "nflows:AffineCouplingTransform"


@mutant("gradient/input[value]", host=COUPLING, sizes=(1e-4, 1e-1))
def backward_off_by_a_factor(subject: Subject, size: float = 1e-3) -> Subject:
    """A hand-written backward pass is off by a factor."""
    return multiplied(subject, "vjp", 1 + size)


@mutant("gradient/input[log-det]", host=COUPLING)
def log_det_detached(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det is computed without a graph."""
    return multiplied(subject, "vjp", 0.0)


@mutant("gradient/input[batch]", host="flowref_zoo.specimens.lived:whitened", sizes=(1e-2, 1.0))
def batch_gradient_off_by_a_factor(subject: Subject, size: float = 0.1) -> Subject:
    """What passes through the statistics of a batch is lost in part."""
    return multiplied(subject, "vjp", 1 + size)


def _behind(vjp: Callable[..., Array], bound: float, which: str, x: Array, *others: Any) -> Array:
    gradient = np.array(vjp(which, x, *others))
    gradient[(np.asarray(x) > bound).reshape(len(x), -1).any(1)] *= 0.5
    return gradient


@mutant("gradient/input[value]", host=COUPLING, sizes=(1.0, 2.0, 6.0))
def detached_on_one_side(subject: Subject, size: float = 1.5) -> Subject:
    """Behind a bound, which few points are, a part of the graph is lost."""
    return wrapped(subject, "vjp", _behind, size)


@mutant("gradient/input[log-prob]", host="nflows:SimpleRealNVP", sizes=(1.0, 2.0, 6.0))
def score_detached_on_one_side(subject: Subject, size: float = 1.5) -> Subject:
    """Behind a bound, which few points are, a part of the gradient is lost."""
    return wrapped(subject, "vjp", _behind, size)


def _once(vjp: Callable[..., Array], *inputs: Any) -> Array:
    """A gradient, and zero for its derivative along a direction."""
    return np.asarray(vjp(*inputs) * (len(inputs) < 7))


@mutant("gradient/input[second-order]", host=COUPLING)
def gradient_detached(subject: Subject, size: float = 1.0) -> Subject:
    """A hand-written backward pass works on detached tensors: its own derivative is lost."""
    return promising(wrapped(subject, "vjp", _once), "double-backward")


@mutant("gradient/input[log-prob]", host="nflows:SimpleRealNVP", sizes=(1e-4, 1e-1))
def score_off_by_a_factor(subject: Subject, size: float = 1e-3) -> Subject:
    """A part of the gradient of log_prob is detached."""
    return multiplied(subject, "vjp", 1 + size)


def with_gradients(trained: Trained, **changes: Any) -> Trained:
    """A training step that gave other gradients for some parameters."""
    return replace(trained, gradients={**trained.gradients, **changes})


def _refusing(vjp: Callable[..., Array], which: str, *others: Any) -> Array:
    raise Unsupported(f"{which} overwrites what autograd needs to go back")


@mutant("gradient/exists", host=COUPLING)
def overwritten(subject: Subject, size: float = 1.0) -> Subject:
    """The results of both directions are changed in place."""
    return wrapped(subject, "vjp", _refusing)


@mutant("gradient/finite", host=COUPLING)
def nan_behind_where(subject: Subject, size: float = 1.0) -> Subject:
    """The branch that torch.where does not choose has a nan gradient."""
    nan = np.array(np.nan)
    return at(subject, Learn, lambda out: replace(out, gradients=dict.fromkeys(out.gradients, nan)))


@mutant("gradient/reaches-parameters", host=COUPLING)
def one_tensor_is_dead(subject: Subject, size: float = 1.0) -> Subject:
    """A parameter is multiplied by a factor that stays zero."""
    return at(subject, Learn, lambda out: with_gradients(out, **{next(iter(out.gradients)): None}))


@mutant(
    "gradient/reaches-parameters[log-det-estimate]",
    host="flowref_zoo.specimens.estimators:traced",
    sizes=(1.0, 4.0),
)
def detached_before_the_solver(subject: Subject, size: float = 1.0) -> Subject:
    """So many parameters are detached before they are used."""

    def lost(out: Trained) -> Trained:
        return with_gradients(out, **dict.fromkeys(list(out.gradients)[: round(size)]))

    return at(subject, Learn, lost)


@mutant("gradient/reaches-parameters[every-step]", host=COUPLING)
def one_tensor_unused(subject: Subject, size: float = 1.0) -> Subject:
    """A parameter is registered and never used."""
    return promising(at(subject, Learn, lambda out: with_gradients(out, unused=None)), "ddp")
