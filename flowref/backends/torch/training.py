"""Training as users do it: a state that is reached by an object's own gradients is valid by
construction, so that there is no excuse for what shows in it.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from flowref.backends.data import sample
from flowref.backends.torch.captures import shared
from flowref.backends.torch.state import duplicate, set_mode, tensors, trainable
from flowref.model import REAL, Dialect, Facts, Support, Unsupported, derive, one_line

STEPS, RATE, LARGEST_GRADIENT = 30, 1e-2, 10.0
# How far steps can move a parameter.
REACH = STEPS * RATE
ROWS, ENTRIES = 64, 256
# Adam: Kingma and Ba (arXiv:1412.6980), algorithm 1, with its default settings.
BETAS, EPSILON = (0.9, 0.999), 1e-8
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


def trained(
    key: Any, build: Callable[[], Any], start: Callable[[], Any], *details: Any
) -> Training:
    """The training of the object that ``start`` gives, made once: ``build`` and ``key`` tell it
    apart; ``details`` are those of `train`.
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
        _TRAINED[key] = (build, train(obj, *details))
        while len(_TRAINED) > KEPT:
            _TRAINED.popitem(last=False)
    _TRAINED.move_to_end(key)
    return _TRAINED[key][1]


def train(obj: Any, dialect: Dialect, facts: Facts, dtype: torch.dtype, seed: int) -> Training:
    """Steps of Adam in train mode, each on a new batch of a skewed sample with two modes; then what
    the library documents to put parameters back into their valid set.

    Raises `Unsupported` where there is nothing to train, or no loss to train it by.
    """
    named = trainable(obj)
    if not named or facts.promises.get("fixed"):
        raise Unsupported("it has no parameters that training moves")
    support, shape = _data(dialect, facts)
    if math.prod(shape) >= ENTRIES:
        raise Unsupported("its events are too large to be trained on here")
    rng = np.random.default_rng(derive(seed, 37) % 2**32)
    set_mode(obj, True)
    moments = [[torch.zeros_like(p), torch.zeros_like(p)] for _, p in named]
    losses: list[float] = []
    first = last = duplicate(obj)
    error = ""
    for step in range(1, STEPS + 1):
        x = torch.from_numpy(sample(support, (ROWS, *shape), rng)).to(dtype)
        context = None
        if facts.context_shape is not None:
            drawn = rng.standard_normal((ROWS, *facts.context_shape))
            context = torch.from_numpy(drawn).to(dtype)
        try:
            value = loss(obj, dialect, x, context)
            if not math.isfinite(float(value.detach())):
                error = f"the loss is {float(value.detach())} at step {step}"
                break
            if not value.requires_grad:
                raise Unsupported("its loss records no graph")
            parameters = [p for _, p in trainable(obj)]
            gradients = torch.autograd.grad(value, parameters, allow_unused=True)
        except Unsupported:
            raise
        except Exception as raised:
            if not _refuses(duplicate(first), dialect, x, context):
                error = f"step {step} raises {one_line(raised)}"
            break
        losses.append(float(value.detach()))
        if any(g is not None and not bool(torch.isfinite(g).all()) for g in gradients):
            error = f"a gradient is not finite at step {step}, where the loss is {losses[-1]:.4g}"
            break
        last = duplicate(obj)  # the loss of this state is finite
        _adam(parameters, gradients, moments, step)
    else:
        last = obj
    settled = duplicate(last)
    set_mode(settled, False)
    if dialect.repair is not None:
        with torch.no_grad():
            dialect.repair(settled)
    for tensor in tensors(settled):
        tensor.grad = None if tensor.is_leaf else tensor.grad
    return Training(settled, tuple(losses), error)


def _refuses(obj: Any, dialect: Dialect, x: torch.Tensor, context: Any) -> bool:
    """Whether the object as it was before training refuses a batch as well."""
    try:
        loss(obj, dialect, x, context)
    except Exception:
        return True
    return False


def _adam(parameters: Any, gradients: Any, moments: Any, step: int) -> None:
    """One step of Adam, the gradient clipped by its norm."""
    norm = math.sqrt(sum(float(g.double().square().sum()) for g in gradients if g is not None))
    clip = min(1.0, LARGEST_GRADIENT / norm) if norm else 1.0
    with torch.no_grad():
        for parameter, gradient, kept in zip(parameters, gradients, moments, strict=True):
            if gradient is None:
                continue
            moved = (clip * gradient, (clip * gradient).square())
            for index, (beta, moment) in enumerate(zip(BETAS, moved, strict=True)):
                kept[index] = beta * kept[index] + (1 - beta) * moment
            mean, square = (kept[i] / (1 - BETAS[i] ** step) for i in (0, 1))
            parameter.sub_((RATE * mean / (square.sqrt() + EPSILON)).to(parameter.dtype))


def loss(obj: Any, dialect: Dialect, x: torch.Tensor, context: Any) -> torch.Tensor:
    """The mean negative log-likelihood: the object's own, or that of a standard normal base
    through its log-det. A map that tells none is moved until its latents have unit second moment.
    """
    if dialect.log_prob is not None:
        return -torch.as_tensor(dialect.log_prob(obj, x, context)).mean()
    function = _map(dialect)
    z, ladj = function(obj, x, context)
    if not isinstance(ladj, torch.Tensor):
        return torch.as_tensor((z.square().mean() - 1).square())
    per_point = ladj.dim() and ladj.shape[0] == len(x)
    total = ladj.sum() / len(x) if per_point else ladj.sum()
    return torch.as_tensor(0.5 * z.square().sum() / len(x) - total)


def _map(dialect: Dialect) -> Callable[..., Any]:
    """The call that maps data to latents. Raises `Unsupported` where there is none."""
    which = dialect.normalizing if dialect.inverse is not None else "forward"
    function = getattr(dialect, which)
    if function is None and dialect.push is not None:
        raise Unsupported("a layer that may draw has no likelihood of its own to train it by")
    if function is None:
        raise Unsupported("it offers no likelihood to train it by")
    return function  # type: ignore[no-any-return]  # getattr on a frozen dataclass of callables


def _data(dialect: Dialect, facts: Facts) -> tuple[Support, tuple[int, ...]]:
    """Where the data lie, and the shape of a point."""
    if dialect.forward is None or dialect.normalizing == "forward" or dialect.inverse is None:
        return facts.domain, facts.event_shape
    return facts.codomain or REAL, facts.latent_shape or facts.event_shape
