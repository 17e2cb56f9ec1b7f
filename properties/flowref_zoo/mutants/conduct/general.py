"""Defects of conduct and of inputs, put into the calls and lives of a healthy subject."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Manner, Mapped, Subject, mutant
from flowref.model.steps import Dtypes, Located, Move, Run, There
from flowref_zoo.mutants.combinators import (
    Asked,
    Remade,
    Steps,
    after,
    answered,
    at,
    living,
    mannered,
    observed,
    promising,
    shifted,
    shifted_where,
)

COUPLING = "nflows:AffineCouplingTransform"
AFFINE = "torch:AffineTransform"
Inputs = tuple[Any, ...]


@mutant("effects/process[input]", host=AFFINE)
def writes_its_input(subject: Subject, size: float = 1.0) -> Subject:
    """A mask is applied in place."""
    return observed(subject, mutated=("x",))


@mutant("effects/process[output]", host=AFFINE)
def prints(subject: Subject, size: float = 1.0) -> Subject:
    """A print was left in forward."""
    return observed(subject, printed="torch.Size([3, 4])\n")


@mutant("effects/process[settings]", host=AFFINE)
def sets_the_default_dtype(subject: Subject, size: float = 1.0) -> Subject:
    """Calling forward sets the default dtype of the process."""
    return observed(subject, globals=("torch default dtype",))


@mutant("effects/process[settings]", host=AFFINE)
def seeds_for_everybody(subject: Subject, size: float = 1.0) -> Subject:
    """Calling forward seeds torch, so that its own random numbers repeat, and everybody else's with
    them.
    """
    return observed(subject, globals=("the random state of torch",))


@mutant("effects/process[gradients]", host=COUPLING)
def backward_within(subject: Subject, size: float = 1.0) -> Subject:
    """A score is computed by backward(), which adds to the gradients of the parameters."""
    return observed(subject, graded=("net.weight",))


@mutant("effects/process[input]", host=AFFINE)
def input_made_to_require_a_gradient(subject: Subject, size: float = 1.0) -> Subject:
    """The caller's tensor is made to require a gradient."""
    return observed(subject, mutated=("requires_grad of x",))


@mutant("random/seeded[global-streams]", host=AFFINE)
def draws_without_need(subject: Subject, size: float = 1.0) -> Subject:
    """A random tensor is drawn and not used."""
    return observed(subject, rng=True)


@mutant("dtype/follows[log-det]", host=AFFINE)
def log_dets_in_single(subject: Subject) -> Subject:
    """The log-det of forward is added up in float32."""
    return promising(observed(subject, dtypes=("float64", "float32")), "narrow-log-det")


