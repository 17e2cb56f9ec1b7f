"""Continuous flows: an ODE along a velocity field, whose log-det is the integral of the field's
divergence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from flowref.reference.bijection import Bijection, check_event
from flowref.reference.inner_derivatives import differentiates
from flowref.reference.log_det_series import random_signs
from flowref.reference.solver import MOST, path_integral, runge_kutta_steps, solve, state_at_time

Field = Callable[[Tensor, Tensor], Tensor]
Trace = Literal["exact", "hutchinson"]
# The path gets this share of the tolerance: its errors enter the divergences along it, and the
# density of its end.
PATH = 0.1
# Numbers per batched backward pass: with more there are fewer calls, but they overflow a
# CPU's cache.
TOGETHER = {"cpu": 2**16, "gpu": 2**22}


class TimedMLP(nn.Module):
    """A velocity field: linear layers on state and time, with tanh between them.

    Shapes: t scalar, or `(N, 1)`, and x `(N, features)` to `(N, features)`.
    """

    def __init__(self, features: int, hidden: Sequence[int] = (64, 64)) -> None:
        super().__init__()
        self.features = features
        self.layers = nn.ModuleList(
            nn.Linear(before + 1, after)
            for before, after in pairwise([features, *hidden, features])
        )

    def forward(self, t: Tensor, x: Tensor) -> Tensor:
        """The velocity of each row, `(N, features)`."""
        check_event(x, (self.features,), "a field")
        for index, layer in enumerate(self.layers):
            x = layer(torch.cat((x.tanh() if index else x, t.expand(len(x), 1)), 1))
        return x


class CNF(Bijection):
    r"""$\dot z = f(t, z)$ from time 0 to T with $z(0) = x$: $z = z(T)$; the inverse goes from T to
    0.

    ladj: $\int_0^T \mathrm{tr}\,\partial f / \partial z\;dt$, along the same path; minus that, for the
    inverse. ``trace``: "exact" takes D backward passes for each evaluation, "hutchinson" one,
    $\epsilon^T (\partial f / \partial z)\,\epsilon$ with independent signs $\epsilon$, drawn once for a
    whole solve; only in train mode, since a reported log-density has to be exact.
    The state does not depend on the log-det, so it is solved first, with adaptive steps, and the
    divergence is integrated along its path, at separate nodes (see `runge_kutta_steps` and
    `path_integral`). The error of the log-det is within the tolerance per entry, relative to its size;
    that of the state within a tenth of it, relative to 1 and its size.
    Steps and nodes are chosen for the batch, so rows depend on each other within the tolerance; autograd
    treats them as constants.
    Shapes: x and z `(N, D)`, ladj `(N,)`; noise: signs `(N, D)`.  Units: nats.
    Raises: `ValueError` for a field of another shape; `NotConverged` if the steps do not suffice.
    Source: Chen et al. 2018, Neural ODEs (arXiv:1806.07366), section 4; Grathwohl et al. 2019, FFJORD
    (arXiv:1810.01367), section 3.
    """

    def __init__(
        self,
        field: Field,
        time: float = 1.0,
        trace: Trace = "exact",
        tolerance: float = 1e-8,
        most: int = MOST,
    ) -> None:
        super().__init__()
        if trace not in ("exact", "hutchinson") or not time > 0 or not tolerance > 0:
            raise ValueError(
                f"got time={time}, trace={trace!r}, tolerance={tolerance}; expected positive numbers, and "
                "'exact' or 'hutchinson'"
            )
        self.field, self.time, self.trace = field, time, trace
        self.tolerance, self.most = tolerance, most

    def forward(self, x: Tensor, noise: tuple[Tensor, ...] = ()) -> tuple[Tensor, Tensor]:
        """Data to latents, `(z, ladj)`."""
        return self.flow(x, 0.0, self.time, noise)

    def inverse(self, z: Tensor, noise: tuple[Tensor, ...] = ()) -> tuple[Tensor, Tensor]:
        """Latents to data, `(x, ladj)`."""
        return self.flow(z, self.time, 0.0, noise)

    def generate(self, z: Tensor) -> Tensor:
        """Latents to data, without the log-det."""
        check_vectors(z)
        return solve(
            partial(speed, self.field), z, self.time, 0.0, PATH * self.tolerance, self.most
        )

    def flow(
        self, x: Tensor, start: float, end: float, noise: tuple[Tensor, ...] = ()
    ) -> tuple[Tensor, Tensor]:
        """Solves from time ``start`` to ``end``: returns the state `(N, D)` and the log-det
        `(N,)`.
        """
        check_vectors(x)
        if noise and (self.trace == "exact" or [one.shape for one in noise] != [x.shape]):
            expected = "none, for an exact trace" if self.trace == "exact" else tuple(x.shape)
            raise ValueError(
                f"got noise of shapes {[tuple(one.shape) for one in noise]}; expected {expected}"
            )
        estimated = self.trace == "hutchinson" and (self.training or bool(noise))
        signs = (noise[0] if noise else random_signs(1, x)[0]) if estimated else None

        if start == end:
            return x, x.new_zeros(len(x))
        rate = partial(speed, self.field)
        path = list(runge_kutta_steps(rate, x, start, end, PATH * self.tolerance, self.most))

        def divergence(time: float) -> Tensor:
            return self.velocity(x.new_full((), time), state_at_time(path, time), signs)[1]

        return path[-1].after, path_integral(
            divergence, path, self.tolerance, x.shape[1], self.most
        )

    def velocity(self, t: Tensor, z: Tensor, signs: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The field `(N, D)` and its divergence `(N,)`, exact without signs."""
        return with_divergence(self.field, t, z, signs)

    def extra_repr(self) -> str:
        """The options, for `repr`."""
        return f"time={self.time}, trace={self.trace!r}, tolerance={self.tolerance}"


