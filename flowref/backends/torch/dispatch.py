"""The base of modes that intercept operations dispatched to torch's operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Dispatch(TorchDispatchMode):
    """A mode that changes nothing; subclasses override `operation`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's class is untyped

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # The wrapper that keeps the compiler out costs as much as rounding does, and importing it takes a
        # second; nothing is compiled under a mode.
        return False

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return self.operation(func, args, dict(kwargs or {}))

    def operation(self, func: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Runs an operator and returns its result."""
        return func(*args, **named)
