"""Batch norms of flax: of linen with their variables, and of nnx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.adapters.common.jax_states import LINEN, OWN, StateConvention
from flowref.model import Normalizer, Shape

FLAG = "use_running_average"
LINEN_WAY, NNX_WAY = StateConvention(LINEN, flag=FLAG), StateConvention(OWN, flag=FLAG)
DECLARED = {"momentum": "keep", "running_var": "biased"}
# For ``use_fast_variance``, the default: "a faster, but less numerically stable, calculation".
FAST = {**DECLARED, "offsets": "documented"}


def normalizer(
    variables: bool, axes: int = 1, affine: bool = True, fast: bool = True
) -> Normalizer:
    """The documented conventions of a batch norm, of linen if it has ``variables``; channels are last of
    ``axes`` event axes.
    """
    module, kept, own = ("0.", "1.batch_stats.", "1.params.") if variables else ("", "", "")
    end = "" if variables else ".value"
    weights = {"weight": f"{own}scale{end}", "bias": f"{own}bias{end}"} if affine else {}
    return Normalizer(
        roles={
            "eps": f"{module}epsilon",
            "momentum": f"{module}momentum",
            "running_mean": f"{kept}mean{end}",
            "running_var": f"{kept}var{end}",
            **weights,
        },
        declared=FAST if fast else DECLARED,
        channel=(axes - 1,),
    )


def of_linen(shape: Shape, **options: Any) -> Any:
    """A module and its variables, in the process's precision."""
    import jax
    from flax import linen

    module = linen.BatchNorm(use_running_average=None, **options)
    x = jax.numpy.ones((2, *shape))
    return module, module.init(jax.random.key(0), x, use_running_average=False)


def of_nnx(size: int, **options: Any) -> Any:
    """A module with its statistics."""
    from flax import nnx

    return nnx.BatchNorm(size, rngs=nnx.Rngs(0), **options)


def batch_norms() -> dict[str, tuple[Callable[..., Any], Shape, StateConvention, Normalizer]]:
    """Name -> builder, event shape, call, and documented conventions."""
    slow = {"use_fast_variance": False}
    bare = {"use_scale": False, "use_bias": False, "momentum": 0.9}
    image = (3, 4, 2)
    return {
        "BatchNorm": (lambda: of_linen((3,)), (3,), LINEN_WAY, normalizer(True)),
        "BatchNorm[slow]": (lambda: of_linen((3,), **slow), (3,), LINEN_WAY, normalizer(True, fast=False)),
        "BatchNorm[image]": (
            lambda: of_linen(image, momentum=0.9), image, LINEN_WAY, normalizer(True, 3)
        ),
        "BatchNorm[bare]": (
            lambda: of_linen((3,), **bare), (3,), LINEN_WAY, normalizer(True, affine=False)
        ),
        "nnx.BatchNorm": (lambda: of_nnx(3), (3,), NNX_WAY, normalizer(False)),
        "nnx.BatchNorm[slow]": (lambda: of_nnx(3, **slow), (3,), NNX_WAY, normalizer(False, fast=False)),
    }  # fmt: skip
