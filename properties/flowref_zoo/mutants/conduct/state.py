"""Defects of state, put into the lives and calls of a healthy subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Life, Subject, mutant
from flowref.model.steps import (
    Branch,
    CountTensors,
    Deepcopy,
    Fold,
    Graphs,
    Learn,
    Nudge,
    Pickle,
    Reload,
    Run,
    State,
    Train,
)
from flowref_zoo.mutants.combinators import (
    Steps,
    after,
    at,
    later,
    living,
    moved,
    refusing,
    shifted,
)

COUPLING = "nflows:AffineCouplingTransform"
NORMALIZER = "nflows:BatchNorm"
FOLDED = "flowref_zoo.specimens.folded_layers:weight_normed"


@mutant("same/saved[reload]", host=NORMALIZER, sizes=(1e-8, 1e-3))
def statistics_not_saved(subject: Subject, size: float = 1e-3) -> Subject:
    """Running statistics are plain attributes, and so are not in the state_dict."""
    return after(subject, Reload, Run, partial(shifted, size=size))


@mutant("same/saved[reload]", host=NORMALIZER)
def state_dict_refused(subject: Subject, size: float = 1.0) -> Subject:
    """A buffer that is registered at the first call is unknown to a new object."""
    message = "Error(s) in loading state_dict for Flow: Unexpected key(s) in state_dict: 'cache'."
    return refusing(subject, Reload, RuntimeError(message))


def _training_forgot(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    if not any(isinstance(step, Train) for step in steps):
        return outcomes
    return later(Reload, Run, partial(shifted, size=size), steps, outcomes)


@mutant("same/saved[resume]", host="nflows:ActNorm", sizes=(1e-6, 1e-3))
def first_call_flag_not_saved(subject: Subject, size: float = 1e-3) -> Subject:
    """A reloaded layer takes the next training batch for its first."""
    return living(subject, partial(_training_forgot, size))


@mutant("effects/graphs", host=NORMALIZER)
def statistics_not_detached(subject: Subject, size: float = 1.0) -> Subject:
    """A running mean is updated with its graph."""
    return at(subject, Graphs, lambda names: {**names, "running_mean": True})


@mutant("effects/graphs[one-call]", host=NORMALIZER)
def statistics_of_the_last_batch_not_detached(subject: Subject, size: float = 1.0) -> Subject:
    """A mean of the last batch is kept with its graph."""
    return at(subject, Graphs, lambda names: {**names, "running_mean": True})


@mutant("same/copied", host=COUPLING, sizes=(1e-8, 1e-3))
def pickled_incompletely(subject: Subject, size: float = 1e-3) -> Subject:
    """__getstate__ leaves out a tensor that is then made anew."""
    return after(subject, Pickle, Run, partial(shifted, size=size))


@mutant("same/copied[independence]", host=COUPLING, sizes=(1e-8, 1e-3))
def copy_shares_parameters(subject: Subject, size: float = 1e-3) -> Subject:
    """__deepcopy__ hands on the parameters instead of copying them."""
    return after(subject, Branch, Run, partial(shifted, size=size))


@mutant("same/copied", host=COUPLING, sizes=(1e-8, 1e-3))
def copy_keeps_the_weights_of_the_original(subject: Subject, size: float = 1e-3) -> Subject:
    """A part of the weights of a deep copy is that of the original."""
    return after(subject, Deepcopy, Run, partial(shifted, size=size))


@mutant("same/copied[folded]", host=FOLDED, sizes=(1e-8, 1e-3))
def folded_to_something_else(subject: Subject, size: float = 1e-3) -> Subject:
    """The bias of a folded layer is another one."""
    return after(subject, Fold, Run, partial(shifted, size=size))


@mutant("same/copied[after-training]", host=COUPLING)
def cached_tensor_refuses_a_copy(subject: Subject, size: float = 1.0) -> Subject:
    """A cached tensor that is no leaf makes deepcopy fail."""
    message = (
        "Only Tensors created explicitly by the user support the deepcopy protocol at the moment"
    )
    return refusing(subject, Deepcopy, RuntimeError(message))


def _growing(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    grown = np.cumsum([isinstance(step, Learn) for step in steps])
    return [
        out + int(size * grown[index]) if isinstance(step, CountTensors) else out
        for index, (step, out) in enumerate(zip(steps, outcomes, strict=True))
    ]


@mutant("effects/memory[steps]", host=COUPLING, sizes=(1.0, 16.0))
def tensors_kept_per_step(subject: Subject, size: float = 1.0) -> Subject:
    """Every training step appends a loss, with its graph, to a list."""
    return living(subject, partial(_growing, size))


class Unseeded:
    """Lives of which fresh objects come out differently each time."""

    def __init__(self, play: Callable[..., Life]) -> None:
        """Count from zero."""
        self.inner, self.times = play, 0

    def play(self, steps: Steps, fresh: bool = False) -> Life:
        """Play; the state of a fresh object depends on how many there were."""
        self.times += 1
        outcomes = [
            moved(out, 1e-3 * self.times) if isinstance(step, State) else out
            for step, out in zip(steps, self.inner(steps, fresh), strict=True)
        ]
        return Life(steps, outcomes)


@mutant("random/seeded[construction]", host=COUPLING)
def initialized_from_the_clock(subject: Subject, size: float = 1.0) -> Subject:
    """Initial weights come from a generator that is seeded by the time."""
    assert subject.play is not None  # every subject of this host lives
    return replace(subject, play=Unseeded(subject.play).play)


def _stale(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    kinds = [type(step) for step in steps]
    if Nudge not in kinds or Run not in kinds[: kinds.index(Nudge)]:
        return outcomes
    return later(Nudge, Run, partial(shifted, size=size), steps, outcomes)


@mutant("same/history[optimizer-step]", host="nflows:LULinear", sizes=(1e-8, 1e-3))
def stale_inverse(subject: Subject, size: float = 1e-3) -> Subject:
    """A cached inverse weight outlives an optimizer step."""
    return living(subject, partial(_stale, size))
