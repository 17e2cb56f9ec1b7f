"""torchflows models of published size."""

from __future__ import annotations

from typing import Any

from flowref.adapters.common import published_models as sizes
from flowref.adapters.common.published_models import Model
from flowref.model import Shape


def models() -> dict[str, Model]:
    """Name -> density."""
    event: Shape = (sizes.MNIST.features,)
    return {
        "nsf-c-bsds300": Model(_splines, (sizes.COUPLED_SPLINES["bsds300"].features,), sizes.NSF),
        "maf-mnist": Model(_autoregressive, event, sizes.MAF),
        "real-nvp-mnist": Model(_real_nvp, event, sizes.MAF),
        "real-nvp-cifar10": Model(_images, sizes.CIFAR, sizes.REAL_NVP),
        "residual-2d": Model(_residual, (2,), sizes.RESIDUAL),
    }


def continuous_models() -> dict[str, Model]:
    """Name -> density of a continuous flow."""
    return {"ffjord-2d": Model(_continuous, (2,), sizes.FFJORD)}


def _dense(architecture: str, features: int, steps: int, hidden: int, **more: Any) -> Any:
    from torchflows.bijections.finite.autoregressive import architectures
    from torchflows.flows import Flow

    network = {"n_hidden": hidden, "n_layers": 3}  # two hidden layers
    kind = getattr(architectures, architecture)
    return Flow(kind((features,), n_layers=steps, conditioner_kwargs=network, **more))


def _splines() -> Any:
    size = sizes.COUPLED_SPLINES["bsds300"]
    return _dense(
        "CouplingRQNSF",
        size.features,
        size.steps,
        size.hidden,
        transformer_kwargs={"n_bins": size.bins, "boundary": sizes.TAIL_BOUND},
    )


def _autoregressive() -> Any:
    return _dense("MAF", sizes.MNIST.features, sizes.MNIST.steps, sizes.MNIST.hidden)


def _real_nvp() -> Any:
    return _dense("RealNVP", sizes.MNIST.features, sizes.MNIST.steps, sizes.MNIST.hidden)


def _images() -> Any:
    """Two levels; conditioners are residual networks of the library's default size."""
    from torchflows.bijections.finite.multiscale.architectures import MultiscaleRealNVP
    from torchflows.flows import Flow

    return Flow(MultiscaleRealNVP(sizes.CIFAR, n_layers=2, use_resnet=True))


def _residual() -> Any:
    from torchflows.bijections.finite.residual.architectures import ResFlow
    from torchflows.flows import Flow

    return Flow(ResFlow((2,), n_layers=sizes.RESIDUAL_SIZE[0]))


def _continuous() -> Any:
    from torchflows.bijections.continuous.ffjord import FFJORD
    from torchflows.flows import ContinuousFlow

    network = {"hidden_size": sizes.FFJORD_SIZE[0], "n_hidden_layers": len(sizes.FFJORD_SIZE) - 1}
    return ContinuousFlow(FFJORD((2,), nn_kwargs=network))
