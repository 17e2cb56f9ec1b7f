"""BatchNorm has the options, gradients, states and refusals of torch's; its relatives are right too.

That outputs and running statistics are torch's, and log-dets and inverses right, is in `test_claims`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torch import Tensor, nn

from flowref.loading import adapter_of
from flowref.model import FlowrefError
from flowref.reference import (
    ActNorm,
    BatchNorm,
    InverseNotAvailable,
    InvertibleBatchNorm,
    StopGradientCentering,
    batch_norm_backward,
    batch_norm_backward_by_steps,
)

CHANNELS = 3
# Axes of positions -> torch's layer for batches that have them.
NATIVE: dict[tuple[int, ...], Callable[..., Any]] = {
    (): nn.BatchNorm1d,
    (4,): nn.BatchNorm1d,
    (2, 4): nn.BatchNorm2d,
    (2, 1, 4): nn.BatchNorm3d,
}
SPACES = tuple(NATIVE)
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"eps": 0.1, "momentum": 0.7},
    {"momentum": None},
    {"momentum": 0.0},
    {"momentum": 1.0},
    {"affine": False},
    {"bias": False},
    {"track_running_stats": False},
)
BACKWARDS = (batch_norm_backward, batch_norm_backward_by_steps)


def batch(
    seed: int, rows: int, space: tuple[int, ...], offset: float = 0.0, dtype: Any = torch.float64
) -> Tensor:
    """Normal numbers of standard deviation 1 around an offset."""
    generator = torch.Generator().manual_seed(seed)
    return offset + torch.randn(rows, CHANNELS, *space, generator=generator, dtype=dtype)


def same(first: Any, second: Any, offset: float = 0.0) -> None:
    """Two values differ by rounding: some units in the last place, times how far the data are from
    0.
    """
    units = (
        256
        * (1 + abs(offset))
        * torch.finfo(second.dtype if second.is_floating_point() else torch.float64).eps
    )
    torch.testing.assert_close(first, second, rtol=units, atol=units)


def states(layer: nn.Module) -> dict[str, Tensor]:
    """A copy of the state_dict."""
    return {name: tensor.clone() for name, tensor in layer.state_dict().items()}


def perturbed(layer: Any) -> Any:
    """The layer in float64, with parameters that are not those it starts with."""
    layer.double()
    with torch.no_grad():
        for place, parameter in enumerate(layer.parameters()):
            parameter.copy_(torch.linspace(-1.5, 2.0, parameter.numel()) + place)
    return layer


class Histories(RuleBasedStateMachine):
    """One life of a reference BatchNorm and of torch's, side by side; they exchange states."""

    @initialize(space=st.sampled_from(SPACES), options=st.sampled_from(OPTIONS))
    def build(self, space: tuple[int, ...], options: dict[str, Any]) -> None:
        """Both start alike."""
        self.space, self.options, self.offset = space, options, 0.0
        self.ours, self.theirs = (
            perturbed(self.fresh(BatchNorm)),
            perturbed(self.fresh(NATIVE[space])),
        )

    def fresh(self, kind: Callable[..., Any]) -> Any:
        """A layer as built."""
        return kind(CHANNELS, **self.options).double()

    @rule(seed=st.integers(0, 99), rows=st.integers(2, 9), offset=st.sampled_from((0.0, -3.0, 1e3)))
    def call(self, seed: int, rows: int, offset: float) -> None:
        """In either mode both pull the same gradients back."""
        self.offset = max(self.offset, abs(offset))
        x = batch(seed, rows, self.space, offset)
        found = []
        for layer in (self.ours, self.theirs):
            leaf = x.clone().requires_grad_()
            y = layer(leaf)
            wanted = [leaf, *layer.parameters()]
            found.append(torch.autograd.grad(y, wanted, batch(seed + 1, rows, self.space)))
        for first, second in zip(*found, strict=True):
            same(first, second, self.offset)

    @rule(training=st.booleans())
    def mode(self, training: bool) -> None:
        """Both change their mode."""
        for layer in (self.ours, self.theirs):
            layer.train(training)

    @rule()
    def reload(self) -> None:
        """Each is built anew and takes the state of the other, strictly."""
        ours, theirs, training = (
            self.fresh(BatchNorm),
            self.fresh(NATIVE[self.space]),
            self.ours.training,
        )
        ours.load_state_dict(self.theirs.state_dict())
        theirs.load_state_dict(self.ours.state_dict())
        self.ours, self.theirs = ours.train(training), theirs.train(training)

    @rule()
    def reset(self) -> None:
        """Both forget their batches."""
        for layer in (self.ours, self.theirs):
            layer.reset_running_stats()

    @precondition(lambda self: self.ours.training)
    @rule(rows=st.integers(0, 1))
    def leave_alone(self, rows: int) -> None:
        """A batch that is empty, or refused, is none."""
        before = states(self.ours)
        if rows:
            with pytest.raises(ValueError, match="one value per channel"):
                self.ours(batch(0, 1, tuple(1 for _ in self.space)))
        else:
            assert self.ours(batch(0, 0, self.space)).shape == (0, CHANNELS, *self.space)
        assert all(torch.equal(before[name], now) for name, now in states(self.ours).items())

    @invariant()
    def states_agree(self) -> None:
        """Names, order, shapes, dtypes and values of both state_dicts are the same."""
        if not hasattr(self, "ours"):
            return
        ours, theirs = states(self.ours), states(self.theirs)
        assert list(ours) == list(theirs)
        for name, tensor in ours.items():
            same(tensor, theirs[name], self.offset)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=40, stateful_step_count=12)


