"""Defects of mode and state, put into the lives and calls of a healthy subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.laws.common.defects import (
    Remade,
    Steps,
    at,
    living,
    mannered,
    moved,
    refusing,
    shifted,
)
from flowref.model import Life, Manner, Mapped, Subject, mutant
from flowref.model.steps import (
    CountTensors,
    Deepcopy,
    Eval,
    Graphs,
    Learn,
    Nudge,
    Pickle,
    Reload,
    Run,
    State,
    Step,
    Train,
)

COUPLING = "nflows:AffineCouplingTransform"
NORMALIZER = "nflows:BatchNorm"


def after(kind: type[Step[Any]], size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    """Shift the outcome of every call that comes after a step of a kind."""
    late, changed = False, []
    for step, out in zip(steps, outcomes, strict=True):
        changed.append(shifted(out, size) if late and isinstance(step, Run) else out)
        late |= isinstance(step, kind)
    return changed


@mutant("mode/protocol", host=COUPLING)
def eval_returns_nothing(subject: Subject, size: float = 1.0) -> Subject:
    """An overridden eval() forgets to return the module."""
    return at(subject, Eval, lambda change: replace(change, returned_self=False))


@mutant("mode/protocol", host=COUPLING)
def eval_misses_a_part(subject: Subject, size: float = 1.0) -> Subject:
    """A submodule kept in a plain list stays in train mode after eval()."""
    return at(subject, Eval, lambda change: replace(change, recursed=False))


@mutant("mode/protocol", host=COUPLING)
def train_shadowed(subject: Subject, size: float = 1.0) -> Subject:
    """A flag named ``train`` hides the method of that name."""
    return refusing(subject, Train, TypeError("'bool' object is not callable"))


def _without_gradients(
    size: float, call: Remade, name: str, inputs: tuple[Any, ...], manner: Manner
) -> Mapped:
    out = call(inputs, manner)
    return shifted(out, size) if manner.how in ("no_grad", "inference_mode") else out


@mutant("mode/grad-modes-agree", host=COUPLING, sizes=(1e-6, 1e-3))
def mode_is_gradient_recording(subject: Subject, size: float = 1e-3) -> Subject:
    """Whether gradients are recorded decides which statistics are used
    (``mode = torch.is_grad_enabled()``).
    """
    return mannered(subject, partial(_without_gradients, size))


def _bare(step: Step[Any]) -> bool:
    return isinstance(step, Run) and step.how == "no_grad"


def _bare_training(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    return [
        shifted(out, size) if _bare(step) else out
        for step, out in zip(steps, outcomes, strict=True)
    ]


@mutant("mode/train-ignores-grad-mode", host=NORMALIZER, sizes=(1e-6, 1e-3))
def no_training_without_gradients(subject: Subject, size: float = 1e-3) -> Subject:
    """A train-mode pass under no_grad uses the running statistics."""
    return living(subject, partial(_bare_training, size))


def _frozen_statistics(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    bare = any(map(_bare, steps))
    return [
        moved(out, size) if bare and isinstance(step, State) else out
        for step, out in zip(steps, outcomes, strict=True)
    ]


@mutant("mode/train-ignores-grad-mode", host=NORMALIZER, sizes=(1e-6, 1e-3))
def no_update_without_gradients(subject: Subject, size: float = 1e-3) -> Subject:
    """A train-mode pass under no_grad updates the running statistics differently."""
    return living(subject, partial(_frozen_statistics, size))


def _turned(
    inverse: Callable[..., Mapped], call: Remade, name: str, inputs: tuple[Any, ...], manner: Manner
) -> Mapped:
    if manner.how == "train" and name == "forward":
        return inverse(*inputs)
    return call(inputs, manner)


@mutant("mode/not-a-direction", host=COUPLING)
def train_is_a_direction(subject: Subject, size: float = 1.0) -> Subject:
    """The training flag chooses the direction."""
    return mannered(subject, partial(_turned, subject.calls["inverse"]))


def _written(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    called, changed = False, []
    for step, out in zip(steps, outcomes, strict=True):
        changed.append(moved(out, size) if called and isinstance(step, State) else out)
        called |= isinstance(step, Run)
    return changed


@mutant("mode/eval-is-pure", host=NORMALIZER, sizes=(1e-12, 1e-3))
def statistics_move_in_eval(subject: Subject, size: float = 1e-3) -> Subject:
    """Running statistics are updated during validation."""
    return living(subject, partial(_written, size))


@mutant("mode/first-call-in-eval", host=NORMALIZER, sizes=(1e-12, 1e-3))
def initialized_by_validation(subject: Subject, size: float = 1e-3) -> Subject:
    """The first batch initializes the layer, whatever the mode."""
    return living(subject, partial(_written, size))


def _coupled(
    size: float, call: Remade, name: str, inputs: tuple[Any, ...], manner: Manner
) -> Mapped:
    mean = float(np.nanmean(np.clip(inputs[0], -10.0, 10.0)))
    return shifted(call(inputs, manner), size * mean)


@mutant("mode/rows-independent", host=COUPLING, sizes=(1e-8, 1e-3))
def batch_statistics_in_eval(subject: Subject, size: float = 1e-3) -> Subject:
    """The mean of the batch enters every point."""
    return mannered(subject, partial(_coupled, size))


def _summed(call: Remade, name: str, inputs: tuple[Any, ...], manner: Manner) -> Mapped:
    out = call(inputs, manner)
    return out if out.ladj is None else Mapped(out.value, float(np.sum(out.ladj)))


@mutant("mode/rows-independent", host=COUPLING)
def log_det_summed_over_batch(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det is summed over the batch as well as over the event."""
    return mannered(subject, _summed)


