"""Defects of mode and state, put into the scenarios that a healthy subject plays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Array, Mapped, Subject, mutant

COUPLING = "nflows:AffineCouplingTransform"
NORMALIZER = "nflows:BatchNorm"
Steps = Sequence[tuple[Any, ...]]
Change = Callable[[Steps, list[Any], float], list[Any]]


def around(wrapper: Callable[..., Any], ability: Any, *given: Any) -> Any:
    """An ability behind a wrapper: it takes the ability, then what is given here, then the call's
    arguments.
    """
    return partial(wrapper, ability, *given)


def shifted(out: Mapped, size: float) -> Mapped:
    """An outcome whose value is off by ``size``."""
    return Mapped(np.asarray(out.value) + size, out.ladj)


def altered(
    play: Callable[..., list[Any]], change: Change, size: float, steps: Steps, fresh: bool = False
) -> list[Any]:
    """Play a scenario, then change what came out of it."""
    return change(steps, play(steps, fresh), size)


def playing(subject: Subject, change: Change, size: float) -> Subject:
    """The subject with altered scenarios."""
    return replace(subject, play=around(altered, subject.play, change, size))


def after(step: str, steps: Steps, outcomes: list[Any], size: float) -> list[Any]:
    """Shift the outcome of every call that comes after a step of this name."""
    names = [name for name, *_ in steps]
    return [
        shifted(out, size) if names[place] == "call" and step in names[:place] else out
        for place, out in enumerate(outcomes)
    ]


def _mode_broken(steps: Steps, outcomes: list[Any], size: float) -> list[Any]:
    return [
        {**out, "returned_self": False} if step[0] == "eval" else out
        for step, out in zip(steps, outcomes, strict=True)
    ]


@mutant("mode/protocol", host=COUPLING)
def eval_returns_nothing(subject: Subject, size: float = 1.0) -> Subject:
    """An overridden eval() forgets to return the module."""
    return playing(subject, _mode_broken, size)


def _part_stuck(steps: Steps, outcomes: list[Any], size: float) -> list[Any]:
    return [
        {**out, "recursed": False} if step[0] == "eval" else out
        for step, out in zip(steps, outcomes, strict=True)
    ]


@mutant("mode/protocol", host=COUPLING)
def eval_misses_a_part(subject: Subject, size: float = 1.0) -> Subject:
    """A submodule kept in a plain list stays in train mode after eval()."""
    return playing(subject, _part_stuck, size)


def _train_shadowed(play: Callable[..., list[Any]], steps: Steps, fresh: bool = False) -> list[Any]:
    if any(step[0] == "train" for step in steps):
        raise TypeError("'bool' object is not callable")
    return play(steps, fresh)


@mutant("mode/protocol", host=COUPLING)
def train_shadowed(subject: Subject, size: float = 1.0) -> Subject:
    """A flag named ``train`` hides the method of that name."""
    return replace(subject, play=around(_train_shadowed, subject.play))


def _shifted_call(
    call: Callable[..., Mapped], hows: tuple[str, ...], size: float, *given: Any, **named: Any
) -> Mapped:
    out = call(*given, **named)
    return shifted(out, size) if named.get("how", "plain") in hows else out


@mutant("mode/grad-modes-agree", host=COUPLING, sizes=(1e-6, 1e-3))
def mode_is_gradient_recording(subject: Subject, size: float = 1e-3) -> Subject:
    """Whether gradients are recorded decides which statistics are used
    (``mode = torch.is_grad_enabled()``).
    """
    return replace(
        subject, call=around(_shifted_call, subject.call, ("no_grad", "inference_mode"), size)
    )


def _bare_training(steps: Steps, outcomes: list[Any], size: float) -> list[Any]:
    return [
        shifted(out, size) if step[0] == "call" and step[4:] == ("no_grad",) else out
        for step, out in zip(steps, outcomes, strict=True)
    ]


@mutant("mode/train-ignores-grad-mode", host=NORMALIZER, sizes=(1e-6, 1e-3))
def no_training_without_gradients(subject: Subject, size: float = 1e-3) -> Subject:
    """A train-mode pass under no_grad uses the running statistics."""
    return playing(subject, _bare_training, size)


def _frozen_statistics(steps: Steps, outcomes: list[Any], size: float) -> list[Any]:
    bare = any(step[0] == "call" and step[4:] == ("no_grad",) for step in steps)
    return [
        moved(out, size) if bare and step[0] == "state" else out
        for step, out in zip(steps, outcomes, strict=True)
    ]


def moved(state: dict[str, Array], size: float) -> dict[str, Array]:
    """A state with every floating tensor off by ``size``."""
    return {
        name: a + size if np.issubdtype(a.dtype, np.floating) else a for name, a in state.items()
    }


@mutant("mode/train-ignores-grad-mode", host=NORMALIZER, sizes=(1e-6, 1e-3))
def no_update_without_gradients(subject: Subject, size: float = 1e-3) -> Subject:
    """A train-mode pass under no_grad updates the running statistics differently."""
    return playing(subject, _frozen_statistics, size)


def _turned(
    call: Callable[..., Mapped],
    inverse: Callable[..., Mapped],
    which: str,
    x: Array,
    *rest: Any,
    **named: Any,
) -> Mapped:
    if named.get("how") == "train" and which == "forward":
        return inverse(x, *rest)
    return call(which, x, *rest, **named)


@mutant("mode/not-a-direction", host=COUPLING)
def train_is_a_direction(subject: Subject, size: float = 1.0) -> Subject:
    """The training flag chooses the direction."""
    return replace(subject, call=around(_turned, subject.call, subject.inverse))


def _written(steps: Steps, outcomes: list[Any], size: float) -> list[Any]:
    names = [name for name, *_ in steps]
    return [
        moved(out, size) if names[place] == "state" and "call" in names[:place] else out
        for place, out in enumerate(outcomes)
    ]


@mutant("mode/eval-is-pure", host=NORMALIZER, sizes=(1e-12, 1e-3))
def statistics_move_in_eval(subject: Subject, size: float = 1e-3) -> Subject:
    """Running statistics are updated during validation."""
    return playing(subject, _written, size)


@mutant("mode/first-call-in-eval", host=NORMALIZER, sizes=(1e-12, 1e-3))
def initialized_by_validation(subject: Subject, size: float = 1e-3) -> Subject:
    """The first batch initializes the layer, whatever the mode."""
    return playing(subject, _written, size)


def _coupled(
    call: Callable[..., Mapped], size: float, which: str, x: Array, *rest: Any, **named: Any
) -> Mapped:
    out = call(which, x, *rest, **named)
    return shifted(out, size * float(np.nanmean(np.clip(x, -10.0, 10.0))))


@mutant("mode/rows-independent", host=COUPLING, sizes=(1e-8, 1e-3))
def batch_statistics_in_eval(subject: Subject, size: float = 1e-3) -> Subject:
    """The mean of the batch enters every point."""
    return replace(subject, call=around(_coupled, subject.call, size))


def _summed(call: Callable[..., Mapped], which: str, x: Array, *rest: Any, **named: Any) -> Mapped:
    out = call(which, x, *rest, **named)
    return out if out.ladj is None else Mapped(out.value, float(np.sum(out.ladj)))


@mutant("mode/rows-independent", host=COUPLING)
def log_det_summed_over_batch(subject: Subject, size: float = 1.0) -> Subject:
    """The log-det is summed over the batch as well as over the event."""
    return replace(subject, call=around(_summed, subject.call))


@mutant("state/reload-equals", host=NORMALIZER, sizes=(1e-8, 1e-3))
def statistics_not_saved(subject: Subject, size: float = 1e-3) -> Subject:
    """Running statistics are plain attributes, and so are not in the state_dict."""
    return playing(subject, partial(after, "reload"), size)


def _refused(play: Callable[..., list[Any]], steps: Steps, fresh: bool = False) -> list[Any]:
    if any(step[0] == "reload" for step in steps):
        raise RuntimeError(
            "Error(s) in loading state_dict for Flow: Unexpected key(s) in state_dict: 'cache'."
        )
    return play(steps, fresh)


@mutant("state/reload-equals", host=NORMALIZER)
def state_dict_refused(subject: Subject, size: float = 1.0) -> Subject:
    """A buffer that is registered at the first call is unknown to a new object."""
    return replace(subject, play=around(_refused, subject.play))


def _training_forgot(steps: Steps, outcomes: list[Any], size: float) -> list[Any]:
    names = [name for name, *_ in steps]
    return after("reload", steps, outcomes, size) if "train" in names else outcomes


@mutant("state/resume-equals-continue", host="nflows:ActNorm", sizes=(1e-6, 1e-3))
def first_call_flag_not_saved(subject: Subject, size: float = 1e-3) -> Subject:
    """A reloaded layer takes the next training batch for its first."""
    return playing(subject, _training_forgot, size)


def _graph_kept(steps: Steps, outcomes: list[Any], size: float) -> list[Any]:
    return [
        {**out, "running_mean": True} if step[0] == "graph" else out
        for step, out in zip(steps, outcomes, strict=True)
    ]


@mutant("state/no-graph-in-buffers", host=NORMALIZER)
def statistics_not_detached(subject: Subject, size: float = 1.0) -> Subject:
    """A running mean is updated with its graph."""
    return playing(subject, _graph_kept, size)


@mutant("state/copies-equal", host=COUPLING, sizes=(1e-8, 1e-3))
def pickled_incompletely(subject: Subject, size: float = 1e-3) -> Subject:
    """__getstate__ leaves out a tensor that is then made anew."""
    return playing(subject, partial(after, "pickle"), size)


class Shared:
    """A subject's abilities over one object that is never copied."""

    def __init__(self, subject: Subject, size: float) -> None:
        """Start where the subject is."""
        self.subject, self.size, self.offset = subject, size, 0.0

    def play(self, steps: Steps, fresh: bool = False) -> list[Any]:
        """Play, and move the original along."""
        assert self.subject.play is not None
        self.offset += self.size * sum(step[0] == "nudge" for step in steps)
        return self.subject.play(steps, fresh)

    def call(self, *given: Any, **named: Any) -> Mapped:
        """A call of the original, which moved with its copies."""
        assert self.subject.call is not None
        return shifted(self.subject.call(*given, **named), self.offset)


