"""Normalizers are recognized by what they do: the facts of a user's module, completed by calls of
copies.
"""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from flowref.adapters.common import batch_norm_shapes, batch_norms
from flowref.adapters.common.documentation import BESIDE_THE_ROOT, CLIPPED, documents
from flowref.adapters.common.normalizer_calls import Played, awake, near, tensors
from flowref.adapters.common.normalizer_kin import RENORM as RENORMED
from flowref.adapters.common.normalizer_kin import RENORMALIZES, kin
from flowref.adapters.common.normalizer_kinds import (
    Behavior,
    behavior,
    by_name,
    forgets,
    further,
    other_spread,
    plausible,
)
from flowref.adapters.common.normalizer_parts import in_parts, takes_mean_alone, undivided
from flowref.adapters.common.normalizer_roles import (
    constants,
    found,
    fraction,
    modulated,
    weight_of_fixed,
)
from flowref.model import PARTS, RENORM, RUNNING, SAMPLE, Array, Dialect, Facts, Normalizer, Shape
from flowref.model.structure.forms import Form

# More entries than this are not probed: a recognized name must do.
LARGE = 4096
# More channels than this are not tried.
WIDEST = 512
# What the weight of what normalizes samples may be called beside what it is elsewhere.
GAINS = ("gain", "g", "a_2")
# How layers are called that are one map in both modes.
FIXED = (
    "frozen",
    "freeze",
    "fixed",
    "fold",
    "fused",
    "static",
    "const",
    "affine",
    "eval",
    "infer",
    "test",
)
# Spreads of batches: one beside which no eps counts, and two of the size of one.
SPREADS = (1e6, 1e-3, 1e-4)
# How layers are called that normalize by what came before, and what is said of them.
LAGGING = ("moving", "running", "lag")
BEHIND = (
    "train mode normalizes by averages of earlier batches: a layer with state, and no batch norm"
)
MORE = "train mode normalizes each batch as built, and {} makes it more than that: no batch norm by itself"
BESIDE = "train mode divides by a deviation plus eps, as its documentation says: no batch norm"
CENTERS = "train mode takes away the mean of a batch and leaves its spread: no batch norm"


def beside_the_root(played: Played) -> bool:
    """Whether a narrow batch is divided by its deviation plus a constant, and by no root of its variance plus one."""
    z = played.draw(23, 24)
    z = (z - z.mean(0)) / z.std(0)
    wide, *narrow = (np.ptp(played.train(s * z), 0) / (s * np.ptp(z, 0)) for s in SPREADS)
    # What is divided by is the weight over the slope, and the weight that of a batch beside which no constant counts.
    divisors = [wide * SPREADS[0] / one for one in narrow]
    beside = [one - s for one, s in zip(divisors, SPREADS[1:], strict=True)]
    within = [one**2 - s**2 for one, s in zip(divisors, SPREADS[1:], strict=True)]
    apart = [np.abs(two / one - 1).max() for one, two in (beside, within)]
    return bool(apart[0] < apart[1])


def excluded(obj: Any, kind: str | None) -> bool:
    """Whether it was said that an object is something else."""
    own = getattr(obj, "kind", None)
    said = kind if kind is not None else own if isinstance(own, str) else ""
    return bool(said) and batch_norms.KIND not in said and said in batch_norms.KINDS


def infer_shape(obj: Any, dialect: Dialect, dtype: Any, kind: str | None = None) -> Shape | None:
    """The first event shape at which a module acts as a normalizer, or None where it never does:
    one at which it normalizes every entry of its channels alike, if there is any.
    """
    if excluded(obj, kind) or not plausible(obj) or dialect.log_prob is not None:
        return None
    named = batch_norms.is_normalizer(obj)
    bare, second = replace(dialect, forward=value_alone), None
    for shape in shapes(obj):
        with contextlib.suppress(Exception):  # the shape does not fit
            acts = acting(obj, bare, shape, dtype, named)
            if acts is not None and acts[2].exact:
                return shape
            second = second or (None if acts is None else shape)
    return second


def value_alone(obj: Any, x: Any, context: Any) -> Any:
    """What forward returns, without what it returns beside it."""
    out = (obj if callable(obj) else obj.forward)(x)
    return (out[0] if isinstance(out, (tuple, list)) else out), None


