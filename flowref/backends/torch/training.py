"""Training of torch objects: losses, and steps of the parameters."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from flowref.backends import training
from flowref.backends.torch.arrays import as_tensors
from flowref.backends.torch.captures import shared
from flowref.backends.torch.state import duplicate, set_mode, tensors, trainable
from flowref.backends.training import Ended, mapping
from flowref.model import Array, Dialect, Facts, Unsupported, one_line

# The number of cached trained objects: a target's conditions and parts share one.
KEPT = 6


@dataclass(frozen=True)
class Training:
    """A trained object.

    ``obj``: in its last state with finite loss and parameters; ``losses``: of the steps made;
    ``error``: the exception of a step, or why training stopped, or "".
    """

    obj: Any
    losses: tuple[float, ...]
    error: str = ""


_TRAINED: OrderedDict[Any, tuple[Any, Training]] = OrderedDict()


def cached_training(
    key: Any, build: Callable[[], Any], start: Callable[[], Any], *details: Any
) -> Training:
    """The training of the object that ``start`` returns, cached by ``build`` and ``key``;
    ``details``: the other arguments of `train_object`. Raises `Unsupported` if the object
    cannot be copied.
    """
    key = (id(build), key)
    if key not in _TRAINED:
        obj = start()
        if shared(obj, *details):
            raise Unsupported("its copies call parts of the original, so training is not tested")
        try:
            duplicate(obj)
        except Exception as error:
            raise Unsupported("it cannot be copied, so its training is not tested") from error
        _TRAINED[key] = (build, train_object(obj, *details))
        while len(_TRAINED) > KEPT:
            _TRAINED.popitem(last=False)
    _TRAINED.move_to_end(key)
    return _TRAINED[key][1]


def train_object(
    obj: Any, dialect: Dialect, facts: Facts, dtype: torch.dtype, seed: int
) -> Training:
    """Trains in train mode (see `flowref.backends.training`), then applies the library's
    documented projection of parameters to their valid set.

    Raises `Unsupported` if there is nothing to train, or no loss.
    """
    if not trainable(obj):
        raise Unsupported("it has no parameters that training moves")
    trainee = TorchTrainee(obj, dialect, dtype)
    losses, error = training.train_by_adam(trainee, dialect, facts, seed)
    settled = trainee.last
    set_mode(settled, False)
    if dialect.repair is not None:
        with torch.no_grad():
            dialect.repair(settled)
    for tensor in tensors(settled):
        tensor.grad = None if tensor.is_leaf else tensor.grad
    return Training(settled, losses, error)


class TorchTrainee:
    """See `training.Trainee`. ``last``: a copy of the last stored state."""

    def __init__(self, obj: Any, dialect: Dialect, dtype: torch.dtype) -> None:
        set_mode(obj, True)
        self.obj, self.dialect, self.dtype = obj, dialect, dtype
        self.first = self.last = duplicate(obj)
        self.parameters: list[torch.Tensor] = []

    def gradients(self, x: Array, context: Array | None) -> tuple[float, Sequence[Any]]:
        """The loss of a batch ``x`` ``(n, *event)`` and the gradients of the parameters. An error
        that the untrained object raises too does not count.
        """
        given = as_tensors((x, context), self.dtype)
        try:
            value = loss(self.obj, self.dialect, *given)
            if not math.isfinite(float(value.detach())):
                return float(value.detach()), ()
            if not value.requires_grad:
                raise Unsupported("its loss records no graph")
            self.parameters = [parameter for _, parameter in trainable(self.obj)]
            gradients = torch.autograd.grad(value, self.parameters, allow_unused=True)
        except Unsupported:
            raise
        except Exception as raised:
            try:
                loss(duplicate(self.first), self.dialect, *given)
            except Exception:
                raise Ended from raised
            raise Ended(f"raises {one_line(raised)}") from raised
        return float(value.detach()), gradients

    def keep(self) -> None:
        """Store a copy."""
        self.last = duplicate(self.obj)

    def move(self, moves: Sequence[Any]) -> None:
        """Subtract the moves in place."""
        with torch.no_grad():
            for parameter, move in zip(self.parameters, moves, strict=True):
                if move is not None:
                    parameter.sub_(move.to(parameter.dtype))


def loss(
    obj: Any, dialect: Dialect, x: torch.Tensor, context: Any, center: float | None = None
) -> torch.Tensor:
    """The mean negative log-likelihood of ``x`` ``(n, *event)``, a scalar: the object's own, or
    that of a normal base through its log-det. For a map without a log-det: the squared
    deviation of the latents' second moment from one, unless the ``center`` of the base is
    given.
    """
    if dialect.log_prob is not None:
        return -torch.as_tensor(dialect.log_prob(obj, x, context)).mean()
    z, ladj = dialect.function(mapping(dialect))(obj, x, context)
    has_log_det = isinstance(ladj, torch.Tensor)
    if not has_log_det and center is None:
        return torch.as_tensor((z.square().mean() - 1).square())
    total = 0.5 * (z - center if center else z).square().sum() / len(x)
    if has_log_det:
        per_point = ladj.dim() and ladj.shape[0] == len(x)
        total = total - (ladj.sum() / len(x) if per_point else ladj.sum())
    return torch.as_tensor(total)
