"""State that affects results is registered and saved, and only gradients move parameters."""

from __future__ import annotations

import numpy as np

from flowref.laws.common.amounts import sparing
from flowref.laws.common.outcomes import attempt, changed, outcome_gap
from flowref.laws.common.probes import (
    BATCHED,
    POINTWISE,
    Probe,
    absent,
    lived,
    normalizing_probe,
    probe_of,
    probes,
)
from flowref.laws.common.requirements import has_modules, has_parameters
from flowref.model import EXACT, GIVEN, NEARBY, Batch, Mapped, Residual, law
from flowref.model.abilities import Living
from flowref.model.steps import (
    Count,
    Counters,
    Eval,
    Learn,
    Reload,
    State,
    Step,
    Sway,
    Train,
    Unregistered,
    Weights,
)

# The perturbation of a leaf, and the difference of results that shows a dependence.
SWAY, APART = 0.5, 1e-9
# The number of leaves that are moved if calls are heavy.
FEW = 3
# Batches that are counted, the largest number of counters, and the value that one is advanced by.
BATCHES, MOST, LATER = 3, 4, 1e6


@law(
    "state/registered",
    tolerance=EXACT,
    effort=1,
    size=7,
    scales=GIVEN,
    applies=has_modules,
    source="torch.nn.Module: a parameter in a list, a dictionary or a closure is in no parameters() and no state_dict()",
    pointwise=True,
)
def registered(flow: Living, batch: Batch) -> Residual:
    """A tensor that requires a gradient and affects the result of a call is among parameters(),
    and so is trained, saved and moved to a device.
    """
    (hidden,) = flow.play([Unregistered()])
    if not hidden:
        return absent([], len(batch.x), "")
    probed = probes(flow, batch, complete=False, calls=(*POINTWISE, *BATCHED))
    runs = [probe.step() for probe in probed]
    plain = flow.play(runs)
    matter = []
    if sparing(flow) and len(hidden) > FEW:  # leaves of many layers are alike
        hidden = [hidden[round(at)] for at in np.linspace(0, len(hidden) - 1, FEW)]
    for path in hidden:
        life, error = attempt(flow.play, [Sway(path, runs, SWAY)])
        if error:
            continue
        gaps = [
            outcome_gap(before, after, len(before.value))
            if np.ndim(before.value)
            else np.zeros((1, 2))
            for before, after in zip(plain, life[0], strict=True)
        ]
        if max(np.nan_to_num(one).max(initial=0.0) for one in gaps) > APART:
            matter.append(path)
    note = "{} moves the result, requires a gradient, and is not among parameters()"
    return absent(matter, len(batch.x), note)


@law(
    "state/registered[counters]",
    tolerance=EXACT,
    effort=1,
    size=7,
    scales=GIVEN,
    applies=has_modules,
    source="a warm-up that counts its steps in a plain attribute begins anew after load_state_dict: torch's count is a buffer",
    pointwise=True,
)
def counters_registered(flow: Living, batch: Batch) -> Residual:
    """A number that train-mode batches change, and that affects calls in train mode, is in the
    state_dict.
    """
    probe = normalizing_probe(flow, batch)
    refusal = f"{probe.name} refuses to run in train mode"
    lived_on: list[Step[object]] = [Train(), *[probe.step()] * BATCHES]
    before = flow.play([Counters()])[0]
    *_, after, plain = lived(flow, [*lived_on, Counters(), probe.step()], refusal)
    counted = [name for name, value in after.items() if value != before.get(name, value)]
    matter = []
    for name in counted[:MOST]:
        *_, again = flow.play([*lived_on, Counters(), probe.step()])
        moved, error = attempt(
            flow.play, [*lived_on, Count(name, after[name] + LATER), probe.step()]
        )
        if error or outcomes_differ(plain, again) or not outcomes_differ(plain, moved[-1]):
            continue
        kept, error = attempt(flow.play, [*lived_on, Reload(), Counters()])
        if not error and kept[-1].get(name) != after[name]:
            matter.append(name)
    note = "{} counts calls in train mode, changes their results, and is not in the state_dict"
    return absent(matter, len(batch.x), note)


