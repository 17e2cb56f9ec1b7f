"""What does not fit a layer of the wide families is refused in words, with what was got and what is
expected; nothing is broadcast, ignored or estimated from it in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from flowref import reference as ref
from flowref.reference import NotConverged

X = torch.arange(12.0).reshape(3, 4) / 10 - 0.5
SIGNS = torch.ones(1, 3, 4)
Case = tuple[Callable[[], Any], str]


def block(log_det: Any) -> ref.Residual:
    """A residual block of four entries."""
    return ref.Residual(ref.Contraction(4, (8,)), log_det=log_det)


def estimated() -> ref.CNF:
    """A continuous flow that estimates traces."""
    return ref.CNF(ref.TimedMLP(4, (8,)), trace="hutchinson").train()


def spline(mask: torch.Tensor) -> ref.SplineCoupling:
    """A coupling whose conditioner fits two kept and two transformed entries."""
    return ref.SplineCoupling(mask, ref.MLP(2, 22, (8,)), 4)


def two() -> ref.KernelChain:
    """Two augmentations in a row."""
    return ref.KernelChain(ref.augment(4, 1), ref.augment(5, 2))


BOX: dict[str, Case] = {
    "outside": (
        lambda: ref.Spline((4,), bound=0.3, tails=None)(X),
        r"got values from -0.5 to 0.6 .*expected all in \[-0.3, 0.3\]",
    ),
    "outside, back": (
        lambda: ref.Spline((4,), bound=0.3, tails=None).inverse(X),
        r"expected all in \[-0.3, 0.3\]",
    ),
}
MASKS: dict[str, Case] = {
    "a mask of another length": (
        lambda: spline(ref.channel_mask(6))(X),
        r"batch of shape \(3, 4\) for a mask of 6 entries",
    ),
    "a mask of numbers": (
        lambda: spline(torch.tensor([1.0, 0.0, 1.0, 0.0])),
        "got a mask of torch.float32; expected torch.bool",
    ),
    "nothing to transform": (
        lambda: spline(torch.ones(4, dtype=torch.bool)),
        "keeps 4 of 4 entries; expected some",
    ),
    "an order that is none": (lambda: ref.MADE(3, 2, order=(0, 0, 2)), "each of 0 to 2 once"),
}
SHAPES: dict[str, Case] = {
    "another number of features": (
        lambda: ref.MaskedAutoregressive(3)(X),
        r"got a batch of shape \(3, 4\).*expected \(N, 3\)",
    ),
    "of a field": (
        lambda: ref.CNF(ref.TimedMLP(3, (8,)))(X),
        r"for a field; expected \(N, 3\)",
    ),
    "a map that loses an entry": (
        lambda: ref.Residual(torch.nn.Linear(4, 3), 0.5)(X),
        r"the map gave shape \(3, 3\); expected \(3, 4\)",
    ),
    "a map that would be broadcast": (
        lambda: ref.Residual(torch.nn.Linear(4, 1), 0.5)(X),
        r"the map gave shape \(3, 1\); expected \(3, 4\)",
    ),
    "vectors for images": (
        lambda: ref.MaxPool().inverse(X),
        r"got a batch of shape \(3, 4\); expected images",
    ),
    "a base of another size": (
        lambda: ref.KernelFlow(ref.StandardNormal((4,)), ref.augment(4, 1)).log_prob(X),
        r"got a batch of shape \(3, 5\) for the base density; expected \(N, 4\)",
    ),
    "a layer that draws among bijections": (
        lambda: ref.Chain(ref.Affine(0.0, 1.0), ref.Abs()),  # type: ignore[arg-type]  # which is refused
        "got Abs, which may draw; expected bijections: KernelChain takes both",
    ),
}
NOISE: dict[str, Case] = {
    "where none is drawn": (lambda: ref.Abs()(X, (X,)), r"got noise of shapes .*expected \[\]"),
    "of a slice": (
        lambda: ref.Slice(2, ref.ConditionalNormal(2))(X, (X,)),
        r"got noise of shapes .*expected \[\]",
    ),
    "of a gate": (lambda: ref.RAD(4, (0.0,))(X, (X,)), r"got noise of shapes .*expected \[\]"),
    "too little for a chain": (
        lambda: two()(X, (torch.zeros(3, 1),)),
        "got 1 tensors of noise for a chain; expected 2",
    ),
    "too much for a chain": (
        lambda: two()(X, (torch.zeros(3, 1), torch.zeros(3, 2), torch.zeros(3, 2))),
        "got 3 tensors of noise for a chain; expected 2",
    ),
    "a third sign": (
        lambda: ref.Abs().inverse(X.abs(), (2 * torch.ones(3, 4),)),
        "got choices from 2 to 2; expected whole numbers from 0 to 1",
    ),
    "half a sign": (
        lambda: ref.Abs().inverse(X.abs(), (0.5 * torch.ones(3, 4),)),
        "expected whole numbers from 0 to 1",
    ),
    "a fifth place": (
        lambda: ref.MaxPool().inverse(
            torch.ones(1, 1, 1, 1),
            (torch.full((1, 1, 1, 1), 4), torch.ones(1, 1, 1, 1, 3)),
        ),
        "got choices from 4 to 4; expected whole numbers from 0 to 3",
    ),
    "more signs than probes": (
        lambda: block(ref.PowerSeries(4, 2))(X, (torch.ones(3, 3, 4),)),
        r"got signs of shape \(3, 3, 4\); expected \(2, 3, 4\)",
    ),
    "of an exact log-det": (
        lambda: block(ref.Exact())(X, (SIGNS,)),
        "got 1 tensors of noise; expected none",
    ),
    "half a term": (
        lambda: block(ref.Roulette())(X, (torch.tensor(1.5), SIGNS)),
        "got 1.5 further terms; expected a whole number, 0 or more",
    ),
    "less than no term": (
        lambda: block(ref.Roulette())(X, (torch.tensor(-1), SIGNS)),
        "got -1 further terms",
    ),
    "signs of one row": (
        lambda: estimated()(X, (torch.ones(4),)),
        r"got noise of shapes \[\(4,\)\]; expected \(3, 4\)",
    ),
    "of an exact trace": (
        lambda: ref.CNF(ref.TimedMLP(4, (8,)))(X, (torch.ones(3, 4),)),
        "expected none, for an exact trace",
    ),
}
OPTIONS: dict[str, Case] = {
    "a series of no term": (lambda: ref.PowerSeries(0), "got terms=0, .*expected one term"),
    "a constant of one": (
        lambda: ref.Residual(torch.nn.Linear(4, 4), 1.0),
        "strictly between 0 and 1",
    ),
}
REFUSED = {
    f"{kind}: {name}": case
    for kind, cases in (
        ("box", BOX),
        ("mask", MASKS),
        ("shape", SHAPES),
        ("noise", NOISE),
        ("option", OPTIONS),
    )
    for name, case in cases.items()
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_in_words(name: str) -> None:
    """With what was got and what is expected."""
    run, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        run()


@pytest.mark.parametrize("back", [False, True])
def test_compiled_splines_give_no_number_outside_of_their_box(
    back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no point can be refused, what lies outside is nan, value and log-det, and what lies inside is
    as ever.
    """
    layer = ref.Spline((2,), bound=1.0, tails=None)
    inside, mixed = torch.tensor([[0.5, -0.5]]), torch.tensor([[0.5, -1.5], [0.5, -0.5]])
    run = layer.inverse if back else layer.forward
    expected, expected_ladj = run(inside)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    value, ladj = run(mixed)
    assert value[0, 0] == expected[0, 0] and value[0, 1].isnan() and ladj[0].isnan()
    assert torch.equal(value[1:], expected) and torch.equal(ladj[1:], expected_ladj)


@pytest.mark.parametrize("rate", [-500.0, float("nan")], ids=["too steep", "nan"])
def test_a_solver_that_does_not_converge_says_so(rate: float) -> None:
    """With the error that is left and the one that is expected; no state comes back."""
    flow = ref.CNF(lambda t, z: rate * z**3, most=32)
    with pytest.raises(
        NotConverged, match=r"32 steps from 0 to 1 .* leaves an error of .*expected"
    ):
        flow(X)


def test_a_block_that_is_no_contraction_says_so() -> None:
    """Its inverse does not come to rest, and no point is made up."""
    wide = torch.nn.Linear(4, 4)
    with torch.no_grad():
        wide.weight.copy_(-3 * torch.eye(4))
    with pytest.raises(NotConverged, match=r"Lipschitz constant 0\.5 was not reached"):
        ref.Residual(wide, 0.5).inverse(X)


def test_an_energy_without_a_slope_pushes_nowhere() -> None:
    """A constant energy has the gradient 0: the step is its noise."""
    noise = torch.ones(3, 1, 4)
    z, weight = ref.Langevin(lambda x: x.new_zeros(len(x)), size=0.5)(X, (noise,))
    torch.testing.assert_close(z, X + 1.0)
    assert (weight == 0).all()