@mutant("state/copies-independent", host=COUPLING, sizes=(1e-8, 1e-3))
def copy_shares_parameters(subject: Subject, size: float = 1e-3) -> Subject:
    """__deepcopy__ hands on the parameters instead of copying them."""
    shared = Shared(subject, size)
    return replace(subject, play=shared.play, call=shared.call)


def _uncopied(play: Callable[..., list[Any]], steps: Steps, fresh: bool = False) -> list[Any]:
    if any(step[0] == "deepcopy" for step in steps):
        raise RuntimeError(
            "Only Tensors created explicitly by the user support the deepcopy protocol at the "
            "moment"
        )
    return play(steps, fresh)


@mutant("state/can-be-copied", host=COUPLING)
def cached_tensor_refuses_a_copy(subject: Subject, size: float = 1.0) -> Subject:
    """A cached tensor that is no leaf makes deepcopy fail."""
    return replace(subject, play=around(_uncopied, subject.play))


def _growing(steps: Steps, outcomes: list[Any], size: float) -> list[Any]:
    grown = np.cumsum([step[0] == "step" for step in steps])
    return [
        out + int(size * grown[place]) if step[0] == "count" else out
        for place, (step, out) in enumerate(zip(steps, outcomes, strict=True))
    ]


@mutant("state/memory-flat", host=COUPLING, sizes=(1.0, 16.0))
def tensors_kept_per_step(subject: Subject, size: float = 1.0) -> Subject:
    """Every training step appends a loss, with its graph, to a list."""
    return playing(subject, _growing, size)


