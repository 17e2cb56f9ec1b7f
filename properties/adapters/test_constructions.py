"""A construction that flowref builds is recognized as the object that a user builds."""

from __future__ import annotations

import warnings

import pytest
import torch

from flowref import registry

# Its levels have latents of several shapes, which flowref flattens for this construction alone.
UNRECOGNIZED = {"normflows:MultiscaleFlow"}
# Those of JAX are built in properties/adapters/with_jax, those of Keras in with_keras.
LIBRARIES = [
    name
    for name, adapter in registry.adapters().items()
    if adapter.package and adapter.backend == "torch" and not adapter.extra
]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_construction_is_recognized_as_what_it_is(library: str) -> None:
    """Whether named in a spec or handed over as an object, the same map is called the same way, so
    that its dialect is one fact.
    """
    adapter = registry.adapters()[library]
    different = set()
    for name, component in registry.components(library).items():
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            recognized = adapter.recognizes(component.build())
        if recognized != component.dialect:
            different.add(f"{library}:{name}")
    assert different == {spec for spec in UNRECOGNIZED if spec.startswith(f"{library}:")}


@pytest.mark.parametrize(
    ("spec", "steps"),
    [
        ("zuko:RealNVP", "transforms"),
        ("torchflows:arch.RealNVP", "layers"),
        ("glasflow:RealNVP[linear=None]", "n_transforms"),
    ],
)
def test_one_coupling_promises_less_than_a_stack(spec: str, steps: str) -> None:
    """A stack promises by its name that it transforms every entry; built with one coupling it does
    not, and is held to nothing that it cannot do.
    """
    facts = registry.find_component(registry.parse_target(spec)).facts
    assert callable(facts)
    assert facts(**{steps: 2}).promises.get("transforms-all")
    assert not facts(**{steps: 1}).promises.get("transforms-all")
