"""Claims about surjections, augmentation, Markov layers and continuous flows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch

from batch_norm_page.claim import (
    CONDITION,
    TRUE,
    UNSOUND,
    WRONG,
    ceiling,
    claim,
    largest,
    normal,
    number,
)
from flowref import reference as ref
from flowref.reference.continuous import with_divergence
from flowref_zoo.seeds.bug_rows import NONE
from flows_page.maps import made

MATRIX = torch.tensor([[0.3, -0.8], [0.5, 0.2]], dtype=torch.float64)


def linear(t: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """z' = A z."""
    return z @ MATRIX.mT


def mass(rows: str) -> float:
    r"""The integral of $e^V q(|x|)$ over the plane, q half-normal, for the tutorial's absolute value."""
    grid = torch.linspace(-8, 8, 401, dtype=torch.float64)
    points = torch.cartesian_prod(grid, grid)
    z, contribution = made(rows, "abs")(points)
    log_q = (math.log(2) - 0.5 * math.log(2 * math.pi) - 0.5 * z.square()).sum(1)
    return float((log_q + contribution).exp().sum() * (grid[1] - grid[0]) ** 2)


@claim("001-14", WRONG, "density/mass[contribution]")
def absolute() -> str:
    r"""The absolute value contributes $+\log 2$ for each entry.

    From the data's side, $z = |x|$, each entry contributes $\log p(s \mid z) = -\log 2$: two points
    share the density of one. From the other side, where the sum is subtracted, the same number makes
    it an addition, so that $+\log 2$ is right in neither convention.
    """
    return f"in the plane the density has a mass of {number(mass('001-14'))}, and of {number(mass(NONE))} with the other sign."


@claim("001-15", TRUE, "map/inverse[draws]")
def random_sign() -> str:
    r"""The inverse of the absolute value draws a sign.

    A right inverse: $|s z| = z$ for every sign, to the last bit. A sign is -1 or 1: one that may be 0,
    as that of a number is, loses the point.
    """
    layer, z = ref.Abs(), normal(1000, 2).abs()
    same = torch.equal(layer(layer.inverse(z)[0])[0], z)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        lost = made("001-15", "abs").inverse(z)  # type: ignore[operator]  # a module with an inverse
    return (
        f"of 1000 points {'all' if same else 'not all'} come back bit for bit; of a draw from -1, 0 and 1, "
        f"{int((lost.abs() == z).all(1).sum())}."
    )


@claim("001-16", TRUE, "density/mass[contribution]", "kernel/follows-contribution")
def rad() -> str:
    r"""RAD combines piecewise invertible functions with a discrete variable that selects one, and is a
    class of inference surjections.

    $\log p(x) = \log p_Z(f_k(x)) + \log p(k \mid z) + \log|f_k'(x)|$ with k the region of x. Without
    the share of the region each has the mass of all.
    """
    layer = ref.RAD(1, (-0.5, 1.0)).double()
    ends = [(-0.5, -1, 20.0), (-0.5, 1, 0.75), (1.0, -1, 0.75), (1.0, 1, 20.0)]
    nodes, weights = np.polynomial.legendre.leggauss(40)
    total, ungated = 0.0, 0.0
    for start, side, length in ends:
        logs = np.linspace(-40, math.log(length), 121)
        for low, high in itertools.pairwise(logs):
            at = (low + high) / 2 + (high - low) / 2 * nodes
            x = torch.tensor(start + side * np.exp(at))[:, None]
            kept = x[:, 0] != start
            z, contribution = layer(x[kept])
            log_p = contribution - 0.5 * z[:, 0].square() - 0.5 * math.log(2 * math.pi)
            measure = (high - low) / 2 * torch.tensor(weights * np.exp(at))[kept]
            total += float(measure @ log_p.exp())
            ungated += float(measure @ (log_p + math.log(3)).exp())
    return (
        f"three regions with equal shares have a density of mass {number(total)}, and of {number(ungated)} "
        "without the shares."
    )


def augmented(noise: torch.Tensor, x: torch.Tensor, rows: str = NONE) -> torch.Tensor:
    """log p(x, e) - log q(e) for a rotation of a standard normal pair."""
    turned = torch.cat((0.8 * x + 0.6 * noise, 0.8 * noise - 0.6 * x), 1)
    joint = -math.log(2 * math.pi) - 0.5 * turned.square().sum(1)
    cost = -0.5 * (math.log(2 * math.pi) + noise.square().sum(1))
    return joint if rows == "001-18" else joint - cost