def test_the_constructor_is_that_of_torch() -> None:
    """Options have torch's names, order, defaults and kinds."""
    ours, theirs = (
        inspect.signature(kind).parameters.values() for kind in (BatchNorm, nn.BatchNorm2d)
    )
    assert [(p.name, p.default, p.kind) for p in ours] == [
        (p.name, p.default, p.kind) for p in theirs
    ]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_are_printed_as_torch_prints_them(options: dict[str, Any]) -> None:
    """A layer shows its options under torch's names."""
    assert repr(BatchNorm(2, **options)) == repr(nn.BatchNorm2d(2, **options)).replace(
        "BatchNorm2d", "BatchNorm"
    )


@pytest.mark.parametrize(
    "options", [{"dtype": torch.bfloat16}, {"device": "meta"}], ids=["dtype", "device"]
)
def test_device_and_dtype_reach_every_tensor(options: dict[str, Any]) -> None:
    """Parameters and buffers are made where and as the options say, the counter excepted, which is
    an integer.
    """
    ours, theirs = BatchNorm(2, **options).state_dict(), nn.BatchNorm2d(2, **options).state_dict()
    assert {n: (t.dtype, t.device) for n, t in ours.items()} == {
        n: (t.dtype, t.device) for n, t in theirs.items()
    }


@pytest.mark.parametrize("receiver", [BatchNorm, nn.BatchNorm2d])
def test_a_state_of_version_1_loads(receiver: Callable[..., Any]) -> None:
    """A state_dict from before batches were counted loads strictly, and the count starts at 0."""
    saved = perturbed(BatchNorm(CHANNELS)).state_dict()
    del saved["num_batches_tracked"]
    saved._metadata[""]["version"] = 1
    layer = receiver(CHANNELS).double()
    layer.load_state_dict(saved)
    assert int(layer.num_batches_tracked) == 0
    assert torch.equal(layer.weight, saved["weight"])


def test_a_state_of_version_2_without_count_is_refused() -> None:
    """Since version 2 a missing count is a missing entry."""
    saved = BatchNorm(CHANNELS).state_dict()
    del saved["num_batches_tracked"]
    with pytest.raises(RuntimeError, match="num_batches_tracked"):
        BatchNorm(CHANNELS).load_state_dict(saved)


