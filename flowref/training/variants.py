"""Changes to a built reference model, for comparisons; each changes one thing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from flowref.reference import MLP, ActNorm, AffineCoupling, Flow, InvertibleBatchNorm, ResNet
from flowref.reference.batch_norm import BatchNorm
from flowref.reference.bijection import check_event
from flowref.training.extras import RunError


class NormalMixture(nn.Module):
    r"""A learned base of $K$ normal distributions: $p(z) = \sum_k w_k\, N(z; m_k, L_k L_k^\top)$,
    $L_k$ lower triangular.

    The weights start equal, $L_k$ as the identity, and the means at draws from a standard normal
    distribution. ``placed``: whether training begins with `place`. Shapes: z ``(n, features)``,
    log-density ``(n,)``. Units: nats.
    """

    def __init__(self, features: int, components: int) -> None:
        super().__init__()
        self.event_shape, self.placed = (features,), False
        self.logits = nn.Parameter(torch.zeros(components))
        self.means = nn.Parameter(torch.randn(components, features))
        self.log_diagonals = nn.Parameter(torch.zeros(components, features))
        self.below = nn.Parameter(torch.zeros(components, features, features))

    def factors(self) -> Tensor:
        r"""$L_1, \dots, L_K$, ``(K, features, features)``."""
        return self.below.tril(-1) + torch.diag_embed(self.log_diagonals.exp())

    @torch.no_grad()
    def place(self, z: Tensor) -> None:
        """Initialize means and covariances by the clusters of ``z`` ``(n, features)`` from the
        best of ten runs of Lloyd's algorithm.
        """
        least = math.inf
        for start in range(10):
            centers = z[
                torch.randperm(len(z), generator=torch.Generator().manual_seed(start))[
                    : len(self.means)
                ]
            ]
            for _ in range(20):
                nearest = torch.cdist(z, centers).argmin(1)
                clusters = [z[nearest == index] for index in range(len(centers))]
                centers = torch.stack([cluster.mean(0) for cluster in clusters])
            within = sum(float((cluster - cluster.mean(0)).square().sum()) for cluster in clusters)
            if within < least:
                least = within
                factors = torch.stack(
                    [torch.linalg.cholesky(torch.cov(cluster.T)) for cluster in clusters]
                )
                self.means.copy_(centers)
                self.log_diagonals.copy_(factors.diagonal(dim1=1, dim2=2).log())
                self.below.copy_(factors)

    def log_prob(self, z: Tensor) -> Tensor:
        """The log-density ``(n,)`` of each row of ``z`` ``(n, features)``, in nats."""
        check_event(z, self.event_shape, "the base density")
        offsets = (z - self.means[:, None]).mT  # (components, features, rows)
        squares = (
            torch.linalg.solve_triangular(self.factors(), offsets, upper=False).square().sum(1)
        )
        normals = (
            -0.5 * (squares + z.shape[1] * math.log(2 * math.pi))
            - self.log_diagonals.sum(1)[:, None]
        )
        total: Tensor = torch.logsumexp(self.logits.log_softmax(0)[:, None] + normals, 0)
        return total

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws n events ``(n, features)``. The choice of a component has no gradient."""
        chosen = torch.multinomial(
            self.logits.detach().softmax(0), n, replacement=True, generator=generator
        )
        noise = torch.randn(n, *self.event_shape, generator=generator, dtype=self.means.dtype)
        return self.means[chosen] + (self.factors()[chosen] @ noise[:, :, None])[:, :, 0]


def act_norms(flow: Flow) -> None:
    """Replaces each `InvertibleBatchNorm` between couplings by `ActNorm`."""
    for module in list(flow.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, InvertibleBatchNorm):
                setattr(module, name, ActNorm(child.num_features))


def normed_conditioners(flow: Flow) -> None:
    """Adds `BatchNorm` before each activation of every `MLP`."""
    for module in flow.modules():
        if isinstance(module, AffineCoupling) and isinstance(module.conditioner, MLP):
            layers: list[nn.Module] = []
            for layer in module.conditioner:
                layers += (
                    [layer, BatchNorm(layer.out_features)]
                    if isinstance(layer, nn.Linear)
                    else [layer]
                )
            module.conditioner = nn.Sequential(*layers[:-1])


@torch.no_grad()
def nonzero_outputs(flow: Flow) -> None:
    """Draws the last layers of all conditioners by torch's default, so that no coupling starts as
    the identity.
    """
    for module in flow.modules():
        if not isinstance(module, AffineCoupling):
            continue
        if isinstance(module.conditioner, ResNet):
            leave = module.conditioner.leave
            leave.reset_parameters()
            leave.gain.copy_(torch.linalg.vector_norm(leave.weight, dim=(1, 2, 3), keepdim=True))
        else:
            last = list(module.conditioner.children())[-1]
            assert isinstance(last, nn.Linear)
            last.reset_parameters()


def mixture_base(flow: Flow) -> None:
    """Replaces the standard normal base by a `NormalMixture` of two components."""
    (features,) = flow.base.event_shape
    flow.base = NormalMixture(features, 2)  # type: ignore[assignment]  # another density of the same events


def placed_base(flow: Flow) -> None:
    """The same with components initialized on two clusters of the latents of the data."""
    mixture_base(flow)
    assert isinstance(flow.base, NormalMixture)
    flow.base.placed = True


# The variants of recipes in the order in which they apply: those that draw come last, so that all
# else starts equal.
VARIANTS: Mapping[str, Callable[[Flow], None]] = {
    "act-norm": act_norms,
    "normed-conditioner": normed_conditioners,
    "nonzero-outputs": nonzero_outputs,
    "mixture-base": mixture_base,
    "placed-mixture-base": placed_base,
}


def vary(flow: Flow, names: Any) -> Flow:
    """Applies the variants of these names; raises `RunError` for an unknown name."""
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        raise RunError(f"there is no variant {unknown[0]!r}; expected one of {', '.join(VARIANTS)}")
    for name, change in VARIANTS.items():
        if name in names:
            change(flow)
    return flow
