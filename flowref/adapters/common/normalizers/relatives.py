"""Layers named batch norm, or acting as one when new, that are meant to be something else: a table on
names, documentation and calls, read from the top. Others are batch norms.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from flowref.adapters.common.documentation import BESIDE_THE_ROOT, documents
from flowref.adapters.common.normalizers.kinds import Behavior, behavior, forgets, other_spread
from flowref.adapters.common.normalizers.probe import (
    EVAL,
    STRAIGHT,
    TRAIN,
    WIDE,
    Probe,
    channel_lines,
    close_in_float32,
    counters,
    together,
)
from flowref.adapters.common.normalizers.spellings import classes, named_roles, normalizer_of
from flowref.adapters.common.normalizers.torch_probe import TorchProbe, value_alone
from flowref.model import RENORM, RUNNING, SAMPLE, Dialect, Normalizer, Shape

# Relative deviation from a line that indicates an activation.
BENT = 1e-3
# Batches after which a schedule has begun.
MANY = 64
# A larger spread, and the relative change of output spread that indicates no normalization.
LARGER, KEPT = 16.0, 0.01
# Spreads of batches: one for which eps is negligible, and two of its size.
SPREADS = (1e6, 1e-3, 1e-4)
# Class names of batch renormalization, running-average normalization, activations, whitening, and
# layers with a single map.
RENORMED, AVERAGED = r"(?i)renorm", r"(?i)moving|running|lag(?![a-z])"
ACTIVATION = r"Act(?![a-z])|Activ|ABN|ReLU|Relu|RELU|ELU|Elu|Swish|SiLU|Silu|GELU|Gelu|Tanh|Sigmoid"
WHITENING = r"(?i)decorrelat|whiten|zca|iter_?norm|group_?whit"
LAGGING = r"(?i)moving|running|lag"
FIXED = r"(?i)frozen|freeze|fixed|fold|fused|static|const|affine|eval|infer|test"


@dataclass(frozen=True)
class NormalizerCandidate:
    """A possible batch normalizer: its event shape, its calls, the normalizer implied by its name, and
    whether the user declared it.
    """

    obj: Any
    dialect: Dialect
    shape: Shape
    dtype: Any
    known: Normalizer | None
    declared: bool = False

    def called(self, call: Callable[..., Any] | None) -> Probe:
        """A probe of one of its calls."""
        return TorchProbe(self.obj, self.dtype, self.shape, call=call or value_alone)

    @cached_property
    def probe(self) -> Probe:
        """A probe of its map."""
        return self.called(self.dialect.forward)

    @cached_property
    def acting(self) -> tuple[str, Probe, Behavior | None]:
        """The call that normalizes, its probe and behaviour; the map if none does. Raises the exception of
        forward unless the inverse normalizes, in which case forward may need statistics first.
        """
        raised: Exception | None = None
        for name in ("forward", "inverse"):
            if (call := getattr(self.dialect, name)) is None:
                continue
            probe = self.called(call)
            try:
                probe.life((EVAL, probe.draw(0, 4, 1.0)))
                probe = probe.awake()
                seen = behavior(probe, self.known is not None)
            except Exception as error:  # the inverse may raise in train mode
                raised = error if name == "forward" else raised
                continue
            if seen is not None:
                return name, probe, seen
        if raised is not None:
            raise raised
        return "forward", self.probe, None

    @property
    def seen(self) -> Behavior | None:
        """Its normalizing behaviour, or None."""
        return self.acting[2]

    @property
    def normalizing(self) -> Probe:
        """A probe of the call that normalizes."""
        return self.acting[1]

    @cached_property
    def layer(self) -> bool:
        """Whether it is a layer of a flow, with an inverse or a log-det."""
        return self.dialect.inverse is not None or self.normalizing.offers_log_det()

    def named(self, pattern: str) -> bool:
        """Whether the name of one of its classes matches a pattern."""
        return re.search(pattern, " ".join(classes(self.obj))) is not None


class Relative(NamedTuple):
    """A row: its remark, with ``{}`` for the result of ``shows``; the cases that it applies to; the test by
    calls; the resulting normalizer, or None.
    """

    said: str
    when: Callable[[NormalizerCandidate], bool]
    shows: Callable[[NormalizerCandidate], bool | str] = lambda case: True
    becomes: Callable[[NormalizerCandidate], Normalizer | None] = lambda case: None


def relative(case: NormalizerCandidate) -> tuple[Normalizer | None, str] | None:
    """The normalizer and remark of the first matching row; None if no row matches, so that behaviour
    decides.
    """
    for row in RELATIVES:
        if not row.when(case):
            continue
        try:
            shown = row.shows(case)
        except Exception:  # exceptions are reported by laws
            continue
        if shown:
            return row.becomes(case), row.said.format(shown)
    return None


# Cases of rows.


def name_matches(pattern: str) -> Callable[[NormalizerCandidate], bool]:
    """Named so, among classes with the name of a batch norm or of their own."""
    return lambda case: (
        case.named(pattern)
        and (case.known is not None or re.search(RENORMED, type(case.obj).__name__) is not None)
    )


def shows_nothing(case: NormalizerCandidate) -> bool:
    """Named a batch norm, without normalizing."""
    return case.known is not None and case.seen is None


def standardizes(case: NormalizerCandidate) -> bool:
    """Standardizes batches."""
    return case.seen is not None and case.seen.statistics == "batch"


def misses(case: NormalizerCandidate) -> bool:
    """Named and meant as a batch norm, but with another behaviour: it normalizes samples while holding
    running statistics or another eval mode; or it normalizes by running averages, outside of a flow and
    without a declared kind.
    """
    seen, known = case.seen, case.known
    if known is None or seen is None:
        return False
    if seen.statistics == RUNNING:
        return not case.declared and not case.layer
    held = case.normalizing.held().values()
    kept = any(not one.trained and one.floating for one in held)
    return seen.statistics in SAMPLE and (kept or not seen.fixed)


# Tests by calls.


def remembers(case: NormalizerCandidate) -> bool:
    """Whether train mode maps a batch differently after other batches, or after many."""
    return not (forgets(case.probe) and forgets(case.probe, MANY))


def bends(case: NormalizerCandidate) -> bool:
    """Whether channels are nonlinear but monotone in their values, so that equal entries have equal
    outputs. Channels lie on the first or last event axis, whichever fits better.
    """
    x = case.probe.draw(17, 24)
    y = case.probe.train(x)
    off = min(channel_lines(x, y, (axis,)).off.max() for axis in {0, x.ndim - 2})
    return bool(off > BENT and np.isfinite(y).all())


def mixes(case: NormalizerCandidate) -> bool:
    """Whether the contents of one channel change the outputs of others."""
    x = case.probe.draw(18, 24)
    y, changed = case.probe.train(x), x.copy()
    wave = np.sin(np.arange(x[:, 0].size)).reshape(x[:, 0].shape)
    changed[:, 0] = changed[:, -1] + 0.3 * WIDE * wave
    return x.shape[1] > 1 and not close_in_float32(case.probe.train(changed)[:, 1:], y[:, 1:])


def lags(case: NormalizerCandidate) -> bool:
    """Whether a layer of a flow normalizes by averages of earlier batches: train mode maps a batch as eval
    mode did before it and not as afterwards; or it counts batches and depends on earlier ones.
    """
    probe = case.probe
    x = probe.draw(4, 9, 3.0) + 5
    (first,) = probe.life((EVAL, x))
    trained, after = probe.life((TRAIN, x), (EVAL, x))
    mixed = bool(counters(probe)) and not forgets(probe)
    return (
        case.layer
        and (mixed or close_in_float32(first, trained))
        and not close_in_float32(first, after)
    )


def centers(case: NormalizerCandidate) -> bool:
    """Whether train mode only centers, in a module with one statistic per channel; with two it would be a
    batch norm without its scaling.
    """
    probe = case.probe
    held = probe.held().values()
    kept = [one for one in held if not one.trained and one.size > 1 and one.floating]
    if len(kept) != 1 or kept[0].size not in probe.shape:
        return False
    x = probe.draw(22, 9)
    y, larger, higher = (probe.train(points) for points in (x, LARGER * x, x + 7.0))
    centered, wider = (each - each.mean(0) for each in (y, larger))
    return close_in_float32(higher, y) and bool(
        np.abs(wider - LARGER * centered).max() <= KEPT * np.abs(wider).max()
    )


def learns_more(case: NormalizerCandidate) -> str:
    """A further learned parameter besides weight and bias that makes channels nonlinear or removes the
    centering: new, it acts as a batch norm, but is meant for more. Empty if there is none.
    """
    probe, seen = case.normalizing, case.seen
    known = set(named_roles(probe.obj).values())
    learned = {name: one for name, one in probe.held().items() if one.trained}
    others = [name for name in learned if name not in known]
    if len(learned) < 3 or not others or seen is None:
        return ""
    live, rng = probe.obj, np.random.default_rng(15)
    for name in others:
        values = learned[name].values
        live = probe.having(live, name, values + 0.3 * rng.standard_normal(values.shape))
    x, away = probe.draw(16, 12), replace(probe, obj=live)
    plain, moved = (channel_lines(x, each.train(x), seen.apart).off.max() for each in (probe, away))
    standardized = together(probe) is not None
    more = plain < STRAIGHT < moved or (standardized and together(away) is None)
    return others[0] if more else ""


def beside_the_root(case: NormalizerCandidate) -> bool:
    """Whether narrow batches are divided by the standard deviation plus a constant, rather than by
    sqrt(variance + eps).
    """
    probe = case.normalizing
    z = probe.draw(23, 24)
    z = (z - z.mean(0)) / z.std(0)
    wide, *narrow = (np.ptp(probe.train(s * z), 0) / (s * np.ptp(z, 0)) for s in SPREADS)
    # The divisor is weight over slope, with the weight from a batch of huge spread.
    divisors = [wide * SPREADS[0] / one for one in narrow]
    additive = [one - s for one, s in zip(divisors, SPREADS[1:], strict=True)]
    within = [one**2 - s**2 for one, s in zip(divisors, SPREADS[1:], strict=True)]
    apart = [np.abs(two / one - 1).max() for one, two in (additive, within)]
    return bool(apart[0] < apart[1])


# Resulting normalizers.


def renormalizer(case: NormalizerCandidate) -> Normalizer:
    """The normalizer by its names, as batch renormalization."""
    return replace(normalizer_of(case.obj)[0], statistics=RENORM, evidence=RENORMALIZES)


def as_named(case: NormalizerCandidate) -> Normalizer | None:
    """The normalizer by its name, whatever calls show."""
    return case.known


def as_fixed(case: NormalizerCandidate) -> Normalizer | None:
    """The normalizer by its name, with a single map for both modes."""
    return case.known and replace(case.known, declared={**case.known.declared, "frozen": True})


RENORMALIZES = (
    "train mode corrects the statistics of a batch by averages of earlier ones: batch renormalization, and no "
    "batch norm"
)
RELATIVES = (
    Relative(RENORMALIZES, name_matches(RENORMED), remembers, renormalizer),
    Relative(
        "train mode normalizes by averages of earlier batches as well, as its name says: no batch norm",
        # In flows these names mean Real NVP's running averages.
        lambda case: name_matches(AVERAGED)(case) and not case.declared,
        lambda case: (
            case.dialect.inverse is None and not case.probe.offers_log_det() and remembers(case)
        ),
    ),
    Relative(
        "what it normalizes goes through an activation, as its name says: no batch norm by itself",
        name_matches(ACTIVATION),
        bends,
    ),
    Relative(
        "train mode whitens channels together, as its name says: no batch norm",
        name_matches(WHITENING),
        mixes,
    ),
    Relative(
        "train mode normalizes by averages of earlier batches: a layer with state, and no batch norm",
        lambda case: shows_nothing(case) and case.named(LAGGING),
        lags,
    ),
    Relative(
        "train mode removes the mean of a batch and keeps its spread: no batch norm",
        shows_nothing,
        centers,
    ),
    Relative("", shows_nothing, lambda case: case.named(FIXED), as_fixed),
    Relative("", lambda case: case.seen is None or misses(case), becomes=as_named),
    Relative(
        "train mode divides by the {} of a batch, and not by its standard deviation: no batch norm",
        lambda case: case.known is not None and standardizes(case),
        lambda case: other_spread(case.normalizing, case.seen) if case.seen else "",
    ),
    Relative(
        "train mode normalizes each batch as built, and {} makes it more than that: no batch norm by itself",
        standardizes,
        learns_more,
    ),
    Relative(
        "train mode divides by a deviation plus eps, as its documentation says: no batch norm",
        lambda case: (
            case.seen is not None
            and case.seen.statistics not in SAMPLE
            and documents(case.obj, BESIDE_THE_ROOT)
        ),
        beside_the_root,
    ),
)
