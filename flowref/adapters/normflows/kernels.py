"""The stochastic layers of normflows: Metropolis-Hastings and Hamiltonian chains, whose log-det is a path
weight.
"""

from __future__ import annotations

from typing import Any

from flowref.adapters.common.object_components import Constructions
from flowref.adapters.common.shapes import unknown_shape
from flowref.model import REAL, Dialect, Facts, Kernel, Shape


def chain_forward(obj: Any, z: Any, context: Any = None) -> Any:
    return obj.forward(z)


def chain_inverse(obj: Any, x: Any, context: Any = None) -> Any:
    """The inverse of a layer is the same chain."""
    return obj.inverse(x)


KERNEL = Dialect(push=chain_forward, pull=chain_inverse)


def constructions() -> Constructions:
    """Name -> (builder, event shape)."""
    return {
        "MetropolisHastings": (_metropolis, (2,)),
        "HamiltonianMonteCarlo": (_hamiltonian, (2,)),
    }


def _metropolis() -> Any:
    import normflows as nf

    proposal = nf.distributions.DiagGaussianProposal((2,), 0.5)
    target = nf.distributions.DiagGaussian(2, trainable=False)
    return nf.flows.MetropolisHastings(target, proposal, 3)


def _hamiltonian() -> Any:
    import normflows as nf
    import torch

    target = nf.distributions.DiagGaussian(2, trainable=False)
    log_step = torch.full((2,), -1.5)
    return nf.flows.HamiltonianMonteCarlo(target, 3, log_step, torch.zeros(2))


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a random layer."""
    from normflows import flows

    layers = (flows.MetropolisHastings, flows.HamiltonianMonteCarlo)
    return KERNEL if isinstance(obj, layers) else None


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a stochastic layer, which draws in both directions."""
    if event_shape is None:
        raise unknown_shape(obj)
    return Facts(
        event_shape=event_shape,
        latent_shape=event_shape,
        codomain=REAL,
        kernel=Kernel((True, True), "path-weight"),
    )
