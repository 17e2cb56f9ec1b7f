"""Defects of conduct, inputs and gradients, put into the abilities of a healthy subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Observation, Subject, mutant

COUPLING = "nflows:AffineCouplingTransform"
AFFINE = "torch:AffineTransform"


def around(wrapper: Callable[..., Any], ability: Any, *given: Any) -> Any:
    """An ability behind a wrapper: it takes the ability, then what is given here, then the call's
    arguments.
    """
    return partial(wrapper, ability, *given)


def observed(
    observe: Callable[..., Observation], changes: dict[str, Any], *given: Any
) -> Observation:
    """An observation with some of what was seen changed."""
    return observe(*given)._replace(**changes)


def watching(subject: Subject, **changes: Any) -> Subject:
    """The subject with altered observations."""
    return replace(subject, observe=around(observed, subject.observe, changes))


@mutant("conduct/input-not-mutated", host=AFFINE)
def writes_its_input(subject: Subject, size: float = 1.0) -> Subject:
    """A mask is applied in place."""
    return watching(subject, mutated=("x",))


@mutant("conduct/no-printing", host=AFFINE)
def prints(subject: Subject, size: float = 1.0) -> Subject:
    """A print was left in forward."""
    return watching(subject, printed="torch.Size([3, 4])\n")


@mutant("conduct/no-global-settings", host=AFFINE)
def sets_the_default_dtype(subject: Subject, size: float = 1.0) -> Subject:
    """Calling forward sets the default dtype of the process."""
    return watching(subject, globals=("torch default dtype",))


@mutant("conduct/no-global-settings", host=AFFINE)
def seeds_for_everybody(subject: Subject, size: float = 1.0) -> Subject:
    """Calling forward seeds torch, so that its own random numbers repeat, and everybody else's with
    them.
    """
    return watching(subject, globals=("the random state of torch",))


@mutant("conduct/no-random-numbers", host=AFFINE)
def draws_without_need(subject: Subject, size: float = 1.0) -> Subject:
    """A random tensor is drawn and not used."""
    return watching(subject, rng=True)


@mutant("conduct/dtype-follow", host=AFFINE)
def log_det_of_default_dtype(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det starts from zeros of the default dtype."""
    return watching(subject, dtypes=("float64", "float32"))


@mutant("conduct/dtype-follow", host=AFFINE)
def float32_constant_inside(subject: Subject, size: float = 1.0) -> Subject:
    """A constant is computed in float32 and then promoted."""
    return watching(subject, float32=True)


def _played(
    play: Callable[..., list[Any]],
    change: Callable[..., Any],
    size: float,
    steps: Any,
    fresh: bool = False,
) -> list[Any]:
    outcomes = play(steps, fresh)
    return [
        change(place, step, outcome, size)
        for place, (step, outcome) in enumerate(zip(steps, outcomes, strict=True))
    ]


def playing(subject: Subject, change: Callable[..., Any], size: float = 1.0) -> Subject:
    """The subject with altered outcomes of its scenarios."""
    return replace(subject, play=around(_played, subject.play, change, size))


def _noisy(place: int, step: Any, outcome: Any, size: float) -> Any:
    if step[0] != "call":
        return outcome
    noise = np.random.default_rng(place).standard_normal(np.shape(outcome.value))
    return Mapped(np.asarray(outcome.value) + size * noise, outcome.ladj)


@mutant("conduct/deterministic", host=COUPLING, sizes=(1e-8, 1e-3))
def hidden_noise(subject: Subject, size: float = 1e-3) -> Subject:
    """Dropout stays on in eval mode."""
    return playing(subject, _noisy, size)


def _left_behind(place: int, step: Any, outcome: Any, size: float) -> Any:
    return {**outcome, "running_mean": "float64"} if step[0] == "dtypes" else outcome


@mutant("conduct/cast-follows", host="nflows:BatchNorm")
def one_buffer_not_cast(subject: Subject, size: float = 1.0) -> Subject:
    """An overridden _apply leaves a buffer in its dtype."""
    return playing(subject, _left_behind)


def _on_the_host(place: int, step: Any, outcome: Any, size: float) -> Any:
    return {**outcome, "mask": "cpu"} if step[0] == "meta" else outcome


@mutant("conduct/device-follow", host=COUPLING)
def mask_stays_on_the_host(subject: Subject, size: float = 1.0) -> Subject:
    """A mask is a plain attribute."""
    return playing(subject, _on_the_host)


def _relaid(call: Callable[..., Mapped], size: float, *given: Any, **named: Any) -> Mapped:
    out = call(*given, **named)
    return (
        Mapped(np.asarray(out.value) + size, out.ladj)
        if named.get("layout") == "transposed"
        else out
    )


