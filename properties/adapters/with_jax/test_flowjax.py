"""The constructions of FlowJAX: each is built, called and recognized, and what its class says of its
ends is so.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flowjax", reason="the constructions of FlowJAX need FlowJAX")

from flowref import checking, loading, registry
from flowref.model import Status, Support, Target, draw_points

# Cheap ones of every kind; the audit goes through all.
NAMES = (
    "Affine", "Exp", "Tanh", "Power[-0.5]", "Permute[2-d]", "Householder", "Invert[Exp]", "Stack[axis=-1]",
    "Indexed", "Scan[Affine]", "Vmap[splines]", "Coupling[affine,cond]", "LogNormal", "coupling_flow",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_construction_goes_there_and_back(name: str) -> None:
    """A construction maps its domain into its codomain and comes back, in float64."""
    subject = loading.load(Target("flowjax", name))
    assert subject.forward is not None and subject.inverse is not None
    rng = np.random.default_rng(0)
    x = draw_points(subject.domain, (5, *subject.event_shape), rng)
    context = None
    if subject.context_shape is not None:
        context = rng.standard_normal((5, *subject.context_shape))
    y = subject.forward(x, context).value
    assert y.dtype == np.float64 and y.shape == (5, *subject.latent_shape)
    if subject.codomain is not None:
        low, high = subject.codomain.ends
        assert (y >= low).all() and (y <= high).all()
    assert np.allclose(subject.inverse(y, context).value, x, atol=1e-8)


@pytest.mark.parametrize("name", ["Affine", "Vmap[splines]", "LogNormal"])
def test_correct_constructions_are_not_accused(name: str) -> None:
    """The log-det of a construction is that of its Jacobian."""
    law = registry.find_law("map/log-det")
    verdict = checking.pair_verdict(Target("flowjax", name), law, checking.Settings("quick"))
    assert verdict.status is Status.HOLDS


@pytest.mark.parametrize("law", ["gradient/context", "gradient/context-used"])
def test_contexts_of_what_has_no_way_back_are_judged(law: str) -> None:
    """Where the call that normalizes is not offered, the other one is judged."""
    target = Target("flowjax", "BlockAutoregressiveNetwork[cond]")
    verdict = checking.pair_verdict(target, registry.find_law(law), checking.Settings("quick"))
    assert verdict.status is Status.HOLDS


def test_objects_of_the_library_are_recognized() -> None:
    """What a user builds of the library is called as its constructions are."""
    import equinox
    import jax

    adapter = registry.adapters()["flowjax"]
    different = []
    with jax.enable_x64(True):
        for name, component in registry.components("flowjax").items():
            try:  # without its arrays
                built = equinox.filter_eval_shape(inspect.unwrap(component.build))
            except jax.errors.ConcretizationTypeError:  # it computes numbers when it is built
                built = component.build()
            if adapter.recognizes(built) != component.dialect:
                different.append(name)
    assert not different


def test_what_flows_state_of_their_ends() -> None:
    """Supports, tolerances and what iterates are read off the classes."""
    parts = registry.components("flowjax")
    facts: dict[str, Any] = {
        name: parts[name].facts()  # type: ignore[operator]  # functions of the options, all of them
        for name in ("LogNormal", "distributions.Uniform", "block_neural_autoregressive_flow")
    }
    assert str(facts["LogNormal"].codomain) == str(Support.parse("positive"))
    assert facts["distributions.Uniform"].codomain.ends == (-1.0, 2.0)
    searched = facts["block_neural_autoregressive_flow"]
    # The mean over two entries of what it misses by is at most 1e-5; far out it raises.
    assert searched.promises["inverse-tolerance"] == pytest.approx(2e-5)
    assert searched.promises["iterative-forward"] and not searched.declared


def test_checks_inside_programs_are_told_in_their_words() -> None:
    """What a check raises in a compiled program is told without the traceback before it."""
    from flowref.backends.jax.sandbox import said_inside

    raised = "INTERNAL: CpuCallback error calling callback: Traceback (most recent call last):\n"
    words = "Maximum steps reached in while loop."
    assert said_inside(ValueError(f'{raised}  File "a.py"\n_RuntimeError: {words}\n\n---')) == words
    assert not said_inside(ValueError("expected 3 features"))