class Unseeded:
    """Scenarios of which fresh objects come out differently each time."""

    def __init__(self, play: Callable[..., list[Any]]) -> None:
        """Count from zero."""
        self.inner, self.times = play, 0

    def play(self, steps: Steps, fresh: bool = False) -> list[Any]:
        """Play; the state of a fresh object depends on how many there were."""
        self.times += 1
        outcomes = self.inner(steps, fresh)
        return [
            moved(o, 1e-3 * self.times) if s[0] == "state" else o
            for s, o in zip(steps, outcomes, strict=True)
        ]


@mutant("state/seeded-init", host=COUPLING)
def initialized_from_the_clock(subject: Subject, size: float = 1.0) -> Subject:
    """Initial weights come from a generator that is seeded by the time."""
    return replace(subject, play=Unseeded(subject.play).play)


def _stale(steps: Steps, outcomes: list[Any], size: float) -> list[Any]:
    names = [name for name, *_ in steps]
    if "nudge" not in names or "call" not in names[: names.index("nudge")]:
        return outcomes
    return after("nudge", steps, outcomes, size)


@mutant("conduct/cache-coherent", host="nflows:LULinear", sizes=(1e-8, 1e-3))
def stale_inverse(subject: Subject, size: float = 1e-3) -> Subject:
    """A cached inverse weight outlives an optimizer step."""
    return playing(subject, _stale, size)
