"""What is proved is true: programs that are written to fool a prover, beside true ones that look alike."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from flowref.backends.torch.tracing import TorchTracedCall, Untraced
from flowref.proving.criteria import LAWS
from flowref.proving.identities import Proof, prove_identity

ROWS, SIZE = 3, 2


class Map(nn.Module):
    """A map of two entries with two weights, as a test writes it."""

    def __init__(self, run: Any) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor([0.7, -0.4]))
        self.b = nn.Parameter(torch.tensor([1.3, 0.6]))
        self.register_buffer("mask", torch.tensor([1.0, 0.0]))
        self.calls, self.run = 0, run

    def forward(self, x: Any) -> Any:
        """The value and the log-det."""
        return self.run(self, x)


def proof(run: Any) -> Proof:
    """What is found of a map."""
    torch.manual_seed(0)
    with torch.device("cpu"):
        module = Map(run).double()
    draw = [torch.randn(ROWS, SIZE, dtype=torch.float64) for _ in range(4)]
    try:
        traced = TorchTracedCall(module, lambda obj, x, context: obj(x), draw[0])
        if not traced.agrees(draw[1:]):
            return Proof(False, reason="the graph differs from the object")
        paths = [path for path in map(traced.path, draw) if path is not None]
        return prove_identity(traced.graph(), LAWS["log-det"], paths)[0]
    except Untraced as error:
        return Proof(False, reason=str(error))


def total(x: Any, each: Any) -> Any:
    """The sum of numbers of each entry, for each point."""
    return each.expand(x.shape).sum(-1)


def coupling(m: Any, x: Any, factor: float = 1.0) -> Any:
    """A coupling, with its log-det times a factor."""
    kept, moved = x[:, :1], x[:, 1:]
    s = torch.tanh(kept * m.a[:1] + m.b[:1]) * m.b[1:]
    return torch.cat([kept, moved * s.exp() + torch.relu(kept)], -1), factor * s.sum(-1)


def slope_of(m: Any, x: Any) -> Any:
    """The slope of a map as autograd has it, in a call."""
    with torch.enable_grad():
        points = x.clone().requires_grad_()
        value = points * torch.exp(m.a)
        return torch.autograd.grad(value.sum(), points, create_graph=True)[0]


def nested(m: Any) -> Any:
    """A root of an expression with roots of weights."""
    return torch.sqrt(torch.sqrt(m.b**2 + 1) + 2)


def nested_of(x: Any) -> Any:
    """A root of an expression with roots of points."""
    return torch.sqrt(torch.sqrt(x**2 + 1) + 2)


class Doubled(torch.autograd.Function):
    """A cube whose derivative is told to be twice as large."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """The cube."""
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Twice its derivative."""
        return 6 * ctx.saved_tensors[0] ** 2 * grad


def slope_by(function: Any, m: Any, x: Any) -> Any:
    """The slope of a map with a function of its own, as autograd has it."""
    with torch.enable_grad():
        points = x.clone().requires_grad_()
        value = points * torch.exp(m.a) + function.apply(points)
        return torch.autograd.grad(value.sum(), points, create_graph=True)[0]


