"""Claims about what batch normalization computes, and why it should help."""

from __future__ import annotations

import torch
from torch import nn
from torch.autograd.functional import jacobian

from batch_norm_page.claim import (
    CONDITION,
    MISLEADING,
    TRUE,
    WRONG,
    ceiling,
    claim,
    largest,
    normal,
    number,
)
from flowref.reference import BatchNorm, StopGradientCentering
from flowref_zoo.seeds.batch_norm import FlattenedBatchNorm
from flowref_zoo.seeds.bug_rows import NONE

EPS = 1e-5


def plain(channels: int, eps: float = EPS) -> BatchNorm:
    """The reference layer in float64, in train mode."""
    return BatchNorm(channels, eps=eps, dtype=torch.float64)


def centering(
    steps: int, rate: float = 0.1, through: bool = False
) -> tuple[list[float], list[float]]:
    """Bias and loss along gradient descent on the mean of $(x_i - 1)^2$, x centered, with a
    gradient through the mean or not.
    """
    u, layer = normal(64, 1, seed=3), StopGradientCentering(1).double()
    biases, losses = [], []
    for _ in range(steps + 1):
        x = u + layer.bias
        loss = ((x - x.mean(0) if through else layer(u)) - 1).square().mean()
        biases.append(float(layer.bias.detach()))
        losses.append(float(loss.detach()))
        (gradient,) = torch.autograd.grad(loss, layer.bias)
        with torch.no_grad():
            layer.bias.sub_(rate * gradient)
    return biases, losses


@claim("000-1", TRUE)
def sigmoid_saturates() -> str:
    r"""A sigmoid far from 0 passes almost no gradient: for $x = Wu + b$ and $z = g(x)$,
    $\partial L / \partial u = W^\top (g'(x) \partial L / \partial z)$.

    $g' = g(1 - g)$ is at most 1/4, and falls like $e^{-|x|}$.
    """
    x = torch.tensor([0.0, 5.0, 10.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(torch.sigmoid(x).sum(), x)
    return f"$g'(0)$ = {number(slope[0])}, $g'(5)$ = {number(slope[1])}, $g'(10)$ = {number(slope[2])}."


@claim("000-8", WRONG)
def flat_parts() -> str:
    """Normalization allows high learning rates because it holds activations in the flat parts of
    the sigmoid.

    It is the other way round: normalized values lie about 0, where the sigmoid is steepest. Whether
    that is why training becomes faster is a hypothesis about training, and no law.
    """
    x = 3 + 5 * normal(10_000, 1)
    with torch.no_grad():
        before, after = (torch.sigmoid(v) * (1 - torch.sigmoid(v)) for v in (x, plain(1)(x)))
    return (
        "for inputs with mean 3 and standard deviation 5 the mean slope of the sigmoid is "
        f"{number(before.mean())}, "
        f"and {number(after.mean())} once they are normalized."
    )


@claim("000-2", TRUE, "batch-norm/gradient[bias-before]")
def stop_gradient() -> str:
    r"""If the gradient does not pass through the mean, a bias before it grows without bound, and
    the loss stays as it is.

    With $x = u + b$ and $\hat x = x - \bar x$ the output does not depend on $b$, and so the
    gradient that takes $\bar x$ for a constant is $\sum_i \partial L / \partial \hat x_i$ at every
    $b$: after $t$ steps of size $\eta$ the bias has moved by $t \eta$ times that. It stays only
    where this sum is 0. Through the mean the gradient is 0.
    """
    (biases, losses), (through, _) = centering(200), centering(200, through=True)
    moved = max(losses) - min(losses)
    return (
        "with $\\eta = 0.1$ and $L = \\frac1m \\sum (\\hat x_i - 1)^2$, the bias is "
        f"{number(biases[100])} after 100 steps and "
        f"{number(biases[200])} after 200, while the loss moves by less than {ceiling(moved)}. "
        "Through the mean the "
        f"bias stays within {ceiling(max(map(abs, through)))} of 0."
    )


@claim("000-3", WRONG, "batch-norm/train-map")
def sign_of_the_update() -> str:
    r"""After the bias moved by $\Delta$, the centered value is
    $(u + b + \Delta) - E[u + b] + \Delta$, which is what it was.

    The conclusion is right, the line before it is not: the new mean is $E[u + b] + \Delta$, and it
    is subtracted, so that the last term is $-\Delta$.
    """
    u, delta = normal(64), 0.5
    printed, right = u + delta - u.mean() + delta, u + delta - (u.mean() + delta)
    was = u - u.mean()
    return (
        "for $\\Delta = 0.5$ the printed expression differs from the old value by "
        f"{number(largest(printed - was))}, "
        f"the one with $-\\Delta$ by less than {ceiling(largest(right - was))}."
    )


@claim("000-4", MISLEADING, "batch-norm/gradient[bias-before]")
def derivative_of_centering() -> str:
    r"""The derivative of $x - E[x]$ by $x$ is $1 - 1 = 0$.

    That is the derivative along a common shift of all values, which is what a bias is. Each single
    value has $\partial \hat x_i / \partial x_j = \delta_{ij} - 1/m$; were that 0, the weights
    before the layer would get no gradient either.
    """
    found = jacobian(lambda x: x - x.mean(), normal(5))
    return (
        f"for $m = 5$ values the Jacobian has {number(found[0, 0])} on its diagonal and "
        f"{number(found[0, 1])} beside it; "
        f"its rows sum to 0, to within {ceiling(largest(found.sum(1)))}."
    )


@claim("000-5", TRUE, "batch-norm/train-map[reference]")
def the_transform() -> str:
    r"""Each feature is normalized on its own, $\hat x = (x - E[x]) / \sqrt{\mathrm{Var}[x]}$, and
    then $y = \gamma \hat x + \beta$.

    With the biased variance of the batch, and with $\epsilon$ under the root, this is what every
    implementation computes.
    """
    x, layer, torchs = normal(32, 3, 4, 4), plain(3), nn.BatchNorm2d(3).double()
    mean, var = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), correction=0, keepdim=True)
    formula = (x - mean) / (var + EPS).sqrt()
    apart = max(float(largest(formula - other(x))) for other in (layer, torchs))
    return f"the formula, the reference layer and `nn.BatchNorm2d` differ by less than {ceiling(apart)} in float64."


