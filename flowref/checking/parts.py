"""The first part of a composite that violates the same law."""

from __future__ import annotations

from dataclasses import replace

from flowref import loading
from flowref.checking.applicability import not_applicable
from flowref.checking.measurement import Measurement, measure
from flowref.checking.settings import Settings
from flowref.checking.tolerance import CONFIRM_REPLICAS, judge
from flowref.model import Batch, Subject, Target

# The law was measured on the composite, so no profile excludes its parts.
ANY_COST = Settings("thorough")


def offending_part(target: Target, measurement: Measurement) -> str:
    """Return the first part that violates the law at the input with which it is reached, as text;
    empty if there is none.
    """
    whole, law = measurement.subject, measurement.law
    try:
        reached = _reached(whole, measurement.batch)
    except Exception:  # the parts cannot be run one by one
        return ""
    for index, batch in enumerate(reached):
        condition = replace(measurement.condition, part=(index,))
        try:
            loaded = loading.load(target, condition)
            part = loaded.with_facts(
                event_shape=batch.x.shape[1:], latent_shape=loaded.latent_shape
            )
            if not_applicable(law, part, ANY_COST) is not None:
                continue
            alone = replace(
                measurement,
                subject=part,
                batch=batch,
                residual=measure(law, part, batch),
                condition=condition,
            )
            judgement = judge(alone, CONFIRM_REPLICAS)
        except Exception:  # this part cannot be judged alone
            continue
        if judgement.violates:
            return f"part {index + 1} of {len(whole.parts)} ({whole.parts[index]})"
    return ""


def _reached(whole: Subject, batch: Batch) -> list[Batch]:
    """The batch that enters each part."""
    reached, x = [], batch.x
    for part in whole.part_maps:
        reached.append(batch._replace(x=x))
        x = part(x, batch.context).value
    return reached
