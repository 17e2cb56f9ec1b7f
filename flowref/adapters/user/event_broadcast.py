"""Whether a guessed event shape only works through broadcasting: a coupling of two features that slices
``x[..., :1]`` runs at four, with one scale broadcast over three entries and counted once in the log-det.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from flowref.adapters.common.broadcast_detection import stretched_over
from flowref.model import Shape


def stated_event_shapes(obj: Any, names: Sequence[str]) -> Iterator[Shape]:
    """The event shapes stated by attributes of an object."""
    for name in ("event_shape", *names):
        value = getattr(obj, name, None)
        if isinstance(value, int) and not isinstance(value, bool):
            yield (value,)
        elif isinstance(value, tuple | list) and all(isinstance(one, int) for one in value):
            yield tuple(value)


def stretches_tensors(call: Any, rows: int) -> bool:
    """Whether a torch call on ``rows`` rows broadcasts a per-point tensor ``(rows, 1)`` over several
    entries.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found: list[str] = []

    class Watching(TorchDispatchMode):
        """Records broadcasts of each operation."""

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            # Nothing is compiled here, and importing the wrapper that disables the compiler takes a
            # second.
            return False

        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor):
                given = [tuple(one.shape) for one in args if isinstance(one, torch.Tensor)]
                if stretched_over(given, tuple(out.shape), rows):
                    found.append(str(func))
            return out

    # Exceptions say nothing about broadcasting.
    with contextlib.suppress(Exception), Watching():  # type: ignore[no-untyped-call]  # torch's class is untyped
        call()
    return bool(found)