@claim("000-6", CONDITION, "batch-norm/train-map[deviation]")
def identity_recovery() -> str:
    r"""With $\gamma = \sqrt{\mathrm{Var}[x]}$ and $\beta = E[x]$ the layer is the identity.

    It returns the batch that these statistics belong to, if $\gamma = \sqrt{v + \epsilon}$. In
    train mode no fixed $\gamma, \beta$ do so for every batch; in eval mode, where the statistics
    are fixed, they do.
    """
    x, other, layer = 2 + 3 * normal(64, 1), normal(64, 1, seed=1), plain(1)
    mean, var = x.mean(), x.var(correction=0)
    with torch.no_grad():
        standard, elsewhere = layer(x), layer(other)
        right = largest((var + EPS).sqrt() * standard + mean - x)
        without = largest(var.sqrt() * standard + mean - x)
        wrong = largest((var + EPS).sqrt() * elsewhere + mean - other)
    return (
        f"the batch comes back to within {ceiling(right)}; without $\\epsilon$ it is off by "
        f"{number(without)}, and another batch, of another mean and scale, by {number(wrong)}."
    )


@claim("000-7", WRONG, "batch-norm/train-map", "batch-norm/train-map[reference]")
def not_gaussian() -> str:
    r"""Normalizing makes the activations normally distributed.

    It is an affine map of each channel, which moves and scales a distribution and leaves its shape.
    What is made is mean 0 and variance $v / (v + \epsilon)$; skewness, kurtosis and all other
    standardized moments stay.
    """
    x = -torch.rand(
        20_000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    ).log()
    with torch.no_grad():
        y = plain(1)(x)

    def skewness(v: torch.Tensor) -> torch.Tensor:
        return ((v - v.mean()) / v.std(correction=0)).pow(3).mean()

    return (
        f"the skewness of 20 000 exponentially distributed values is {float(skewness(x)):.4f} "
        "before and "
        f"{float(skewness(y)):.4f} after (a normal distribution has 0)."
    )


@claim("002-1", WRONG, "batch-norm/train-map[deviation]", "batch-norm/train-map")
def not_standard_normal() -> str:
    r"""After standardization the input of a layer follows $\mathcal N(0, 1)$.

    As before: mean and variance are those of $\mathcal N(0, 1)$, up to $\epsilon$, and nothing else
    is. Inputs that take two values take two values afterwards.
    """
    x = (torch.arange(1000) % 2).double().reshape(-1, 1)
    with torch.no_grad():
        y = plain(1)(x)
    kurtosis = y.pow(4).mean() / y.square().mean() ** 2
    return (
        "1000 values, half of them 0 and half 1, become "
        f"{' and '.join(f'{v:+.5f}' for v in y.unique().tolist())}; "
        f"their standardized fourth moment is {number(kurtosis)}, where a normal distribution has "
        "3."
    )


