"""Which laws the bugs of `batch_norm` break."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from flowref_zoo.seeds.bug_rows import Row


def _alone(row: str, *names: str, **options: Any) -> tuple[str, ...]:
    others = "".join(f"&{name}={value}" for name, value in options.items())
    return tuple(f"{name}?rows={row}{others}" for name in names)


FIRST, SECOND, THIRD = "FlattenedBatchNorm", "AveragingBatchNorm", "GradientModeBatchNorm"
BACKWARD = (
    "batch-norm/gradient[closed-form]",
    "batch-norm/gradient",
    "batch-norm/gradient[weight-orthogonality]",
    "batch-norm/gradient[weight-scale]",
    "gradient/input[batch]",
)
SINGLE = (
    "state/degenerate-batch[single-value]",
    "shape/any-batch[batch-norm]",
)
ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "000-12": Row(
            _alone("000-12", FIRST, SECOND),
            ("batch-norm/numerics[offset]",),
            ("dtype/accurate",),
        ),
        "000-13": Row(
            _alone("000-13", FIRST, SECOND, num_channels=1),
            ("shape/wrong-refused[channels]", "shape/wrong-refused[ranks]"),
        ),
        "000-14": Row(_alone("000-14", FIRST), ("effects/process[output]",)),
        "000-15": Row(_alone("000-15", SECOND), ("mode/protocol",)),
        "000-16": Row(
            _alone("000-16", SECOND),
            ("effects/graphs",),
            ("effects/graphs[one-call]", "same/copied[after-training]"),
        ),
        "000-17": Row(_alone("000-17", SECOND), ("batch-norm/conventions[running-variance]",)),
        "000-20": Row(_alone("000-20", FIRST, SECOND), SINGLE),
        # With the wrong exponent the gradients of a channel still sum to zero, but have a part
        # along its output.
        "002-3": Row(
            (*_alone("002-3", THIRD), *_alone("002-3", THIRD, num_dims=2)),
            ("batch-norm/gradient",),
            BACKWARD,
        ),
        # Without eps it is the other way round.
        "002-4": Row(
            (*_alone("002-4", THIRD), *_alone("002-4", THIRD, eps=0.1)),
            ("batch-norm/gradient[bias-before]",),
            BACKWARD,
        ),
        "002-8": Row(
            _alone("002-8", THIRD),
            (
                "same/manner[grad-modes]",
                "same/manner[train-grad-modes]",
            ),
            (
                # Averages that an earlier call in eval mode has moved are those of the next one.
                "same/history[optimizer-step]",
                "same/saved[restore]",
                "map/finite[nan-row]",
                "gradient/finite",
                "gradient/input[value]",
                "effects/state[eval]",
                "effects/state[first-call]",
                "same/rows[large-batch]",
                "same/rows",
                "batch-norm/eval-map",
                "batch-norm/as-built[values]",
                "batch-norm/gradient[eval]",
                "batch-norm/statistics",
                "batch-norm/train-map[reference]",
            ),
        ),
        "002-9": Row(_alone("002-9", THIRD), ("same/saved[reload]", "dtype/follows[device]")),
        "002-10": Row(_alone("002-10", THIRD), ("batch-norm/conventions[running-variance]",)),
        "002-11": Row(
            (*_alone("002-11", THIRD), *_alone("002-11", THIRD, num_dims=2)),
            ("shape/wrong-refused[channels]", "shape/wrong-refused[ranks]"),
            ("shape/wrong-refused[features]",),
        ),
        "002-14": Row(_alone("002-14", THIRD), SINGLE),
    }
)