def shapes(obj: Any) -> Iterator[Shape]:
    """Event shapes that a normalizer may take: its channels first, last, or alone; four, where it
    holds nothing per channel.
    """
    sizes = batch_norm_shapes.channels(obj)
    for tensor in tensors(obj).values():
        sizes += [tensor.numel(), *(size for size in tensor.shape if size > 1)]
    counts = [size for size in dict.fromkeys(sizes) if 1 < size <= WIDEST]
    for count in counts or [4]:
        one, two = [side for side in (2, 3, 4) if side != count][:2]
        yield from ((count, one, two), (count, two), (one, two, count), (two, count), (count,))


def acting(
    obj: Any, dialect: Dialect, shape: Shape, dtype: Any, named: bool
) -> tuple[str, Played, Behavior] | None:
    """The call that normalizes, and how; None where none does. Raises what forward raises, unless
    the way back normalizes: then forward may want its statistics first.
    """
    raised: Exception | None = None
    for name in ("forward", "inverse"):
        call = getattr(dialect, name)
        if call is None:
            continue
        played = Played(obj, call, dtype, shape)
        try:
            played.life((False, played.draw(0, 4, 1.0)))
            played = awake(played)
            seen = behavior(played, named)
        except Exception as error:
            if name == "inverse":  # it may be refused in train mode
                break
            raised = error
            continue
        if seen is not None:
            return name, played, seen
    if raised is not None:
        raise raised
    return None


