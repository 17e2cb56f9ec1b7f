"""What is called a batch norm, or acts as one when it is new, and is meant to be something else: a table of what
its name, its documentation and calls of it show, read from the top. What only bears such a name, and does what
batch norm does, is one.
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

# How far from a line, relative to it, what an activation gives is.
BENT = 1e-3
# Batches after which a schedule has begun.
MANY = 64
# A spread that is larger, and how much larger that of an output which leaves it is.
LARGER, KEPT = 16.0, 0.01
# Spreads of batches: one beside which no eps counts, and two of the size of one.
SPREADS = (1e6, 1e-3, 1e-4)
# How classes are called: of batch renormalization; of averages that a batch has entered; of activations; of
# whitening; of what is one map in both modes.
RENORMED, AVERAGED = r"(?i)renorm", r"(?i)moving|running|lag(?![a-z])"
ACTIVATION = r"Act(?![a-z])|Activ|ABN|ReLU|Relu|RELU|ELU|Elu|Swish|SiLU|Silu|GELU|Gelu|Tanh|Sigmoid"
WHITENING = r"(?i)decorrelat|whiten|zca|iter_?norm|group_?whit"
LAGGING = r"(?i)moving|running|lag"
FIXED = r"(?i)frozen|freeze|fixed|fold|fused|static|const|affine|eval|infer|test"


@dataclass(frozen=True)
class NormalizerCandidate:
    """A module that may be a batch normalizer of events of a shape: how it is called, the normalizer that it is by
    its name, and whether its user says so.
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
        """The call that normalizes, a probe of it, and how it does; its map, where none does. Raises what forward
        raises, unless the way back normalizes: then forward may want its statistics first.
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
            except Exception as error:  # the way back may be refused in train mode
                raised = error if name == "forward" else raised
                continue
            if seen is not None:
                return name, probe, seen
        if raised is not None:
            raise raised
        return "forward", self.probe, None

    @property
    def seen(self) -> Behavior | None:
        """How it normalizes."""
        return self.acting[2]

    @property
    def normalizing(self) -> Probe:
        """A probe of the call that normalizes."""
        return self.acting[1]

    @cached_property
    def layer(self) -> bool:
        """Whether it is a layer of a flow, which has a way back or a log-det."""
        return self.dialect.inverse is not None or self.normalizing.offers_log_det()

    def named(self, pattern: str) -> bool:
        """Whether a class of it is called so."""
        return re.search(pattern, " ".join(classes(self.obj))) is not None


class Relative(NamedTuple):
    """A row: what is said, ``{}`` for what ``shows`` returns; of which cases it speaks; whether calls show it;
    what the normalizer is then, None for none.
    """

    said: str
    when: Callable[[NormalizerCandidate], bool]
    shows: Callable[[NormalizerCandidate], bool | str] = lambda case: True
    becomes: Callable[[NormalizerCandidate], Normalizer | None] = lambda case: None


def relative(case: NormalizerCandidate) -> tuple[Normalizer | None, str] | None:
    """The normalizer that an object is for the first row that speaks of it, and what is said; None where none does,
    so that it is what calls show.
    """
    for row in RELATIVES:
        if not row.when(case):
            continue
        try:
            shown = row.shows(case)
        except Exception:  # what it raises is the laws' affair
            continue
        if shown:
            return row.becomes(case), row.said.format(shown)
    return None


# Of which cases a row speaks.


def name_matches(pattern: str) -> Callable[[NormalizerCandidate], bool]:
    """What is called so, of what is called a batch norm or says itself what it is."""
    return lambda case: (
        case.named(pattern)
        and (case.known is not None or re.search(RENORMED, type(case.obj).__name__) is not None)
    )


def shows_nothing(case: NormalizerCandidate) -> bool:
    """What is called a batch norm, and does not normalize."""
    return case.known is not None and case.seen is None


def standardizes(case: NormalizerCandidate) -> bool:
    """What standardizes batches."""
    return case.seen is not None and case.seen.statistics == "batch"


def misses(case: NormalizerCandidate) -> bool:
    """What is called a batch normalizer and is meant to be one, though it does something else: normalizes samples,
    where it holds numbers for statistics or has another eval mode; normalizes by running averages, where it
    is no layer of a flow and nobody names its kind.
    """
    seen, known = case.seen, case.known
    if known is None or seen is None:
        return False
    if seen.statistics == RUNNING:
        return not case.declared and not case.layer
    held = case.normalizing.held().values()
    kept = any(not one.trained and one.floating for one in held)
    return seen.statistics in SAMPLE and (kept or not seen.fixed)


# What calls show.


def remembers(case: NormalizerCandidate) -> bool:
    """Whether train mode maps a batch to something else after others, or after many of them."""
    return not (forgets(case.probe) and forgets(case.probe, MANY))


def bends(case: NormalizerCandidate) -> bool:
    """Whether a channel of the output is no line in the input, though it keeps the order of its values:
    whether entries alike are mapped alike is seen entry by entry. Channels lie on the first axis of an event
    or on the last, whichever comes nearer.
    """
    x = case.probe.draw(17, 24)
    y = case.probe.train(x)
    off = min(channel_lines(x, y, (axis,)).off.max() for axis in {0, x.ndim - 2})
    return bool(off > BENT and np.isfinite(y).all())


def mixes(case: NormalizerCandidate) -> bool:
    """Whether other content of one channel changes the outputs of the others."""
    x = case.probe.draw(18, 24)
    y, changed = case.probe.train(x), x.copy()
    wave = np.sin(np.arange(x[:, 0].size)).reshape(x[:, 0].shape)
    changed[:, 0] = changed[:, -1] + 0.3 * WIDE * wave
    return x.shape[1] > 1 and not close_in_float32(case.probe.train(changed)[:, 1:], y[:, 1:])


def lags(case: NormalizerCandidate) -> bool:
    """Whether a layer of a flow normalizes by the averages of earlier batches: train mode maps a batch as eval
    mode does before it, and eval mode maps it otherwise afterwards; or it counts batches, and train mode maps one
    to something else after others.
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
    """Whether train mode takes away the mean of a batch and leaves its spread, of a module that keeps one
    statistic of each channel: one that kept two would have forgotten the other.
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
    """What else an object learns beside a weight and a bias, where moving that alone makes a channel no
    line in the input, or has nothing taken away as a batch norm does: as built it normalizes batches, and it is meant
    for more. Empty where it does not, or where it learns no more than two things.
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
    """Whether a narrow batch is divided by its deviation plus a constant, and by no root of its variance plus one."""
    probe = case.normalizing
    z = probe.draw(23, 24)
    z = (z - z.mean(0)) / z.std(0)
    wide, *narrow = (np.ptp(probe.train(s * z), 0) / (s * np.ptp(z, 0)) for s in SPREADS)
    # What is divided by is the weight over the slope, and the weight that of a batch beside which no constant counts.
    divisors = [wide * SPREADS[0] / one for one in narrow]
    beside = [one - s for one, s in zip(divisors, SPREADS[1:], strict=True)]
    within = [one**2 - s**2 for one, s in zip(divisors, SPREADS[1:], strict=True)]
    apart = [np.abs(two / one - 1).max() for one, two in (beside, within)]
    return bool(apart[0] < apart[1])


