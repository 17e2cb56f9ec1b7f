"""sbi density estimators from its builders, for 3 parameters given 2 data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.adapters.common.object_components import Constructions

# Number of pairs, from which builders take shapes and z-scores.
PAIRS = 400
FEATURES, CONDITION = 3, 2
# Widths at which laws take seconds. The fast mixture, and SOSPF, which clips with fewer layers,
# keep their defaults.
SMALL: dict[str, dict[str, Any]] = {
    "made": {"hidden_features": 16},
    "mdn": {},
    "zuko_sospf": {},
}
FLOW = {"hidden_features": 16, "num_transforms": 2}
# Builders, without the prefix build_. zuko_naf and zuko_unaf are left out: their inverses bisect
# through a network, and one law takes minutes.
BUILDERS = (
    "made", "maf", "maf_rqs", "nsf", "zuko_nice", "zuko_maf", "zuko_nsf", "zuko_ncsf", "zuko_sospf", "zuko_gf", "zuko_bpf",
)  # fmt: skip
# Builders tried with options of z-scoring, since their transforms are from different libraries;
# nflows does not support a prior's bounds.
SCORED, BOUNDED = ("nsf", "zuko_nsf", "mdn"), ("zuko_nsf", "mdn")


def pairs(features: int) -> tuple[Any, Any]:
    """Correlated parameters and data ``(PAIRS, .)`` in different scales."""
    import torch

    mixing = torch.tensor([[1.0, 0.3, 0.0], [0.0, 2.0, -0.4], [0.0, 0.0, 0.5]])
    drawn = torch.randn(PAIRS, features)
    width = min(features, FEATURES)
    theta = drawn.clone()
    theta[:, :width] = drawn[:, :width] @ mixing[:width, :width] + 1.0
    # Data have their own scale, by which z-scoring divides.
    return theta, theta[:, :1] + torch.tensor([0.5, 2.0]) * torch.randn(PAIRS, CONDITION)


def bounds() -> tuple[Any, Any]:
    """The ends of a uniform prior."""
    import torch

    return torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([1.0, 4.0, 3.0])


def builder(name: str) -> Callable[..., Any]:
    """The function of sbi that builds an estimator."""
    from sbi.neural_nets import net_builders

    found: Callable[..., Any] = getattr(net_builders, f"build_{name}")
    return found


def built(name: str, **options: Any) -> Callable[..., Any]:
    """A builder of one kind of estimator, at any width."""
    build, sizes = builder(name), SMALL.get(name, FLOW)
    return lambda features=FEATURES: build(*pairs(features), **sizes, **options)


def bounded(name: str) -> Callable[[], Any]:
    """A builder of an estimator with parameters bounded by a prior."""
    build, sizes = builder(name), SMALL.get(name, FLOW)

    def make() -> Any:
        import torch
        from sbi.utils import BoxUniform

        low, high = bounds()
        theta = low + (high - low) * torch.rand(PAIRS, FEATURES)
        data = theta[:, :1] + torch.randn(PAIRS, CONDITION)
        return build(
            theta,
            data,
            z_score_x="transform_to_unconstrained",
            x_dist=BoxUniform(low, high),
            **sizes,
        )

    return make


def estimators() -> Constructions:
    """Name -> builder."""
    return {
        **{name: built(name) for name in (*BUILDERS, "mdn")},
        **{f"{name}[structured]": built(name, z_score_x="structured") for name in SCORED},
        **{f"{name}[bounded]": (bounded(name), (FEATURES,)) for name in BOUNDED},
    }