# Maps whose log-det is right for all inputs and weights, though some of their numbers are what fools a prover.
RIGHT = {
    "affine": lambda m, x: (x * m.a + m.b, total(x, m.a.abs().log())),
    "exponential": lambda m, x: (x * m.a.exp() + m.b, total(x, m.a)),
    "coupling": coupling,
    "sinh": lambda m, x: (torch.sinh(x), torch.cosh(x).log().sum(-1)),
    "asinh": lambda m, x: (torch.asinh(x), -0.5 * (1 + x**2).log().sum(-1)),
    "tanh": lambda m, x: (torch.tanh(x), (1 - torch.tanh(x) ** 2).log().sum(-1)),
    "sigmoid": lambda m, x: (
        torch.sigmoid(x),
        (-torch.log1p((-x).exp()) - torch.log1p(x.exp())).sum(-1),
    ),
    "two slopes": lambda m, x: (
        torch.where(x > 0, 2 * x, x),
        ((x > 0).to(x.dtype) * math.log(2)).sum(-1),
    ),
    "kept": lambda m, x: (x * (m.a.exp() * m.mask + 1 - m.mask), total(x, m.a * m.mask)),
    "matrix": lambda m, x: (
        x @ torch.outer(m.a, m.b).add(torch.eye(2, dtype=x.dtype)),
        (1 + m.a @ m.b).abs().log().expand(len(x)),
    ),
    "slogdet": lambda m, x: (
        x @ torch.stack([m.a, m.b]),
        torch.linalg.slogdet(torch.stack([m.a, m.b]))[1].expand(len(x)),
    ),
    "root": lambda m, x: (x * torch.sqrt(m.b**2 + 1), total(x, 0.5 * (m.b**2 + 1).log())),
    "swap": lambda m, x: (x.flip(-1), x.new_zeros(len(x))),
    "plain number": lambda m, x: (x + m.a, 0),
    "sine": lambda m, x: (
        x + 0.5 * torch.sin(x + m.a),
        (1 + 0.5 * torch.cos(x + m.a)).abs().log().sum(-1),
    ),
    "arcsine": lambda m, x: (
        torch.asin(torch.tanh(x)),
        (-torch.log(torch.cosh(x).square()) / 2).sum(-1),
    ),
    "whole powers": lambda m, x: (
        x ** x.new_tensor([1.0, 3.0]),
        (3 * x[:, 1] ** 2).log(),
    ),
    "signed power": lambda m, x: (
        x.sign() * x.abs() ** m.b.exp(),
        (m.b + m.b.exp() * x.abs().log() - x.abs().log()).sum(-1),
    ),
    "differentiated": lambda m, x: (x * torch.exp(m.a), total(x, slope_of(m, x).log())),
    "softmax": lambda m, x: (x * torch.softmax(m.a, 0), total(x, torch.log_softmax(m.a, 0))),
    "root of a root": lambda m, x: (x * nested(m), total(x, nested(m).log())),
    "root of a root of the points": lambda m, x: (
        torch.cat([x[:, :1], x[:, 1:] * nested_of(x[:, :1])], 1),
        nested_of(x[:, :1]).log().sum(-1),
    ),
    "system": lambda m, x: (
        torch.linalg.solve(torch.stack([m.a, m.b]), x.T).T,
        -torch.linalg.slogdet(torch.stack([m.a, m.b]))[1].expand(len(x)),
    ),
    "inverse matrix": lambda m, x: (
        x @ torch.linalg.inv(torch.stack([m.a, m.b])),
        -torch.linalg.slogdet(torch.stack([m.a, m.b]))[1].expand(len(x)),
    ),
}
# Maps whose log-det is wrong, somewhere, or for some weights.
WRONG = {
    "root of another root": lambda m, x: (
        x * nested(m),
        total(x, torch.sqrt(torch.sqrt(m.b**2 + 1) + 3).log()),
    ),
    "root of a root twice": lambda m, x: (x * nested(m), total(x, 2 * nested(m).log())),
    "system the other way": lambda m, x: (
        torch.linalg.solve(torch.stack([m.a, m.b]), x.T).T,
        torch.linalg.slogdet(torch.stack([m.a, m.b]))[1].expand(len(x)),
    ),
    "halved": lambda m, x: (x * m.a.exp(), total(x, m.a / 2)),
    "other plain number": lambda m, x: (2 * x, 0.5),
    "negated": lambda m, x: (x * m.a.exp(), -total(x, m.a)),
    "sine for cosine": lambda m, x: (
        x + 0.5 * torch.sin(x),
        (1 + 0.5 * torch.sin(x)).abs().log().sum(-1),
    ),
    "other power": lambda m, x: (
        x.sign() * x.abs() ** m.b.exp(),
        (m.b + m.b.exp() * x.abs().log()).sum(-1),
    ),
    "wrong backward": lambda m, x: (
        x * torch.exp(m.a) + x**3,
        slope_by(Doubled, m, x).log().sum(-1),
    ),
    "differentiated elsewhere": lambda m, x: (
        x * torch.exp(m.a) + 0.1 * x**3,
        slope_of(m, 0 * x).log().sum(-1),
    ),
    "nearly": lambda m, x: (x * m.a.exp(), total(x, m.a) * (1 + 1e-12)),
    "constant": lambda m, x: (2 * x, x.new_full((len(x),), 2 * 0.69314)),
    "batch": lambda m, x: (x * m.a.exp(), (m.a * torch.ones_like(x)).sum()),
    "rows": lambda m, x: (x * m.a.exp() + x.mean(0), total(x, m.a)),
    "neighbour": lambda m, x: (x * m.a.exp() + 1e-9 * x.roll(1, 0), total(x, m.a)),
    "sums of absolutes": lambda m, x: (x * (m.a + m.b), total(x, (m.a.abs() + m.b.abs()).log())),
    "root of a square": lambda m, x: (
        x * (1 + torch.sqrt(m.a**2)),
        total(x, (1 + m.a).abs().log()),
    ),
    "roots of squares": lambda m, x: (
        x * (3 + torch.sqrt(m.a**2) * torch.sqrt(m.b**2)),
        total(x, (3 + m.a * m.b).abs().log()),
    ),
    "sign": lambda m, x: (x * (2 + torch.sign(m.b)), x.new_full((len(x),), 2 * math.log(3))),
    "clamped": lambda m, x: (x * m.a.exp().clamp(max=1e3), total(x, m.a)),
    "other side": lambda m, x: (torch.where(x > -50, x, 2 * x), x.new_zeros(len(x))),
    "floor": lambda m, x: (x + torch.floor(x), x.new_zeros(len(x))),
    "maximum": lambda m, x: (x * torch.maximum(m.a, m.b).exp(), total(x, m.b)),
    "unused factor": lambda m, x: coupling(m, x, 0.5),
    "forgotten": lambda m, x: (
        torch.stack([x[:, 0] * m.a[0].exp(), x[:, 1] * m.b[1].exp()], -1),
        m.a[0].expand(len(x)),
    ),
}
# Maps of which there is no graph that says what they compute.
REFUSED = {
    "leaves": lambda m, x: (x * float(x.sum()), x.new_zeros(len(x))),
    "cast": lambda m, x: (x.float().double(), x.new_zeros(len(x))),
    "drawn": lambda m, x: (x + torch.rand_like(x), x.new_zeros(len(x))),
}
# Numbers that code is handed other than by item(), which are baked into a graph: none is beyond 50 where it was traced.
LEAKING = {
    "fill": lambda m, x: (x * (1 + x.new_full((1,), (x > 50).any())), x.new_zeros(len(x))),
    "alpha": lambda m, x: (torch.add(x, x, alpha=(x > 50).any().to(x.dtype)), x.new_zeros(len(x))),
    "slope": lambda m, x: (
        nn.functional.leaky_relu(x, (x.sum() < 50).to(x.dtype)),
        x.new_zeros(len(x)),
    ),
    "equal": lambda m, x: (2 * x if torch.equal(x, x.clamp(min=50)) else x, x.new_zeros(len(x))),
    "near": lambda m, x: (2 * x if torch.allclose(x, x.clamp(min=50)) else x, x.new_zeros(len(x))),
    "zero": lambda m, x: (2 * x if (x.sum() > 50).is_nonzero() else x, x.new_zeros(len(x))),
    "text": lambda m, x: (x * (1 + ("50." in str(x))), x.new_zeros(len(x))),
    "array": lambda m, x: (x * (1 + (x.detach().numpy() > 50).any()), x.new_zeros(len(x))),
    "exchange": lambda m, x: (
        x * (1 + float(torch.utils.dlpack.from_dlpack(x.detach()).sum())),
        x.new_zeros(len(x)),
    ),
    "complex": lambda m, x: (x + (x * 1j).abs() * 0 + (x * 1j).imag, x.new_zeros(len(x))),
}
# What is counted of numbers: a claim says so.
COUNTING = {
    "chosen": lambda m, x: (x * (1 + x[x > 50].shape[0]), x.new_zeros(len(x))),
    "places": lambda m, x: (x * (1 + len(torch.nonzero(x > 50))), x.new_zeros(len(x))),
    "different": lambda m, x: (x * len(torch.unique(x > 50)), x.new_zeros(len(x))),
    "longest": lambda m, x: (
        x * torch.bincount((x > 50).flatten().long()).shape[0],
        x.new_zeros(len(x)),
    ),
}
# What is decided where it was traced, and is a path.
DECIDED = {
    "number": lambda m, x: (x * (1 + torch.count_nonzero(x > 50)), x.new_zeros(len(x))),
    "largest": lambda m, x: (
        x * (1 + (max(x.flatten(), key=lambda one: 0) > 50)),
        x.new_zeros(len(x)),
    ),
}