# What it is then.


def renormalizer(case: NormalizerCandidate) -> Normalizer:
    """What its names tell, judged as batch renormalization."""
    return replace(normalizer_of(case.obj)[0], statistics=RENORM, evidence=RENORMALIZES)


def as_named(case: NormalizerCandidate) -> Normalizer | None:
    """What its name says, whatever calls show."""
    return case.known


def as_fixed(case: NormalizerCandidate) -> Normalizer | None:
    """The same, of one map in both modes."""
    return case.known and replace(case.known, declared={**case.known.declared, "frozen": True})


RENORMALIZES = (
    "train mode corrects the statistics of a batch by averages of earlier ones: batch renormalization, and no "
    "batch norm"
)
RELATIVES = (
    Relative(RENORMALIZES, name_matches(RENORMED), remembers, renormalizer),
    Relative(
        "train mode normalizes by averages of earlier batches as well, as its name says: no batch norm",
        # In layers of flows these are what Real NVP means.
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
        "train mode takes away the mean of a batch and leaves its spread: no batch norm",
        shows_nothing,
        centers,
    ),
    Relative("", shows_nothing, lambda case: case.named(FIXED), as_fixed),
    Relative("", lambda case: case.seen is None or misses(case), becomes=as_named),
    Relative(
        "train mode divides by the {} of a batch, and not by its deviation: no batch norm",
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