class ANODE(nn.Module):
    """A continuous flow of data padded with zeros: paths that would have to cross avoid each other
    in the added dimensions.

    It maps $R^D$ into $R^{D + A}$, onto a set without volume: its outputs have no density, so there is
    no log-det. For likelihoods the added entries have to be noise (`augment`).
    Shapes: x `(N, D)`, z `(N, D + A)`.
    Source: Dupont et al. 2019, Augmented Neural ODEs (arXiv:1904.01681).
    """

    def __init__(
        self, field: Field, added: int, time: float = 1.0, tolerance: float = 1e-8
    ) -> None:
        super().__init__()
        if added < 1:
            raise ValueError(f"got added={added}; expected one entry at least")
        self.field, self.added, self.time, self.tolerance = field, added, time, tolerance

    def forward(self, x: Tensor) -> Tensor:
        """The state at the end, `(N, D + A)`."""
        start = torch.cat((x, x.new_zeros(len(x), self.added)), 1)
        return solve(self.field, start, 0.0, self.time, self.tolerance)

    def inverse(self, z: Tensor) -> Tensor:
        """The data `(N, D)` of an output; raises `ValueError` if the added entries do not return
        to zero.
        """
        start = solve(self.field, z, self.time, 0.0, self.tolerance)
        x, rest = start[:, : -self.added], start[:, -self.added :]
        if bool((rest.abs() > 1e4 * self.tolerance * (1 + z.abs().amax())).any()):
            raise ValueError(
                f"got a point whose added entries come back to {float(rest.abs().max()):.3g}; expected "
                "an output of forward, where they are 0"
            )
        return x

    def log_prob(self, x: Tensor) -> Tensor:
        """Raises `ValueError`: the outputs have no density."""
        raise ValueError(
            "a map into more dimensions has no density there; add noise instead of zeros, with augment"
        )


def check_vectors(x: Tensor) -> None:
    """Raises `ValueError` unless x is a batch of vectors."""
    if x.dim() != 2:
        raise ValueError(f"got a batch of shape {tuple(x.shape)}; expected vectors, (N, D)")


def speed(field: Field, t: Tensor, z: Tensor) -> Tensor:
    """The velocity `(N, D)`; raises `ValueError` for a field of another shape."""
    value = field(t, z)
    if value.shape != z.shape:
        raise ValueError(f"the field gave shape {tuple(value.shape)}; expected {tuple(z.shape)}")
    return value


@differentiates
def with_divergence(
    field: Field, t: Tensor, z: Tensor, signs: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    r"""$f$ and $\mathrm{tr}\,\partial f / \partial z$ of each row, or
    $\epsilon^T (\partial f / \partial z)\,\epsilon$ for signs $\epsilon$ `(N, D)`.
    """
    kept = torch.is_grad_enabled()
    with torch.enable_grad():
        point = z if z.requires_grad and kept else z.detach().requires_grad_()
        value = speed(field, t, point)
        if signs is not None:
            divergence = (_pulled(value, point, signs[None], kept)[0] * signs).sum(1)
        else:
            units = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
            many = max(1, TOGETHER["cpu" if z.is_cpu else "gpu"] // max(1, z.numel()))
            parts = [
                _pulled(value, point, some[:, None].expand(-1, *z.shape), kept)
                .diagonal(first, 0, 2)
                .sum(1)
                for first, some in zip(count(0, many), units.split(many), strict=False)
            ]
            divergence = torch.stack(parts).sum(0)
    return (value, divergence) if kept else (value.detach(), divergence.detach())


def _pulled(value: Tensor, point: Tensor, vectors: Tensor, kept: bool) -> Tensor:
    """Row vectors `(G, N, D)` times the Jacobian; zeros if the field does not depend on
    the state.
    """
    if not value.requires_grad:
        return torch.zeros_like(vectors)
    together = len(vectors) > 1
    (product,) = torch.autograd.grad(
        value,
        point,
        vectors if together else vectors[0],
        retain_graph=True,
        create_graph=kept,
        is_grads_batched=together,
        materialize_grads=True,
    )
    return product if together else product[None]