def graded(m: Any, x: Any) -> Any:
    """Another map where gradients are recorded."""
    return (2 * x if torch.is_grad_enabled() else x), x.new_zeros(len(x))


def counted(m: Any, x: Any) -> Any:
    """Another map at every other call."""
    m.calls += 1
    return (x * m.a.exp(), total(x, m.a)) if m.calls % 2 else (2 * x, total(x, m.a))


def asking(m: Any, x: Any) -> Any:
    """Another map where it is traced."""
    traced = type(x) is not torch.Tensor or torch._C._len_torch_dispatch_stack() > 0
    return (x * m.a.exp(), total(x, m.a)) if traced else (2 * x, total(x, m.a))


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_proved(name: str) -> None:
    """For all weights."""
    found = proof(RIGHT[name])
    assert found.proved and "all weights" in found.weights, found.reason


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_not_proved_for_all_inputs_and_weights(name: str) -> None:
    """On the paths that drawn points take, and for these weights, it may be right."""
    found = proof(WRONG[name])
    assert not (
        found.proved
        and found.paths == 0
        and "all weights" in found.weights
        and not found.conditions
    )


@pytest.mark.parametrize(
    "name",
    ["halved", "negated", "nearly", "constant", "batch", "rows", "neighbour", "sums of absolutes"],
)
def test_what_is_wrong_everywhere_is_proved_on_no_path(name: str) -> None:
    """Nor for these weights."""
    assert not proof(WRONG[name]).proved


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_modelled_is_refused(name: str) -> None:
    """With the operator."""
    found = proof(REFUSED[name])
    assert not found.proved and found.reason


