"""Laws of state: saving, loading, copying and training leave an object what it was, and hold on to
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowref.laws.common.outcomes import (
    attempt,
    changed,
    compared,
    data,
    flags,
    listed,
    normalizing_probe,
    probes,
    state_gap,
    tolerance_of,
)
from flowref.laws.common.requirements import has_modules, has_parameters, not_estimator
from flowref.model import ADVICE, EXACT, Array, Batch, Mapped, Residual, Unsupported, law, requires
from flowref.model.abilities import Flow, Living
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
    TorchSave,
    Train,
)

Steps = Sequence[Step[Any]]
COPIES: dict[str, Step[None]] = {
    "deepcopy": Deepcopy(),
    "pickle": Pickle(),
    "torch_save": TorchSave(),
}
# How far an optimizer is imagined to move the parameters between two calls.
NUDGE = 0.3
# Training steps before and while live tensors are counted: the first ones may allocate what is kept
# for good.
SETTLE, WATCH = 3, 20


@requires("its parameters must not be moved")
def not_fixed(flow: Flow) -> bool:
    """Parameters may be moved unless someone said otherwise."""
    return not flow.promises.get("fixed")


# Something deterministic whose parameters may be moved.
movable = not_fixed & has_modules & has_parameters & not_estimator


def runs(probed: Sequence[tuple[str, Array]], context: Array | None) -> list[Run]:
    """One run of each call that was probed."""
    return [Run(which, points, context) for which, points in probed]


def outcomes(played: Sequence[Any], count: int) -> list[Mapped]:
    """The last ``count`` outcomes of a scenario."""
    return list(played[len(played) - count :])


def lives_agree(flow: Living, batch: Batch, one: Steps, other: Steps, note: str) -> Residual:
    """Play two lives that end in the same calls, and compare what these return."""
    probed = probes(flow, batch)
    asked = runs(probed, batch.context)
    first = outcomes(flow.play([*one, *asked]), len(asked))
    second = outcomes(flow.play([*other, *asked]), len(asked))
    allowed = [tolerance_of(flow, which) for which, _ in probed]
    return compared(list(zip(first, second, allowed, strict=True)), len(batch.x), note)


def refused(error: str) -> bool:
    """Whether an error is torch's refusal of a state_dict: missing, unexpected or misshapen
    entries.
    """
    return error.startswith("RuntimeError") and "state_dict" in error


@law(
    "state/reload-equals",
    effort=3,
    applies=has_modules & not_estimator,
    source="torch.nn.Module.state_dict holds the whole state of a module; plain tensor attributes are not in it",
)
def reload_equals(flow: Living, batch: Batch) -> Residual:
    """A new object that is given the state_dict, strictly, returns in eval mode what the saved
    object returned.
    """
    play = flow.play
    _, error = attempt(play, [Reload()])
    if refused(error):
        return Residual(
            np.full(len(batch.x), np.inf), note="a new object refuses the state_dict of the old one"
        )
    note = "after loading its state_dict into a new object the result differs"
    return lives_agree(flow, batch, [Eval()], [Reload(), Eval()], note)


@law(
    "state/resume-equals-continue",
    effort=3,
    applies=has_modules,
    source="first-call flags and counters are state: an ActNorm without them initializes itself again after loading",
)
def resume_equals_continue(flow: Living, batch: Batch) -> Residual:
    """After saving and loading, the next training step returns and updates the same as without."""
    play, rows = flow.play, len(batch.x)
    which, points = normalizing_probe(flow, batch)
    asked: list[Step[Any]] = [Train(), Run(which, points, batch.context), State()]
    if flow.trainable and not flow.promises.get("fixed"):
        asked += [Learn(data(flow, batch), batch.context), State()]
    kept, error = attempt(play, asked)
    if error:
        raise Unsupported(f"it refuses to be trained here ({error})")
    resumed, error = attempt(play, [Reload(), *asked])
    if refused(error):
        raise Unsupported(
            "a new object refuses the state_dict of the old one, which another law reports"
        )
    if error:
        return Residual(np.full(rows, np.inf), note=f"after loading, training raised {error}")
    states = [index for index, step in enumerate(asked) if isinstance(step, State)]
    distance = max(state_gap(kept[index], resumed[index + 1]) for index in states)
    note = "the training step after loading differs from the one without"
    return compared([(kept[1], resumed[2], tolerance_of(flow, which))], rows, note, distance)


@law(
    "state/no-graph-in-buffers",
    tolerance=EXACT,
    effort=2,
    applies=has_modules,
    source="running statistics that are not detached keep every past batch alive (nflows issue 10, d2l-en issue 1342)",
)
def no_graph_in_buffers(flow: Living, batch: Batch) -> Residual:
    """After training no buffer holds a graph or requires a gradient, and no step meets the graph of
    an earlier one.
    """
    play, rows = flow.play, len(batch.x)
    which, points = normalizing_probe(flow, batch)
    step = Learn(data(flow, batch), batch.context)
    steps = [step] * 3 if flow.trainable else []
    # Checkpointing makes the input require a gradient, as the input of an inner layer does.
    played, error = attempt(
        play,
        [
            Train(),
            *steps,
            Run(which, points, batch.context, "checkpoint"),
            State(),
            Graphs(),
        ],
    )
    if "second time" in error:
        return flags(True, rows, "a training step ran into the graph of an earlier one")
    if error:
        raise Unsupported(f"it refuses to be trained here ({error})")
    # Only buffers count: attributes that hold a graph are legal where they are made anew in each
    # call (weight norm, cached log-dets). Parameters share names with such attributes, so they are
    # taken out.
    parameters = set(played[1].gradients) if steps else set()
    buffers = [name for name in played[-1] if _is_buffer(name, set(played[-2]) - parameters)]
    if buffers or not steps:
        return flags(
            bool(buffers), rows, f"{listed(buffers)} hold an autograd graph after training"
        )
    _, error = attempt(play, [Train(), *steps, Eval(), step])
    return flags(
        "second time" in error, rows, "a step in eval mode ran into the graph of a training step"
    )


def _is_buffer(name: str, buffers: set[str]) -> bool:
    """Whether a name is a buffer's; what is no module itself numbers its modules in front of the
    names.
    """
    return name in buffers or any(
        other.partition(".")[2] == name and other[0].isdigit() for other in buffers
    )


@law(
    "state/copies-equal",
    effort=2,
    applies=not_estimator,
    source="the protocols of copy.deepcopy, pickle and torch.save",
)
def copies_equal(flow: Living, batch: Batch) -> Residual:
    """A deep copy, a pickled copy and a copy saved through torch each return what the original
    returns.
    """
    play, rows = flow.play, len(batch.x)
    probed = probes(flow, batch)
    asked = runs(probed, batch.context)
    original, pairs, copied = play(asked), [], False
    for copy in COPIES.values():
        # A copy that is refused (a lambda inside, a cached tensor that is no leaf) is loud and no
        # wrong copy.
        played, error = _copied(play, [copy, *asked])
        copied |= not error
        for place, (which, _) in enumerate(probed):
            pairs.append(
                (
                    original[place],
                    played[place + 1] if played else original[place],
                    tolerance_of(flow, which),
                )
            )
    if not copied:
        raise Unsupported("it refuses to be copied")
    return compared(pairs, rows, "a copy returns something else")


def _copied(play: Any, steps: Steps) -> tuple[Any, str]:
    """Like `attempt`, but an ability that the object lacks is a refusal too: there are other ways
    to copy.
    """
    try:
        return attempt(play, steps)
    except Unsupported as error:
        return None, str(error)


@law(
    "state/copies-independent",
    effort=2,
    applies=movable,
    source="copy.deepcopy: a deep copy shares no mutable part with the original",
)
def copies_independent(flow: Living, batch: Batch) -> Residual:
    """Moving the parameters of a deep copy leaves the original as it was."""
    probed = probes(flow, batch)
    before = [flow.calls[which].under(points, batch.context) for which, points in probed]
    # Every scenario is played on a copy of the loaded object.
    flow.play([Nudge(batch.seed, NUDGE)])
    after = [flow.calls[which].under(points, batch.context) for which, points in probed]
    allowed = [tolerance_of(flow, which) for which, _ in probed]
    pairs = list(zip(before, after, allowed, strict=True))
    return compared(pairs, len(batch.x), "the original moved with its copy")


@law(
    "conduct/cache-coherent",
    former="hygiene/cache-coherent",
    effort=3,
    applies=movable,
    source="a cached inverse weight, log-det or spline that outlives an optimizer step (pyro issues 2384, 2503, 2545)",
)
def caches_follow_parameters(flow: Living, batch: Batch) -> Residual:
    """After an optimizer moved the parameters, the next calls do not depend on calls made before it
    did.
    """
    probed = probes(flow, batch)
    # Parameters move in train mode, as in training: a cache documented to live from eval() to
    # train() is fine.
    moved: Steps = [Train(), Nudge(batch.seed, NUDGE), Eval()]
    note = "a call made before the parameters moved changes the result of a call made after"
    return lives_agree(
        flow, batch, [Eval(), *moved], [Eval(), *runs(probed, batch.context), *moved], note
    )


@law(
    "state/can-be-copied",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    applies=has_modules,
    source="exponential moving averages, checkpoints and worker processes copy modules after they were trained",
)
def can_be_copied(flow: Living, batch: Batch) -> Residual:
    """After training steps the object can be deep-copied, pickled, and saved through torch."""
    play, points = flow.play, data(flow, batch)
    lived: Steps = [
        Train(),
        *([Learn(points, batch.context)] * 2 if flow.trainable else []),
    ]
    _, error = attempt(play, lived)
    if error:
        raise Unsupported(f"it refuses to be trained here ({error})")
    refusals = []
    for way, copy in COPIES.items():
        _, error = _copied(play, [*lived, copy])
        if error:
            refusals.append(f"{way}: {error}")
    return flags(bool(refusals), len(batch.x), "; ".join(refusals[:1]))


@law(
    "state/memory-flat",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    size=3,
    thorough=True,
    applies=has_modules & has_parameters,
    source="a tensor kept per training step is a leak",
)
def memory_flat(flow: Living, batch: Batch) -> Residual:
    """Once training has settled, training steps leave no tensors behind."""
    step = Learn(data(flow, batch), batch.context)
    play, rows = flow.play, len(batch.x)
    steps = [Train(), *([step] * SETTLE), CountTensors(), *([step] * WATCH), CountTensors()]
    played, error = attempt(play, steps)
    if error:
        raise Unsupported(f"it refuses to be trained here ({error})")
    grown = int(played[-1]) - int(played[1 + SETTLE])
    # Half a tensor per step: fewer are caches that fill once.
    return flags(
        2 * grown >= WATCH, rows, f"{grown} more tensors are alive after {WATCH} more steps"
    )


@law(
    "state/seeded-init",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    scales=(0.0,),
    applies=has_modules,
    source="an experiment is repeatable if torch's seed decides the initial weights",
)
def seeded_init(flow: Living, batch: Batch) -> Residual:
    """Two objects built under the same random state have the same initial parameters and buffers."""
    (first,), (second,) = (flow.play([State()], fresh=True) for _ in range(2))
    differing = changed(first, second)
    return flags(
        bool(differing), len(batch.x), f"{listed(differing)} differ between two objects built alike"
    )