def outcomes_differ(one: Mapped, other: Mapped) -> bool:
    """Whether two outcomes differ by more than rounding, or in shape."""
    if np.ndim(one.value) and np.shape(one.value) != np.shape(other.value):
        return True
    gaps = outcome_gap(one, other, len(one.value)) if np.ndim(one.value) else np.zeros((1, 2))
    return bool(np.nan_to_num(gaps).max(initial=0.0) > APART)


@law(
    "effects/state[parameters]",
    key="state/parameters-kept",
    tolerance=EXACT,
    effort=2,
    size=7,
    scales=NEARBY,
    history="fresh",
    applies=has_modules & has_parameters,
    version=2,
    source="parameters are moved by an optimizer; initialization from data happens once (Kingma and Dhariwal 2018, section 3.1)",
)
def parameters_kept(flow: Living, batch: Batch) -> Residual:
    """After the first train-mode batch, which may initialize them, no call of either mode writes
    to a trained parameter. A batch updates the state in the forward pass only, not in the backward
    pass.
    """
    first, waiting = attempt(normalizing_probe, flow, batch)
    if waiting:
        first = after_train(flow, batch)
    # The next batch is another one, so that recomputed statistics would change.
    other = first.mapped(lambda array: 0.5 * np.roll(array, 1, axis=0) + 0.5 * array)
    if not waiting and attempt(other)[1]:
        other = first
    begin: list[Step[object]] = [Train(), first.step(), Weights()]
    refusal = "it refuses to be trained here"
    life = lived(flow, [*begin, other.step(), Weights(), Eval(), first.step(), Weights()], refusal)
    written = [f"{name} (by {first.name} in train mode)" for name in changed(life[2], life[4])]
    written += [f"{name} (by {first.name} in eval mode)" for name in changed(life[4], life[7])]
    others = [first] if waiting else probes(flow, batch, complete=False)
    for probe in others:
        if sparing(flow) and probe.name == first.name and not waiting:
            continue  # the history above made that call again, at other points
        after, error = attempt(flow.play, [*begin, probe.step(), Weights()])
        if not error:
            names = changed(after[2], after[4])
            written += [f"{name} (by {probe.name} in train mode)" for name in names]
    written += [f"{name} (by the backward pass)" for name in left_by_backward(flow, batch, first)]
    return absent(written, len(batch.x), "a call wrote to {}")


def left_by_backward(flow: Living, batch: Batch, first: Probe) -> list[str]:
    """Floating tensors of the state that differ after a training step of size zero from those
    after the call alone: a forward pass that is recomputed in the backward pass updates them
    twice.
    """
    asked = probe_of(flow, "log_prob", *first.inputs) if "log_prob" in flow.calls else first
    alone, refused = attempt(flow.play, [Train(), asked.step(draws=None), State()])
    learnt, too = attempt(
        flow.play, [Train(), Learn(asked.inputs[0], asked.inputs[1], rate=0.0), State()]
    )
    if refused or too:
        return []
    return [
        name
        for name, value in learnt[-1].items()
        if (once := alone[-1].get(name)) is not None
        and np.shape(once) == np.shape(value)
        and np.issubdtype(np.asarray(value).dtype, np.floating)
        and not np.allclose(once, value, rtol=APART, atol=APART, equal_nan=True)
    ]


def after_train(flow: Living, batch: Batch) -> Probe:
    """The call of an object that raises in eval mode before its first train-mode batch. An
    exception after that batch passes through.
    """
    if "forward" not in flow.calls or flow.normalizing != "forward":
        return normalizing_probe(flow, batch)
    probe = probe_of(flow, "forward", batch.x, batch.context)
    if attempt(flow.play, [Train(), probe.step(), Eval(), probe.step()])[1]:
        return normalizing_probe(flow, batch)
    return probe
