"""Which laws the slips of `batch_norm` break."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from flowref_zoo.seeds.slips import Row


def _alone(row: str, *names: str, **options: Any) -> tuple[str, ...]:
    others = "".join(f"&{name}={value}" for name, value in options.items())
    return tuple(f"{name}?rows={row}{others}" for name in names)


FIRST, SECOND, THIRD = "FlattenedBatchNorm", "AveragingBatchNorm", "GradientModeBatchNorm"
BACKWARD = (
    "batch-norm/backward-closed-form",
    "batch-norm/measured-gradient",
    "batch-norm/weight-before-growth",
    "batch-norm/weight-before-orthogonality",
    "batch-norm/weight-before-scale",
)
SINGLE = (
    "batch-norm/single-value-refused",
    "batch-norm/single-value-keeps-statistics",
    "batch-norm/empty-batch",
)
ROWS: Mapping[str, Row] = MappingProxyType(
    {
        "000-12": Row(
            _alone("000-12", FIRST, SECOND),
            ("batch-norm/offset-stability", "batch-norm/constant-channel"),
            ("conduct/float32-agrees",),
        ),
        "000-13": Row(
            _alone("000-13", FIRST, SECOND, num_channels=1),
            ("batch-norm/channel-count", "batch-norm/ranks"),
        ),
        "000-14": Row(_alone("000-14", FIRST), ("conduct/no-printing",)),
        "000-15": Row(_alone("000-15", SECOND), ("mode/protocol",)),
        "000-16": Row(
            _alone("000-16", SECOND), ("state/no-graph-in-buffers",), ("state/can-be-copied",)
        ),
        "000-17": Row(_alone("000-17", SECOND), ("batch-norm/running-variance-convention",)),
        "000-20": Row(_alone("000-20", FIRST, SECOND), SINGLE),
        # With the wrong exponent the gradients of a channel still sum to zero, but have a part
        # along its output.
        "002-3": Row(
            (*_alone("002-3", THIRD), *_alone("002-3", THIRD, num_dims=2)),
            ("batch-norm/gradient-along-output",),
            BACKWARD,
        ),
        # Without eps it is the other way round.
        "002-4": Row(
            (*_alone("002-4", THIRD), *_alone("002-4", THIRD, eps=0.1)),
            ("batch-norm/gradient-sums-to-zero",),
            ("batch-norm/bias-before-is-idle", *BACKWARD),
        ),
        "002-8": Row(
            _alone("002-8", THIRD),
            (
                "mode/grad-modes-agree",
                "mode/train-ignores-grad-mode",
                "batch-norm/updates-without-gradients",
            ),
            (
                # Averages that an earlier call in eval mode has moved are those of the next one.
                "conduct/cache-coherent",
                "state/restore-equals",
                "conduct/nan-containment",
                "conduct/gradients-finite",
                "conduct/value-gradient",
                "mode/eval-is-pure",
                "mode/first-call-in-eval",
                "mode/batch-content",
                "mode/rows-independent",
                "batch-norm/eval-affine-map",
                "batch-norm/eval-before-training",
                "batch-norm/eval-still-trains",
                "batch-norm/statistics-follow",
                "batch-norm/matches-reference",
            ),
        ),
        "002-9": Row(_alone("002-9", THIRD), ("state/reload-equals", "conduct/device-follow")),
        "002-10": Row(_alone("002-10", THIRD), ("batch-norm/running-variance-convention",)),
        "002-11": Row(
            (*_alone("002-11", THIRD), *_alone("002-11", THIRD, num_dims=2)),
            ("batch-norm/channel-count", "batch-norm/ranks"),
            ("conduct/wrong-shape-refused",),
        ),
        "002-14": Row(_alone("002-14", THIRD), SINGLE),
    }
)
