"""Defects of batch normalization in the gradients that it passes on."""

from __future__ import annotations

from flowref.model import Subject, mutant
from flowref_zoo.mutants.batch_norm.combinators import IMAGE, VECTOR, hat, mean, pulling, slope


def mean_constant(subject: Subject, size: float) -> Subject:
    """The subject whose mean is a constant of the backward pass."""
    return pulling(subject, "x", lambda x, dy, dx: dx + size * mean(dy) * slope(x))


def variance_constant(subject: Subject, size: float) -> Subject:
    """The subject whose variance is a constant of the backward pass."""
    return pulling(
        subject, "x", lambda x, dy, dx: dx + size * hat(x) * mean(dy * hat(x)) * slope(x)
    )


@mutant("batch-norm/gradient[closed-form]", host=IMAGE, sizes=(1e-9, 1e-2))
def variance_without_gradient(subject: Subject, size: float = 1e-2) -> Subject:
    """The variance is held constant in the backward pass."""
    return variance_constant(subject, size)


@mutant("batch-norm/gradient[closed-form]", host=IMAGE, sizes=(1e-9, 1e-2))
def weight_gradient_off(subject: Subject, size: float = 1e-2) -> Subject:
    """The gradient of the weight is too large."""
    return pulling(subject, "weight", lambda x, dy, gradient: gradient * (1 + size))


@mutant("batch-norm/gradient[bias-before]", host=IMAGE, sizes=(1e-9, 1e-2))
def mean_without_gradient(subject: Subject, size: float = 1e-2) -> Subject:
    """The mean is held constant in the backward pass."""
    return mean_constant(subject, size)


@mutant("batch-norm/gradient", host=VECTOR, sizes=(1e-9, 1e-2))
def variance_held(subject: Subject, size: float = 1e-2) -> Subject:
    """The variance is held constant in the backward pass."""
    return variance_constant(subject, size)


@mutant("batch-norm/gradient[bias-before]", host=IMAGE, sizes=(1e-9, 1.0))
def bias_blows_up(subject: Subject, size: float = 1.0) -> Subject:
    """The mean is held constant in the backward pass, as by a stop-gradient."""
    return mean_constant(subject, size)


@mutant("batch-norm/gradient[weight-orthogonality]", host=VECTOR, sizes=(1e-8, 1.0))
def weights_pulled_along(subject: Subject, size: float = 1.0) -> Subject:
    """The variance is held constant in the backward pass."""
    return variance_constant(subject, size)


@mutant("batch-norm/gradient[weight-scale]", host=VECTOR, sizes=(1e-9, 1e-2))
def gradient_grows_with_input(subject: Subject, size: float = 1e-2) -> Subject:
    """The backward pass has a term that grows with the input, as of a weight decay inside."""
    return pulling(subject, "x", lambda x, dy, dx: dx * (1 + size * x.std()))


@mutant("batch-norm/gradient[weight-orthogonality]", host=VECTOR, sizes=(1e-6, 1.0))
def weights_shrink(subject: Subject, size: float = 1.0) -> Subject:
    """The variance is held constant in the backward pass."""
    return variance_constant(subject, size)


@mutant("batch-norm/gradient[eval]", host=IMAGE)
def frozen_parameters(subject: Subject, size: float = 1.0) -> Subject:
    """In eval mode the weight gets no gradient."""
    return pulling(subject, "weight", lambda x, dy, gradient: 0 * gradient, training=False)


@mutant("batch-norm/gradient[eval]", host=IMAGE, sizes=(1e-9, 1e-2))
def evaluation_gradient_off(subject: Subject, size: float = 1e-2) -> Subject:
    """In eval mode the gradient of the input is too large."""
    return pulling(subject, "x", lambda x, dy, dx: dx * (1 + size), training=False)
