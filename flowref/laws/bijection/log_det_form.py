"""The form of log-determinants: one finite number per point, and promises of a class of flows
about its value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from flowref.laws.common.arithmetic import finite_rows, invertible_images, reported, rows_max
from flowref.laws.common.outcomes import attempt
from flowref.laws.common.probes import Probe, absent, data, probe_of, probes
from flowref.model import (
    CONTRACT,
    EXACT,
    GIVEN,
    NEARBY,
    VOLUME,
    Array,
    Batch,
    Mapped,
    Residual,
    Unsupported,
    law,
)
from flowref.model.abilities import Bijection, Flow, Living, offers
from flowref.model.steps import Eval, Learn, Step, Train

# Further batch sizes that are tested.
FEW = (1, 2, 3)


@law(
    "shape/one-number-per-point[log-det]",
    key="bijection/log-det-shape",
    about=VOLUME,
    tolerance=EXACT,
    effort=4,
    size=7,
    scales=GIVEN,
)
def log_det_shape(flow: Bijection, batch: Batch) -> Residual:
    """A log-det has one number per point: the batch shape (plus the event axes of an elementwise
    transform), in train and eval mode and after training steps.
    """
    rows, out = len(batch.x), flow.forward(batch.x, batch.context)
    few = () if flow.certainty.coupled else FEW  # for sets, fewer rows are another set
    probed = [probe_of(flow, "forward", batch.x, batch.context)]
    if "inverse" in flow.calls:
        probed.append(
            probe_of(flow, "inverse", invertible_images(flow, out.value)[0], batch.context)
        )
    wrong = [
        f"{one.name} returned {note}"
        for one in probed
        for size in sorted({*(count for count in few if count < rows), rows})
        if (note := misshapen(flow, user_call_result(one.rows(slice(0, size)))))
    ][:1]
    if not wrong and out.ladj is None:
        raise Unsupported("it returns no log-det")
    if not wrong and flow.stateful:
        wrong = [*train_mode_notes(flow, probed), *after_training(flow, probed, batch)]
    return Residual(np.full(len(batch.x), float(bool(wrong))), note="; ".join(wrong))


def user_call_result(probe: Probe) -> Mapped:
    """The result of a probe as a user receives it, before conversion."""
    out: Mapped = probe.call(*probe.inputs)
    return out


def misshapen(flow: Flow, out: Mapped, how: str = "") -> str:
    """The error message for the shape of a log-det; empty if it is right."""
    if out.ladj is None:
        return ""
    shape, expected = np.shape(out.ladj), (len(out.value), *flow.facts.ladj_event)
    constant = np.size(out.ladj) == 1 and (flow.promises.get("scalar-ladj") or not np.any(out.ladj))
    if shape == expected or (constant and len(shape) <= 1):
        return ""
    members = len(flow.event_shape) > 1 and shape == (len(out.value), flow.event_shape[0])
    meant = "; if each is that of a member of a set, say ?ladj_form=members" if members else ""
    return (
        f"a log-det of shape {shape} for {len(out.value)} points{how}; expected {expected}{meant}"
    )


def train_mode_notes(flow: Flow, probed: Sequence[Probe]) -> Iterator[str]:
    """Error messages for log-dets in train mode. Calls that raise there are reported by other
    laws.
    """
    for probe in probed:
        trained, _ = attempt(probe, how="train")
        if trained is not None and (note := misshapen(flow, trained, " in train mode")):
            yield f"{probe.name} returned {note}"


def after_training(flow: Flow, probed: Sequence[Probe], batch: Batch) -> Iterator[str]:
    """Error messages for log-dets after training steps."""
    if not (flow.trainable and offers(flow, Living)) or flow.promises.get("fixed"):
        return
    learn = Learn(data(flow, batch), batch.context)
    steps: list[Step[Any]] = [Train(), learn, learn, Eval()]
    life, refused = attempt(flow.play, [*steps, *(probe.step() for probe in probed)])
    for index, probe in enumerate(probed):
        if refused:  # perhaps by one of them
            life, _ = attempt(flow.play, [*steps, probe.step()])
        out = None if life is None else life[-1 if refused else len(steps) + index]
        if out is not None and (note := misshapen(flow, out, " after training steps")):
            yield f"{probe.name} returned {note}"


@law(
    "shape/one-number-per-point[one-feature]",
    key="bijection/log-det-narrow",
    about=VOLUME,
    tolerance=EXACT,
    effort=2,
    size=3,
    scales=GIVEN,
    rebuild="wide",
    features=1,
    source="squeeze() and sum(-1) on an axis of length one return something else than on longer ones",
)
def log_det_narrow(flow: Bijection, batch: Batch) -> Residual:
    """With a single feature a log-det is still one number per point."""
    wrong = [
        f"{one.name} returned {note}"
        for one in probes(flow, batch, complete=False, calls=("forward", "inverse"))
        if (note := misshapen(flow, user_call_result(one)))
    ]
    return absent(wrong, len(batch.x), "with one feature {}")


@law(
    "map/promised-jacobian[volume]",
    key="bijection/volume-preserving",
    nats=True,
    force=CONTRACT,
    promise="volume-preserving",
    effort=4,
)
def volume_preserving(flow: Bijection, batch: Batch) -> Residual:
    r"""A map that promises to preserve volume has log-det 0."""
    claimed = reported(flow, flow.forward(batch.x, batch.context), len(batch.x))
    return Residual(claimed, scale=1.0, observed={"reported": claimed})


def _first_context_repeated(batch: Batch) -> Array | None:
    return None if batch.context is None else batch.context[:1].repeat(len(batch.x), 0)


@law(
    "map/promised-jacobian[constant]",
    key="bijection/constant-jacobian",
    nats=True,
    force=CONTRACT,
    promise="constant-jacobian",
    effort=4,
)
def constant_jacobian(flow: Bijection, batch: Batch) -> Residual:
    """A linear map has the same log-det at every point."""
    # It may depend on the context, which is fixed here.
    claimed = reported(flow, flow.forward(batch.x, _first_context_repeated(batch)), len(batch.x))
    return Residual(
        claimed - claimed[:1], scale=4 + np.abs(claimed), observed={"reported": claimed}
    )


@law(
    "map/finite[wide]",
    key="bijection/log-det-wide",
    about=VOLUME,
    tolerance=EXACT,
    effort=2,
    size=3,
    scales=NEARBY,
    rebuild="wide",
)
def log_det_wide(flow: Bijection, batch: Batch) -> Residual:
    """In several hundred dimensions the log-det is still finite wherever the value is: it is a
    sum of logarithms, not the logarithm of a product.

    Source: a determinant of 400 factors of 0.1 underflows, while its logarithm is -921.
    """
    # The graph of several hundred sequential steps takes gigabytes; solvers that differentiate
    # inside may need one.
    out, _ = attempt(flow.forward.under, batch.x, batch.context, how="no_grad")
    out = out or flow.forward.under(batch.x, batch.context)
    claimed = reported(flow, out, len(batch.x))
    ordinary = finite_rows(out.value) & (rows_max(batch.x) <= 16)
    return Residual(
        (~np.isfinite(claimed)).astype(float),
        decidable=ordinary,
        observed={"reported": claimed},
        note="the log-det is not finite in many dimensions",
    )
