"""Normalizers recognized by behaviour: facts of a user's module, completed by calls of copies."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from flowref.adapters.common.documentation import CLIPPED, documents
from flowref.adapters.common.normalizers.kinds import Behavior, by_name
from flowref.adapters.common.normalizers.parts import in_parts, undivided
from flowref.adapters.common.normalizers.probe import Probe
from flowref.adapters.common.normalizers.relatives import NormalizerCandidate, relative
from flowref.adapters.common.normalizers.roles import Layer
from flowref.adapters.common.normalizers.shapes import ANYWHERE, channel_counts, layouts
from flowref.adapters.common.normalizers.spellings import (
    KIND,
    excluded,
    has_statistics,
    is_normalizer,
    sample_roles,
)
from flowref.adapters.common.normalizers.torch_probe import named_tensors, value_alone
from flowref.model import (
    PARTS,
    RUNNING,
    SAMPLE,
    Dialect,
    Facts,
    Normalizer,
    Shape,
    TargetError,
)
from flowref.model.structure.forms import Form

# Entries above which only the name counts.
LARGE = 4096
# Maximal number of channels tried.
WIDEST = 512
# Tensors and submodules above which a module is no single layer.
TENSORS, MODULES = 10, 6
# Spread of the batch that shows whether a named object is no normalizer.
WIDER = 4.0


def plausible(obj: Any) -> bool:
    """Whether an object may be one normalizing layer: a module with few numbers, all per channel."""
    import torch

    if not isinstance(obj, torch.nn.Module):
        return False
    held = named_tensors(obj)
    if len(held) > TENSORS or sum(1 for _ in obj.modules()) > MODULES:
        return False
    # Embeddings of weights and biases, with a row per label.
    tables = {id(one.weight) for one in obj.modules() if isinstance(one, torch.nn.Embedding)}
    held = {name: one for name, one in held.items() if id(one) not in tables}
    sizes = [tuple(size for size in tensor.shape if size > 1) for tensor in held.values()]
    # One length per channel; two for statistics in one tensor.
    return all(len(size) <= 1 or (len(size) == 2 and 2 in size) for size in sizes) or all(
        size == sizes[0] for size in sizes
    )


def infer_shape(obj: Any, dialect: Dialect, dtype: Any, kind: str | None = None) -> Shape | None:
    """The first event shape at which a module normalizes, preferably all entries of its channels alike;
    None if there is none.
    """
    if excluded(obj, kind) or not plausible(obj) or dialect.log_prob is not None:
        return None
    known = Normalizer() if is_normalizer(obj) else None
    bare, second = replace(dialect, forward=value_alone), None
    for shape in shapes_of(obj):
        with contextlib.suppress(Exception):  # the shape does not fit
            seen = NormalizerCandidate(obj, bare, shape, dtype, known).seen
            if seen is not None and seen.exact:
                return shape
            second = second or (None if seen is None else shape)
    return second


def shapes_of(obj: Any) -> Iterator[Shape]:
    """Candidate event shapes: channels first, last, or alone; four channels if it holds none."""
    sizes = channel_counts(obj)
    for tensor in named_tensors(obj).values():
        sizes += [tensor.numel(), *(size for size in tensor.shape if size > 1)]
    counts = [size for size in dict.fromkeys(sizes) if 1 < size <= WIDEST]
    return layouts(counts or [4], ANYWHERE)


def completed(
    obj: Any, dialect: Dialect, facts: Facts, dtype: Any, kind: str | None = None, target: str = ""
) -> tuple[Facts, tuple[str, ...]]:
    """Facts completed by calls of a normalizer, and remarks; unchanged if it is none, or undetermined.
    Raises `TargetError` if ``kind`` declares a batch norm and calls show none.
    """
    shape, known = facts.event_shape, facts.normalizer
    if (
        excluded(obj, kind)
        or not shape
        or int(np.prod(shape)) > LARGE
        or facts.context_shape is not None
        or dialect.log_prob is not None
        or (known is None and not plausible(obj))
    ):
        return facts, ()
    case = NormalizerCandidate(obj, dialect, shape, dtype, known, declared=KIND in (kind or ""))
    try:
        found, (name, probe, seen) = relative(case), case.acting
    except Exception:  # reported by laws
        return facts, ()
    if case.declared and (shown := disproved(case, found)):
        raise TargetError(
            f"{target}: kind={KIND} was given, but {shown}. A batch norm subtracts the mean of each channel of a "
            "batch and divides by its standard deviation, or uses running averages that include the batch; leave kind out"
        )
    if found is not None or seen is None:
        normalizer, said = found or (known, "")
        batched = seen is not None and seen.statistics == "batch" and not seen.fixed
        if normalizer is None and batched and not has_statistics(obj):
            # Without running statistics, those of the batch are used in both modes.
            facts = replace(facts, promises={**facts.promises, "set": True})
        return replace(facts, normalizer=normalizer), (said,) if said else ()
    if case.declared and seen.statistics == RUNNING:
        known = None  # roles of a batch norm do not apply to other norms
    stated = replace(known or Normalizer(), call=name, tracks=has_statistics(obj))
    normalizer = measured_normalizer(probe, seen, stated)
    if seen.statistics in SAMPLE:
        meant = {"mean": True} if by_name(probe) else {}
        declared = {**normalizer.declared, **meant}
        normalizer = replace(normalizer, roles=sample_roles(obj), declared=declared)
    coupled = {"estimator": True, "batch-statistics": True}
    promises = {key: value for key, value in facts.promises.items() if key not in coupled}
    if normalizer.statistics == "batch" and not seen.fixed and not has_statistics(obj):
        promises |= coupled
    if documents(obj, CLIPPED):
        normalizer = replace(normalizer, declared={**normalizer.declared, "clipped": True})
    return replace(facts, normalizer=normalizer, promises=promises), (normalizer.evidence,)


def disproved(case: NormalizerCandidate, found: tuple[Normalizer | None, str] | None) -> str:
    """What calls show of a declared batch norm that is none; empty if it is one."""
    seen = case.seen
    if found is not None and found[0] is None:
        return found[1]
    if found is None and seen is not None and seen.statistics in SAMPLE:
        return seen.said
    if seen is not None or found is None or found[0] != case.known:
        return ""
    x = case.probe.draw(24, 24)
    one, wider = (case.probe.train(factor * x).std() for factor in (1.0, WIDER))
    if not one:
        return "in train mode it returns a constant"
    return f"in train mode a batch that is {WIDER:g} times as wide comes out {wider / one:.3g} times as wide"


def measured_normalizer(probe: Probe, seen: Behavior, known: Normalizer) -> Normalizer:
    """The facts of a normalizer by calls: what it normalizes over, and attributes by role, from calls first
    and then from names.
    """
    statistics, said, largest = seen.statistics, seen.said, 0
    if statistics == "batch" and (parts := in_parts(probe, seen.channel)) > 1:
        largest = undivided(probe, seen.channel)
        statistics, said = "batch" if largest else PARTS, f"{said} in parts, {parts} of 61 rows"
    normalizer = replace(
        known,
        statistics=statistics,
        channel=seen.channel,
        groups=seen.groups,
        spread=seen.spread,
        largest=largest,
        evidence=said,
    )
    layer = Layer(probe, seen.channel, seen.fixed)
    with contextlib.suppress(Exception):  # only laws on roles need these
        if statistics == "batch":
            roles, forms = layer.roles(known.roles)
            normalizer = replace(normalizer, roles=roles, forms=forms)
        elif statistics == RUNNING and "weight" in known.roles:
            form = layer.fixed_weight(known.roles["weight"])
            if form not in (None, Form()):
                normalizer = replace(normalizer, forms={**normalizer.forms, "weight": form})
    return normalizer
