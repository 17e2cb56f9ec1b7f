"""The severity of a violation: what it makes wrong, and by how many nats."""

from __future__ import annotations

from flowref.model import Size, Verdict, base_of, named_by

LIKELIHOOD, SAMPLES, VALUES = "wrong likelihood", "wrong samples", "wrong values"
GRADIENTS, STATE, PRECISION = "wrong gradients", "state", "precision"
INTERFACE = "interface"
# The gravest first.
KINDS = (LIKELIHOOD, SAMPLES, VALUES, GRADIENTS, STATE, PRECISION, INTERFACE)

# (what a violation makes wrong, globs of laws); the first match decides.
TABLE = (
    (INTERFACE, "shape/one-number-per-point shape/any-batch[batch-axes] shape/any-batch[no-*] shape/wrong-refused[features]"),
    (INTERFACE, "map/calls-work map/finite[wide] map/finite-far-out[outside] map/domain[undeclared] map/promised-jacobian[sign]"),
    (INTERFACE, "dtype/follows[device] dtype/follows[device-after-use] dtype/follows[unmentioned-device]"),
    (INTERFACE, "gradient/context-used effects/construction[settings] effects/construction[equality]"),
    (INTERFACE, "effects/memory[rows] effects/process[output] same/manner-accepted"),
    (PRECISION, "dtype/* same/saved[cast] batch-norm/numerics[offset] map/finite[boundary]"),
    (PRECISION, "map/finite-far-out[log-det] map/finite-far-out[extremes]"),
    (SAMPLES, "gradient/of-samples[density] density/stated[sample-moments] map/finite[samples] same/manner[tree]"),
    (SAMPLES, "multi-scale/split[inverse] random/seeded[two-calls] random/seeded[same-seed] random/rows-independent[]"),
    (SAMPLES, "random/rows-independent[duplicates] same/train-mode[inverse]"),
    (GRADIENTS, "gradient/* batch-norm/gradient same/manner[traced-gradient] map/inverse-jacobian[solver] state/trains"),
    (GRADIENTS, "density/score"),
    (LIKELIHOOD, "random/rows-independent[contribution] random/seeded[log-det] random/seeded[no-draws] random/once-per-solve"),
    (LIKELIHOOD, "same/history[log-det] same/manner[expanded] same/rows[contribution] same/rows[bound] same/train-mode[density]"),
    (LIKELIHOOD, "same/train-mode[log-det] map/finite[draws] map/finite-far-out[log-prob] map/inverse[gap] map/inverse[draws]"),
    (LIKELIHOOD, "sampling/follows-bound sampling/follows-density[estimate] sampling/follows-density[ratios]"),
    (LIKELIHOOD, "map/log-det map/log-det-unbiased map/one-to-one map/promised-jacobian map/singular-jacobian"),
    (LIKELIHOOD, "process/*"),
    (LIKELIHOOD, "density/* dequantize/* kernel/* residual/* composition/in-time composition/parts coupling/pattern[conditioner]"),
    (VALUES, "batch-norm/statistics[every-row] batch-norm/conventions[variance] same/manner[grad-modes]"),
    (VALUES, "same/manner[train-grad-modes] state/degenerate-batch[constant-channel] state/degenerate-batch[single-value]"),
    (STATE, "batch-norm/as-built batch-norm/conventions batch-norm/statistics batch-norm/eval-map[] batch-norm/eval-map[w*]"),
    (STATE, "batch-norm/modes-agree[*average*] batch-norm/modes-agree[many-batches] effects/* mode/* random/seeded"),
    (STATE, "same/copied same/saved same/history same/train-mode[first-call] state/*"),
    (SAMPLES, "sampling/* map/domain map/equivariant map/inverse map/inverse-jacobian"),
    (VALUES, "batch-norm/* sample-norm/* coupling/* multi-scale/* squeeze/* composition/algebra map/finite same/rows"),
    (VALUES, "same/rows-in-train same/train-mode shape/any-batch shape/wrong-refused"),
    (INTERFACE, "same/manner"),
)  # fmt: skip


def kind(law: str) -> str:
    """Return what the violation of a law makes wrong, one of `KINDS`.

    >>> kind("map/log-det"), kind("same/saved[reload]"), kind("mine/own-law")
    ('wrong likelihood', 'state', 'wrong values')
    """
    for name, globs in TABLE:
        if any(named_by(glob, base_of(law)) for glob in globs.split()):
            return name
    return VALUES


def magnitude(size: Size) -> str:
    """The size of an error as text.

    >>> magnitude(Size(0.364643, 0.51, 48, 3))
    '0.36 nats per point, 0.18 bits per dimension'
    """
    return f"{size.nats:.2g} nats per point, {size.bits_per_dim:.2g} bits per dimension"


def severity(verdict: Verdict) -> str:
    """What a violation makes wrong, and its size if measured.

    >>> from flowref.model import Status
    >>> severity(Verdict("t", "map/log-det", Status.VIOLATED, size=Size(2.0, 3.0, 48, 2)))
    'wrong likelihood: 2 nats per point, 1.4 bits per dimension'
    """
    kinds = f"minor, {kind(verdict.law)}" if verdict.minor else kind(verdict.law)
    return f"{kinds}: {magnitude(verdict.size)}" if verdict.size else kinds
