"""Claims about bijections: log-dets, couplings, convolutions, batch norm, splines, residual blocks."""

from __future__ import annotations

import math

import torch
from torch.autograd.functional import jacobian

from batch_norm_page.claim import (
    CONDITION,
    CONVENTION,
    MISLEADING,
    TRUE,
    UNSOUND,
    WRONG,
    ceiling,
    claim,
    largest,
    normal,
    number,
    outcome,
)
from flowref import reference as ref
from flowref_zoo.seeds import flows
from flowref_zoo.seeds.bug_rows import NONE


def made(rows: str, part: str) -> torch.nn.Module:
    """A part of the tutorial in float64 and eval mode, with the same weights whatever its bugs."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        built: torch.nn.Module = flows.make(rows, part)
        return built.double().eval()


def log_dets(layer: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    """By autograd, `(N,)`."""
    rows = [jacobian(lambda p: layer(p[None])[0][0], point) for point in x]
    logs: torch.Tensor = torch.linalg.slogdet(torch.stack(rows)).logabsdet
    return logs


@claim("001-1", TRUE, "density/change-of-variables", "composition/parts")
def change_of_variables() -> str:
    r"""$\ln q_K(z_K) = \ln q_0(z_0) - \sum_k \ln |\det \partial f_k / \partial z_{k-1}|$.

    In the generative direction, from the base to the data; in the other one the sum is added.
    """
    chain = ref.VectorRealNVP(3, 2, (8,)).double().eval()
    x = normal(4, 3)
    z, ladj = chain(x)
    back = chain.inverse(z)[1]
    return f"log-dets of both directions of a Real NVP add up to 0 within {ceiling(largest(ladj + back))}."


@claim("001-2", WRONG, "shape/one-number-per-point[log-det]", "map/log-det")
def exponential() -> str:
    r"""For $y = e^x$ the log-det is `sum(x)`.

    For one vector. For a batch the sum runs over the entries of each event, and gives a number for
    each point; the sum over everything is one number for all.
    """
    x = normal(5, 3)
    total, own = made("001-2", "exp")(x)[1], made(NONE, "exp")(x)[1]
    shown = ", ".join(number(value) for value in own)
    return f"for five points the tutorial's is {number(total)}; the log-dets are {shown}."


@claim("001-3", WRONG, "composition/algebra[order]", "map/inverse")
def folds() -> str:
    r"""`composel` is a left fold of composition and `composer` a right fold.

    A comment. Composition is associative, so that both folds are the same map, which takes the last
    one first; what differs is the order of the maps, from left to right or from right to left. A
    forward that is written as the fold, beside an inverse from right to left, does not come back.
    """
    first, second = ref.Affine(1.0, 2.0), ref.Affine(0.0, -3.0)
    x = normal(2, 1)
    left = ref.Chain(ref.Chain(first, second), ref.Exp())(x)[0]
    right = ref.Chain(first, ref.Chain(second, ref.Exp()))(x)[0]
    turned = ref.Chain(second, first)(x)[0] - ref.Chain(first, second)(x)[0]
    folded, points = made("001-3", "composed"), normal(6, 2)
    back = folded.inverse(folded(points)[0])[0]  # type: ignore[operator]  # a module with an inverse
    return (
        f"either nesting of three maps gives the same within {ceiling(largest(left - right))}; two maps in "
        f"the other order differ by {number(largest(turned))}, and points come back from a fold "
        f"{number(largest(back - points))} off."
    )


@claim("001-4", TRUE, "coupling/closed-form")
def coupling() -> str:
    r"""$y_b = x_b \odot e^{f_\sigma(x_a)} + f_\mu(x_a)$, $y_a = x_a$, inverted by
    $x_b = (y_b - f_\mu(y_a)) \odot e^{-f_\sigma(y_a)}$.

    The text transforms the second block, the code the first; either is a coupling.
    """
    layer, x = made(NONE, "coupling"), normal(6, 4)
    back = layer.inverse(layer(x)[0])[0]  # type: ignore[operator]  # a module with an inverse
    return f"round trips return within {ceiling(largest(back - x))}."


@claim("001-5", WRONG, "map/log-det")
def coupling_log_det() -> str:
    r"""The log-det of a coupling is $\sum_{i=1}^{d} \ln |f_\sigma(x^{(i)})|$.

    Wrong three times: the scale is $e^{f_\sigma}$, so that no logarithm is left; the sum runs over
    the $D - d$ transformed entries; and $f_\sigma$ is a function of the kept block:
    $\sum_j f_\sigma(x_a)_j$.
    """
    x = normal(1, 4)
    wrong, right = (made(rows, "coupling")(x)[1].item() for rows in ("001-5", NONE))
    true = log_dets(made(NONE, "coupling"), x).item()
    return f"at a point {number(wrong)}; the sum is {number(right)}, autograd gives {number(true)}."


@claim("001-6", WRONG, "map/log-det")
def trace() -> str:
    r"""The Jacobian is triangular, so its determinant is its trace.

    It is the product of the diagonal; its logarithm is the trace of the logarithm of that. The
    formula below the sentence has the product.
    """
    x = normal(1, 4)
    wrong, right = (made(rows, "coupling")(x)[1].item() for rows in ("001-6", NONE))
    return f"the logarithm of the trace is {number(wrong)} where the log-det is {number(right)}."


@claim("001-7", UNSOUND, "map/calls-work")
def inverse_of_the_coupling() -> str:
    """The inverse of the coupling conditions on `x2`, by the network of `b`.

    Neither name is there: what is kept comes out as `z2`, and the layer is `ib.orig`.
    """
    layer = made("001-7", "coupling")
    return f"the inverse raises {outcome(lambda: layer.inverse(normal(1, 4)))}."  # type: ignore[operator]  # as above


@claim("001-8", UNSOUND)
def chunks() -> str:
    """`split` takes rows `bot:min(bot + splitsize, N)`.

    One row too many, since both ends count: with two features the shift has two rows and the scale
    one, which broadcasts in silence.
    """
    layer = made("001-8", "coupling")
    return f"with four features the layer raises {outcome(lambda: layer(normal(2, 4)))}."


@claim("001-9", UNSOUND)
def odd_features() -> str:
    """The network takes `div(D, 2)` inputs.

    For an odd number of features the block that it is given has one more.
    """
    layer = made("001-9", "coupling")
    return f"with three features it raises {outcome(lambda: layer(normal(2, 3)))}."


@claim("001-10", CONDITION, "map/log-det", "map/calls-work")
def convolution() -> str:
    r"""The log-det of a 1x1 convolution is $h w \log |\det W|$; the weights start as `glorot_uniform`.

    The formula is right. The inverse refers to the argument of the other function. And a matrix that
    starts so may be nearly singular; a random rotation has a log-det of 0 and loses no digits.
    """
    generator = torch.Generator().manual_seed(0)
    bound = math.sqrt(6 / 4)
    drawn = (2 * torch.rand(2000, 2, 2, generator=generator, dtype=torch.float64) - 1) * bound
    conditions = torch.linalg.cond(drawn).sort().values
    return (
        f"of 2000 such 2 x 2 matrices the median condition number is {number(conditions[1000])}, and one in a "
        f"hundred is beyond {number(conditions[1980])}; that of a rotation is 1."
    )


@claim("001-11", CONDITION, "map/inverse[batch-norm]")
def batch_norm() -> str:
    """Batch normalization is inverted with running estimates.

    Where forward uses them too, in eval mode. In train mode forward takes the moments of the batch,
    and nothing but these brings the batch back.
    """
    layer = ref.InvertibleBatchNorm(2).double()
    x = 5 + 3 * normal(20, 2)
    layer.train()(x)
    moved = layer(x)[0]
    layer.eval()
    wrong, right = layer.inverse(moved)[0] - x, layer.inverse(layer(x)[0])[0] - x
    return (
        f"from train mode the batch comes back {number(largest(wrong))} off, in eval mode within "
        f"{ceiling(largest(right))}."
    )


@claim("001-12", TRUE, "map/inverse[gap]", "map/inverse", "map/log-det")
def spline() -> str:
    """A rational-quadratic spline takes K widths, K heights and K - 1 slopes, and a bound B.

    The slopes at both ends are 1, so that it meets the identity outside of $[-B, B]$ smoothly; and
    heights have to fill the box. Where a least height is taken off and not given back, nothing is
    mapped between the last knot and B.
    """
    layer = ref.Spline((2,), bins=3, bound=2.0).double()
    with torch.no_grad():
        layer.raw.copy_(normal(2, 8))
    edge = torch.tensor([[2.0 - 1e-9, -2.0 + 1e-9]], dtype=torch.float64)
    slopes = layer(edge)[1].item()
    ends = torch.full((1, 2), 2.0, dtype=torch.float64)
    missing = largest(made("001-12", "spline")(ends)[0] - ends)
    return (
        f"a billionth inside of both ends the log-det is 0 within {ceiling(slopes)}; without the least "
        f"heights the box ends {number(missing)} below its bound of 2."
    )


@claim("001-13", WRONG, "map/promised-jacobian[lipschitz]", "map/inverse")
def residual() -> str:
    r"""In a residual flow $x + g(x)$ the function g just needs to be 1-Lipschitz.

    It needs a constant below 1: $g(x) = -x$ has the constant 1 and gives 0 everywhere.
    """
    z = normal(4, 2)
    gaps = []
    for rows in ("001-13", NONE):
        layer = made(rows, "residual")
        x = layer.inverse(z)[0]  # type: ignore[operator]  # as above
        gaps.append(largest(layer(x)[0] - z))
    return (
        f"sixty steps of the fixed point leave {number(gaps[0])} with the constant 1, and less than "
        f"{ceiling(gaps[1])} with 1/2."
    )


@claim("001-27", CONVENTION)
def defaults() -> str:
    """Six times coupling, batch norm and 1x1 convolution with 64 hidden units and relu; tolerance
    1e-5 and time 1 for the continuous flow; one Metropolis step of size 0.01.

    Taken as they are: `flowref fit` has the first, and the classes of the reference the others'
    meaning.
    """
    model = ref.VectorRealNVP()
    count = sum(parameter.numel() for parameter in model.parameters())
    return f"the six-layer flow of the reference, with two hidden layers of 64, has {count} parameters."


@claim("001-26", MISLEADING)
def filament() -> str:
    """Mapping one mode to two with couplings leaves a connection between the modes.

    So does any continuous bijection, since the image of a connected set is connected; it is not a
    property of couplings. A surjection or a gate has no such bridge.
    """
    layer = ref.RAD(1, (0.0,)).double()
    flow = ref.KernelFlow(ref.StandardNormal((1,)), layer).double()
    x = torch.tensor([[1e-6], [1.0]], dtype=torch.float64)
    low, high = flow.log_prob(x).exp().tolist()
    return f"a density of two regions is {number(low)} a millionth beside the boundary, and {number(high)} at 1."
