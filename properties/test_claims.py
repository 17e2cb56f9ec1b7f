r"""What flowref claims of batch normalization and Real NVP, on one page, about `flowref.reference`.

1. *Round trips.* $f^{-1}(f(x)) = x$ and $f(f^{-1}(z)) = z$, for batch normalization as a flow and
   every part of Real NVP.
2. *Log-determinants.* Forward and inverse both return $\log|\det J|$ of what they computed.
3. *Scale.* $BN_\epsilon(aWu) = \mathrm{sign}(a)\,BN_{\epsilon/a^2}(Wu)$ for $a \ne 0$; so, for
   $a > 0$, $BN(aWu) = BN(Wu)$ up to a bound that vanishes with $\epsilon$.
4. *Bias.* The gradient of a bias before batch normalization is zero.
5. *History.* Throughout any training and evaluation, outputs and running statistics are those of
   `nn.BatchNorm2d` (1d, 3d).
6. *Proofs.* The first two, the fourth, and for an affine normalizer the fifth, hold for all inputs
   and all weights; and the density of a Real NVP of vectors integrates to one.

What is drawn is in `claims.cases`: shapes, masks, options, histories, and numbers of sizes from
1e-6 to 1e6. How much of a difference is rounding is in `claims.bounds`: no tolerance is chosen by
hand, and what cannot be decided fails. Each property takes what it is about as its first argument;
the last section puts layers with one small defect there, and the property must reject them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isabstract
from math import copysign
from typing import Any

import pytest
import torch
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd.functional import jacobian
from torch.nn.functional import linear

from claims import defects
from claims.bounds import UNIT, Moments, agree, bias_gradient_error, explained
from claims.cases import (
    COMPONENTS,
    DTYPES,
    FACTORS,
    HISTORIES,
    POWERS_OF_TWO,
    Component,
    History,
    Linear,
    both_directions,
    by_channel,
    linears,
)
from flowref import reference as ref
from flowref import registry
from flowref.proving import certified, compare_targets

# The first failure is shown as it is: numbers from a smaller seed are no simpler.
drawn = partial(settings, phases=[Phase.explicit, Phase.generate])


# 1. Round trips


def return_gap(f: ref.Bijection, x: Tensor) -> tuple[Tensor, Tensor]:
    """How far x comes back from where it started, beside its size."""
    return f.inverse(f(x)[0])[0] - x, x.flatten(1).abs().amax(1)


@pytest.mark.parametrize("component", COMPONENTS.values(), ids=COMPONENTS)
@drawn()
@given(data=st.data())
def test_round_trip(component: Component, data: Any) -> None:
    r"""$f^{-1}(f(x)) = x$ and $f(f^{-1}(z)) = z$."""
    for f, x in data.draw(both_directions(component)):
        explained(partial(return_gap, f), x)


@drawn(max_examples=1)
@given(data=st.data())
def test_no_component_is_left_out(data: Any) -> None:
    """Every bijection of the reference is among the components, or a part of one."""
    pairs = [pair for c in COMPONENTS.values() for pair in data.draw(both_directions(c))]
    stated = {type(layer) for f, _ in pairs for layer in f.modules()}
    kinds = {kind for kind in vars(ref).values() if isinstance(kind, type)}
    maps = {kind for kind in kinds if issubclass(kind, ref.Bijection) and not isabstract(kind)}
    of_sampling = {ref.ElementwiseCDF, ref.Rosenblatt}
    iterated = {
        ref.Residual,
        ref.CNF,
        ref.OTFlow,
        ref.ProbabilityFlow,
    }  # which come back within a tolerance, not within rounding
    assert maps - of_sampling - iterated <= stated


@pytest.mark.parametrize("kind", [ref.Dequantize])
@drawn()
@given(noise=st.floats(0, 1, exclude_max=True), dtype=DTYPES)
@example(noise=1 - 2**-53, dtype=torch.float32)
def test_dequantize(kind: Callable[..., Any], noise: float, dtype: torch.dtype) -> None:
    r"""$\lfloor k + u \rfloor = k$ for every level $k$ and $0 \le u < 1$, to the last bit."""
    k = torch.arange(256, dtype=dtype)[:, None]
    u = torch.full_like(k, min(noise, 1 - torch.finfo(dtype).eps / 2))
    assert torch.equal(kind().inverse(kind()(k, u)[0])[0], k)


# 2. Log-determinants


def log_det_gap(f: ref.Bijection, x: Tensor) -> tuple[Tensor, Tensor]:
    r"""How far ladj is from $\log|\det J|$ of each point, beside its size."""
    ladj = f(x)[1]
    rows = [jacobian(lambda event: f(event[None])[0].flatten(), point).flatten(1) for point in x]
    return ladj - torch.linalg.slogdet(torch.stack(rows)).logabsdet, 4 + ladj.abs()


@pytest.mark.parametrize("component", COMPONENTS.values(), ids=COMPONENTS)
@drawn(max_examples=50)
@given(data=st.data())
def test_log_det(component: Component, data: Any) -> None:
    r"""$f$ returns $\log|\det f'(x)|$ beside its value, as does $f^{-1}$ for $(f^{-1})'(z)$."""
    for f, x in data.draw(both_directions(component)):
        explained(partial(log_det_gap, f), x)


# 3. Scale


Norm = Callable[[Tensor, Tensor, float], Tensor]


def reference_norm(x: Tensor, w: Tensor, eps: float) -> Tensor:
    """Batch normalization in train mode, with a weight and no bias."""
    layer = ref.BatchNorm(len(w), eps, bias=False, dtype=x.dtype)
    layer.load_state_dict({**layer.state_dict(), "weight": w})
    y: Tensor = layer(x).detach()
    return y


@pytest.mark.parametrize("norm", [reference_norm])
@drawn()
@given(layer=linears(), a=POWERS_OF_TWO, dtype=DTYPES)
def test_scale_law_bit_for_bit(norm: Norm, layer: Linear, a: float, dtype: torch.dtype) -> None:
    r"""$BN_{a^2\epsilon}(aWu) = \mathrm{sign}(a)\,BN_\epsilon(Wu)$ bit for bit if $a = \pm 2^k$."""
    u, W, w = (tensor.to(dtype) for tensor in (layer.u, layer.W, layer.w))
    scaled = norm(linear(u, a * W), w, a * a * layer.eps)
    assert torch.equal(scaled, copysign(1, a) * norm(linear(u, W), w, layer.eps))


@pytest.mark.parametrize("norm", [reference_norm])
@drawn()
@given(layer=linears(), a=FACTORS)
def test_scale_law(norm: Norm, layer: Linear, a: float) -> None:
    r"""$BN_\epsilon(aWu) = \mathrm{sign}(a)\,BN_{\epsilon/a^2}(Wu)$ for $a \ne 0$."""
    x, eps = linear(layer.u, layer.W), layer.eps / a**2
    scaled = norm(linear(layer.u, a * layer.W), layer.w, layer.eps)
    _, rounding = Moments.of(x, layer.product_error).normalized(x, layer.product_error, eps)
    agree(scaled, copysign(1, a) * norm(x, layer.w, eps), layer.w.abs() * rounding)


@pytest.mark.parametrize("norm", [reference_norm])
@drawn()
@given(layer=linears(), a=FACTORS)
def test_scale_invariance(norm: Norm, layer: Linear, a: float) -> None:
    r"""$BN(aWu) = \mathrm{sign}(a)\,BN(Wu)$ up to $\frac{\epsilon}{2v} |1 - a^{-2}|\,|BN_0(Wu)|$,
    with the variances $v$ of $Wu$.
    """
    x, w, eps = linear(layer.u, layer.W), layer.w, layer.eps
    scaled = norm(linear(layer.u, a * layer.W), w, eps)
    moments = Moments.of(x, layer.product_error)
    _, rounding = moments.normalized(x, layer.product_error, min(eps, eps / a**2))
    without_eps = w.abs() * (x - moments.mean).abs() / moments.var.sqrt()
    apart = eps / (2 * moments.var) * abs(1 - a**-2) * without_eps
    agree(scaled, copysign(1, a) * norm(x, w, eps), w.abs() * rounding, apart)


# 4. Bias


def by_autograd(layer: Linear) -> Tensor:
    """The gradient of b, by autograd through the reference layer."""
    norm = ref.BatchNorm(len(layer.w), layer.eps, dtype=torch.float64)
    norm.load_state_dict({**norm.state_dict(), "weight": layer.w})
    b = layer.b.clone().requires_grad_()
    return torch.autograd.grad(norm(linear(layer.u, layer.W, b)), b, layer.dy)[0]


def by_formula(backward: Callable[..., tuple[Tensor, ...]], layer: Linear) -> Tensor:
    """The gradient of b, which is the sum over the batch of that of x."""
    return backward(layer.dy, linear(layer.u, layer.W, layer.b), layer.w, layer.eps)[0].sum(0)


GRADIENTS = {
    "autograd": by_autograd,
    "closed form": partial(by_formula, ref.batch_norm_backward),
    "chain rule": partial(by_formula, ref.batch_norm_backward_by_steps),
}


@pytest.mark.parametrize("gradient", GRADIENTS.values(), ids=GRADIENTS)
@drawn()
@given(layer=linears())
def test_bias_gradient(gradient: Callable[[Linear], Tensor], layer: Linear) -> None:
    r"""$\partial L / \partial b = 0$ for every loss $L$ of $BN(Wu + b)$."""
    x, zero = linear(layer.u, layer.W, layer.b), torch.zeros_like(layer.b)
    agree(gradient(layer), zero, bias_gradient_error(x, layer.w * layer.dy, layer.eps))


# 5. History


@pytest.mark.parametrize("kind", [ref.BatchNorm])
@drawn()
@given(history=HISTORIES)
def test_history(kind: Callable[..., Any], history: History) -> None:
    """Outputs, running means, running variances and counts of batches are those of torch's layer
    after every call, whatever the options.
    """
    ours, theirs = history.layer(kind), history.layer(history.native)
    w = 1.0 if theirs.weight is None else theirs.weight.detach().abs()
    b = 0.0 if theirs.bias is None else theirs.bias.detach().abs()
    running, batches = Moments.initial(), 0
    for call in history.calls:
        events = call.batch(history.event)
        outputs = (layer.train(call.training)(events) for layer in (ours, theirs))
        x, got, expected = map(by_channel, (events, *outputs))
        batch = Moments.of(x, UNIT * x.abs())
        if call.training and theirs.track_running_stats:
            batches += 1
            rate = 1 / batches if theirs.momentum is None else theirs.momentum
            running = running.updated(batch, len(x), rate)
            agree(ours.running_mean, theirs.running_mean, running.mean_error)
            agree(ours.running_var, theirs.running_var, running.var_error)
        assert ours.num_batches_tracked == theirs.num_batches_tracked
        used = batch if call.training or not theirs.track_running_stats else running
        y, rounding = used.normalized(x, UNIT * x.abs(), theirs.eps)
        agree(got, expected, w * rounding + 4 * UNIT * (w * y.abs() + b))


# 6. Proofs


BOTH_WAYS = ("map/inverse", "map/inverse[latents]", "map/log-det", "map/log-det[inverse]")
BIAS = "batch-norm/gradient[bias-before]"
IDENTITIES = {
    "BatchNorm": (BIAS,),
    "BatchNorm[image]": (BIAS,),
    "InvertibleBatchNorm": (*BOTH_WAYS, BIAS),
    **dict.fromkeys(
        ("ActNorm", "AffineCoupling[halves]", "AdditiveCoupling[alternating]", "Permute[img]", "Reverse", "InvertibleConv1x1",
         "MaskedAutoregressive", "MaskedConvolution", "EmergingConvolution", "Affine", "Squeeze"),
        BOTH_WAYS,
    ),
    "Flow[VectorRealNVP]": (*BOTH_WAYS, "density/mass"),
}  # fmt: skip


@pytest.mark.parametrize("name", IDENTITIES)
def test_proofs(name: str) -> None:
    """For all inputs and all weights, in exact arithmetic."""
    laws = map(registry.find_law, IDENTITIES[name])
    for claim in certified(registry.parse_target(f"reference:{name}"), laws, quick=True):
        assert claim.proof.whole, claim.text()


def test_proof_of_parity() -> None:
    """In eval mode, with the weights and the statistics of either."""
    layers = "reference:BatchNorm", "torch.nn:BatchNorm1d?num_features=3&event=3"
    (found,) = compare_targets(*map(registry.parse_target, layers)).comparisons()
    assert found.claim.proof.whole, found.claim.text()


# Each of them can fail


Row = tuple[Callable[..., None], Any]  # a property, and what it is asked about
SOUND: dict[str, Row] = {
    "a wrapper": (test_round_trip, defects.bug("batch norm")),
    "a wrapper, for log-dets": (test_log_det, defects.bug("batch norm")),
    "a formula": (test_scale_law, defects.eps_inside),
    "a formula, bit for bit": (test_scale_law_bit_for_bit, defects.eps_inside),
    "a formula, nearly": (test_scale_invariance, defects.eps_inside),
    "a formula, for gradients": (test_bias_gradient, defects.through_mean),
}
DEFECTIVE: dict[str, Row] = {
    "inverse off by 1e-6": (test_round_trip, defects.inverse_off("batch norm", 1e-6)),
    "inverse off by 1e-11": (test_round_trip, defects.inverse_off("Real NVP of vectors", 1e-11)),
    "levels that round up": (test_dequantize, defects.Unguarded),
    "log-det off by 1e-11": (test_log_det, defects.log_det_off("Real NVP of vectors", 1e-11)),
    "log-det of one sign": (test_log_det, defects.one_sign("affine coupling")),
    "log-det of one position": (test_log_det, defects.one_position("1x1 convolution")),
    "log-det without one term": (test_log_det, defects.one_term_missing()),
    "eps outside the root": (test_scale_law, defects.eps_outside),
    "eps outside the root, bit for bit": (test_scale_law_bit_for_bit, defects.eps_outside),
    "eps outside the root, nearly": (test_scale_invariance, defects.eps_outside),
    "eps relative to the variance": (test_scale_law, defects.eps_relative),
    "eps of its own": (test_scale_law_bit_for_bit, defects.eps_fixed),
    "sign lost": (test_scale_invariance, defects.sign_lost),
    "mean taken for a constant": (test_bias_gradient, defects.through_constant),
    "mean without eps": (test_bias_gradient, partial(by_formula, defects.mean_without_eps)),
    "variance without Bessel's correction": (test_history, defects.Biased),
    "momentum for what is kept": (test_history, defects.Reversed),
    "plain average off by one": (test_history, defects.Late),
    "averages that move in evaluation": (test_history, defects.Eager),
    "eps larger by a millionth": (test_history, defects.Shifted),
}


@pytest.mark.parametrize("name", DEFECTIVE)
def test_each_property_can_fail(name: str) -> None:
    """With this defect in the layer, the property does not hold."""
    holds, layer = DEFECTIVE[name]
    with pytest.raises(AssertionError):
        holds(layer)


@pytest.mark.parametrize("name", SOUND)
def test_the_same_without_a_defect_holds(name: str) -> None:
    """What the defects are put into has the property: it is the defect that is rejected."""
    holds, layer = SOUND[name]
    holds(layer)
