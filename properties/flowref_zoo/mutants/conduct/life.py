"""Defects of samplers, of parameters and of caches, put into the lives and calls of a healthy
subject.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.model import Life, Subject, mutant
from flowref.model.steps import (
    Carry,
    Compare,
    Construct,
    Construction,
    Count,
    Counters,
    Drawn,
    Inherited,
    Likeness,
    Modes,
    Nudge,
    Overwrite,
    Pathwise,
    Reload,
    Run,
    State,
    Sway,
    Trained,
    Unregistered,
    Weights,
)
from flowref_zoo.mutants.combinators import (
    Steps,
    at,
    living,
    moved,
    observed,
    shifted,
    value_changed,
    wrapped,
)

COUPLING = "nflows:AffineCouplingTransform"
FLOW = "nflows:SimpleRealNVP"
LIBRARY = "zuko:NSF"


# Samples


@mutant("shape/one-number-per-point[samples]", host=FLOW)
def samples_in_single_precision(subject: Subject, size: float = 1.0) -> Subject:
    """Samples are rounded to float32, whatever the object is."""
    return value_changed(subject, "sample", lambda points: points.astype(np.float32))


def _refused_alone(call: Callable[..., Any], n: int, *others: Any) -> Any:
    if n < 2:
        raise RuntimeError("expected more than one value per channel")
    return call(n, *others)


@mutant("shape/one-number-per-point[samples]", host=FLOW)
def single_sample_refused(subject: Subject, size: float = 1.0) -> Subject:
    """A single sample cannot be drawn."""
    return wrapped(subject, "sample", _refused_alone)


@mutant("shape/one-number-per-point[log-prob]", host=FLOW)
def log_density_averaged(subject: Subject, size: float = 1.0) -> Subject:
    """log_prob returns the mean over the batch."""
    return value_changed(subject, "log_prob", np.mean)


@mutant("shape/one-number-per-point[log-prob]", host=FLOW)
def log_density_squeezed(subject: Subject, size: float = 1.0) -> Subject:
    """Squeezing drops the axis of a batch of one."""
    return value_changed(subject, "log_prob", np.squeeze)


@mutant("shape/any-batch[no-samples]", host=LIBRARY)
def one_sample_too_many(subject: Subject, size: float = 1.0) -> Subject:
    """Batches are drawn until there are enough, and one at least."""
    return wrapped(subject, "sample", lambda call, n, *others: call(max(n, 1), *others))


def _repeated(steps: Steps, outcomes: list[Any]) -> list[Any]:
    first: dict[str, Any] = {}
    return [
        first.setdefault(step.call, out) if isinstance(step, Run) else out
        for step, out in zip(steps, outcomes, strict=True)
    ]


@mutant("random/seeded[two-calls]", host=FLOW)
def sampler_seeds_itself(subject: Subject, size: float = 1.0) -> Subject:
    """sample() seeds, and draws the same points for ever."""
    return living(subject, _repeated)


def _drifting(steps: Steps, outcomes: list[Any]) -> list[Any]:
    return [
        shifted(out, float(index)) if isinstance(step, Run) else out
        for index, (step, out) in enumerate(zip(steps, outcomes, strict=True))
    ]


@mutant("random/seeded[same-seed]", host=FLOW)
def drawn_from_the_clock(subject: Subject, size: float = 1.0) -> Subject:
    """Samples come from a generator that no seed reaches."""
    return living(subject, _drifting)


@mutant("dtype/follows[samples]", host=LIBRARY)
def noise_of_default_dtype(subject: Subject, size: float = 1.0) -> Subject:
    """Base noise is drawn in the default dtype, and so are samples."""
    return observed(subject, dtypes=("float32",))


@mutant("gradient/of-samples[graph]", host=LIBRARY)
def rsample_without_gradients(subject: Subject, size: float = 1.0) -> Subject:
    """rsample is sample under another name."""
    return at(subject, Pathwise, lambda out: Drawn(out.value, False, 0.0))


@mutant("gradient/of-samples[graph]", host="torch:distributions.Kumaraswamy")
def rsample_without_graph(subject: Subject, size: float = 1.0) -> Subject:
    """rsample of a distribution records nothing."""
    return at(
        subject, Carry, lambda out: replace(out, graph=False, largest=(0.0,) * len(out.names))
    )


@mutant("gradient/of-samples[graph]", host="torch:distributions.Normal")
def rsample_without_one_tensor(subject: Subject, size: float = 1.0) -> Subject:
    """One of the tensors that it holds is taken by its value."""
    return at(subject, Carry, lambda out: replace(out, largest=(*out.largest[:-1], 0.0)))


@mutant("effects/construction[equality]", host="torch:AffineTransform")
def equal_to_anything(subject: Subject, size: float = 1.0) -> Subject:
    """It is equal to whatever it is compared with."""
    return at(subject, Compare, lambda out: Likeness(True, ("a bare object", "a sigmoid")))


@mutant("effects/construction[equality]", host="torch:AffineTransform")
def equal_to_transforms(subject: Subject, size: float = 1.0) -> Subject:
    """It is equal to whatever is a transform."""
    return at(subject, Compare, lambda out: Likeness(True, ("the exponential", "a sigmoid")))


@mutant("effects/construction[sharing]", host="nflows:AffineCouplingTransform")
def network_of_the_class(subject: Subject, size: float = 1.0) -> Subject:
    """A network is the default of an argument."""
    return at(subject, Inherited, lambda out: ["net is a default of the constructor of Flow"])


# Parameters


def _hidden(steps: Steps, outcomes: list[Any]) -> list[Any]:
    changed = []
    for step, out in zip(steps, outcomes, strict=True):
        changed.append(["nets[0].weight"] if isinstance(step, Unregistered) else out)
    return changed


def _swaying(play: Callable[..., Any], size: float, steps: Steps, fresh: bool = False) -> Any:
    if not any(isinstance(step, Sway) for step in steps):
        return play(steps, fresh)
    runs = next(step.runs for step in steps if isinstance(step, Sway))
    return Life(steps, [[shifted(out, size) for out in play(runs, fresh)]])


@mutant("state/registered", host=COUPLING, sizes=(1e-6, 1.0))
def parameter_in_a_list(subject: Subject, size: float = 1e-3) -> Subject:
    """A layer is kept in a plain list."""
    return wrapped(living(subject, _hidden), "play", _swaying, size)


def _counting(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    runs, set_on, changed = 0, False, []
    for step, out in zip(steps, outcomes, strict=True):
        runs += isinstance(step, Run)
        runs = 0 if isinstance(step, Reload) else runs
        set_on |= isinstance(step, Count)
        counted = {**out, "steps": float(runs)} if isinstance(step, Counters) else out
        changed.append(shifted(out, size) if set_on and isinstance(step, Run) else counted)
    return changed


def _setting(play: Callable[..., Any], steps: Steps, fresh: bool = False) -> Any:
    return play([State() if isinstance(step, Count) else step for step in steps], fresh)


@mutant("state/registered[counters]", host=COUPLING, sizes=(1e-6, 1.0))
def steps_are_a_plain_number(subject: Subject, size: float = 1e-3) -> Subject:
    """How far a warm-up is stands in an attribute that no state_dict has."""
    bare = wrapped(subject, "play", _setting)
    return wrapped(bare, "play", _with_counts, size)


def _with_counts(play: Callable[..., Any], size: float, steps: Steps, fresh: bool = False) -> Any:
    life = play(steps, fresh)
    return Life(steps, _counting(size, steps, list(life)))


def _writing(count: int, size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    runs, changed = 0, []
    for step, out in zip(steps, outcomes, strict=True):
        runs += isinstance(step, Run)
        off = size * max(runs - count, 0)
        changed.append(moved(dict(out), off) if isinstance(step, Weights) and off else out)
    return changed


@mutant("effects/state[parameters]", host=COUPLING, sizes=(1e-12, 1e-2))
def forward_moves_a_parameter(subject: Subject, size: float = 1e-3) -> Subject:
    """Each train-mode batch moves a scale towards its own statistics."""
    return living(subject, partial(_writing, 1, size))


def _sampling_writes(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    sampled = any(isinstance(step, Run) and step.call == "sample" for step in steps)
    return _writing(1, size, steps, outcomes) if sampled else outcomes


@mutant("effects/state[parameters]", host=FLOW, sizes=(1e-12, 1e-2))
def sampling_moves_a_parameter(subject: Subject, size: float = 1e-3) -> Subject:
    """In train mode a layer initializes itself from samples too."""
    return living(subject, partial(_sampling_writes, size))


def _dead(touched: bool, steps: Steps, outcomes: list[Any]) -> list[Any]:
    if any(isinstance(step, Nudge) for step in steps) == touched:
        return outcomes
    return [_without_first(out) if isinstance(out, Trained) else out for out in outcomes]


def _without_first(out: Trained) -> Trained:
    name, gradient = next(iter(out.gradients.items()))
    dead = None if gradient is None else np.zeros_like(gradient)
    return replace(out, gradients={**out.gradients, name: dead})


@mutant("gradient/reaches-parameters[start]", host=COUPLING)
def two_factors_of_zero(subject: Subject, size: float = 1.0) -> Subject:
    """A gate of zero multiplies a layer of zeros."""
    return living(subject, partial(_dead, True))


@mutant("gradient/parameters[value]", host=COUPLING)
def values_detached(subject: Subject, size: float = 1.0) -> Subject:
    """The value is computed from detached parameters."""
    return wrapped(subject, "slope", _other_slope, 0.0)


@mutant("gradient/parameters[value]", host=FLOW, sizes=(0.03, 0.3))
def one_branch_detached(subject: Subject, size: float = 0.1) -> Subject:
    """A branch of the network is detached, and a part of the gradient is lost."""
    return wrapped(subject, "slope", _other_slope, 1 - size)


def _other_slope(slope: Callable[..., float], factor: float, *inputs: Any) -> float:
    return slope(*inputs) * factor


# Modes, caches, construction


def _stuck(steps: Steps, outcomes: list[Any]) -> list[Any]:
    changed, ran = [], False
    for step, out in zip(steps, outcomes, strict=True):
        ran |= isinstance(step, Run) and step.call == "sample"
        changed.append(dict.fromkeys(out, False) if isinstance(step, Modes) and ran else out)
    return changed


@mutant("effects/state[mode]", host=FLOW)
def sampling_ends_training(subject: Subject, size: float = 1.0) -> Subject:
    """sample() calls eval(), and not train() again."""
    return living(subject, _stuck)


def _answered_from_before(
    kind: type[Any], size: float, steps: Steps, outcomes: list[Any]
) -> list[Any]:
    changed, late, seen = [], False, False
    for step, out in zip(steps, outcomes, strict=True):
        late |= seen and isinstance(step, kind)
        seen |= isinstance(step, Run) and step.held
        wrong = late and isinstance(step, Run) and step.held
        changed.append(shifted(out, size) if wrong else out)
    return changed


@mutant("same/history[same-tensor]", host=COUPLING, sizes=(1e-8, 1e-2))
def answered_for_the_same_object(subject: Subject, size: float = 1e-3) -> Subject:
    """The last input is compared by identity, and its old values are answered."""
    return living(subject, partial(_answered_from_before, Overwrite, size))


@mutant("same/history[same-tensor]", host=COUPLING, sizes=(1e-8, 1e-2))
def answered_for_the_old_parameters(subject: Subject, size: float = 1e-3) -> Subject:
    """The last result outlives an optimizer's step."""
    return living(subject, partial(_answered_from_before, Nudge, size))


def _remembering(size: float, steps: Steps, outcomes: list[Any]) -> list[Any]:
    changed, sampled = [], False
    for step, out in zip(steps, outcomes, strict=True):
        wrong = sampled and isinstance(step, Run) and step.call == "log_prob"
        changed.append(shifted(out, size) if wrong else out)
        sampled |= isinstance(step, Run) and step.call == "sample"
    return changed


@mutant("same/history[other-calls]", host=FLOW, sizes=(1e-8, 1e-2))
def temperature_kept(subject: Subject, size: float = 1e-3) -> Subject:
    """sample() sets a temperature in the base, which log_prob then uses too."""
    return living(subject, partial(_remembering, size))


@mutant("effects/construction[settings]", host=COUPLING)
def constructor_seeds(subject: Subject, size: float = 1.0) -> Subject:
    """The constructor seeds torch, so that a permutation is the same every time."""
    return at(subject, Construct, lambda out: Construction(out.globals, ("torch",)))


@mutant("effects/construction[settings]", host=COUPLING)
def constructor_sets_the_default_dtype(subject: Subject, size: float = 1.0) -> Subject:
    """The constructor sets the default dtype."""
    return at(subject, Construct, lambda out: Construction(("torch default dtype",), out.seeded))
