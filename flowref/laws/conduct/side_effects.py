"""Side effects of calls, and the dtype they compute in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flowref.laws.common.cases import CONTEXT_NO_GRAD, NO_GRAD
from flowref.laws.common.outcomes import attempt, flags
from flowref.laws.common.probes import (
    EVERY,
    POINTWISE,
    WITH_KERNELS,
    Outcomes,
    Probe,
    absent,
    agree,
    probes,
)
from flowref.laws.common.requirements import (
    IN_DOUBLE,
    calculated,
    has_modules,
    has_parameters,
    in_double,
)
from flowref.laws.common.structure import LARGE
from flowref.model import (
    ADVICE,
    EXACT,
    GIVEN,
    VOLUME,
    Batch,
    Observation,
    Residual,
    Unsupported,
    law,
    per_point,
    requires,
)
from flowref.model.abilities import (
    Bijection,
    Density,
    Differentiable,
    Flow,
    Invertible,
    Living,
    offers,
)
from flowref.model.steps import Cast, Dtypes


def watched(
    flow: Flow,
    batch: Batch,
    default: str = "float32",
    training: bool = False,
    calls: Sequence[str] = EVERY,
) -> tuple[list[tuple[str, Observation]], str]:
    """The side effects of each call that the subject offers, and the error of a call that raised.

    Calls are observed under the default dtype float32, as users have it, which a float64 object
    may reject.
    """
    seen: list[tuple[str, Observation]] = []
    errors: list[str] = []
    for probe in probes(flow, batch, complete=False, calls=calls):
        observation, error = attempt(probe.observe, default, training)
        name = f"{probe.name} in train mode" if training else probe.name
        if error:
            errors.append(f"{name} raised {error}")
        else:
            seen.append((name, observation))
    return seen, "; ".join(errors)


def conduct(
    flow: Flow, batch: Batch, calls: Sequence[str] = EVERY
) -> list[tuple[str, Observation]]:
    """The observations in eval and in train mode. Raises `Unsupported` if the subject cannot be
    observed.
    """
    seen, error = watched(flow, batch, calls=calls)
    if not seen:
        raise Unsupported(f"its calls cannot be observed ({error})")
    # Side effects in train mode only recur for thousands of batches.
    return [*seen, *(watched(flow, batch, training=True, calls=calls)[0] if flow.stateful else [])]


@law(
    "effects/process[input]",
    key="hygiene/input-not-mutated",
    tolerance=EXACT,
    effort=4,
    source="a tensor belongs to the caller; masks applied in place change the point at which a density is evaluated",
    pointwise=True,
    cases=(NO_GRAD, CONTEXT_NO_GRAD),
)
def input_not_mutated(flow: Flow, batch: Batch) -> Residual:
    """In either mode, no call writes to its input, its context or a given running log-det, or
    makes one require a gradient.
    """
    watch = conduct(flow, batch, WITH_KERNELS)
    seen = [f"{name} (by {which})" for which, one in watch for name in one.mutated]
    if "writes" in flow.promises:
        seen.append(f"{flow.promises['writes']} (by forward)")
    return absent(seen, len(batch.x), "it wrote to {}")


@law(
    "same/history[repeat]",
    key="hygiene/deterministic",
    effort=4,
    applies=calculated,
    source="a likelihood in eval mode is a function of its input",
    by_steps=False,
    pointwise=True,
    cases=(NO_GRAD,),
)
def deterministic(flow: Living, batch: Batch) -> Residual:
    """In eval mode the same object, called twice at the same points, returns the same."""

    # A rounding law, not a bitwise one: kernels of torch may round differently with another memory
    # alignment.
    def outcomes(probe: Probe) -> Outcomes:
        # Each step of a history has its own random state, so random numbers differ between the two.
        first, second = flow.play([probe.step(draws=None)] * 2)
        yield first, second

    probed = probes(flow, batch, calls=POINTWISE)
    return agree(
        probed,
        outcomes,
        "the second call returned something else; for an estimate add ?promises=estimator, for a lower bound "
        "of a log-density ?promises=lower-bound, for a layer that draws ?draws=both",
    )


@law(
    "effects/process[output]",
    key="hygiene/no-printing",
    force=ADVICE,
    version=2,
    tolerance=EXACT,
    effort=1,
    source="a print in forward slows down every training step",
    pointwise=True,
)
def no_printing(flow: Flow, batch: Batch) -> Residual:
    """In either mode, no call writes to the standard output or error."""
    seen = [
        f"{text.strip()[:40]!r} (by {which})"
        for which, (text, *_) in conduct(flow, batch, WITH_KERNELS)
        if text.strip()
    ]
    return absent(seen, len(batch.x), "it printed {}")


@law(
    "effects/process[settings]",
    key="hygiene/no-global-settings",
    tolerance=EXACT,
    effort=1,
    source="the default dtype, the gradient mode and the random seed belong to the process",
    pointwise=True,
    cases=(NO_GRAD,),
)
def no_global_settings(flow: Flow, batch: Batch) -> Residual:
    """In either mode, no call changes global settings: default dtype, gradient mode, threads,
    warning filters, the random seed.
    """
    # Setting the default dtype to float32 only shows if it was another one.
    others, _ = watched(flow, batch, default="float64")
    watch = [*conduct(flow, batch), *others]
    seen = sorted(
        f"{name} (by {which})"
        for which, one in watch
        for name in {*one.globals, *(attempt(one.reseeds)[0] or ())}
    )
    return absent(seen, len(batch.x), "it changed {}")


# Advice: random numbers that reach the result are caught by same/history[repeat]; others shift the
# global stream for other code, but no result is wrong.
@law(
    "random/seeded[global-streams]",
    key="hygiene/no-random-numbers",
    force=ADVICE,
    tolerance=EXACT,
    effort=2,
    applies=calculated,
    source="a deterministic layer that draws from the global stream makes unrelated results depend on it",
    pointwise=True,
)
def no_random_numbers(flow: Flow, batch: Batch) -> Residual:
    """In eval mode no call draws from the global random streams."""
    observations, error = watched(flow, batch, calls=POINTWISE)
    if not observations:
        raise Unsupported(f"its calls cannot be observed ({error})")
    seen = [which for which, seen in observations if seen.rng]
    return absent(seen, len(batch.x), "{} drew from a global random stream")


@law(
    "effects/process[gradients]",
    key="conduct/no-gradients-left",
    tolerance=EXACT,
    effort=1,
    applies=has_parameters,
    source="torch adds to .grad: gradients left there enter the next optimizer step",
    pointwise=True,
)
def no_gradients_left(flow: Flow, batch: Batch) -> Residual:
    """In either mode, no call leaves gradients on the parameters; only backward does."""
    seen = [f"{name} (by {which})" for which, seen in conduct(flow, batch) for name in seen.graded]
    return absent(seen, len(batch.x), "it left a gradient on {}")


# The call that adds up log-dets of its own.
DENSITY = "log_prob"
NARROW = ("float32", "float16", "bfloat16")


# Float32 leaves errors of about 1e-7 in a float64 result; constants with a smaller effect do not
# matter.
DISAGREEMENT = 1e-9


def disagreement_in_default_dtype(flow: Flow, batch: Batch) -> str:
    """A sentence if forward and inverse, or log-det and Jacobian, disagree under the default dtype
    float32 only; else empty.
    """
    if not offers(flow, Bijection):
        return ""
    with flow.usual():
        usual = _gap(flow, batch)
    if usual <= DISAGREEMENT or (plain := _gap(flow, batch)) >= DISAGREEMENT / 1e3:
        return ""
    return (
        f"{IN_DOUBLE} forward, inverse and log-det disagree by {usual:.1e}, as with a constant "
        f"rounded in one; with default dtype float64 by {plain:.1e}"
    )


def _gap(flow: Bijection, batch: Batch) -> float:
    """The typical error of the round trip and of the log-det at ordinary points."""
    x = batch.x if flow.domain.has_end else np.clip(batch.x, -2.0, 2.0)
    gaps = [0.0]
    with np.errstate(all="ignore"):
        out = flow.forward(x, batch.context)
        if offers(flow, Invertible):
            back = flow.inverse(out.value + 0.0, batch.context).value
            gaps.append(
                float(np.median(np.abs(back - x).reshape(len(x), -1).max(1)))
                if back.shape == x.shape
                else 0.0
            )
        narrow = flow.promises.get("narrow-log-det")
        if (
            offers(flow, Differentiable)
            and out.ladj is not None
            and not narrow
            and x[0].size <= LARGE
        ):
            try:
                truth = np.linalg.slogdet(flow.jacobian("forward", x, batch.context))[1]
                gaps.append(float(np.median(np.abs(per_point(out.ladj, len(x)) - truth))))
            except (Unsupported, np.linalg.LinAlgError):
                pass
    return max(gap for gap in gaps if np.isfinite(gap))


@law(
    "dtype/follows",
    key="hygiene/dtype-follow",
    tolerance=EXACT,
    effort=4,
    applies=in_double,
    version=2,
    source="constants and zeros made in the default dtype round a float64 computation to float32",
    pointwise=True,
)
def dtype_follow(flow: Flow, batch: Batch) -> Residual:
    """A float64 object returns float64 values and log-dets for float64 inputs, and computes them
    in float64.
    """
    names = ("value", "log-det")
    observations, error = watched(flow, batch, calls=POINTWISE)
    if "dtype" in error:
        return flags(True, len(batch.x), f"{IN_DOUBLE} {error}")
    seen = [
        f"the {name} of {which} is {dtype}"
        for which, observation in observations
        for name, dtype in zip(names, observation.dtypes, strict=False)
        if dtype in NARROW and not (name == "log-det" and flow.promises.get("narrow-log-det"))
    ]
    # Float32 inside a float64 result is detected by perturbing the narrowed tensors. Constants of
    # the default dtype are exempt: if all calls use the same rounded constant, the map is another,
    # consistent one.
    inside = [] if seen else [one for one, observed in observations if _narrow(one, observed)]
    if flow.stateful and not (seen or inside):
        trained = watched(flow, batch, training=True, calls=POINTWISE)[0]
        inside = [one for one, observed in trained if _narrow(one.split()[0], observed)]
    seen += [f"float32 arithmetic feeds the float64 result of {which}" for which in inside]
    if not seen and (apart := disagreement_in_default_dtype(flow, batch)):
        seen.append(apart)
    return absent(seen, len(batch.x), "{}")


def _narrow(which: str, observation: Observation) -> bool:
    """Whether float32 affects the result of a call; log-dets that a density adds up are reported
    as advice.
    """
    return observation.float32 and not (which == DENSITY and observation.beside)


@requires("its log-dets are of the dtype of its values")
def narrow_log_det(flow: Flow) -> bool:
    """Log-dets are added up in the default dtype, or by a density."""
    return bool(flow.promises.get("narrow-log-det")) or offers(flow, Density)


# Advice: it matters for models cast to float64 only.
@law(
    "dtype/follows[log-det]",
    key="conduct/log-det-dtype",
    about=VOLUME,
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    size=7,
    scales=GIVEN,
    applies=in_double & narrow_log_det,
    version=2,
    source="torch.zeros(len(x)) is of the default dtype, whatever x is",
)
def log_det_dtype(flow: Flow, batch: Batch) -> Residual:
    """A log-det has the dtype of its value, or of the density that adds it up, whatever the
    default dtype is.
    """
    observations, _ = watched(flow, batch, calls=POINTWISE)
    seen = [
        f"the log-det of {which} is {observation.dtypes[1]}"
        for which, observation in observations
        if len(observation.dtypes) > 1 and observation.dtypes[1] in NARROW
    ]
    seen += [
        f"{which} adds its log-det up in float32"
        for which, observation in observations
        if which == DENSITY and observation.beside
    ]
    return absent(seen, len(batch.x), "{}")


@law(
    "dtype/follows[cast]",
    key="hygiene/cast-follows",
    tolerance=EXACT,
    effort=1,
    size=7,
    scales=GIVEN,
    applies=has_modules & in_double,
    source="torch.nn.Module.to casts floating parameters and buffers; half of a model left behind promotes or raises",
)
def cast_follows(flow: Living, batch: Batch) -> Residual:
    """After .to(dtype) every floating parameter and buffer has that dtype."""
    _, dtypes = flow.play([Cast("float32"), Dtypes()])
    left = [f"{name} ({dtype})" for name, dtype in dtypes.items() if dtype != "float32"]
    return absent(left, len(batch.x), "after .to(float32) {} stayed behind")
