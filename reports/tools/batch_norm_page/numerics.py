"""Claims about the variance in floating point, and about the backward pass written out by hand."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from batch_norm_page.claim import TRUE, UNSOUND, WRONG, ceiling, claim, largest, normal, number
from flowref.reference import batch_norm_backward, batch_norm_backward_by_steps
from flowref.reference.batch_norm import moments
from flowref_zoo.seeds.batch_norm import FlattenedBatchNorm, GradientModeBatchNorm
from flowref_zoo.seeds.batch_norm_rows import ROWS
from flowref_zoo.seeds.bug_rows import NONE

DRAWS = 30
Variance = Callable[[Tensor], Tensor]
VARIANCES: dict[str, Variance] = {
    "one": lambda x: x.square().mean() - x.mean().square(),
    "two": lambda x: (x - x.mean()).square().mean(),
    "reference": lambda x: moments(x.reshape(-1, 1))[3][0],
}


def shifted(ratio: float, seed: int, values: int = 1024) -> Tensor:
    """Float32 values of standard deviation about 1 and mean about ``ratio``."""
    return (normal(values, seed=seed) + ratio).float()


def variance_error(ratio: float, seeds: int = DRAWS) -> dict[str, tuple[float, bool]]:
    """By algorithm, the largest relative error of a float32 variance, and whether one came out as 0
    or less.
    """
    found = {}
    for name, variance in VARIANCES.items():
        errors, spoiled = [], False
        for seed in range(seeds):
            x = shifted(ratio, seed)
            true = float(np.var(x.numpy().astype(np.longdouble)))
            got = float(variance(x))
            errors.append(abs(got - true) / true)
            spoiled |= got <= 0
        found[name] = max(errors), spoiled
    return found


def at_offset(ratio: float, rows: str) -> Tensor:
    """The error of a float32 layer of the notes, with the bugs given, at this |mean|/std."""
    x = shifted(ratio, 0).reshape(-1, 1, 1)
    wide = x.double()
    exact = (wide - wide.mean()) / (wide.var(correction=0) + 1e-5).sqrt()
    return largest(FlattenedBatchNorm(1, rows=rows)(x) - exact)


@claim("000-12", UNSOUND, *ROWS["000-12"].laws)
def one_pass_variance() -> str:
    r"""The variance is computed as $E[x^2] - E[x]^2$.

    An identity for numbers, not for floating-point numbers: both terms are about $\mu^2$, each is
    rounded to $u \mu^2$, and their difference is $v$. The relative error is of the order
    $u (\mu / \sigma)^2$ with $u = 6 \cdot 10^{-8}$ in float32: past about
    $\mu / \sigma = 1/\sqrt u = 4096$ no digit is right, and a negative variance gives nan.
    """
    errors = [at_offset(ratio, "000-12") for ratio in (100.0, 1000.0, 3000.0)]
    low = min(float(VARIANCES["one"](shifted(1e4, seed))) for seed in range(DRAWS))
    constants = [
        FlattenedBatchNorm(1, rows="000-12")(torch.full((100, 1, 10), 1000 + k / 10))
        for k in range(1, 1001)
    ]
    spoiled = sum(bool(y.isnan().any()) for y in constants)
    return (
        f"in float32 the output is off by {number(errors[0])}, {number(errors[1])} and "
        f"{number(errors[2])} at $|\\mu| / "
        "\\sigma$ = 100, 1000 and 3000; at $10^4$ the variance, truly 1, comes out as low as "
        f"{number(low)}. Of 1000 "
        f"constant channels, from 1000.1 to 1100, {spoiled} become nan, where 0 is right."
    )


@claim("002-12", TRUE, "batch-norm/numerics[offset]")
def two_pass_variance() -> str:
    r"""The variance is computed as $E[(x - E[x])^2]$, in two passes.

    The sound choice: what is squared is already small. A rounded mean puts the square of its error
    into the variance, which the reference takes out again with one more term.
    """
    errors = [at_offset(ratio, NONE) for ratio in (100.0, 1000.0, 3000.0)]
    x = 2 + 3 * normal(4096, 1)
    apart = abs(VARIANCES["two"](x) / x.var(correction=0) - 1)
    return (
        f"at the same three offsets the output is off by {number(errors[0])}, {number(errors[1])} "
        f"and {number(errors[2])}. In "
        f"float64 the variance is that of torch to within {ceiling(apart)}."
    )


def by_autograd(x: Tensor, dy: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients by automatic differentiation of the definition."""
    x, weight, bias = (
        value.detach().clone().requires_grad_() for value in (x, weight, torch.zeros_like(weight))
    )
    var = (x - x.mean(0)).square().mean(0)
    y = weight * (x - x.mean(0)) / (var + eps).sqrt() + bias
    dx, dweight, dbias = torch.autograd.grad(y, (x, weight, bias), dy)
    return dx, dweight, dbias