@mutant("conduct/strides-agree", host=COUPLING, sizes=(1e-8, 1e-3))
def reads_raw_storage(subject: Subject, size: float = 1e-3) -> Subject:
    """A kernel reads the storage of its input in order, whatever the strides."""
    return replace(subject, call=around(_relaid, subject.call, size))


def _viewed(call: Callable[..., Mapped], *given: Any, **named: Any) -> Mapped:
    if named.get("layout", "contiguous") != "contiguous":
        raise RuntimeError("view size is not compatible with input tensor's size and stride")
    return call(*given, **named)


@mutant("conduct/strides-accepted", host=COUPLING)
def view_for_reshape(subject: Subject, size: float = 1.0) -> Subject:
    """Tensor.view is used where reshape is meant."""
    return replace(subject, call=around(_viewed, subject.call))


def promising(subject: Subject, promise: str, **abilities: Any) -> Subject:
    """The subject with a promise, so that the contract is judged."""
    return subject.with_facts(promises={**subject.promises, promise: True}, **abilities)


def _refuses_nothing(
    call: Callable[..., Mapped], which: str, x: Array, *rest: Any, **named: Any
) -> Mapped:
    if not len(x):
        raise RuntimeError("max(): Expected reduction dim to be specified for input.numel() == 0")
    return call(which, x, *rest, **named)


@mutant("conduct/empty-batch", host=AFFINE)
def empty_batch_refused(subject: Subject, size: float = 1.0) -> Subject:
    """A maximum over the batch is taken."""
    return promising(subject, "empty-batch", call=around(_refuses_nothing, subject.call))


def _squeezed(
    call: Callable[..., Mapped], which: str, x: Array, *rest: Any, **named: Any
) -> Mapped:
    out = call(which, x, *rest, **named)
    return Mapped(out.value, np.squeeze(np.asarray(out.ladj))) if len(x) == 1 else out


@mutant("conduct/batch-one", host=COUPLING)
def batch_axis_squeezed(subject: Subject, size: float = 1.0) -> Subject:
    """Squeezing drops the axis of a batch of one from the log-det."""
    return replace(subject, call=around(_squeezed, subject.call))


def _spread(call: Callable[..., Mapped], which: str, x: Array, *rest: Any, **named: Any) -> Mapped:
    out = call(which, x, *rest, **named)
    return Mapped(np.asarray(out.value) + 0.0 * x.mean(), out.ladj)


@mutant("conduct/nan-containment", host=COUPLING)
def nan_spreads_through_a_mean(subject: Subject, size: float = 1.0) -> Subject:
    """The mean of the batch is added with weight zero."""
    return replace(subject, call=around(_spread, subject.call))


def _silent(
    call: Callable[..., Mapped],
    low: float,
    high: float,
    which: str,
    x: Array,
    *rest: Any,
    **named: Any,
) -> Mapped:
    inside = np.clip(x, low, high)
    out = call(which, inside, *rest, **named)
    return Mapped(np.where(inside == x, out.value, np.nan), out.ladj)


@mutant("conduct/outside-domain", host="nflows:PiecewiseRationalQuadraticCDF")
def silent_nan_outside(subject: Subject, size: float = 1.0) -> Subject:
    """Points outside the domain are mapped to nan."""
    return replace(
        subject, call=around(_silent, subject.call, subject.domain.low, subject.domain.high)
    )


def _overflowing(
    call: Callable[..., Mapped], which: str, x: Array, *rest: Any, **named: Any
) -> Mapped:
    out = call(which, x, *rest, **named)
    with np.errstate(all="ignore"):
        square = np.square(x)
        return Mapped(np.asarray(out.value) + 0.0 * (square - square), out.ladj)


@mutant("conduct/extremes", host=AFFINE)
def overflow_of_a_square(subject: Subject, size: float = 1.0) -> Subject:
    """A square overflows on the way, and infinity is subtracted from infinity."""
    return replace(subject, call=around(_overflowing, subject.call))


def _broadcast(
    call: Callable[..., Mapped], features: int, which: str, x: Array, *rest: Any, **named: Any
) -> Mapped:
    wide = np.broadcast_to(x, (*x.shape[:-1], features)) if x.shape[-1] == 1 else x
    return call(which, wide, *rest, **named)


@mutant("conduct/wrong-shape-refused", host=COUPLING)
def one_feature_broadcast(subject: Subject, size: float = 1.0) -> Subject:
    """A point of one feature is broadcast against weights of several."""
    return replace(subject, call=around(_broadcast, subject.call, subject.event_shape[-1]))


def _scaled_vjp(vjp: Callable[..., Array], factor: float, *given: Any) -> Array:
    return np.asarray(vjp(*given)) * factor