def scaling(a: float, eps: float = EPS) -> tuple[float, float]:
    """How far BN(ax) is from BN(x), and from BN(x) with the sign of a and with eps / a^2."""
    x = normal(256, 1, seed=5)
    x = (x - x.mean()) / x.std(correction=0)
    with torch.no_grad():
        scaled, same, exact = plain(1, eps)(a * x), plain(1, eps)(x), plain(1, eps / a**2)(x)
    sign = 1 if a > 0 else -1
    return float(largest(scaled - same)), float(largest(scaled - sign * exact))


@claim("000-9", CONDITION, "batch-norm/train-map[scale]", "batch-norm/gradient[weight-scale]")
def scale_invariance() -> str:
    r"""The layer does not see the scale of the weights before it: $BN((aW)u) = BN(Wu)$.

    This holds for $a > 0$ and $\epsilon = 0$. The root of $\mathrm{Var}[ax]$ is $|a|$ times that of
    $\mathrm{Var}[x]$, so that a negative $a$ turns the sign, and $\epsilon$ counts for more the
    smaller $a$ is. Exactly, $BN_\epsilon(ax) = \mathrm{sign}(a) BN_{\epsilon / a^2}(x)$ for every
    $a \ne 0$.
    """
    (two, _), (small, _), (negative, _) = scaling(2.0), scaling(1e-3), scaling(-1.0)
    exact = max(scaling(a)[1] for a in (2.0, 1e-3, -1.0, -0.01))
    return (
        f"at variance 1 and $\\epsilon = 10^{{-5}}$ the output moves by {number(two)} for $a = "
        f"2$, by {number(small)} for "
        f"$a = 10^{{-3}}$ and by {number(negative)} for $a = -1$; the exact law is off by less "
        f"than "
        f"{ceiling(exact)}."
    )


@claim("000-10", TRUE, "batch-norm/train-map[reference]", "batch-norm/as-built[values]")
def eps_inside() -> str:
    r"""A small $\epsilon$ is added under the root, $10^{-5}$ by default; $\gamma$ starts at 1 and
    $\beta$ at 0.

    Under the root and beside it are different layers, which a channel of small variance tells
    apart.
    """
    x, layer = 1e-3 * normal(4096, 1), plain(1)
    start = ", ".join(
        f"{name} {number(float(value.detach()))}" for name, value in layer.named_parameters()
    )
    with torch.no_grad():
        inside = layer(x).std()
    outside = ((x - x.mean()) / (x.std(correction=0) + EPS)).std()
    return (
        f"inputs of standard deviation $10^{{-3}}$ leave the layer with {number(inside)}; with "
        f"$\\epsilon$ beside the root "
        f"it would be {number(outside)}. The reference starts at {start}."
    )


@claim("000-11", MISLEADING, "batch-norm/train-map")
def which_mean() -> str:
    """The mean is taken across the channels.

    It is taken across samples and positions, for each channel on its own: one mean per channel.
    """
    x = torch.tensor([0.0, 10.0, 20.0], dtype=torch.float64).reshape(1, 3, 1, 1) + normal(
        32, 3, 8, 8
    )
    with torch.no_grad():
        y = plain(3)(x)
    across = (x - x.mean(1, keepdim=True)) / (x.var(1, correction=0, keepdim=True) + EPS).sqrt()
    return (
        f"for channels with means 0, 10 and 20 the layer gives means within "
        f"{ceiling(largest(y.mean((0, 2, 3))))} of 0; normalized across "
        f"channels they would be {', '.join(f'{v:.1f}' for v in across.mean((0, 2, 3)).tolist())}."
    )


@claim("000-19", TRUE, "batch-norm/train-map[reference]")
def the_example() -> str:
    """A uniform batch of shape (32, 3, 64, 64), flattened to (32, 3, 4096), has means of shape (1,
    3, 1) and is normalized as by torch.

    The means of uniform numbers are smaller than two standard deviations, where the one-pass
    variance of the notes is harmless.
    """
    x = torch.rand(32, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    shape = tuple(x.flatten(2).mean((0, 2), keepdim=True).shape)
    expected = nn.BatchNorm2d(3)(x)
    one, two = (
        largest(FlattenedBatchNorm(3, rows=rows)(x) - expected) for rows in ("000-12", NONE)
    )
    return (
        f"the shape is {shape}; in float32 the outputs differ from those of `nn.BatchNorm2d` by "
        f"{number(one)}, "
        f"with a two-pass variance by {number(two)}."
    )
