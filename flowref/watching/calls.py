"""The calls that training makes of a model, recorded on the instance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch

# Methods that training loops call, on models that have them.
METHODS = (
    "forward", "log_prob", "inverse", "log_likelihood", "forward_kld", "reverse_kld", "nll", "loss", "compute_loss",
    "elbo", "training_step",
)  # fmt: skip


@dataclass
class Call:
    """One call of a method of a model; ``then``: the arguments of ``log_prob`` of the distribution
    that it returned.
    """

    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    then: tuple[tuple[Any, ...], dict[str, Any]] | None = None
    outputs: list[torch.Tensor] = field(default_factory=list)
    gradients: dict[int, torch.Tensor] = field(default_factory=dict)

    def again(self, model: Any) -> Any:
        """Returns the result of the same call on another model."""
        result = getattr(model, self.method)(*self.args, **self.kwargs)
        if self.then is not None:
            args, kwargs = self.then
            result = result.log_prob(*args, **kwargs)
        return result

    @property
    def tensors(self) -> list[torch.Tensor]:
        """The floating tensors among the arguments, those of the last call first."""
        later = [] if self.then is None else list(floating(self.then))
        return [*later, *floating((self.args, self.kwargs))]


class Recorded:
    """A bound method that reports its outermost calls to a listener; in copies of the model it is
    the original method.
    """

    def __init__(self, model: Any, name: str, listener: CallListener) -> None:
        self.model, self.name, self.listener = model, name, listener
        self.plain: Callable[..., Any] = getattr(model, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the method. Nested calls, and calls without gradients, are not reported."""
        if self.listener.inside or torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return self.plain(*args, **kwargs)
        return self.listener.observe(self.plain, Call(self.name, args, kwargs))

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self.model, self.name)


class CallListener:
    """Passes calls to a watch: after they return, with their outputs, and when they raise."""

    def __init__(self, returned: Callable[[Call], None], raised: Callable[[Call], None]) -> None:
        self.inside = False
        self._returned, self._raised = returned, raised

    def observe(self, plain: Callable[..., Any], call: Call) -> Any:
        """Returns the result of a call, and reports the call."""
        self.inside = True
        try:
            result = plain(*call.args, **call.kwargs)
        except Exception:
            self._raised(call)
            raise
        finally:
            self.inside = False
        call.outputs = list(floating(result))
        if call.outputs:
            self._returned(call)
        elif callable(
            getattr(result, "log_prob", None)
        ):  # a distribution: its log_prob is called next
            self._follow(result, call)
        return result

    def _follow(self, distribution: Any, call: Call) -> None:
        plain = distribution.log_prob

        def log_prob(*args: Any, **kwargs: Any) -> Any:
            if self.inside or not torch.is_grad_enabled():
                return plain(*args, **kwargs)
            later = Call(call.method, call.args, call.kwargs, then=(args, kwargs))
            self.inside = True
            try:
                result = plain(*args, **kwargs)
            except Exception:
                self._raised(later)
                raise
            finally:
                self.inside = False
            later.outputs = list(floating(result))
            self._returned(later)
            return result

        with suppress(AttributeError, TypeError):  # an object with slots is not watched
            distribution.log_prob = log_prob


def record(model: Any, listener: CallListener) -> Callable[[], None]:
    """Record the calls of a model from now on; returns a function that ends it."""
    names = [
        name
        for name in METHODS
        if callable(getattr(model, name, None))
        and not isinstance(getattr(model, name), torch.nn.Module)
        and name not in vars(model)
    ]
    recorded = {name: Recorded(model, name, listener) for name in names}
    for name, one in recorded.items():
        object.__setattr__(model, name, one)

    def end() -> None:
        for name, one in recorded.items():
            if vars(model).get(name) is one:
                object.__delattr__(model, name)

    return end


def plain_copy(model: Any, duplicate: Callable[[Any], Any]) -> Any:
    """Copies a recorded model, without the recording methods."""
    copy = duplicate(model)
    for name in METHODS:
        vars(copy).pop(name, None) if name in vars(model) else None
    return copy


def floating(value: Any, depth: int = 3) -> Iterator[torch.Tensor]:
    """Yields the floating tensors in nested tuples, lists and dictionaries, up to ``depth``
    levels.
    """
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield value
    elif depth and isinstance(value, list | tuple | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from floating(one, depth - 1)


def all_finite(tensor: torch.Tensor) -> bool:
    """Whether all numbers of a tensor are finite. A finite sum shows it; otherwise each is
    checked.
    """
    total = tensor.detach().sum(
        dtype=torch.float64 if tensor.dtype == torch.float64 else torch.float32
    )
    # nan and inf minus themselves are not 0.
    return bool((value := total.item()) - value == 0) or bool(torch.isfinite(tensor).all())
