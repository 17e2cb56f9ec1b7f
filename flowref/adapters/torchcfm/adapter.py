r"""torchcfm: conditional paths $t \mapsto x_t$ of flow matching, whose derivative is the conditional velocity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowref.adapters.common import moving_frames
from flowref.adapters.common.object_components import components_of, lineage
from flowref.adapters.torchcfm import constructions
from flowref.model import Adapter, Component, Dialect, Facts, Shape, Support

# $x_0$, $x_1$ and the noise, scalars.
CONTEXT: Shape = (3,)


def forward(obj: Any, t: Any, context: Any) -> Any:
    # In the shape of images, for which times of single rows are broadcast.
    x0, x1, noise = (one.reshape(-1, 1, 1, 1) for one in context.unbind(-1))
    x = obj.sample_xt(x0, x1, t[:, 0], noise)
    velocity = obj.compute_conditional_flow(x0, x1, t[:, 0], x)
    return moving_frames.from_moving_frame(t, x, velocity, context)


PATH = Dialect(forward=forward)


def recognizes(obj: Any) -> Dialect | None:
    """The dialect of a conditional flow matcher, or None."""
    return PATH if "ConditionalFlowMatcher" in lineage(obj) else None


def describe(obj: Any, event_shape: Shape | None) -> Facts:
    """The facts of a path: events are times ``(1,)``, contexts ``(3,)`` are $x_0$, $x_1$ and the noise."""
    times = Support.parse(moving_frames.TIMES)
    promises = {"elementwise": True, "monotone": True}
    return Facts((1,), (1,), times, context_shape=CONTEXT, promises=promises)


def components() -> Mapping[str, Component]:
    """The matchers of `constructions.MATCHERS`."""
    return components_of(constructions.matchers(), PATH, describe)


ADAPTER = Adapter(
    name="torchcfm",
    package="torchcfm",
    title="torchcfm",
    components=components,
    recognizes=recognizes,
    describe=describe,
    extra="apps",
    healthy=lambda: ("ConditionalFlowMatcher", "TargetConditionalFlowMatcher"),
)
