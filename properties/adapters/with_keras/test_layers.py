"""Layers of Keras on torch: healthy ones are not accused, what is planted in them is caught, and what calls of a
layer change is the copy's alone.
"""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")
pytest.importorskip("keras", reason="what is Keras' is checked where Keras is installed")
import keras
import torch

from flowref import auditing, checking, loading, registry
from flowref.adapters.keras.modules import module_of
from flowref.model import Facts, Law, Status, Target, TargetError, Unsupported
from flowref_zoo import keras_layers as layers

# Keras' own conversion to numpy.
pytestmark = pytest.mark.filterwarnings("ignore:__array__:DeprecationWarning")
if keras.backend.backend() != "torch":
    pytest.skip("layers are audited on torch", allow_module_level=True)

FILE = os.path.relpath(Path(layers.__file__))
NORM, COUPLING = "own_batch_norm?defect=", "coupling?defect="
PLANTED = [
    (f"{NORM}eps", "batch-norm/train-map[reference]"),
    (f"{NORM}n-1", "batch-norm/train-map[reference]"),
    (f"{NORM}momentum", "batch-norm/conventions[momentum]"),
    (f"{NORM}statistics", "batch-norm/statistics[buffers]"),
    (f"{NORM}bias", "batch-norm/gradient[closed-form]"),
    (f"{COUPLING}log-det", "map/log-det"),
    (f"{COUPLING}inverse", "map/inverse"),
]
# Keras' own batch norm, whose variance on torch is a difference of two means of squares.
OFFSET, OWN = "batch-norm/numerics[offset]", ("batch_norm", "batch_norm_bare")


def target(spec: str) -> Target:
    """A target of the file of layers."""
    return registry.parse_target(f"{FILE}:{spec}")


def status(spec: str, law: str) -> Status:
    """What a law says of it."""
    found: Law = registry.find_law(law)
    return checking.pair_verdict(
        target(spec), found, checking.Settings("quick"), written=False
    ).status


@pytest.mark.parametrize("make", layers.HEALTHY)
def test_healthy_layers_are_not_accused(make: Any) -> None:
    """No law is violated by a healthy layer of any kind, but that of offsets by Keras' own batch norm."""
    options = "?event=4&context=2" if make is layers.given_coupling else ""
    report = auditing.audit([f"{FILE}:{make.__name__}{options}"], profile="quick")
    known = {OFFSET} if make.__name__.startswith(OWN) else set()
    accused = {one.law for one in report.verdicts if one.status is Status.VIOLATED}
    assert accused == known
    assert sum(one.status is Status.HOLDS for one in report.verdicts) > 50


@pytest.mark.parametrize("name", registry.components("keras"))
def test_constructions_are_what_calls_show(name: str) -> None:
    """What is stated of each batch norm of the library is what is seen of the same object of a user."""
    stated = registry.components("keras")[name]
    assert isinstance(stated.facts, Facts)
    shape = stated.facts.event_shape
    taken = loading.snapshot(stated.build()).with_options(event=",".join(map(str, shape)))
    seen = loading.recipe_of(
        loading.alias_live_target(loading.snapshot(stated.build()), taken)
    ).facts
    assert seen.normalizer is not None
    assert stated.facts.normalizer is not None
    for field in ("roles", "declared", "channel", "statistics"):
        assert getattr(seen.normalizer, field) == getattr(stated.facts.normalizer, field)


@pytest.mark.parametrize(("spec", "law"), PLANTED)
def test_planted_defects_are_caught(spec: str, law: str) -> None:
    """The law that a defect breaks is violated with it, and holds without."""
    assert status(spec, law) in (Status.VIOLATED, Status.ADVICE)
    assert status(spec.partition("?")[0], law) is Status.HOLDS


def test_half_a_momentum_is_either_fraction() -> None:
    """Where the fractions of the old value and of the new one are the same, none is the wrong one."""
    assert status("own_batch_norm?momentum=0.5", PLANTED[2][1]) is Status.HOLDS


def test_the_batch_norm_of_keras_is_one_with_its_conventions() -> None:
    """It is known by its roles, its axis, and the conventions that Keras declares."""
    facts = loading.recipe_of(target("batch_norm_of_images")).facts
    normalizer = facts.normalizer
    assert normalizer is not None
    assert (normalizer.statistics, normalizer.channel) == ("batch", (2,))
    assert normalizer.declared == {"momentum": "keep", "running_var": "biased"}
    assert dict(normalizer.roles) == {
        "weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance",
        "eps": "epsilon", "momentum": "momentum",
    }  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_module_computes_what_its_layer_does(dtype: torch.dtype) -> None:
    """In both modes, in the precision of the module, and with updates of its own alone."""
    layer = layers.batch_norm()
    module = module_of(layer).to(dtype)
    x = 3 + torch.randn(16, 4, dtype=dtype)
    y = module.train()(x)
    assert y.dtype == dtype
    assert not layer.moving_mean.numpy().any()
    torch.testing.assert_close(y.float(), layer(x.float(), training=True))
    z = module.eval()(x)
    torch.testing.assert_close(z.float(), layer(x.float(), training=False))