@mutant("state/reload-equals", host=NORMALIZER, sizes=(1e-8, 1e-3))
def statistics_not_saved(subject: Subject, size: float = 1e-3) -> Subject:
    """Running statistics are plain attributes, and so are not in the state_dict."""
    return living(subject, partial(after, Reload, size))


@mutant("state/reload-equals", host=NORMALIZER)
def state_dict_refused(subject: Subject, size: float = 1.0) -> Subject:
    """A buffer that is registered at the first call is unknown to a new object."""
    message = "Error(s) in loading state_dict for Flow: Unexpected key(s) in state_dict: 'cache'."
    return refusing(subject, Reload, RuntimeError(message))


def _training_forgot(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    trains = any(isinstance(step, Train) for step in steps)
    return after(Reload, size, steps, outcomes) if trains else outcomes


@mutant("state/resume-equals-continue", host="nflows:ActNorm", sizes=(1e-6, 1e-3))
def first_call_flag_not_saved(subject: Subject, size: float = 1e-3) -> Subject:
    """A reloaded layer takes the next training batch for its first."""
    return living(subject, partial(_training_forgot, size))


@mutant("state/no-graph-in-buffers", host=NORMALIZER)
def statistics_not_detached(subject: Subject, size: float = 1.0) -> Subject:
    """A running mean is updated with its graph."""
    return at(subject, Graphs, lambda names: {**names, "running_mean": True})


@mutant("state/copies-equal", host=COUPLING, sizes=(1e-8, 1e-3))
def pickled_incompletely(subject: Subject, size: float = 1e-3) -> Subject:
    """__getstate__ leaves out a tensor that is then made anew."""
    return living(subject, partial(after, Pickle, size))


class Shared:
    """How far an object that is never copied has moved with its copies."""

    def __init__(self, size: float) -> None:
        """Start where the subject is."""
        self.size, self.offset = size, 0.0

    def nudged(self, steps: Steps, outcomes: list[Any]) -> list[Any]:
        """Move the original along with a copy."""
        self.offset += self.size * sum(isinstance(step, Nudge) for step in steps)
        return outcomes

    def answer(self, call: Remade, name: str, inputs: tuple[Any, ...], manner: Manner) -> Mapped:
        """A call of the original."""
        return shifted(call(inputs, manner), self.offset)


@mutant("state/copies-independent", host=COUPLING, sizes=(1e-8, 1e-3))
def copy_shares_parameters(subject: Subject, size: float = 1e-3) -> Subject:
    """__deepcopy__ hands on the parameters instead of copying them."""
    shared = Shared(size)
    return mannered(living(subject, shared.nudged), shared.answer)


@mutant("state/can-be-copied", host=COUPLING)
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


@mutant("state/memory-flat", host=COUPLING, sizes=(1.0, 16.0))
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


@mutant("state/seeded-init", host=COUPLING)
def initialized_from_the_clock(subject: Subject, size: float = 1.0) -> Subject:
    """Initial weights come from a generator that is seeded by the time."""
    assert subject.play is not None  # every subject of this host lives
    return replace(subject, play=Unseeded(subject.play).play)


def _stale(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    kinds = [type(step) for step in steps]
    if Nudge not in kinds or Run not in kinds[: kinds.index(Nudge)]:
        return outcomes
    return after(Nudge, size, steps, outcomes)


@mutant("conduct/cache-coherent", host="nflows:LULinear", sizes=(1e-8, 1e-3))
def stale_inverse(subject: Subject, size: float = 1e-3) -> Subject:
    """A cached inverse weight outlives an optimizer step."""
    return living(subject, partial(_stale, size))