@mutant("conduct/value-gradient", host=COUPLING, sizes=(1e-4, 1e-1))
def backward_off_by_a_factor(subject: Subject, size: float = 1e-3) -> Subject:
    """A hand-written backward pass is off by a factor."""
    return replace(subject, vjp=around(_scaled_vjp, subject.vjp, 1 + size))


@mutant("conduct/log-det-gradient", host=COUPLING)
def log_det_detached(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det is computed without a graph."""
    return replace(subject, vjp=around(_scaled_vjp, subject.vjp, 0.0))


@mutant("conduct/double-backward", host=COUPLING)
def gradient_detached(subject: Subject, size: float = 1.0) -> Subject:
    """A hand-written backward pass works on detached tensors: its own derivative is lost."""
    return promising(
        subject, "double-backward", curvature=around(_scaled_vjp, subject.curvature, 0.0)
    )


@mutant("conduct/score", host="nflows:SimpleRealNVP", sizes=(1e-4, 1e-1))
def score_off_by_a_factor(subject: Subject, size: float = 1e-3) -> Subject:
    """A part of the gradient of log_prob is detached."""
    return replace(subject, vjp=around(_scaled_vjp, subject.vjp, 1 + size))


def _spoilt(place: int, step: Any, outcome: Any, size: float) -> Any:
    return (
        {**outcome, "gradients": dict.fromkeys(outcome["gradients"], np.array(np.nan))}
        if step[0] == "step"
        else outcome
    )


@mutant("conduct/gradients-finite", host=COUPLING)
def nan_behind_where(subject: Subject, size: float = 1.0) -> Subject:
    """The branch that torch.where does not choose has a nan gradient."""
    return playing(subject, _spoilt)


def _dead(place: int, step: Any, outcome: Any, size: float) -> Any:
    if step[0] != "step":
        return outcome
    first = next(iter(outcome["gradients"]))
    return {**outcome, "gradients": {**outcome["gradients"], first: None}}


@mutant("conduct/no-dead-parameters", host=COUPLING)
def one_tensor_is_dead(subject: Subject, size: float = 1.0) -> Subject:
    """A parameter is multiplied by a factor that stays zero."""
    return playing(subject, _dead)


def _unused(place: int, step: Any, outcome: Any, size: float) -> Any:
    return (
        {**outcome, "gradients": {**outcome["gradients"], "unused": None}}
        if step[0] == "step"
        else outcome
    )


@mutant("conduct/all-parameters-used", host=COUPLING)
def one_tensor_unused(subject: Subject, size: float = 1.0) -> Subject:
    """A parameter is registered and never used."""
    return promising(playing(subject, _unused), "ddp")


def _manner(
    call: Callable[..., Mapped], wanted: str, size: float, *given: Any, **named: Any
) -> Mapped:
    if named.get("how") != wanted:
        return call(*given, **named)
    # Measured on the plain call, so that the defect alone is seen.
    out = call(*given, **{**named, "how": "plain"})
    return Mapped(np.asarray(out.value) + size, out.ladj)


@mutant("conduct/functional-call", host=COUPLING, sizes=(1e-8, 1e-3))
def derived_weight_kept(subject: Subject, size: float = 1e-3) -> Subject:
    """A weight derived from stored parameters is used in place of those handed in."""
    return replace(subject, call=around(_manner, subject.call, "functional_call", size))


@mutant("conduct/vmap-compatible", host=COUPLING, sizes=(1e-8, 1e-3))
def vmap_sees_another_batch(subject: Subject, size: float = 1e-3) -> Subject:
    """The number of points in the batch enters the result."""
    return promising(subject, "vmap", call=around(_manner, subject.call, "vmap", size))


@mutant("conduct/compile-equal", host=COUPLING, sizes=(1e-8, 1e-3))
def constant_folded_at_compilation(subject: Subject, size: float = 1e-3) -> Subject:
    """A value read in Python is frozen into the compiled call."""
    return promising(subject, "compile", call=around(_manner, subject.call, "compile", size))


def _narrow(call: Callable[..., Mapped], size: float, *given: Any, **named: Any) -> Mapped:
    out = call(*given, **named)
    if named.get("dtype") != "float32":
        return out
    return Mapped(np.asarray(out.value, dtype=np.float64) * (1 + size * 2.0**-24), out.ladj)


@mutant("conduct/float32-agrees", host=COUPLING, sizes=(1e4, 1e6))
def digits_canceled(subject: Subject, size: float = 1e5) -> Subject:
    """A difference of large numbers loses digits that float64 has to spare."""
    return replace(subject, call=around(_narrow, subject.call, size))
