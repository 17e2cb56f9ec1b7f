"""What every operation goes through that is dispatched to torch's operators while a mode is on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class Dispatch(TorchDispatchMode):
    """A mode that changes nothing; others say what an operation does under them, in `operation`."""

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
        """What an operator gives."""
        return func(*args, **named)