@claim("001-17", CONDITION, "density/mass[bound]")
def divergence() -> str:
    r"""$\log p(x) - \log p(x, e) - H(e) = D_{KL}(q(e) \,\|\, p(e \mid x))$.

    In expectation over $e \sim q$: the joint density of one e says nothing of the kind.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    x = torch.full((len(nodes), 1), 0.7, dtype=torch.float64)
    e = torch.tensor(nodes)[:, None] + 0.5  # q is normal around 1/2, p(e | x) around 0
    joint = -math.log(2 * math.pi) - 0.5 * (x.square() + e.square()).sum(1)
    entropy = 0.5 * math.log(2 * math.pi * math.e)
    log_p = -0.5 * (math.log(2 * math.pi) + 0.49)
    gaps = log_p - joint - entropy
    mean = float(torch.tensor(weights / weights.sum()) @ gaps)
    return (
        f"for q one half off the divergence is 1/8: the left side is {number(mean)} on average, and between "
        f"{number(gaps.min())} and {number(gaps[15:25].max())} at single values of e."
    )


@claim("001-18", WRONG, "density/mass[contribution]")
def augmentation() -> str:
    r"""Noise beside the data contributes 0.

    It contributes $-\log q(e \mid x)$. With 0 the value is off by the entropy of the noise, on
    average; for a fixed q that is a constant, so that gradients agree and samples are none the wiser.
    """
    e, x = normal(20_000, 1), torch.zeros(20_000, 1, dtype=torch.float64)
    off = (augmented(e, x) - augmented(e, x, "001-18")).mean()
    entropy = 0.5 * math.log(2 * math.pi * math.e)
    return f"the difference is {number(off)} on average, the entropy of a standard normal {number(entropy)}."


@claim("001-19", UNSOUND, "map/finite[draws]", "same/rows[contribution]")
def metropolis() -> str:
    r"""A Metropolis layer accepts where $u < e^{E(x) - E(x')}$ and contributes the change of the energy.

    Formula and sign are right. The code compares without a dot, once for the whole batch; and it
    keeps what is refused by multiplying with zero, which leaves NaN where the proposal's energy is
    infinite.
    """
    x = 2.9 * torch.ones(200, 2, dtype=torch.float64)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        broken = made("001-19", "metropolis")(x)[1]
        whole = made(NONE, "metropolis")(x)[1]
    return (
        f"in a corner of a box {int(broken.isnan().sum())} of 200 contributions are NaN, and "
        f"{int(whole.isnan().sum())} where the energy is selected."
    )


@claim("001-20", UNSOUND, "random/once-per-solve")
def noise_of_a_solve() -> str:
    r"""FFJORD's $\epsilon^T J \epsilon$ draws $\epsilon$ in every evaluation of the field.

    It has to be one vector for a solve: with another one in each evaluation the solver integrates a
    function that is not smooth, and sees its noise as error.
    """
    field = ref.TimedMLP(2, (16,)).double()
    x, t = normal(1, 2), torch.zeros((), dtype=torch.float64)
    signs = 2 * torch.randint(2, (1000, 2), generator=torch.Generator().manual_seed(0)).double() - 1
    found = with_divergence(field, t, x.expand(1000, 2), signs)[1]
    exact = with_divergence(field, t, x)[1].item()
    return (
        f"the estimate of a trace of {number(exact)} has a standard deviation of {number(found.std())} "
        "from one evaluation to the next."
    )


@claim("001-21", WRONG, "map/log-det")
def sign_of_the_trace() -> str:
    r"""The state carries $-\mathrm{tr}\,J$, and its end is the log-det.

    Minus the trace is the rate of the log-density; the log-det is $+\int \mathrm{tr}\,J\,dt$.
    """
    x = normal(1, 2)
    wrong, right = (made(rows, "continuous")(x)[1].item() for rows in ("001-21", NONE))
    return f"for a linear field {number(wrong)}; $T\\,\\mathrm{{tr}} A$ is {number(right)}."


@claim("001-22", UNSOUND, "map/inverse")
def backwards() -> str:
    """The inverse integrates from T to 0.

    It would: the code asks for the type of `b` after `b` was replaced, so that time always runs
    forwards.
    """
    x = normal(3, 2)
    gaps = []
    for rows in ("001-22", NONE):
        layer = made(rows, "continuous")
        gaps.append(largest(layer.inverse(layer(x)[0])[0] - x))  # type: ignore[operator]  # a module with an inverse
    return f"points come back {number(gaps[0])} off, and within {ceiling(gaps[1])} where time runs back."


@claim("001-23", TRUE, "same/history[repeat]")
def exact_trace() -> str:
    """At test time the exact trace is needed.

    An estimate is unbiased for the log-det, and its exponential is not unbiased for the density.
    """
    flow = ref.CNF(linear, 0.7, "hutchinson")
    x = normal(1, 2).expand(400, 2)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        drawn, exact = flow.train()(x)[1], flow.eval()(x)[1]
    return (
        f"400 estimates of {number(exact[0])} have a mean of {number(drawn.mean())} and a standard deviation of "
        f"{number(drawn.std())}; in eval mode all are the same."
    )


@claim("001-24", TRUE, "density/mass")
def crossing() -> str:
    """Continuous flows cannot let paths pass through each other; an added dimension helps.

    On the line order is kept. With zeros beside the data there is no density, though: the image has
    no volume, and the joint density of data and zeros is none of the data. For likelihoods the added
    entries have to be noise.
    """

    def turn(t: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return math.pi * torch.stack((-z[:, 1], z[:, 0]), 1)

    x = normal(20, 1)
    z = ref.ANODE(turn, 1)(x)
    line = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    density = made("001-24", "augmented").log_prob(line[:, None]).exp()  # type: ignore[operator]  # a density
    return (
        f"half a turn of the plane takes $x$ to $-x$ within {ceiling(largest(z[:, :1] + x))}; what a flow "
        f"of pairs says of data and zeros has a mass of {number(torch.trapezoid(density, line))}."
    )


@claim("001-25", TRUE, "map/log-det")
def closed_trace() -> str:
    """OT-Flow has an exact trace at the price of one evaluation.

    The Hessian of its potential has a trace in closed form, a term for each layer.
    """
    made_ = ref.Potential(5, 8).double()
    x, t = normal(4, 5), torch.full((), 0.3, dtype=torch.float64)
    own = made_.slopes(t, x).laplacian
    rows = [
        torch.autograd.functional.hessian(lambda p: made_(t, p[None]).sum(), point) for point in x
    ]
    gap = own - torch.stack(rows).diagonal(dim1=1, dim2=2).sum(1)
    half, points = made("001-25", "transport"), normal(4, 2)
    off = half(points)[1] - made(NONE, "transport")(points)[1]
    return (
        f"in five dimensions it agrees with autograd's Hessian within {ceiling(largest(gap))}; without the "
        f"term of the first layer log-dets are up to {number(largest(off))} off."
    )
