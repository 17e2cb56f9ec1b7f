"""Training of torch objects: their losses, and steps of their parameters."""

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

# Trained objects that are kept: a target's conditions and parts ask for the same one.
KEPT = 6


@dataclass(frozen=True)
class Training:
    """What training made of an object.

    ``obj``: in its last state in which the loss and every parameter were finite; ``losses``: of the
    steps that were made; ``error``: what a step raised, or why training stopped, or "".
    """

    obj: Any
    losses: tuple[float, ...]
    error: str = ""


_TRAINED: OrderedDict[Any, tuple[Any, Training]] = OrderedDict()


def cached_training(
    key: Any, build: Callable[[], Any], start: Callable[[], Any], *details: Any
) -> Training:
    """The training of the object that ``start`` gives, made once: ``build`` and ``key`` tell it
    apart; ``details`` are those of `train_object`.
    """
    key = (id(build), key)
    if key not in _TRAINED:
        obj = start()
        if shared(obj, *details):
            raise Unsupported("its copies call parts of the original, so training is not looked at")
        try:
            duplicate(obj)
        except Exception as error:
            raise Unsupported("it cannot be copied, so its training is not looked at") from error
        _TRAINED[key] = (build, train_object(obj, *details))
        while len(_TRAINED) > KEPT:
            _TRAINED.popitem(last=False)
    _TRAINED.move_to_end(key)
    return _TRAINED[key][1]


def train_object(
    obj: Any, dialect: Dialect, facts: Facts, dtype: torch.dtype, seed: int
) -> Training:
    """Steps in train mode (see `flowref.backends.training`); then what the library documents to put
    parameters back into their valid set.

    Raises `Unsupported` where there is nothing to train, or no loss to train it by.
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
    """See `training.Trainee`. ``last``: a copy of the last state that was kept."""

    def __init__(self, obj: Any, dialect: Dialect, dtype: torch.dtype) -> None:
        set_mode(obj, True)
        self.obj, self.dialect, self.dtype = obj, dialect, dtype
        self.first = self.last = duplicate(obj)
        self.parameters: list[torch.Tensor] = []

    def gradients(self, x: Array, context: Array | None) -> tuple[float, Sequence[Any]]:
        """Those of the parameters. What an untrained object refuses as well is no word about training."""
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
        """A copy of it."""
        self.last = duplicate(self.obj)

    def move(self, moves: Sequence[Any]) -> None:
        """In place."""
        with torch.no_grad():
            for parameter, move in zip(self.parameters, moves, strict=True):
                if move is not None:
                    parameter.sub_(move.to(parameter.dtype))


def loss(
    obj: Any, dialect: Dialect, x: torch.Tensor, context: Any, center: float | None = None
) -> torch.Tensor:
    """The mean negative log-likelihood: the object's own, or that of a normal base through its log-det. A
    map that tells none is moved until its latents have unit second moment, unless the ``center`` of the
    base is given.
    """
    if dialect.log_prob is not None:
        return -torch.as_tensor(dialect.log_prob(obj, x, context)).mean()
    z, ladj = dialect.function(mapping(dialect))(obj, x, context)
    told = isinstance(ladj, torch.Tensor)
    if not told and center is None:
        return torch.as_tensor((z.square().mean() - 1).square())
    total = 0.5 * (z - center if center else z).square().sum() / len(x)
    if told:
        per_point = ladj.dim() and ladj.shape[0] == len(x)
        total = total - (ladj.sum() / len(x) if per_point else ladj.sum())
    return torch.as_tensor(total)