@mutant("dtype/follows", host=AFFINE)
def log_det_of_default_dtype(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det starts from zeros of the default dtype."""
    return observed(subject, dtypes=("float64", "float32"))


@mutant("dtype/follows", host=AFFINE)
def float32_constant_inside(subject: Subject, size: float = 1.0) -> Subject:
    """A constant is computed in float32 and then promoted."""
    return observed(subject, float32=True)


def _noisy(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    noise = [np.random.default_rng(index).standard_normal for index in range(len(steps))]
    return [
        shifted(out, size * noise[index](np.shape(out.value))) if isinstance(step, Run) else out
        for index, (step, out) in enumerate(zip(steps, outcomes, strict=True))
    ]


REFUSED = Located(refused="RuntimeError: Expected all tensors to be on the same device")


@mutant("same/history[repeat]", host=COUPLING, sizes=(1e-8, 1e-3))
def hidden_noise(subject: Subject, size: float = 1e-3) -> Subject:
    """Dropout stays on in eval mode."""
    return living(subject, partial(_noisy, size))


@mutant("dtype/follows[cast]", host="nflows:BatchNorm")
def one_buffer_not_cast(subject: Subject, size: float = 1.0) -> Subject:
    """An overridden _apply leaves a buffer in its dtype."""
    return at(subject, Dtypes, lambda dtypes: {**dtypes, "running_mean": "float64"})


@mutant("dtype/follows[device]", host=COUPLING)
def mask_stays_on_the_host(subject: Subject, size: float = 1.0) -> Subject:
    """A mask is a plain attribute."""
    return at(subject, There, lambda _: REFUSED)


@mutant("dtype/follows[device]", host=COUPLING)
def log_det_stays_on_the_host(subject: Subject, size: float = 1.0) -> Subject:
    """It is made by torch.zeros(n)."""
    return at(subject, There, lambda located: replace(located, left=("log-det",)))


@mutant("dtype/follows[unmentioned-device]", host=COUPLING)
def noise_is_made_on_the_host(subject: Subject, size: float = 1.0) -> Subject:
    """By torch.randn(n, d), in code that speaks of no device."""
    return at(at(subject, There, lambda _: REFUSED), Move, lambda _: False)


@mutant("dtype/follows[device-after-use]", host=COUPLING)
def cache_stays_on_the_host(subject: Subject, size: float = 1.0) -> Subject:
    """A call fills a plain attribute."""
    return after(subject, Run, There, lambda _: REFUSED)


@mutant("same/manner[device]", host=COUPLING, sizes=(1e-10, 1e-3))
def device_rounds_elsewhere(subject: Subject, size: float = 1e-6) -> Subject:
    """A kernel of the device is off."""
    return at(subject, There, partial(_off, size))


def _off(size: float, located: Located) -> Located:
    return replace(located, out=None if located.out is None else shifted(located.out, size))


def _transposed(asked: Asked) -> bool:
    return asked.manner.layout == "transposed"


@mutant("same/manner[strides]", host=COUPLING, sizes=(1e-8, 1e-3))
def reads_raw_storage(subject: Subject, size: float = 1e-3) -> Subject:
    """A kernel reads the storage of its input in order, whatever the strides."""
    return shifted_where(subject, _transposed, size)


def _viewed(call: Remade, name: str, inputs: Inputs, manner: Manner) -> Mapped:
    if manner.layout != "contiguous":
        raise RuntimeError("view size is not compatible with input tensor's size and stride")
    return call(inputs, manner)


@mutant("same/manner-accepted", host=COUPLING)
def view_for_reshape(subject: Subject, size: float = 1.0) -> Subject:
    """Tensor.view is used where reshape is meant."""
    return mannered(subject, _viewed)


def _reduced(call: Remade, name: str, inputs: Inputs, manner: Manner) -> Mapped:
    if not len(inputs[0]):
        raise RuntimeError("max(): Expected reduction dim to be specified for input.numel() == 0")
    return call(inputs, manner)


@mutant("shape/any-batch[no-rows]", host=AFFINE)
def empty_batch_refused(subject: Subject, size: float = 1.0) -> Subject:
    """A maximum over the batch is taken."""
    return promising(mannered(subject, _reduced), "empty-batch")


def _squeezed(out: Mapped, asked: Asked) -> Mapped:
    alone = len(asked.inputs[0]) == 1
    return Mapped(out.value, np.squeeze(np.asarray(out.ladj))) if alone else out


@mutant("shape/any-batch[one-row]", host=COUPLING)
def batch_axis_squeezed(subject: Subject, size: float = 1.0) -> Subject:
    """Squeezing drops the axis of a batch of one from the log-det."""
    return answered(subject, _squeezed)


def _none_inside(bound: float, out: Mapped, asked: Asked) -> Mapped:
    if np.abs(asked.inputs[0]).min() > bound:
        raise RuntimeError("the least of no numbers")
    return out


@mutant("shape/any-batch[one-row]", host=COUPLING, sizes=(0.1, 0.3))
def nothing_inside_refused(subject: Subject, size: float = 0.2) -> Subject:
    """Where no number lies in the interval the least of none is asked for."""
    return answered(subject, partial(_none_inside, size))


def _spread(out: Mapped, asked: Asked) -> Mapped:
    return shifted(out, 0.0 * float(asked.inputs[0].mean()))


@mutant("map/finite[nan-row]", host=COUPLING)
def nan_spreads_through_a_mean(subject: Subject, size: float = 1.0) -> Subject:
    """The mean of the batch is added with weight zero."""
    return answered(subject, _spread)


def _silent(
    low: float, high: float, call: Remade, name: str, inputs: Inputs, manner: Manner
) -> Mapped:
    x, *rest = inputs
    inside = np.clip(x, low, high)
    out = call((inside, *rest), manner)
    return Mapped(np.where(inside == x, out.value, np.nan), out.ladj)


@mutant("map/finite-far-out[outside]", host="nflows:PiecewiseRationalQuadraticCDF")
def silent_nan_outside(subject: Subject, size: float = 1.0) -> Subject:
    """Points outside the domain are mapped to nan."""
    return mannered(subject, partial(_silent, subject.domain.low, subject.domain.high))


def _overflowing(out: Mapped, asked: Asked) -> Mapped:
    with np.errstate(all="ignore"):
        square = np.square(asked.inputs[0])
        return Mapped(np.asarray(out.value) + 0.0 * (square - square), out.ladj)


@mutant("map/finite-far-out[extremes]", host=AFFINE)
def overflow_of_a_square(subject: Subject, size: float = 1.0) -> Subject:
    """A square overflows on the way, and infinity is subtracted from infinity."""
    return answered(subject, _overflowing)


def _refusing(bound: float, call: Remade, name: str, inputs: Inputs, manner: Manner) -> Mapped:
    if np.abs(inputs[0]).max(initial=0.0) > bound:
        raise ValueError("expected points between the bounds")
    return call(inputs, manner)


@mutant("map/domain[undeclared]", host=AFFINE, sizes=(0.5, 5.0))
def bounds_not_told(subject: Subject, size: float = 5.0) -> Subject:
    """Points beyond a bound are refused, and no domain says so."""
    return mannered(subject, partial(_refusing, size)).with_facts(declared=False)


def _broadcast(features: int, call: Remade, name: str, inputs: Inputs, manner: Manner) -> Mapped:
    x, *rest = inputs
    wide = np.broadcast_to(x, (*x.shape[:-1], features)) if x.shape[-1] == 1 else x
    return call((wide, *rest), manner)


@mutant("shape/wrong-refused[features]", host=COUPLING)
def one_feature_broadcast(subject: Subject, size: float = 1.0) -> Subject:
    """A point of one feature is broadcast against weights of several."""
    return mannered(subject, partial(_broadcast, subject.event_shape[-1]))


def _under(
    how: str, size: float, call: Remade, name: str, inputs: Inputs, manner: Manner
) -> Mapped:
    if manner.how != how:
        return call(inputs, manner)
    # Measured on the plain call, so that the defect alone is seen.
    return shifted(call(inputs, replace(manner, how="plain")), size)


@mutant("same/manner[functional-call]", host=COUPLING, sizes=(1e-8, 1e-3))
def derived_weight_kept(subject: Subject, size: float = 1e-3) -> Subject:
    """A weight derived from stored parameters is used in place of those handed in."""
    return mannered(subject, partial(_under, "functional_call", size))


@mutant("same/manner[vmap]", host=COUPLING, sizes=(1e-8, 1e-3))
def vmap_sees_another_batch(subject: Subject, size: float = 1e-3) -> Subject:
    """The number of points in the batch enters the result."""
    return promising(mannered(subject, partial(_under, "vmap", size)), "vmap")


@mutant("same/manner[compile]", host=COUPLING, sizes=(1e-8, 1e-3))
def constant_folded_at_compilation(subject: Subject, size: float = 1e-3) -> Subject:
    """A value read in Python is frozen into the compiled call."""
    return promising(mannered(subject, partial(_under, "compile", size)), "compile")


def _narrow(size: float, out: Mapped, asked: Asked) -> Mapped:
    if asked.manner.dtype != "float32":
        return out
    return Mapped(np.asarray(out.value, dtype=np.float64) * (1 + size * 2.0**-24), out.ladj)


@mutant("dtype/accurate", host=COUPLING, sizes=(1e4, 1e6))
def digits_canceled(subject: Subject, size: float = 1e5) -> Subject:
    """A difference of large numbers loses digits that float64 has to spare."""
    return answered(subject, partial(_narrow, size))


@mutant("dtype/accurate[digits]", host=COUPLING)
def logarithm_of_a_rounded_zero(subject: Subject) -> Subject:
    """In float32 the log-det is that of a factor which rounds to zero, from 3 on."""
    return answered(subject, partial(_flattened, "plain"))


@mutant("dtype/accurate[autocast]", host=COUPLING)
def infinite_in_half_precision(subject: Subject) -> Subject:
    """Under autocast to float16 the log-det is infinite, from 3 on."""
    return answered(subject, partial(_flattened, "float16"))


def _flattened(how: str, out: Mapped, asked: Asked) -> Mapped:
    if (asked.manner.dtype, asked.manner.how) != ("float32", how) or out.ladj is None:
        return out
    far = np.abs(np.asarray(asked.inputs[0])).reshape(len(out.value), -1).max(1) >= 3
    return Mapped(out.value, np.where(far, -np.inf, np.asarray(out.ladj, dtype=np.float64)))


# Its own sums in half precision are off by less than the law allows.
HALF = "flowref_zoo.specimens.coupling:affine_coupling?defect=log-det-last-digits-in-half"


@mutant("dtype/accurate[sums]", host=HALF, sizes=(2e-3, 1.0))
def added_up_in_half_precision(subject: Subject, size: float = 0.01) -> Subject:
    """The log-det is a sum in half precision."""
    return answered(subject, partial(_coarse, size))


def _coarse(size: float, out: Mapped, asked: Asked) -> Mapped:
    if asked.manner.how != "wide_sums" or out.ladj is None:
        return out
    return Mapped(out.value, np.asarray(out.ladj) + size)


@mutant("map/calls-work", host="flowref_zoo.specimens.coupling:affine_coupling")
def inverse_always_raises(subject: Subject) -> Subject:
    """The inverse reads an attribute that there is not, whatever it is given."""
    return subject.with_facts(broken={"inverse": "AttributeError: no attribute 'scale'"})
