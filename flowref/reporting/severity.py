"""How grave a violation is: what it makes wrong, and by how many nats."""

from __future__ import annotations

from flowref.model import Size, Verdict, base_of, named_by

LIKELIHOOD, SAMPLES, VALUES = "wrong likelihood", "wrong samples", "wrong values"
GRADIENTS, STATE, PRECISION = "wrong gradients", "state", "precision"
INTERFACE = "interface"
# The gravest first.
KINDS = (LIKELIHOOD, SAMPLES, VALUES, GRADIENTS, STATE, PRECISION, INTERFACE)

# Globs of laws and what their violation makes wrong; the first that matches decides.
TABLE = (
    (PRECISION, "*dtype* conduct/float32-* dtype/follows[cast] map/finite-far-out[extremes] map/finite-far-out[log-det]"),
    (PRECISION, "same/saved[cast] batch-norm/numerics[offset] map/finite[boundary]"),
    (INTERFACE, "*-shape */declared-sign shape/one-number-per-point[one-feature] map/finite[wide] shape/any-batch[batch-axes]"),
    (STATE, "same/manner[batch-norm-updates] effects/process[gradients]"),
    (GRADIENTS, "*gradient* batch-norm/gradient[closed-form] batch-norm/gradient[bias-before] gradient/input[log-prob]"),
    (GRADIENTS, "batch-norm/weight-before-* gradient/input[second-order] gradient/of-samples gradient/of-samples[graph]"),
    (GRADIENTS, "conduct/*parameters* gradient/reaches-parameters[start] gradient/reaches-parameters[conditioner-start] gradient/reaches-parameters[conditioner]"),
    (GRADIENTS, "gradient/finite[inverse] map/inverse-jacobian[solver] state/trains"),
    (GRADIENTS, "batch-norm/gradient[eval]"),
    (STATE, "state/* batch-norm/*keeps-statistics effects/state[eval] mode/first-* effects/state[mode] batch-norm/modes-agree[many-batches] mode/protocol"),
    (STATE, "batch-norm/running-* batch-norm/average* batch-norm/*momentum* batch-norm/statistics[counter]"),
    (STATE, "batch-norm/statistics batch-norm/statistics[plain-average]"),
    (STATE, "batch-norm/eval-map[without-tracking] batch-norm/as-built[values] batch-norm/eval-* batch-norm/conventions[state-dict]"),
    (STATE, "same/history[repeat] same/history[optimizer-step] conduct/earlier-* effects/process[settings]"),
    (STATE, "effects/process[input] same/saved[leaves] same/history[same-tensor] effects/construction[sharing]"),
    (STATE, "random/seeded[global-streams] random/seeded[key]"),
    (LIKELIHOOD, "*log-det* density/* contribution/* residual/* preprocessing/* same/train-mode[density] composition/parts"),
    (LIKELIHOOD, "map/promised-jacobian[constant] map/singular-jacobian map/one-to-one[orientation] map/promised-jacobian[volume]"),
    (LIKELIHOOD, "continuous/* map/one-to-one map/promised-jacobian[monotone] map/inverse[gap] coupling/pattern[conditioner]"),
    (LIKELIHOOD, "map/log-det[batch]"),
    (SAMPLES, "sampling/* *roundtrip *inverse* map/domain[preimage] map/domain[image] conduct/samples-*"),
    (SAMPLES, "map/inverse[last-call] multi-scale/split[inverse] map/domain[ends]"),
    (VALUES, "batch-norm/* sample-norm/* mode/* coupling/* multi-scale/* squeeze/* composition/* map/finite"),
    (VALUES, "map/finite[nan-row] shape/any-batch[one-row]"),
    (INTERFACE, "conduct/*"),
)  # fmt: skip


def kind(law: str) -> str:
    """What the violation of a law makes wrong, one of `KINDS`.

    >>> kind("map/log-det"), kind("same/saved[reload]"), kind("mine/own-law")
    ('wrong likelihood', 'state', 'wrong values')
    """
    for name, globs in TABLE:
        if any(named_by(glob, base_of(law)) for glob in globs.split()):
            return name
    return VALUES


def magnitude(size: Size) -> str:
    """The size of an error in words.

    >>> magnitude(Size(0.364643, 0.51, 48, 3))
    '0.36 nats per point, 0.18 bits per dimension'
    """
    return f"{size.nats:.2g} nats per point, {size.bits_per_dim:.2g} bits per dimension"


def severity(verdict: Verdict) -> str:
    """What a violation makes wrong, and its size where it has one.

    >>> from flowref.model import Status
    >>> severity(Verdict("t", "map/log-det", Status.VIOLATED, size=Size(2.0, 3.0, 48, 2)))
    'wrong likelihood: 2 nats per point, 1.4 bits per dimension'
    """
    kinds = f"minor, {kind(verdict.law)}" if verdict.minor else kind(verdict.law)
    return f"{kinds}: {magnitude(verdict.size)}" if verdict.size else kinds
