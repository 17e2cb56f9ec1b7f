"""What an operator does to floating numbers is seen by calling it: over all operators of ATen that the
installed torch has.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from flowref.backends.torch import behavior, operators
from flowref.backends.torch.behavior import Behavior, behavior_of
from flowref.backends.torch.noise import RandomRounding
from flowref.backends.torch.rules import Rule, operator_rule
from flowref.backends.torch.torch_float32 import Watching

ATEN: Any = torch.ops.aten
# Results that are exact, and no copies: what is left of a division, and what stood in the memory, as
# after a padding that torch 2.6 does not check.
NO_COPIES = frozenset(
    """
    fmod frac remainder nextafter empty_like new_empty new_empty_strided set_ replication_pad1d
    """.split()
)

EXACT = """
    abs.default cat.default clamp.default clone.default floor.default floor_divide.default
    gather.default index.Tensor index_put.default masked_fill.Scalar neg.default relu.default
    round.default sort.default where.self zeros_like.default rand_like.default normal_.default
    maximum.default complex.default frexp.Tensor hardtanh.default constant_pad_nd.default
    bitwise_and.Tensor gt.Scalar argmax.default view.default detach.default copy_.default
    fmod.Tensor remainder.Scalar _to_copy.default tril.default topk.default cummax.default
    """.split()
POINTWISE = """
    add.Tensor mul.Scalar exp.default log.default tanh.default pow.Tensor_Scalar elu.default
    leaky_relu.default softplus.default lerp.Scalar round.decimals native_dropout.default
    acosh.default silu.default xlogy.Tensor addcmul.default erfinv.default mul_.Tensor
    """.split()
MIXED = """
    sum.default sum.dim_IntList mean.dim mm.default bmm.default addmm.default cumsum.default
    prod.default logsumexp.default var.correction std.correction dot.default scatter_add.default
    index_add.default linalg_vector_norm.default _softmax.default convolution.default
    avg_pool2d.default diff.default
    """.split()


def operator(name: str) -> Any:
    """The operator of a name like add.Tensor."""
    packet, _, overload = name.partition(".")
    return getattr(getattr(ATEN, packet), overload or "default")


def kind(rule: Rule) -> Behavior:
    """What a rule makes of an operator."""
    if rule.exact:
        return Behavior.EXACT
    return Behavior.MIXED if rule.inside or rule.normwise else Behavior.POINTWISE


def everything() -> Iterator[tuple[str, Any]]:
    """All operators of ATen that may be called, with their names."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        short = name.removeprefix("aten::")
        # What takes no part in a call but as what another one writes to; and internal ones.
        if short == name or short.startswith("_"):
            continue
        try:
            func = operator(short)
        except AttributeError:
            continue
        if not any(argument.is_out for argument in func._schema.arguments):
            yield short, func


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((name, Behavior.EXACT) for name in EXACT),
        *((name, Behavior.POINTWISE) for name in POINTWISE),
        *((name, Behavior.MIXED) for name in MIXED),
    ],
    ids=str,
)
def test_operators_are_known_by_what_they_do(name: str, expected: Behavior) -> None:
    """Copies, entries for themselves and sums are told apart, whatever the version of torch."""
    assert operator_rule(operator(name)).known
    assert kind(operator_rule(operator(name))) is expected


def test_no_operator_is_taken_for_another_kind() -> None:
    """Over all operators, with other numbers and every way of calling them: what is held exact gives back
    what it is given, and what is held to round does not.
    """
    before = torch.get_rng_state()
    state = torch.manual_seed(3).get_state()  # under others a dropout may by chance drop nothing
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        seen = {name: told_apart(func, state) for name, func in everything()}
    torch.set_rng_state(before)
    assert sum(one is not None for one in seen.values()) > 600
    assert not [name for name, one in seen.items() if one is False]


def told_apart(func: Any, state: Any) -> bool | None:
    """Whether an operator does what is known of it; None where no call shows it."""
    rule = operator_rule(func)
    tensors = any("Tensor" in str(one.type) for one in func._schema.arguments)
    if not rule.known or not tensors or rule.name in operators.INSIDE | NO_COPIES:
        return None
    if torch.Tag.nondeterministic_seeded in func.tags and rule.exact:
        return None
    shown = False
    for stance in behavior.STANCES:
        try:
            way = [behavior._run(func, stance, seed, state) for seed in (11, 12)]
        except Exception:
            continue
        if any(np.isfinite(one).any() for one in way[1][1]):
            shown = True
            if not behavior._exact(way):
                return not rule.exact
    return rule.exact if shown else None


def test_random_states_are_left_alone() -> None:
    """To look at an operator that draws moves no stream."""
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    assert behavior_of(ATEN.rand_like.default) is Behavior.EXACT
    assert behavior_of(ATEN.native_dropout.default) is Behavior.POINTWISE
    assert torch.equal(torch.rand(3), expected)


def ordinary() -> dict[str, Callable[[torch.Tensor], Any]]:
    """Calls as flows make them."""
    image = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.SiLU(), nn.AvgPool2d(2)
    )
    dense = nn.Sequential(
        nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 8), nn.Softmax(-1)
    )
    return {
        "image": lambda x: image.double()(x.reshape(1, 1, 8, 8)),
        "dense": dense.double(),
        "spline": lambda x: torch.gather(x.softmax(-1).cumsum(-1), 1, x.argmax(-1, keepdim=True)),
        "linear": lambda x: torch.linalg.slogdet(x)[1] + torch.linalg.solve(x, x).logsumexp(0),
        "masks": lambda x: torch.where(
            (x > 0) & (x < 1), nn.functional.softplus(x), x.clamp(-1, 1)
        ),
        "drawn": lambda x: (
            torch.distributions.Normal(0 * x, x.exp()).rsample() + torch.rand_like(x)
        ),
        "written": lambda x: x.clone().index_put_((torch.arange(2),), x[2:4]).flip(-1).roll(1),
        "weights": lambda x: nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)).double()(x),
        "attention": lambda x: nn.functional.scaled_dot_product_attention(
            x[None, None], x[None, None], x[None, None]
        ),
    }


@pytest.mark.parametrize("name", ordinary())
def test_nothing_of_ordinary_calls_is_unknown(name: str) -> None:
    """Of what flows are written with, and of their gradients, each operator is known."""
    x = torch.randn(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with Watching() as watching:
        out = ordinary()[name](x.requires_grad_())
        torch.autograd.grad(out.sum(), x, allow_unused=True)
    assert watching.operations > 5
    assert not watching.unknown


@pytest.fixture(scope="module")
def third() -> Any:
    """An operator that no version of torch has."""
    library = torch.library.Library("flowref_properties", "DEF")
    library.define("third(Tensor x) -> Tensor")
    library.impl("third", lambda x: x / 3, "CompositeExplicitAutograd")
    yield torch.ops.flowref_properties.third.default
    library._destroy()


def test_an_unknown_operator_is_said_and_rounded(third: Any) -> None:
    """Nothing says what the operator of a user's library does: it is named, and taken to round."""
    x = torch.tensor([0.7, -1.3, 2.9], dtype=torch.float64)
    with Watching() as watching:
        clean = third(x)
    assert watching.unknown == {"flowref_properties::third"}
    with RandomRounding(2.0**-40, 0):
        moved = third(x)
    off = ((moved - clean) / clean).abs()
    assert off.gt(0).all() and off.max() < 2.0**-38
