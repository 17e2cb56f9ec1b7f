"""Whether an object's results depend on its mode: in values, or in the graph of gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import nn

from flowref.backends.data import side
from flowref.backends.torch.arrays import array
from flowref.backends.torch.live import Live
from flowref.backends.torch.sandbox import seed_torch
from flowref.backends.torch.state import modules, set_mode
from flowref.model import derive, draw_points

# The calls that are compared, and the number of points.
CALLS, ROWS = ("forward", "inverse", "log_prob"), 2


def mode_matters(live: Live) -> bool:
    """Whether a map, its inverse or its log-density reads the mode of a module, and then returns
    other values, or records another graph.
    """
    if not modules(live.pristine):
        return False
    with live.calling("its mode"):
        offered = [name for name in CALLS if getattr(live.dialect, name) is not None]
        return any(_reads_mode(live, name) and _differs_by_mode(live, name) for name in offered)


def _reads_mode(live: Live, name: str) -> bool:
    obj, reads = live.take(), list[str]()
    try:
        for whole in modules(obj):
            for part in whole.modules():
                part.__class__ = _mode_reporting_class(type(part), reads.append)
    except Exception:  # unknown for a class that cannot be replaced
        return True
    with contextlib.suppress(Exception):
        _call_with_graph(live, name, obj)
    return bool(reads)


def _mode_reporting_class(cls: type[nn.Module], read: Callable[[str], None]) -> type[nn.Module]:
    def get(self: nn.Module) -> bool:
        read(cls.__name__)
        return bool(vars(self).get("training", True))

    def put(self: nn.Module, value: bool) -> None:
        vars(self)["training"] = value

    return type(
        cls.__name__, (cls,), {"training": property(get, put), "__module__": cls.__module__}
    )


def _differs_by_mode(live: Live, name: str) -> bool:
    outcomes: list[list[Any]] = []
    for training in (False, True):
        obj = live.take()
        set_mode(obj, training)
        seed_torch(derive(live.seed, 43))
        try:
            out = _call_with_graph(live, name, obj)
            tensors = [
                one for one in (out if isinstance(out, tuple) else (out,)) if torch.is_tensor(one)
            ]
            outcomes.append(
                [(array(one).tobytes(), *_graph_operation_names(one)) for one in tensors]
            )
        except Exception as error:  # one of the modes may reject the call
            outcomes.append([type(error).__name__])
    return outcomes[0] != outcomes[1]


def _graph_operation_names(tensor: torch.Tensor) -> Iterator[str]:
    ahead, seen = [tensor.grad_fn], set[Any]()
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node.name()
        ahead += [one for one, _ in node.next_functions]


def _call_with_graph(live: Live, name: str, obj: Any) -> Any:
    """One call at a few ordinary points, with a graph."""
    facts, forwards = live.facts, live.dialect.normalizing == "forward"
    support, shape = side(facts, name == "inverse" or (name == "log_prob" and not forwards))
    rng = np.random.default_rng(derive(live.seed, 13) % 2**32)
    contexts = facts.context_shape
    context = None if contexts is None else live.tensor(rng.standard_normal((ROWS, *contexts)))
    points = live.tensor(draw_points(support, (ROWS, *shape), rng))
    assert points is not None
    # A leaf of the graph may not be written to.
    return getattr(live.dialect, name)(obj, points.requires_grad_(True).clone(), context)
