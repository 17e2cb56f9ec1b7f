"""A call of plain functions is cut into maps wherever no more than an event is still needed, and only
where these maps are the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from flowref import loading
from flowref.backends.torch.cuts import Pieces, pieces
from flowref.backends.torch.stages import MapCall
from flowref.laws.bijection.at_size import LogDetVisitor, log_det_at_points
from flowref.model import Condition, draw_points
from flowref.model.abilities import Differentiable, Walked, offers

CHANNELS, HEIGHT, WIDTH = 4, 2, 4
SIZE = CHANNELS * HEIGHT * WIDTH
HALF = SIZE // 2
Way = Callable[["Plain", Any], Any]


class DifferentiableWalked(Walked, Differentiable):
    """A map that is taken apart, and whose Jacobian the framework gives."""


class Plain(nn.Module):
    """A map that is written in functions of tensors alone."""

    def __init__(self, way: Way, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.way, self.event_shape = way, shape
        self.first, self.second = nn.Linear(HALF, HALF), nn.Linear(HALF, HALF)
        self.mixing = nn.Parameter(torch.linalg.qr(torch.randn(CHANNELS, CHANNELS))[0] * 1.1)
        self.dense = nn.Parameter(torch.linalg.qr(torch.randn(SIZE, SIZE))[0] * 1.1)

    def forward(self, x: Any) -> tuple[Any, Any]:
        """The value, and a log-det that nobody asks for."""
        return self.way(self, x), x.new_zeros(len(x))


def moved(net: Any, kept: Any, other: Any) -> Any:
    """One half, as the other moves it."""
    return other * net(kept).tanh().exp() + net(kept).sin()


def joined(flow: Plain, x: Any) -> Any:
    """Halves are taken apart and joined, layer by layer."""
    for net in (flow.first, flow.second):
        kept, other = x.chunk(2, -1)
        x = torch.cat([moved(net, kept, other), kept], -1)
    return x


def in_pairs(flow: Plain, x: Any) -> Any:
    """Two halves that are joined in the end only."""
    even, odd = x[..., ::2], x[..., 1::2]
    for net in (flow.first, flow.second, flow.first):
        even, odd = odd, moved(net, odd, even)
    out = torch.empty_like(x)
    out[..., ::2] = even
    out[..., 1::2] = odd
    return out


def in_place(flow: Plain, x: Any) -> Any:
    """Halves of copies are written over."""
    for net in (flow.first, flow.second):
        y = x.clone()
        y[:, HALF:] = moved(net, x[:, :HALF], x[:, HALF:])
        x = y.flip(-1)
    return x


def through_views(flow: Plain, x: Any) -> Any:
    """What goes on was written to through views of it."""
    y = x * 1.5
    kept, other = y[:, :HALF], y[:, HALF:]
    other.mul_(2.0)
    kept.sub_(0.5)
    return joined(flow, y).flip(-1)


def masked(flow: Plain, x: Any) -> Any:
    """Masks in place of halves."""
    for index, net in enumerate((flow.first, flow.second, flow.first)):
        mask = (torch.arange(SIZE) % 2 == index % 2).to(x.dtype)
        raw = torch.cat([net((x * mask)[:, :HALF]), net((x * mask)[:, HALF:])], -1)
        x = mask * x + (1 - mask) * (x * raw.tanh().exp() + raw.sin())
    return x


def image(flow: Plain, x: Any) -> Any:
    """Channels are mixed at each position and moved by others; some leave early."""
    batch = len(x)
    x = functional.conv2d(x, flow.mixing[:, :, None, None])
    early, x = x.chunk(2, 1)
    x = functional.pixel_unshuffle(x, 2)
    x = torch.einsum("ij,bihw->bjhw", torch.block_diag(flow.mixing, 2 * flow.mixing), x)
    late = moved(flow.first, early.reshape(batch, HALF), x.reshape(batch, HALF))
    return torch.cat([early.reshape(batch, HALF), late], 1)


def dense(flow: Plain, x: Any) -> Any:
    """Couplings about a matrix over all entries."""
    return joined(flow, joined(flow, x) @ flow.dense)


def behind_a_wall(flow: Plain, x: Any) -> Any:
    """One half reaches the other through a function that is none of torch's."""
    kept, other = x.chunk(2, -1)
    other = moved(flow.first, kept, other)
    seen: Any = Unseen
    return torch.cat([kept + 0.1 * seen.apply(other), other], -1)


class Unseen(torch.autograd.Function):
    """A sine whose derivative is written by hand."""

    @staticmethod
    def forward(context: Any, x: Any) -> Any:
        """The sine."""
        context.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        """The cosine."""
        return gradient * context.saved_tensors[0].cos()


FLAT: tuple[Way, ...] = (joined, in_pairs, in_place, through_views, masked, dense, behind_a_wall)
WAYS = [*((way, (SIZE,)) for way in FLAT), (image, (CHANNELS, HEIGHT, WIDTH))]
NAMES = [way.__name__ for way, _ in WAYS]
# Ways in which no piece has to be taken entry by entry.
TOLD = [(way, shape) for way, shape in WAYS if way not in (dense, behind_a_wall)]