def test_copies_share_nothing() -> None:
    """Neither variables nor attributes that a call sets, be it of the layer or of a part of it."""

    class Counting(keras.layers.Layer):  # type: ignore[misc]  # keras publishes no types
        calls = 0

        def call(self, x: Any) -> Any:
            self.calls += 1
            return x * self.calls

    class Holding(keras.layers.Layer):  # type: ignore[misc]  # keras publishes no types
        def __init__(self) -> None:
            super().__init__()
            self.inner = layers.built(Counting())
            self.built = True

        def call(self, x: Any) -> Any:
            return self.inner(x)

    for make in (lambda: layers.built(Counting()), Holding):
        first = module_of(make())
        second, x = copy.deepcopy(first), torch.ones(2, 4)
        assert [float(first(x)[0, 0]) for _ in range(2)] == [1, 2]
        assert float(second(x)[0, 0]) == 1
        assert float(copy.deepcopy(first)(x)[0, 0]) == 3


def test_a_container_that_a_call_fills_is_refused() -> None:
    """All copies would share it, with one sentence at each call from then on."""

    class Caching(keras.layers.Layer):  # type: ignore[misc]  # keras publishes no types
        def __init__(self) -> None:
            super().__init__()
            self.cache: dict[str, Any] = {}

        def call(self, x: Any) -> Any:
            return x * self.cache.setdefault("two", 2.0)

    module = module_of(layers.built(Caching()))
    for _ in range(2):
        with pytest.raises(Unsupported, match="a call changes a list"):
            module(torch.ones(2, 4))


def test_a_layer_is_left_as_it_is() -> None:
    """Calls of its module in another precision change neither its policy nor that of the process."""
    layer = layers.block()
    module_of(layer).double()(torch.ones(2, 4).double())
    assert {part.dtype_policy.name for part in layer._flatten_layers()} == {"float32"}
    assert {one.dtype for one in layer.variables} == {"float32"} == {keras.config.floatx()}
    assert keras.backend.result_type("float64", "float64") == "float32"


def test_names_of_variables_are_places() -> None:
    """Two layers that are built alike have the same names, by the attributes under which parts stand."""
    first, second = module_of(layers.flow()), module_of(layers.flow())
    assert list(first.state_dict()) == list(second.state_dict())
    assert "steps/1/hidden/kernel" in first.state_dict()


def test_parameters_that_are_handed_in_count() -> None:
    """``functional_call`` reaches them, which it does not in a layer itself."""
    module, x = module_of(layers.scale()), torch.ones(2, 4)
    other = {name: torch.ones_like(value) for name, value in module.named_parameters()}
    value, _ = torch.func.functional_call(module, other, (x,))
    torch.testing.assert_close(value, x * torch.e + 1)


def test_draws_follow_the_seed() -> None:
    """The same seed of torch, the same sample, and others with another one."""
    module = module_of(layers.flow())

    def drawn(seed: int) -> Any:
        torch.manual_seed(seed)
        return module.sample(3)

    assert torch.equal(drawn(0), drawn(0))
    assert not torch.equal(drawn(0), drawn(1))


def test_a_module_is_pickled_as_keras_saves() -> None:
    """What comes back has the module's own values."""
    module, x = module_of(layers.batch_norm()), torch.randn(8, 4)
    module.train()(x)
    module.eval()
    torch.testing.assert_close(pickle.loads(pickle.dumps(module))(x), module(x))


def test_a_layer_that_is_not_built_is_refused() -> None:
    """With what to do."""
    with pytest.raises(TargetError, match=r"not built yet.*layer.build\(\(None, 4\)\)"):
        loading.snapshot(keras.layers.BatchNormalization())


def test_a_layer_of_several_arguments_is_built_with_the_shape_of_each() -> None:
    """A network with conditions, as BayesFlow's."""

    def build(self: Any, xz_shape: Any, conditions_shape: Any = None) -> None: ...

    network = type("Network", (keras.Layer,), {"build": build})()
    with pytest.raises(TargetError, match=r"conditions_shape=\(None, 2\) if it is called with"):
        loading.snapshot(network)


def test_layers_are_taken_as_they_are() -> None:
    """A live layer is snapshotted: what happens to it later is none of the target's."""
    layer = layers.batch_norm()
    taken = loading.snapshot(layer)
    layer.gamma.assign([7.0] * 4)
    subject = loading.load(taken)
    assert subject.forward is not None
    assert abs(subject.forward(torch.ones(2, 4).double().numpy()).value).max() < 2


def test_another_backend_is_named() -> None:
    """On another backend one sentence says what to set."""
    pytest.importorskip("jax", reason="the other backend is JAX's")
    program = (
        "import keras; from flowref.adapters.keras.modules import embeds\n"
        "try: embeds(keras.layers.Dense(2))\n"
        "except Exception as error: print(error)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "set KERAS_BACKEND=torch" in run.stdout