def completed(
    obj: Any, dialect: Dialect, facts: Facts, dtype: Any, kind: str | None = None
) -> tuple[Facts, tuple[str, ...]]:
    """Facts with what calls show of a normalizer, and sentences that say so; as they were where it
    is none, or where that cannot be told.
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
    named = known is not None or re.search(RENORMED, type(obj).__name__)
    if named and (said := kin(obj, dialect, shape, dtype)):
        own = None
        if said == RENORMALIZES:
            own, _ = batch_norms.normalizer_of(obj)
            own = replace(own, statistics=RENORM, evidence=said)
        return replace(facts, normalizer=own), (said,)
    try:
        acts = acting(obj, dialect, shape, dtype, known is not None)
    except Exception:  # laws run into it, and say so
        return facts, ()
    if acts is None:
        if known is not None and behind(obj, dialect, shape, dtype):
            return replace(facts, normalizer=None), (BEHIND,)
        if known is not None and centers(obj, dialect, shape, dtype):
            return replace(facts, normalizer=None), (CENTERS,)
        if known is not None and frozen(obj):
            declared = {**known.declared, "frozen": True}
            return replace(facts, normalizer=replace(known, declared=declared)), ()
        return facts, ()
    name, played, seen = acts
    if known is not None and near_miss(played, dialect, seen):
        return facts, ()
    if known is not None and seen.statistics == "batch" and (other := other_spread(played, seen)):
        said = (
            f"train mode divides by the {other} of a batch, and not by its deviation: no batch norm"
        )
        return replace(facts, normalizer=None), (said,)
    if seen.statistics == "batch" and (name_of := more_than(played, seen)):
        return replace(facts, normalizer=None), (MORE.format(name_of),)
    largest = 0
    if seen.statistics == "batch" and (parts := in_parts(played, seen.channel)) > 1:
        largest = undivided(played, seen.channel)
        said = f"{seen.said} in parts, {parts} of 61 rows"
        seen = seen._replace(statistics=PARTS if not largest else "batch", said=said)
    if (
        seen.statistics not in SAMPLE
        and documents(obj, BESIDE_THE_ROOT)
        and beside_the_root(played)
    ):
        return replace(facts, normalizer=None), (BESIDE,)
    normalizer = replace(
        known or Normalizer(),
        call=name,
        statistics=seen.statistics,
        channel=seen.channel,
        groups=seen.groups,
        spread=seen.spread,
        largest=largest,
        tracks=batch_norms.has_statistics(obj),
        evidence=seen.said,
    )
    if seen.statistics == "batch":
        with contextlib.suppress(Exception):  # roles are for laws that ask for them
            normalizer = with_roles(played, seen, normalizer)
    elif seen.statistics == RUNNING and "weight" in normalizer.roles:
        with contextlib.suppress(Exception):
            form = weight_of_fixed(played, seen.channel, normalizer.roles["weight"])
            if form not in (None, Form()):
                normalizer = replace(normalizer, forms={**normalizer.forms, "weight": form})
    elif seen.statistics in SAMPLE:
        meant = {"mean": True} if by_name(played) else {}
        declared = {**normalizer.declared, **meant}
        normalizer = replace(normalizer, roles=of_samples(obj), declared=declared)
    coupled = {"estimator": True, "batch-statistics": True}
    promises = {key: value for key, value in facts.promises.items() if key not in coupled}
    if seen.statistics == "batch" and not seen.fixed and not batch_norms.has_statistics(obj):
        promises |= coupled
    if documents(obj, CLIPPED):
        normalizer = replace(normalizer, declared={**normalizer.declared, "clipped": True})
    return replace(facts, normalizer=normalizer, promises=promises), (seen.said,)


def of_samples(obj: Any) -> dict[str, str]:
    """The weight and the bias of what normalizes samples, by their names."""
    named = {
        role: path for role, path in batch_norms.roles(obj).items() if role in ("weight", "bias")
    }
    others = [name for name in GAINS if getattr(getattr(obj, name, None), "requires_grad", False)]
    return {"weight": others[0], **named} if others else named


def near_miss(played: Played, dialect: Dialect, seen: Behavior) -> bool:
    """Whether an object that is called a batch normalizer is meant to be one, though it does something
    else: to normalize samples, where it holds numbers for statistics or has another eval mode; to
    normalize by running averages, where it is no layer of a flow.
    """
    if seen.statistics == RUNNING:
        return dialect.inverse is None and not offers_log_det(played)
    if seen.statistics not in SAMPLE:
        return False
    held = tensors(played.obj).values()
    kept = [one for one in held if not one.requires_grad and one.is_floating_point()]
    return bool(kept) or not seen.fixed


def frozen(obj: Any) -> bool:
    """Whether the class of an object, or a base of it, says that its map is fixed."""
    names = [base.__name__.casefold() for base in type(obj).__mro__]
    return any(word in name for name in names for word in FIXED)


def centers(obj: Any, dialect: Dialect, shape: Shape, dtype: Any) -> bool:
    """Whether it takes away the mean of a batch alone, on purpose."""
    if dialect.forward is None:
        return False
    try:
        return takes_mean_alone(Played(obj, dialect.forward, dtype, shape))
    except Exception:  # what it raises is the laws' affair
        return False


def more_than(played: Played, seen: Behavior) -> str:
    """What it learns beside weight and bias that makes it no batch norm; empty where there is none."""
    try:
        return further(played, seen, set(batch_norms.roles(played.obj).values()))
    except Exception:  # what it raises is the laws' affair
        return ""


def behind(obj: Any, dialect: Dialect, shape: Shape, dtype: Any) -> bool:
    """Whether a layer of a flow that calls itself moving or running normalizes by the averages of
    earlier batches: train mode maps a batch as eval mode does before it, and eval mode maps it
    otherwise afterwards; or it counts batches, and train mode maps one to something else after others.
    """
    names = [base.__name__.casefold() for base in type(obj).__mro__]
    if dialect.forward is None or not any(word in name for name in names for word in LAGGING):
        return False
    played = Played(obj, dialect.forward, dtype, shape)
    x = played.draw(4, 9, 3.0) + 5
    try:
        (first,) = played.life((False, x))
        trained, after = played.life((True, x), (False, x))
        layer = dialect.inverse is not None or offers_log_det(played)
        mixed = counting(played, x) and not forgets(played)
    except Exception:  # what it raises is the laws' affair
        return False
    return layer and (mixed or near(first, trained)) and not near(first, after)


def counting(played: Played, x: Array) -> bool:
    """Whether an object holds a number that each batch in train mode makes greater by one."""
    before, after = played.held(), played.held(played.after(x))
    return any(
        one.size == 1 and not one.trained and np.all(after[name].values - one.values == 1)
        for name, one in before.items()
        if name in after
    )


def offers_log_det(played: Played) -> bool:
    """Whether the call that normalizes gives a log-det."""
    import torch

    x = torch.as_tensor(played.draw(0, 3, 1.0), dtype=played.dtype)
    with torch.no_grad():
        return played.call(copy.deepcopy(played.obj), x, None)[1] is not None


def with_roles(played: Played, seen: Behavior, normalizer: Normalizer) -> Normalizer:
    """A normalizer with the attributes that play its roles: those that calls show, then the
    constants by their names.
    """
    tracks = seen.fixed
    roles, forms, measured = found(played, seen.channel, tracks)
    shared = modulated(played, seen.channel, tracks, measured)
    roles = {role: path for role, path in roles.items() if role not in shared}
    forms = {role: form for role, form in forms.items() if role in roles}
    # A name counts where calls tell nothing else of the role or of the attribute.
    named = {
        role: path
        for role, path in normalizer.roles.items()
        if path not in roles.values() and role not in shared
    }
    if tracks:
        rate = fraction(played, seen.channel)
        named = constants(played, seen.channel, measured, rate) | named
    return replace(normalizer, roles={**named, **roles}, forms=forms)