def subject(way: Way, shape: tuple[int, ...], dtype: str = "float64") -> tuple[Any, Any]:
    """A flow that is written so, and points."""
    flow = loading.load(loading.snapshot(Plain(way, shape)), Condition(scale=0.3, dtype=dtype))
    assert offers(flow, Walked)
    return flow, draw_points(flow.domain, (3, *flow.event_shape), np.random.default_rng(3))


def cut(flow: Plain, x: Any) -> Pieces:
    """The pieces of a flow."""
    found = pieces(MapCall(lambda points, context: flow(points)), x)
    assert found is not None
    return found


@pytest.mark.parametrize(("way", "shape"), WAYS, ids=NAMES)
def test_whatever_a_call_is_written_in_its_log_det_is_told(way: Way, shape: Any) -> None:
    """What the pieces of a call tell is the log-det of its Jacobian taken whole."""
    flow, x = subject(way, shape)
    told = log_det_at_points(flow, "forward", x, None)
    truth = np.linalg.slogdet(flow.jacobian("forward", x, None))[1]
    assert told.known.all()
    assert np.allclose(told.log_det, truth, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("way", "shape"), TOLD, ids=[way.__name__ for way, _ in TOLD])
def test_no_piece_of_a_plain_flow_is_taken_entry_by_entry(way: Way, shape: Any) -> None:
    """Couplings, mixing of channels and what leaves early are told by structure."""
    flow, x = subject(way, shape)
    told = flow.walk("forward", x, None, LogDetVisitor())
    assert "entry by entry" not in told.how
    assert "parts" in told.how


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("way", "shape"), TOLD, ids=[way.__name__ for way, _ in TOLD])
def test_noise_changes_what_is_told_and_not_whether(way: Way, shape: Any, dtype: str) -> None:
    """What was told by structure is told so under noise, at every point, and about the same."""
    flow, x = subject(way, shape, dtype)
    told = flow.walk("forward", x, None, LogDetVisitor())
    with flow.noise(3, 2.0**-43 if dtype == "float64" else 2.0**-24):
        again = flow.walk("forward", x, None, LogDetVisitor())
    assert told.known.all() and again.known.all()
    assert "entry by entry" not in again.how
    assert np.allclose(again.log_det, told.log_det, atol=1e-9 if dtype == "float64" else 1e-2)


@pytest.mark.parametrize(("way", "shape"), WAYS, ids=NAMES)
def test_pieces_one_after_the_other_are_the_call(way: Way, shape: Any) -> None:
    """Cotangents are pulled back through the pieces as through the whole."""
    torch.manual_seed(0)
    flow = Plain(way, shape).double()
    x = torch.randn(2, *shape, dtype=torch.float64)
    found = cut(flow, x)
    leaf = x.clone().requires_grad_(True)
    pulled = torch.randn(2, SIZE, dtype=torch.float64)
    value = flow(leaf)[0]
    (expected,) = torch.autograd.grad(value, leaf, pulled.reshape(value.shape))
    back = pulled.numpy()[:, None]
    for piece in reversed(found):
        back = piece.pull(back)
    assert np.allclose(back[:, 0], expected.reshape(2, SIZE).numpy(), rtol=1e-12, atol=1e-12)
    assert [at for run in found.runs for at in run] == [*range(len(found))]


def test_what_passes_unchanged_is_held() -> None:
    """What is left of a coupling is the half that moves, entry by entry."""
    torch.manual_seed(0)
    flow = Plain(joined, (SIZE,)).double()
    found = cut(flow, torch.randn(2, SIZE, dtype=torch.float64))
    rests = [found.rest(range(at, at + 1)) for at in range(len(found))]
    assert HALF in {stage.x.shape[1] for stage in rests if stage is not None}
    assert found.chained is not None and found.chained.x.shape == (2, SIZE)


def test_a_call_that_ends_in_one_function_has_no_pieces() -> None:
    """Where the whole is the only map, it is not cut."""
    assert pieces(MapCall(lambda x, context: (x.sin(),)), torch.randn(2, 3)) is None


def test_the_way_to_what_is_held_is_not_walked() -> None:
    """What is pulled back to some sources of a piece is what is pulled back to all of them, and no
    gradient goes through the conditioner to those that are left out.
    """
    torch.manual_seed(2)
    flow = Plain(joined, (SIZE,)).double()
    x = torch.randn(3, SIZE, dtype=torch.float64)
    piece = cut(flow, x)[0]
    cotangents = np.random.default_rng(1).standard_normal((3, 2, SIZE))
    whole = piece.pull(cotangents)
    walked: list[bool] = []
    for index, source in enumerate(piece.sources):
        source.register_hook(lambda _, index=index: walked.append(index == 0))
    ends = np.cumsum([0, *(one[0].numel() for one in piece.sources)])
    for index in range(len(piece.sources)):
        walked.clear()
        wanted = [other == index for other in range(len(piece.sources))]
        some = piece.pull(cotangents, wanted)
        mine = slice(ends[index], ends[index + 1])
        np.testing.assert_array_equal(some[..., mine], whole[..., mine])
        some[..., mine] = 0.0
        assert not some.any()
        assert set(walked) == {index == 0}