def by_notes(row: str, scale: float, eps: float = 1e-5) -> tuple[Tensor, Tensor]:
    """The gradient that the notes give with one bug, and the true one, for inputs of this standard
    deviation.
    """
    x, dy = normal(32, 3), normal(32, 3, seed=1)
    x = scale * (x - x.mean(0)) / x.std(0, correction=0)
    layer, given = (
        GradientModeBatchNorm(3, 2, eps=eps, rows=row).double(),
        x.clone().requires_grad_(),
    )
    (got,) = torch.autograd.grad(layer(given), given, dy)
    return got, by_autograd(x, dy, torch.ones(3, dtype=torch.float64), eps)[0]


def relative(got: Tensor, true: Tensor) -> Tensor:
    """The norm of the error over that of the truth."""
    error: Tensor = torch.linalg.vector_norm(got - true) / torch.linalg.vector_norm(true)
    return error


@claim("002-2", TRUE, "batch-norm/gradient[closed-form]")
def gradients_of_the_affine_part() -> str:
    r"""$d\hat x = \gamma dy$, $d\gamma = \sum dy \hat x$ and $d\beta = \sum dy$.

    The chain rule through $y = \gamma \hat x + \beta$.
    """
    x, dy, weight = 2 + normal(32, 3), normal(32, 3, seed=1), normal(3, seed=2)
    hat = (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()
    _, dweight, dbias = by_autograd(x, dy, weight, 1e-5)
    apart = max(relative((dy * hat).sum(0), dweight), relative(dy.sum(0), dbias))
    return f"the relative difference from automatic differentiation is less than {ceiling(apart)}."


@claim("002-3", WRONG, *ROWS["002-3"].laws)
def exponent() -> str:
    r"""$dv = \sum d\hat x (x - \mu) \cdot (-\frac12)(v + \epsilon)^{3/2}$.

    The derivative of $(v + \epsilon)^{-1/2}$ is $-\frac12 (v + \epsilon)^{-3/2}$. At variance 1 the
    two agree: a test on standardized data sees nothing.
    """
    errors = [number(relative(*by_notes("002-3", scale))) for scale in (0.5, 0.9, 1.0, 2.0)]
    return (
        f"the gradient of the input has a relative error of {', '.join(errors)} for inputs of "
        "standard deviation 0.5, 0.9, 1 "
        "and 2."
    )


@claim("002-4", WRONG, *ROWS["002-4"].laws)
def missing_eps() -> str:
    r"""The first term of $d\mu$ is $-\sum d\hat x / \sqrt v$.

    The output divides by $\sqrt{v + \epsilon}$, and so does its derivative. With the default
    $\epsilon$ the bug hides near the roundings of float32; the sum of the gradients over a
    channel, which must be 0, shows it.
    """
    small, large = by_notes("002-4", 1.0), by_notes("002-4", 1.0, eps=0.1)
    sums = [largest(got.sum(0)) for got, _ in (small, large)]
    return (
        f"relative error {number(relative(*small))} at $\\epsilon = 10^{{-5}}$ and "
        f"{number(relative(*large))} at $\\epsilon = "
        f"0.1$; the gradients of a channel sum to {number(sums[0])} and {number(sums[1])}, the "
        "true ones to less than "
        f"{ceiling(largest(large[1].sum(0)))}."
    )


@claim("002-5", TRUE, "batch-norm/gradient[closed-form]")
def vanishing_term() -> str:
    r"""The second term of $d\mu$ is $dv \cdot \sum -2(x - \mu) / m$.

    It is 0, since deviations from a mean sum to 0; the paper writes it as well.
    """
    x = 2 + 3 * normal(4096, 1)
    found = (-2 * (x - x.mean())).mean().abs()
    return f"for 4096 values of standard deviation 3, $\\sum -2(x - \\mu) / m$ is within {ceiling(found)} of 0."


@claim("002-6", TRUE, "batch-norm/gradient[closed-form]")
def three_terms() -> str:
    r"""$dx = d\hat x / \sqrt{v + \epsilon} + dv \cdot 2(x - \mu)/m + d\mu / m$.

    Right once $dv$ and $d\mu$ are. (In print, the square of $\sigma_B$ and two superscripts have
    buggy.)
    """
    x, dy, weight = 2 + normal(32, 3), normal(32, 3, seed=1), normal(3, seed=2)
    by_steps = batch_norm_backward_by_steps(dy, x, weight, 1e-5)[0]
    error = relative(by_steps, by_autograd(x, dy, weight, 1e-5)[0])
    return f"step by step, with both corrected, the relative error is less than {ceiling(error)}."


@claim("002-7", TRUE, "batch-norm/gradient[closed-form]", "batch-norm/gradient")
def closed_form() -> str:
    r"""All of it in one line, which the notes leave out:
    $dx = (d\hat x - \overline{d\hat x} - \hat x \overline{d\hat x \hat x}) / \sqrt{v + \epsilon}$.

    What is left of $d\hat x$ once its mean and its part along $\hat x$ are taken out; a bar is the
    mean over the batch.
    """
    x, dy, weight = 2 + normal(32, 3), normal(32, 3, seed=1), normal(3, seed=2)
    errors = [
        relative(batch_norm_backward(dy, x, weight, eps)[0], by_autograd(x, dy, weight, eps)[0])
        for eps in (0.0, 1e-5, 0.1, 10.0)
    ]
    return f"for $\\epsilon$ = 0, $10^{{-5}}$, 0.1 and 10 the relative error is less than {ceiling(max(errors))}."
