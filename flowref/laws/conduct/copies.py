"""A deep copy, a pickled copy and a saved copy equal the object and share nothing with it."""

from __future__ import annotations

from flowref.laws.common.amounts import sparing
from flowref.laws.common.outcomes import attempt, flags
from flowref.laws.common.probes import WITH_KERNELS, data, lived, probe_agreement_residual, probes
from flowref.laws.common.requirements import has_modules, repeatable
from flowref.laws.conduct.state import NUDGE, UNTRAINABLE, Steps, movable
from flowref.model import ADVICE, EXACT, Batch, Life, Residual, Unsupported, law
from flowref.model.abilities import Living
from flowref.model.steps import (
    Branch,
    Deepcopy,
    Eval,
    Fold,
    Learn,
    Pickle,
    Step,
    TorchSave,
    Train,
)

COPIES: dict[str, Step[None]] = {
    "deepcopy": Deepcopy(),
    "pickle": Pickle(),
    "torch_save": TorchSave(),
}


@law(
    "same/copied",
    key="state/copies-equal",
    effort=2,
    applies=repeatable,
    source="the protocols of copy.deepcopy, pickle and torch.save",
    pointwise=True,
)
def copies_equal(flow: Living, batch: Batch) -> Residual:
    """A deep copy, a pickled copy and a copy saved through torch return what the original returns."""
    probed = probes(flow, batch, calls=WITH_KERNELS)
    asked = [probe.step() for probe in probed]
    original = flow.play(asked)
    # An exception (a lambda inside, a cached non-leaf tensor) is not a wrong copy.
    lives = [_attempt_copy(flow, [copy, *asked])[0] for copy in COPIES.values()]
    pairs = [
        (probe, first, second)
        for life in lives
        if life is not None
        for probe, first, second in zip(probed, original, life[1:], strict=True)
    ]
    if not pairs:
        raise Unsupported("it refuses to be copied")
    return probe_agreement_residual(pairs, len(batch.x), "a copy returns something else")


def _attempt_copy(flow: Living, steps: Steps) -> tuple[Life | None, str]:
    """`attempt`, in which a missing ability is an error as well: there are other ways to copy."""
    try:
        return attempt(flow.play, steps)
    except Unsupported as error:
        return None, str(error)


@law(
    "same/copied[independence]",
    key="state/copies-independent",
    effort=2,
    applies=movable,
    version=2,
    source="copy.deepcopy: a deep copy shares no mutable part with the original",
    pointwise=True,
)
def copies_independent(flow: Living, batch: Batch) -> Residual:
    """Moving the parameters of a deep copy does not change the original."""
    probed = probes(flow, batch, calls=WITH_KERNELS)
    asked = [probe.step() for probe in probed]
    life, error = _attempt_copy(flow, [*asked, Branch(batch.seed, NUDGE), *asked])
    if life is None:
        raise Unsupported(f"it refuses to be copied ({error})")
    count = len(asked)
    pairs = zip(probed, life[:count], life[count + 1 :], strict=True)
    return probe_agreement_residual(pairs, len(batch.x), "the original moved with its copy")


@law(
    "same/copied[folded]",
    effort=2,
    applies=has_modules & repeatable,
    source="Ding et al., RepVGG (arXiv:2101.03697), section 3.3: a batch norm, folded into the layer before it, is the same map",
    pointwise=True,
)
def folded_equal(flow: Living, batch: Batch) -> Residual:
    """An object whose method fuse, fold, merge or deploy, or one that removes a weight norm, folds
    its layers returns the same in eval mode as before.
    """
    probed = probes(flow, batch, calls=WITH_KERNELS)
    asked = [probe.step() for probe in probed]
    original = flow.play([Eval(), *asked])
    folded, error = attempt(flow.play, [Eval(), Fold(), *asked])
    if error:
        raise Unsupported(f"it cannot be folded, or called then ({error})")
    pairs = zip(probed, original[1:], folded[2:], strict=True)
    return probe_agreement_residual(pairs, len(batch.x), "its folded layers return something else")


@law(
    "same/copied[after-training]",
    key="state/can-be-copied",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    applies=has_modules,
    source="exponential moving averages, checkpoints and worker processes copy modules after they were trained",
    pointwise=True,
)
def can_be_copied(flow: Living, batch: Batch) -> Residual:
    """After training steps the object can be deep-copied, pickled, and saved through torch."""
    step = Learn(data(flow, batch), batch.context)
    steps: Steps = [Train(), *([step] * 2 if flow.trainable else [])]
    if sparing(flow):
        if not _attempt_copy(flow, [*steps, *COPIES.values()])[1]:
            return flags(False, len(batch.x))  # each a copy of the previous one
        for way, copy in COPIES.items():  # copying that fails for a new object needs no training
            _, error = _attempt_copy(flow, [copy])
            if error:
                return flags(True, len(batch.x), f"{way}: {error}")
    lived(flow, steps, UNTRAINABLE)
    refusals = []
    for way, copy in COPIES.items():
        _, error = _attempt_copy(flow, [*steps, copy])
        if error:
            refusals.append(f"{way}: {error}")
    return flags(bool(refusals), len(batch.x), "; ".join(refusals[:1]))
