"""Known bugs of batch normalizers: their outputs, and the updates of their running statistics. A
point is a whole batch, or one value of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from flowref.diagnosing.comparison import Comparison, array_comparison
from flowref.diagnosing.known_bugs import first_explaining_bug, narrowed, other_terms
from flowref.diagnosing.scenes import Scene
from flowref.laws.batch_norm.arithmetic import broadcast_channels, channel_moments, per_channel
from flowref.laws.batch_norm.averages import History, constant_share, random_history
from flowref.laws.batch_norm.channels_first import channels_first
from flowref.laws.batch_norm.formula import Parameters
from flowref.laws.batch_norm.normalizer import output, random_batch
from flowref.model import Array, Law
from flowref.model.steps import Eval, Step, Train

BATCHES = 3
UNBIASED = "that with the variance divided by n - 1 instead of n"
BIASED = "that with the variance divided by n instead of n - 1"


def diagnose_normalizer(law: Law, scenes: Sequence[Scene]) -> str:
    """Return the known bug of a batch normalizer as text; empty if none explains the violation."""
    for view in VIEWS.get(law.base, ()):
        try:
            looked = [view(scene) for scene in scenes]
        except Exception:  # a role is missing, or the batch is refused
            continue
        seen, subject = [one for one, _ in looked], looked[0][1]
        if found := first_explaining_bug(seen, other_terms(seen)) or narrowed(seen):
            return f"{subject} is {found}"
    return ""


def trained_output(scene: Scene) -> tuple[Comparison, str]:
    """Compare the output in train mode with its formula."""
    comparison = _output(
        scene, 500, Train(), lambda known, x: channel_moments(x, known.freedom), standardizations
    )
    return comparison, "the output in train mode"


def evaluated_output(scene: Scene) -> tuple[Comparison, str]:
    """Compare the output in eval mode with its formula."""
    comparison = _output(scene, 600, Eval(), lambda known, x: known.running, with_batch_statistics)
    return comparison, "the output in eval mode"


Terms = dict[str, Callable[[], Array]]


def _output(
    scene: Scene,
    seed: int,
    mode: Step[Any],
    right: Callable[[Parameters, Array], tuple[Array, Array]],
    others: Callable[[Parameters, Array, Array, Array], Terms],
) -> Comparison:
    """Outputs in a mode against the formula with the right mean and variance; ``others`` returns
    the outputs of known bugs.
    """
    flow: Any = channels_first(scene.subject)
    got, want, terms = [], [], []
    for one in range(BATCHES):
        x, known = random_batch(flow, np.random.default_rng(seed + one)), Parameters.of(flow)
        mean, var = right(known, x)
        got.append(output(flow, x, mode))
        want.append(_normalized_with(known, x, mean, var)())
        terms.append(others(known, x, mean, var))
    return _entrywise_comparison(scene, got, want, terms)


def with_batch_statistics(known: Parameters, x: Array, mean: Array, var: Array) -> Terms:
    """Outputs of known bugs of eval mode."""
    own = channel_moments(x)
    return {
        "that of train mode: the batch's own statistics": _normalized_with(known, x, *own),
        **outputs(known, x, mean, var),
        "that with the running mean of the batch's: only the variance is running": _normalized_with(
            known, x, own[0], var
        ),
        "that with the variance of the batch: only the mean is running": _normalized_with(
            known, x, mean, own[1]
        ),
    }


def standardizations(known: Parameters, x: Array, mean: Array, var: Array) -> Terms:
    """Outputs of known bugs of train mode."""
    less = known.freedom

    def along(*axes: int) -> Array:
        m = x.mean(axes, keepdims=True)
        return known.affine((x - m) / np.sqrt(x.var(axes, keepdims=True) + known.epsilon))

    others = {
        UNBIASED if not less else BIASED: _normalized_with(
            known, x, mean, channel_moments(x, 1 - less)[1]
        ),
        **outputs(known, x, mean, var),
    }
    if x.ndim > 2 and len(x) > 1:
        others |= {
            "that with statistics over the batch alone, another for each position": lambda: along(
                0
            ),
            "that with statistics of each row by itself": lambda: along(*range(2, x.ndim)),
        }
    if len(known.statistics) == 2:
        others["that with the running statistics, as in eval mode"] = _normalized_with(
            known, x, *known.running
        )
    return others


def outputs(known: Parameters, x: Array, mean: Array, var: Array) -> Terms:
    """Outputs of known bugs for a mean and a variance."""
    m, v, eps = broadcast_channels(mean, x), broadcast_channels(var, x), known.epsilon

    def of(hat: Callable[[], Array]) -> Callable[[], Array]:
        return lambda: known.affine(hat())

    def weighted(weight: Array, bias: Array) -> Callable[[], Array]:
        return lambda: (
            broadcast_channels(weight, x) * known.hat(x, mean, var) + broadcast_channels(bias, x)
        )

    return {
        "that with eps outside the square root": of(lambda: (x - m) / (np.sqrt(v) + eps)),
        "that without eps": of(lambda: (x - m) / np.sqrt(v)),
        "that with eps squared": of(lambda: (x - m) / np.sqrt(v + eps**2)),
        "that divided by the variance instead of its root": of(lambda: (x - m) / (v + eps)),
        "that with the mean not subtracted": of(lambda: x / np.sqrt(v + eps)),
        "that with the mean added": of(lambda: (x + m) / np.sqrt(v + eps)),
        "that not divided by the deviation": of(lambda: x - m),
        "that multiplied by the deviation": of(lambda: (x - m) * np.sqrt(v + eps)),
        "the input, unchanged": lambda: x,
        "that without its weight": weighted(np.ones_like(known.scale), known.shift),
        "that without its bias": weighted(known.scale, np.zeros_like(known.shift)),
        "that with one plus the weight": weighted(1 + known.scale, known.shift),
        "that with the bias subtracted": weighted(known.scale, -known.shift),
        "that with the bias multiplied by the weight": weighted(
            known.scale, known.scale * known.shift
        ),
        "that with weight and bias exchanged": weighted(known.shift, known.scale),
        "that with the weight squared": weighted(known.scale**2, known.shift),
    }


def running_mean(scene: Scene) -> tuple[Comparison, str]:
    r"""Compare the updates of the running mean with $(1 - m)\mu + m\,\bar x$."""
    history, fraction = _history(scene)
    got, want, terms = [], [], []
    for x, (before, _), (after, _) in history.updates():
        mean = channel_moments(x)[0]
        got.append(after)
        want.append(_average(before, mean, fraction)())
        terms.append(
            _average_bugs(before, mean, fraction)
            | {
                "moved by the sum of the batch instead of its mean": _average(
                    before, per_channel(x).sum(1), fraction
                ),
                "moved by the first row of the batch alone": _average(
                    before, per_channel(x[:1]).mean(1), fraction
                ),
            }
        )
    return _entrywise_comparison(scene, got, want, terms), "the running mean"


def running_var(scene: Scene) -> tuple[Comparison, str]:
    r"""Compare the updates of the running variance with $(1 - m)\sigma^2 + m\,s^2$."""
    history, fraction = _history(scene)
    eps = history.parameters[0].eps or 0.0
    got, want, terms = [], [], []
    for x, (center, before), (_, after) in history.updates():
        (mean, biased), unbiased, values = (
            channel_moments(x),
            channel_moments(x, 1)[1],
            per_channel(x),
        )
        count = values.shape[1]
        instead = {
            "the deviation, not the variance": np.sqrt(unbiased),
            "the biased deviation, not the variance": np.sqrt(biased),
            "the variance times N/(N-1) of the rows alone, not of all values of a channel": biased
            * len(x)
            / max(len(x) - 1, 1),
            "the mean square: the mean is not subtracted": (values**2).mean(1),
            "the variance about the running mean": ((values - center[:, None]) ** 2).mean(1),
            "the variance times (n-1)/n, the inverse of the correction": biased
            * (count - 1)
            / count,
            "the variance and eps": unbiased + eps,
            "the biased variance and eps": biased + eps,
            "the unbiased variance minus the squared mean": np.abs(unbiased - mean**2),
        }
        got.append(after)
        want.append(_average(before, unbiased, fraction)())
        terms.append(
            _average_bugs(before, unbiased, fraction)
            | {
                f"moved by {name}": _average(before, value, fraction)
                for name, value in instead.items()
            }
            | {
                f"{name}, and by the biased variance": value
                for name, value in _average_bugs(before, biased, fraction).items()
            }
        )
    return _entrywise_comparison(scene, got, want, terms), "the running variance"


def _average_bugs(before: Array, statistic: Array, fraction: float) -> Terms:
    """Results of known bugs of an exponential average."""
    return {
        "moved with the momentum reversed: weight m for the old value, 1 - m for the new one": _average(
            before, statistic, 1 - fraction
        ),
        "not moved": lambda: before,
        "that of the last batch, without an average": lambda: statistic,
        "moved twice by each batch": _average(
            _average(before, statistic, fraction)(), statistic, fraction
        ),
        "the old value plus m times the new one: the old one is not scaled by 1 - m": lambda: (
            before + fraction * statistic
        ),
        "moved with the momentum squared": _average(before, statistic, fraction**2),
    }


def _average(before: Array, statistic: Array, fraction: float) -> Callable[[], Array]:
    return lambda: np.asarray((1 - fraction) * before + fraction * statistic, dtype=np.float64)


def _history(scene: Scene) -> tuple[History, float]:
    """A few batches and their momentum. Raises: `ValueError` if it is unknown."""
    flow: Any = channels_first(scene.subject)
    history = random_history(flow, np.random.default_rng(700))
    declared = history.parameters[0].momentum
    seen = constant_share(history)
    fraction = seen if declared is None else declared
    if declared is not None and seen is not None and abs(seen - (1 - declared)) < 1e-6:
        fraction = 1 - declared  # the other convention, which is no bug
    if fraction is None or not 0 < fraction < 1:
        raise ValueError("no momentum is known")
    return history, fraction


def _normalized_with(known: Parameters, x: Array, mean: Array, var: Array) -> Callable[[], Array]:
    return lambda: known.affine(known.hat(x, mean, var))


def _entrywise_comparison(
    scene: Scene,
    got: Sequence[Array],
    want: Sequence[Array],
    terms: Sequence[Mapping[str, Callable[[], Array]]],
) -> Comparison:
    """Batches as rows of one number each, so that several sizes fit into one comparison."""

    def flat(values: Sequence[Array]) -> Array:
        return np.concatenate([np.asarray(value, dtype=np.float64).reshape(-1) for value in values])

    one, other = flat(got), flat(want)
    names = [name for name in terms[0] if all(name in more for more in terms)]
    comparison = array_comparison(
        scene.subject, one, other, np.ones(len(one), dtype=bool), len(one)
    )

    def formula(name: str) -> Array:
        return flat([one[name]() for one in terms])

    return replace(comparison, terms={name: partial(formula, name) for name in names})


TRAINED, EVALUATED, MOVED = (trained_output,), (evaluated_output,), (running_mean, running_var)
# Law -> the comparisons that may explain its violation.
VIEWS: Mapping[str, Sequence[Callable[[Scene], tuple[Comparison, str]]]] = {
    "batch-norm/train-map[reference]": TRAINED + EVALUATED,
    **dict.fromkeys(
        (
            "batch-norm/train-map[deviation]",
            "batch-norm/train-map[scale]",
            "batch-norm/train-map",
        ),
        TRAINED,
    ),
    **dict.fromkeys(("batch-norm/eval-map", "batch-norm/modes-agree[average-limit]"), EVALUATED),
    **dict.fromkeys(
        (
            "batch-norm/statistics[buffers]",
            "batch-norm/statistics",
            "batch-norm/statistics[momentum-limits]",
        ),
        MOVED,
    ),
}