REFUSED = {
    "rank 1": ((3,), torch.float32, ValueError, "rank 1.*expected rank 2 to 5"),
    "rank 6": ((2, 3, 1, 1, 1, 2), torch.float32, ValueError, "rank 6.*expected rank 2 to 5"),
    "one channel": ((4, 1), torch.float32, ValueError, "got 1 channels.*num_features=3"),
    "channels last": ((4, 2, 2, 3), torch.float32, ValueError, "got 2 channels.*num_features=3"),
    "one value": (
        (1, 3, 1, 1),
        torch.float32,
        ValueError,
        "got one value per channel.*expected more",
    ),
    "integers": ((4, 3), torch.int64, TypeError, "got torch.int64; expected a floating dtype"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=list(REFUSED))
@pytest.mark.parametrize("kind", [BatchNorm, InvertibleBatchNorm])
def test_bad_input_is_refused_and_leaves_no_trace(
    kind: Callable[..., Any], case: tuple[Any, ...]
) -> None:
    """What cannot be normalized raises, says what was got and expected, and moves nothing."""
    shape, dtype, error, said = case
    layer = kind(CHANNELS)
    before = states(layer)
    with pytest.raises(error, match=said):
        layer(torch.ones(shape, dtype=dtype))
    assert all(torch.equal(before[name], now) for name, now in states(layer).items())


def test_a_call_that_fails_late_leaves_no_trace() -> None:
    """Where a step after the statistics raises, or their update itself, none of them has moved."""
    layer, x = BatchNorm(CHANNELS), batch(0, 4, ())
    before = states(layer)
    with (
        pytest.raises(RuntimeError, match="vmap"),
        pytest.warns(UserWarning, match="batching rule"),
    ):
        torch.func.vmap(layer)(torch.stack([x, x]).float())
    assert all(torch.equal(before[name], now) for name, now in states(layer).items())
    layer.bias = nn.Parameter(torch.zeros(CHANNELS + 1))
    with pytest.raises(RuntimeError):
        layer(x)
    del before["bias"]
    assert all(torch.equal(before[name], states(layer)[name]) for name in before)


@pytest.mark.parametrize("space", SPACES)
def test_an_empty_batch_has_gradients_of_zero(space: tuple[int, ...]) -> None:
    """An empty batch gives an empty result, whose gradients are no NaN."""
    layer = BatchNorm(CHANNELS)
    layer(torch.zeros(0, CHANNELS, *space)).sum().backward()
    assert all(
        torch.equal(p.grad, torch.zeros(CHANNELS)) for p in layer.parameters() if p.grad is not None
    )


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("eps", [1e-5, 0.1])
@pytest.mark.parametrize("backward", BACKWARDS)
def test_the_backward_formulas_are_those_of_autograd(
    space: tuple[int, ...], weighted: bool, eps: float, backward: Callable[..., Any]
) -> None:
    """Both forms of the pullback equal autograd through torch's layer, whatever eps."""
    x, dy = batch(1, 5, space, 3.0).requires_grad_(), batch(2, 5, space)
    weight = (
        torch.tensor([-2.0, 0.5, 3.0], dtype=torch.float64)
        if weighted
        else torch.ones(3, dtype=torch.float64)
    )
    parameters = weight.requires_grad_(), torch.zeros(3, dtype=torch.float64, requires_grad=True)
    y = nn.functional.batch_norm(x, None, None, *parameters, training=True, eps=eps)
    expected = torch.autograd.grad(y, (x, *parameters), dy)
    found = backward(dy, x.detach(), weight.detach() if weighted else None, eps)
    for ours, theirs in zip(found, expected, strict=True):
        same(ours, theirs, 3.0)


@pytest.mark.parametrize("backward", BACKWARDS)
def test_the_backward_formulas_refuse_what_the_layer_refuses(backward: Callable[..., Any]) -> None:
    """A gradient of another shape, a wrong rank and one value per channel raise."""
    for dy, x in (
        (torch.ones(4, 2), torch.ones(4, 3)),
        (torch.ones(3), torch.ones(3)),
        (torch.ones(1, 3),) * 2,
    ):
        with pytest.raises(ValueError, match=r"got .*expected"):
            backward(dy, x)


@pytest.mark.filterwarnings(
    "ignore:.*torch.jit.script:DeprecationWarning"
)  # of torch, in its own forward mode
def test_derivatives_of_every_order_are_right() -> None:
    """The gradient of the gradient, and forward derivatives, agree with differences."""
    layer = perturbed(BatchNorm(CHANNELS, track_running_stats=False))
    x = batch(3, 4, (2,), 1.0).requires_grad_()
    assert torch.autograd.gradcheck(layer, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(layer, x)


@pytest.mark.parametrize("offset", [0.0, 1e2, 1e4])
def test_far_data_lose_no_more_digits_than_they_must(offset: float) -> None:
    """In float32 the error grows with offset / deviation and not with its square; the variance is
    never negative.
    """
    x = batch(4, 64, (8,), offset, torch.float32)
    layer = BatchNorm(CHANNELS, momentum=1.0)
    exact = nn.BatchNorm1d(CHANNELS).double()(x.double()).detach()
    error = (layer(x).detach().double() - exact).abs() / (1 + exact.abs())
    assert float(error.max()) <= 16 * torch.finfo(torch.float32).eps * (1 + offset)
    assert layer.running_var is not None
    torch.testing.assert_close(layer.running_var, x.double().var((0, 2)).float(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("value", [0.0, 1234.567, -1e5, 1e12])
def test_a_constant_channel_gives_the_bias(value: float) -> None:
    """Values that are all equal have variance 0, though their mean is rounded."""
    layer = BatchNorm(CHANNELS, momentum=1.0)
    y = layer(torch.full((37, CHANNELS, 5), value))
    assert layer.running_var is not None
    assert float(layer.running_var.min()) >= 0
    assert float(y.detach().abs().max()) <= 300 * torch.finfo(torch.float32).eps * math.sqrt(
        1 + abs(value)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_single(dtype: torch.dtype) -> None:
    """Sums and squares that overflow float16 do no harm, and results keep the dtype of the input."""
    x = batch(5, 512, (16,), 300.0, torch.float32).to(dtype)
    y = BatchNorm(CHANNELS)(x)
    expected = nn.BatchNorm1d(CHANNELS)(x.float())
    assert y.dtype is dtype
    torch.testing.assert_close(
        y.float(), expected, rtol=2 * torch.finfo(dtype).eps, atol=2 * torch.finfo(dtype).eps
    )


@pytest.mark.parametrize(
    "options", [{}, {"momentum": None}, {"track_running_stats": False}], ids=str
)
def test_it_compiles_to_one_graph(options: dict[str, Any]) -> None:
    """Traced without a break, two training steps and an eval call return and leave what they do
    eagerly.
    """
    torch._dynamo.reset()
    eager, traced = BatchNorm(CHANNELS, **options), BatchNorm(CHANNELS, **options)
    compiled = torch.compile(traced, backend="aot_eager", fullgraph=True)
    for training in (True, True, False):
        eager.train(training)
        traced.train(training)
        for seed in (0, 1):
            x = batch(seed, 6, (4,), dtype=torch.float32)
            same(compiled(x), eager(x))
    for name, tensor in states(traced).items():
        same(tensor, states(eager)[name])


def test_per_sample_jacobians_in_eval_mode() -> None:
    """In eval mode rows are independent, and vmap of jacrev sees the fixed diagonal map."""
    layer = perturbed(BatchNorm(CHANNELS)).eval()
    found = torch.func.vmap(torch.func.jacrev(lambda row: layer(row[None])[0]))(batch(6, 4, ()))
    slope = layer.weight / (layer.running_var + layer.eps).sqrt()
    same(found.detach(), torch.diag(slope.detach()).expand(4, -1, -1))


@pytest.mark.parametrize("stats", ["batch", "running"])
def test_no_inverse_in_train_mode(stats: Any) -> None:
    """In train mode inverse raises, and says to call .eval()."""
    with pytest.raises(InverseNotAvailable, match=r"call \.eval\(\) first") as caught:
        InvertibleBatchNorm(CHANNELS, stats=stats).inverse(torch.zeros(4, CHANNELS))
    assert isinstance(caught.value, FlowrefError)


def test_an_unknown_source_of_statistics_is_refused() -> None:
    """There are two."""
    with pytest.raises(ValueError, match=r"got stats='mean'; expected 'batch' or 'running'"):
        InvertibleBatchNorm(CHANNELS, stats="mean")  # type: ignore[arg-type]  # the mistake in question


def test_batch_statistics_make_it_batch_norm() -> None:
    """With the batch's statistics the value is BatchNorm's in both modes, and so are the averages."""
    flow, plain = (
        perturbed(InvertibleBatchNorm(CHANNELS, affine=True)),
        perturbed(BatchNorm(CHANNELS)),
    )
    for training in (True, True, False):
        x = batch(7 + training, 5, (2, 4), 1.0)
        same(flow.train(training)(x)[0].detach(), plain.train(training)(x).detach(), 4.0)
    same(flow.running_mean, plain.running_mean)
    same(flow.running_var, plain.running_var)


def test_running_statistics_are_those_after_the_batch() -> None:
    """With running averages the batch enters before they are used, for value and log-det, with
    gradient factor momentum.
    """
    layer, x = (
        InvertibleBatchNorm(CHANNELS, momentum=0.3, stats="running").double(),
        batch(8, 5, (2,), 1.0),
    )
    leaf = x.clone().requires_grad_()
    y, ladj = layer(leaf)
    mean, var = 0.3 * x.mean((0, 2)), 0.7 + 0.3 * x.var((0, 2))
    same(layer.running_mean, mean)
    same(layer.running_var, var)
    same(y.detach(), (x - mean[:, None]) / (var[:, None] + layer.eps).sqrt())
    same(ladj.detach(), (-(var + layer.eps).log().sum()).expand(5))
    # The old averages, 0 and 1, are constants; mean and variance of the batch are not.
    used = 0.3 * leaf.mean((0, 2)), 0.7 + 0.3 * leaf.var((0, 2)) + layer.eps
    formula, cotangent = (leaf - used[0][:, None]) / used[1].sqrt()[:, None], batch(9, 5, (2,))
    for value, expected, rows in ((y, formula, cotangent), (ladj[0], -used[1].log().sum(), None)):
        (found,), (wanted,) = (
            torch.autograd.grad(v, leaf, rows, retain_graph=True) for v in (value, expected)
        )
        same(found, wanted)
    assert not layer.running_mean.requires_grad


def test_actnorm_standardizes_its_first_batch_only() -> None:
    """The first training batch comes out with mean 0 and variance 1; a second one, eval mode and a
    reload change nothing.
    """
    layer = ActNorm(CHANNELS).double()
    layer.eval()(batch(0, 16, (2,), 5.0))
    assert not layer.initialized
    y, ladj = layer.train()(batch(1, 16, (2,), 5.0))
    same(y.detach().mean((0, 2)), torch.zeros(3, dtype=torch.float64), 5.0)
    same(y.detach().var((0, 2), correction=0), torch.ones(3, dtype=torch.float64), 5.0)
    again = ActNorm(CHANNELS).double()
    again.load_state_dict(layer.state_dict())
    other = batch(2, 16, (2,), -1.0)
    assert torch.equal(again.train()(other)[0], layer(other)[0])
    assert torch.equal(ladj, layer(other)[1])


def test_actnorm_survives_degenerate_channels() -> None:
    """A constant channel is shifted only, one with a NaN left alone, and the third is standardized
    as ever.
    """
    x = batch(0, 16, (), 2.0, torch.float32)
    x[:, 0] = 1234.567
    x[3, 1] = float("nan")
    layer = ActNorm(CHANNELS)
    layer(x)
    assert layer.log_scale[:2].tolist() == [0, 0]
    assert layer.shift[:2].tolist() == pytest.approx([1234.567, 0])
    same(layer.log_scale[2].detach(), -0.5 * x[:, 2].var(correction=0).log(), 2.0)


def test_a_bias_runs_away_under_stop_gradient() -> None:
    """Its gradient is the same at every step, the loss stands still and the bias grows linearly;
    through the mean it is 0.
    """
    layer, u, target = (
        StopGradientCentering(CHANNELS).double(),
        batch(0, 6, ()),
        batch(1, 6, (), 1.0),
    )
    losses, biases = [], [layer.bias.detach().clone()]
    for _ in range(20):
        loss = (layer(u) - target).square().sum()
        (gradient,) = torch.autograd.grad(loss, layer.bias)
        with torch.no_grad():
            layer.bias.sub_(0.1 * gradient)
        losses.append(loss.detach())
        biases.append(layer.bias.detach().clone())
    same(torch.stack(losses), losses[0].expand(20), 64.0)
    same(torch.stack(biases).diff(dim=0), (biases[1] - biases[0]).expand(20, -1), 64.0)
    assert float(biases[-1].abs().min()) > 1
    bias = biases[-1].requires_grad_()
    x = u + bias
    (through,) = torch.autograd.grad((x - x.mean(0) - target).square().sum(), bias)
    same(through, torch.zeros(3, dtype=torch.float64), 64.0)


class TheirBatchNorm(nn.Module):
    """A user's layer that only bears the name."""

    def forward(self, x: Tensor) -> Tensor:
        """Normalize."""
        return x - x.mean(0)


class OwnBatchNorm(BatchNorm):
    """A user's layer that is a reference layer."""


def test_only_reference_layers_are_taken_for_such() -> None:
    """Reference layers and what derives from them speak as such; equal names, torch's layers and
    the zoo's do not.
    """
    from flowref_zoo.specimens.batch_norm import ActNorm as Specimen

    for layer in (BatchNorm(2), InvertibleBatchNorm(2), ActNorm(2), OwnBatchNorm(2)):
        assert adapter_of(layer, "it")[0].name == "reference"
    for other in (TheirBatchNorm(), nn.BatchNorm1d(2), Specimen()):
        assert adapter_of(other, "it")[0].name != "reference"
