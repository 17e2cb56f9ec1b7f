"""nessai flows as its samplers configure them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flowref.adapters.common.object_components import Constructions

# Construction -> configuration besides sizes.
CONFIGURED: dict[str, dict[str, Any]] = {
    "RealNVP": {"ftype": "realnvp"},
    "RealNVP[lars]": {"ftype": "realnvp", "distribution": "lars"},
    "RealNVP[linear=svd]": {"ftype": "realnvp", "linear_transform": "svd"},
    "MAF": {"ftype": "maf"},
    "NSF": {"ftype": "nsf"},
}
SIZES = {"n_neurons": 16, "n_blocks": 2, "n_layers": 1}


def configured(options: dict[str, Any]) -> Callable[..., Any]:
    """The builder of one flow."""

    def make(features: int = 4) -> Any:
        from nessai.flows import configure_model

        return configure_model({"n_inputs": features, **SIZES, **options})

    return make


def flows() -> Constructions:
    """Name -> builder."""
    return {name: configured(options) for name, options in CONFIGURED.items()}