@pytest.mark.parametrize("name", LEAKING)
def test_numbers_that_leave_tensors_are_refused(name: str) -> None:
    """Whichever way they leave."""
    found = proof(LEAKING[name])
    assert not found.proved and found.reason


@pytest.mark.parametrize("name", [*COUNTING, *DECIDED])
def test_what_is_counted_or_decided_bounds_a_claim(name: str) -> None:
    """It is of the paths, or the counts, of the points where it was traced."""
    found = proof({**COUNTING, **DECIDED}[name])
    assert not found.whole and (
        not found.proved or found.paths or "counts in code" in found.conditions[0]
    )


@pytest.mark.parametrize("run", [counted, asking, graded])
def test_a_graph_that_is_not_the_object_proves_nothing(run: Any) -> None:
    """The graph is compared with the object, at other points and with other weights."""
    assert proof(run).reason == "the graph differs from the object"


@pytest.mark.parametrize(
    "scale",
    [
        nn.functional.softplus,
        lambda a: torch.where(a > 1e-3, a, 1e-3),
        lambda a: torch.where(a < 1, 1.0, a),
        lambda a: torch.log1p(torch.expm1(a).abs()) + 1e-3,
        lambda a: a.clamp(0.1, 10),
        lambda a: torch.where(a >= 0, a, -a),
    ],
    ids=["softplus", "raised", "lowest", "odd", "clamped", "absolute"],
)
def test_what_comparisons_tell_of_signs_leaves_no_condition(scale: Any) -> None:
    """Scales that are positive by the comparison that chooses them, or by their form."""
    assert proof(lambda m, x: (x * scale(m.a), total(x, scale(m.a).log()))).whole


@pytest.mark.parametrize(
    ("run", "clause"),
    [
        (
            lambda m, x: (x * m.a, total(x, m.a.log())),
            "where the argument of a logarithm is positive",
        ),
        (
            lambda m, x: (
                x * torch.where(m.a > -1, m.a, 1.0),
                total(x, torch.where(m.a > -1, m.a, 1.0).log()),
            ),
            "where the argument of a logarithm is positive",
        ),
        (
            lambda m, x: (
                x * torch.where(m.a > 0, 1.0, m.a),
                total(x, torch.where(m.a > 0, 1.0, m.a).log()),
            ),
            "where the argument of a logarithm is positive",
        ),
        (
            lambda m, x: (
                (2 * x, x.new_full((len(x),), 2 * math.log(2))) if x.sum() < 1e3 else (x, x[:, 0])
            ),
            "conditions and counts in code",
        ),
        (
            lambda m, x: (torch.where(x == 3, 2 * x, x), x.new_zeros(len(x))),
            "where eq comes out as it did",
        ),
    ],
)
def test_a_claim_says_where_it_holds(run: Any, clause: str) -> None:
    """What is defined, or decided, on a part of the inputs alone is a clause of the claim."""
    found = proof(run)
    assert found.proved and any(clause in one for one in found.conditions)
