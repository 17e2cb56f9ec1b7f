"""State: saving, loading, copying and training preserve an object, and keep no graphs or tensors
alive.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from flowref.laws.common.amounts import planned, sparing
from flowref.laws.common.outcomes import (
    agreement_residual,
    attempt,
    changed,
    flags,
    met_a_graph,
    state_gap,
)
from flowref.laws.common.probes import (
    WITH_KERNELS,
    Probe,
    absent,
    data,
    lived,
    normalizing_probe,
    probe_agreement_residual,
    probes,
)
from flowref.laws.common.requirements import has_modules, has_parameters, repeatable
from flowref.laws.common.structure import LARGE
from flowref.model import (
    ADVICE,
    EXACT,
    GIVEN,
    Batch,
    Life,
    Mapped,
    Residual,
    Unsupported,
    draw_points,
    law,
    requires,
)
from flowref.model.abilities import Flow, Living
from flowref.model.call import How
from flowref.model.steps import (
    CountTensors,
    Eval,
    Graphs,
    Learn,
    Nudge,
    Reload,
    State,
    Step,
    Train,
)

Steps = Sequence[Step[Any]]
# The relative step of an optimizer that moves the parameters between two calls.
NUDGE = 0.3
# Smaller steps if outputs would not be finite or exceed MOST, as with wide networks; for large
# events this is not tested.
SLIGHT, TINY, MOST = 0.01, 0.001, 1e6
# Number of seeds whose result is cached, since noise asks for them again.
KEPT = 16
_ASKED: dict[int, tuple[weakref.ref[Any], bool]] = {}
# New objects of user code into which a state is loaded.
OTHERS = 4
UNTRAINABLE = "it refuses to be trained here"
# Training steps before and while live tensors are counted: the first ones may allocate permanently.
SETTLE, WATCH = 3, 20


@requires("its parameters must not be moved", blocked=True)
def not_fixed(flow: Flow) -> bool:
    """Parameters may be moved unless declared otherwise."""
    return not flow.promises.get("fixed")


@requires("its parameters must not be moved", blocked=True)
def moves_little(flow: Flow) -> bool:
    """Parameters may be moved by the small step of a difference: a solver follows the fields of
    nearby weights.
    """
    return not flow.promises.get("fixed") or bool(flow.promises.get("near-as-given"))


def nudge(flow: Living, batch: Batch) -> Nudge:
    """A step of an optimizer after which ordinary points still have results of ordinary size."""
    if math.prod(flow.event_shape) > LARGE:
        return Nudge(batch.seed, TINY)
    return Nudge(batch.seed, NUDGE if _bears(flow, batch.seed) else SLIGHT)


def _bears(flow: Living, seed: int) -> bool:
    """Whether calls at an ordinary point give numbers of ordinary size after a large step."""
    if (known := _ASKED.get(seed)) is not None and known[0]() is flow:
        return known[1]
    rng = np.random.default_rng(seed)
    context = None if flow.context_shape is None else rng.standard_normal((1, *flow.context_shape))
    batch = Batch(draw_points(flow.domain, (1, *flow.event_shape), rng), context, seed)
    asked, refused = attempt(probes, flow, batch, False, WITH_KERNELS)
    steps = [] if refused else [probe.step() for probe in asked]
    life, refused = attempt(flow.play, [Train(), Nudge(seed, NUDGE), Eval(), *steps])
    # A call that raises even so is reported by the law, at its own points.
    values = [] if refused else [np.asarray(out.value) for out in life[3:]]
    bears = all(
        np.isfinite(value).all() and np.abs(value).max(initial=0) < MOST for value in values
    )
    while len(_ASKED) >= KEPT:
        _ASKED.pop(next(iter(_ASKED)))
    _ASKED[seed] = weakref.ref(flow), bears
    return bears


# A deterministic object whose parameters may be moved.
movable = not_fixed & has_modules & has_parameters & repeatable


def lives_agree(
    flow: Living,
    batch: Batch,
    one: Steps,
    others: Sequence[Steps],
    note: str,
    hows: Sequence[How] = ("plain",),
) -> Residual:
    """The residual between the last calls of a history and those of other histories that end in
    the same calls.
    """
    probed = probes(flow, batch, calls=WITH_KERNELS) * len(hows)
    asked = [probe.step(how) for how in hows for probe in probes(flow, batch, calls=WITH_KERNELS)]
    first = flow.play([*one, *asked])[len(one) :]
    seen: list[tuple[Probe, Mapped, Mapped]] = []
    for other in others:
        second = flow.play([*other, *asked])[len(other) :]
        seen += zip(probed, first, second, strict=True)
    return probe_agreement_residual(seen, len(batch.x), note)


def refused(error: str) -> bool:
    """Whether an error is torch's rejection of a state_dict: missing, unexpected or misshapen
    entries.
    """
    return error.startswith("RuntimeError") and "state_dict" in error


@law(
    "same/saved[reload]",
    key="state/reload-equals",
    effort=4,
    applies=has_modules & repeatable,
    version=3,
    source="torch.nn.Module.state_dict holds the whole state of a module; plain tensor attributes are not in it",
    pointwise=True,
)
def reload_equals(flow: Living, batch: Batch) -> Residual:
    """A new object that loads the state_dict strictly returns in eval mode what the saved object
    returned, with and without gradients; if it rejects eval mode, after one train-mode batch given
    to both.
    """
    # An unsaved random permutation may agree in another object by chance.
    drawn = 1 if flow.facts.built_here else planned(flow, OTHERS, 1)
    for number in range(drawn):
        _, error = attempt(flow.play, [Reload(number)])
        if refused(error):
            note = "a new object refuses the state_dict of the old one"
            return Residual(np.full(len(batch.x), np.inf), note=note)
    note = "after loading its state_dict into a new object the result differs"
    others: list[Steps] = [[Reload(number), Eval()] for number in range(drawn)]
    # Saved objects are mostly used without gradients; objects that need them inside raise.
    for hows in (("plain", "no_grad"), ("plain",)):
        found, error = attempt(lives_agree, flow, batch, [Eval()], others, note, hows)
        if not error:
            return found
    used = [Train(), normalizing_probe(flow, batch).step(), Eval()]
    note = (
        "a new object with the state_dict of the old one refuses eval mode, and the batch in train "
        f"mode that it asks for changes what it returns ({error})"
    )
    return lives_agree(flow, batch, used, [[Reload(), *used]], note)


@law(
    "same/saved[resume]",
    key="state/resume-equals-continue",
    effort=2,
    applies=has_modules,
    source="first-call flags and counters are state: an ActNorm without them initializes itself again after loading",
    pointwise=True,
)
def resume_equals_continue(flow: Living, batch: Batch) -> Residual:
    """After saving and loading, the next training step returns and updates the same as without."""
    rows, probe = len(batch.x), normalizing_probe(flow, batch)
    asked: list[Step[Any]] = [Train(), probe.step(), State()]
    if flow.trainable and not flow.promises.get("fixed"):
        asked += [Learn(data(flow, batch), batch.context), State()]
    kept = lived(flow, asked, UNTRAINABLE)
    resumed, error = attempt(flow.play, [Reload(), *asked])
    if refused(error):
        raise Unsupported(
            "a new object refuses the state_dict of the old one, which another law reports"
        )
    if error:
        return Residual(np.full(rows, np.inf), note=f"after loading, training raised {error}")
    states = [index for index, step in enumerate(asked) if isinstance(step, State)]
    distance = max(state_gap(kept[index], resumed[index + 1]) for index in states)
    note = "the training step after loading differs from the one without"
    return agreement_residual([(kept[1], resumed[2], probe.tolerance)], rows, note, distance)


@law(
    "effects/graphs",
    key="state/no-graph-in-buffers",
    tolerance=EXACT,
    effort=1,
    applies=has_modules,
    version=3,
    source="running statistics that are not detached keep every past batch alive (nflows issue 10, d2l-en issue 1342)",
    pointwise=True,
)
def no_graph_in_buffers(flow: Living, batch: Batch) -> Residual:
    """After training no buffer holds a graph or requires a gradient, and no step runs into the
    graph of an earlier one.
    """
    play, rows = flow.play, len(batch.x)
    probe = normalizing_probe(flow, batch)
    step = Learn(data(flow, batch), batch.context)
    steps = [step] * 3 if flow.trainable else []
    # Checkpointing makes the input require a gradient, like the input of an inner layer. A graph
    # that the next batch replaces keeps no past batch alive.
    last: Steps = [probe.step("checkpoint"), probe.step(), State(), Graphs()]
    if steps and sparing(flow):  # both histories below in one, if nothing raises
        played, error = attempt(play, [Train(), *steps, Eval(), step, Train(), *last])
        if not error and not _buffers_with_graph(played):
            return absent([], rows, "")
    played, error = attempt(play, [Train(), *steps, *last])
    if met_a_graph(error) and not met_a_graph(attempt(play, [Train(), *steps[:1]])[1]):
        return flags(True, rows, "a training step ran into the graph of an earlier one")
    if error:
        raise Unsupported(f"{UNTRAINABLE} ({error})")
    buffers = _buffers_with_graph(played, None if steps else set())
    if buffers or not steps:
        return absent(buffers, rows, "{} hold an autograd graph after training")
    _, error = attempt(play, [Train(), *steps, Eval(), step])
    if met_a_graph(error) and met_a_graph(attempt(play, [Eval(), step])[1]):
        raise Unsupported("its result in eval mode has a graph that it freed itself")
    return flags(
        met_a_graph(error), rows, "a step in eval mode ran into the graph of a training step"
    )


@law(
    "effects/graphs[one-call]",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    applies=has_modules,
    source="a module that holds a graph cannot be copied, and keeps the memory of its last batch",
    pointwise=True,
)
def no_graph_of_the_last_call(flow: Living, batch: Batch) -> Residual:
    """After a train-mode batch that requires gradients no buffer holds its graph, even if the next
    batch replaces the buffer.
    """
    probe = normalizing_probe(flow, batch)
    played, error = attempt(flow.play, [Train(), probe.step("checkpoint"), State(), Graphs()])
    if error:
        raise Unsupported(f"{UNTRAINABLE} ({error})")
    return absent(
        _buffers_with_graph(played, set()), len(batch.x), "{} hold an autograd graph after a batch"
    )


def _buffers_with_graph(played: Life, parameters: set[str] | None = None) -> list[str]:
    """Buffers that hold a graph at the end of a history whose second step is a training step, or
    whose parameters are named.

    Only buffers count: attributes may hold a graph if each call makes them anew (weight norm,
    cached log-dets). Parameters share names with such attributes and are excluded.
    """
    known = set(played[1].gradients) if parameters is None else parameters
    return [name for name in played[-1] if _is_buffer(name, set(played[-2]) - known)]


def _is_buffer(name: str, buffers: set[str]) -> bool:
    """Whether the name is that of a buffer; objects that are no module prefix names with the
    number of the module.
    """
    return name in buffers or any(
        other.partition(".")[2] == name and other[0].isdigit() for other in buffers
    )


@law(
    "same/history[optimizer-step]",
    key="hygiene/cache-coherent",
    effort=2,
    applies=movable,
    version=4,
    source="a cached inverse weight, log-det or spline that outlives an optimizer step (pyro issues 2384, 2503, 2545)",
    pointwise=True,
)
def caches_follow_parameters(flow: Living, batch: Batch) -> Residual:
    """After an optimizer step, or a train-mode batch that updates the state, results do not depend
    on calls made before it.
    """
    # Caches for evaluation are often read without gradients only.
    hows: tuple[How, ...] = ("plain", "no_grad")
    quiet = [probe.step("no_grad") for probe in probes(flow, batch, calls=WITH_KERNELS)]
    if attempt(flow.play, [Eval(), *quiet])[1]:
        hows, quiet = ("plain",), []
    asked = [*(probe.step() for probe in probes(flow, batch, calls=WITH_KERNELS)), *quiet]
    # Parameters move in train mode, as in training: a cache documented to live from eval() to
    # train() is permitted.
    moved: Steps = [Train(), nudge(flow, batch), Eval()]
    note = "a call made before the parameters moved changes the result of a call made after"
    found = lives_agree(flow, batch, [Eval(), *moved], [[Eval(), *asked, *moved]], note, hows)
    if flow.mode_matters is None or not flow.mode_matters():
        return found
    trained: Steps = [Train(), normalizing_probe(flow, batch).step(), Eval()]
    if attempt(flow.play, [Eval(), *asked, *trained, *asked])[1]:
        return found
    note = "a call made before a batch in train mode changes the result of a call made after"
    other = lives_agree(flow, batch, [Eval(), *trained], [[Eval(), *asked, *trained]], note, hows)
    worse = np.asarray(other.value) > np.asarray(found.value)
    return other if worse.any() else found


@law(
    "effects/memory[steps]",
    key="state/memory-flat",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    size=3,
    thorough=True,
    applies=has_modules & has_parameters,
    source="a tensor kept per training step is a leak",
)
def memory_flat(flow: Living, batch: Batch) -> Residual:
    """After the first training steps, further ones leave no tensors behind."""
    step = Learn(data(flow, batch), batch.context)
    steps = [Train(), *([step] * SETTLE), CountTensors(), *([step] * WATCH), CountTensors()]
    played = lived(flow, steps, UNTRAINABLE)
    grown = int(played[-1]) - int(played[1 + SETTLE])
    # Half a tensor per step: fewer are caches that fill once.
    note = f"{grown} more tensors are alive after {WATCH} more steps"
    return flags(2 * grown >= WATCH, len(batch.x), note)


@law(
    "random/seeded[construction]",
    key="state/seeded-init",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    scales=GIVEN,
    applies=has_modules,
    source="an experiment is repeatable if torch's seed decides the initial weights",
)
def seeded_init(flow: Living, batch: Batch) -> Residual:
    """Two objects built under the same random state have the same initial parameters and buffers."""
    (first,), (second,) = (flow.play([State()], fresh=True) for _ in range(2))
    note = "{} differ between two objects built under one random state"
    return absent(changed(first, second), len(batch.x), note)
