"""PyTorch as a `Backend`: the functions of this folder under the names of the protocol."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from flowref.backends.protocol import Backend, Blueprint, Counter, Wish
from flowref.model import Array, Condition, Cost, Dialect, Facts, Shape, Subject

T = TypeVar("T")


class Torch(Backend):
    """PyTorch on the CPU, imported on first use."""

    name = requires = "torch"
    modes = True

    def worker_setup(self) -> None:
        """Import torch, and restrict it to one thread: the order of sums depends on the number of
        threads.
        """
        import torch

        torch.set_num_threads(1)

    @contextlib.contextmanager
    def single_threaded(self) -> Iterator[None]:
        """See `Backend.single_threaded`. The number of inter-op threads is not changed."""
        torch = sys.modules.get("torch")
        before = 1 if torch is None else torch.get_num_threads()
        if torch is None or before == 1:
            yield
            return
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    def owns(self, obj: Any) -> bool:
        """Whether the class of an object derives from one of torch, or the object holds a module
        or a tensor.
        """
        from flowref.backends.torch.state import modules, tensors

        packages = {base.__module__.partition(".")[0] for base in type(obj).__mro__}
        return "torch" in packages or bool(modules(obj)) or bool(tensors(obj))

    def sandbox(self, seed: int, dtype: str | None = None) -> AbstractContextManager[Any]:
        """See `Backend.sandbox`."""
        from flowref.backends.torch.sandbox import torch_sandbox

        return torch_sandbox(seed, None if dtype is None else _dtype(dtype))

    def lacks(self, device: str) -> str:
        """See `Backend.lacks`."""
        from flowref.backends.torch.host import lacks

        return lacks(device)

    def device_requests(self) -> Wish:
        """See `Backend.elsewhere`."""
        from flowref.backends.torch.host import take_device_wish

        return take_device_wish()

    def importing(self) -> AbstractContextManager[Any]:
        """See `Backend.importing`: on the CPU. Tensors of modules are cast, and others are known
        to be float32.
        """
        from flowref.backends.torch.host import host

        return host()

    def sparing(self, run: Callable[[], T], of: Any = None) -> T:
        """See `Backend.sparing`: graphs save no tensors, unless the code itself runs a backward
        pass.
        """
        from flowref.backends.torch.graphs import sparing
        from flowref.backends.torch.parameter_cache import run_with_folding

        return sparing(run if of is None else partial(run_with_folding, of, run))

    @property
    def duplicate(self) -> Callable[[Any], Any]:
        """See `Backend.duplicate`."""
        from flowref.backends.torch.state import duplicate

        return duplicate

    def paired(self, obj: tuple[Any, ...]) -> Any:
        """See `Backend.paired`: for two callables without an inverse, at least one of them a
        module.
        """
        from flowref.backends.torch.pairs import paired

        return paired(obj)

    def fingerprint(self, obj: Any) -> str:
        """See `Backend.fingerprint`."""
        from flowref.backends.torch.state import fingerprint

        return fingerprint(obj)

    def cast(self, obj: Any, dtype: str) -> Any:
        """See `Backend.cast`: parameters, buffers and plain attributes, in place."""
        from flowref.backends.torch.state import cast

        return cast(obj, _dtype(dtype))

    def resting(self, obj: Any) -> str:
        """See `Backend.resting`: tensors outside of modules that do not require gradients."""
        from flowref.backends.torch.plain_tensors import undeclared_tensors
        from flowref.backends.torch.state import trainable

        return "" if trainable(obj) else undeclared_tensors(obj)

    def set_mode(self, obj: Any, training: bool) -> None:
        """See `Backend.set_mode`."""
        from flowref.backends.torch.state import set_mode

        set_mode(obj, training)

    def load_weights(self, obj: Any, path: Path, key: str) -> None:
        """Loads a file of torch.save or safetensors by ``load_state_dict``."""
        from flowref.backends.torch.weights import load_weight_file

        load_weight_file(obj, path, key)

    def state_shapes(self, obj: Any) -> Sequence[Shape]:
        """The shapes of the entries of ``state_dict``."""
        state: Mapping[str, Any] = getattr(obj, "state_dict", dict)()
        return [tuple(value.shape) for value in state.values() if hasattr(value, "shape")]

    def tensor(self, array: Array, dtype: str = "") -> Any:
        """See `Backend.tensor`."""
        import torch

        if dtype:
            return torch.from_numpy(array).to(_dtype(dtype))
        tensor = torch.from_numpy(np.array(array))
        return tensor.to(torch.get_default_dtype()) if tensor.is_floating_point() else tensor

    def array(self, value: Any) -> Any:
        """See `Backend.array`."""
        from flowref.backends.torch.arrays import array

        return array(value)

    def count_operations(self) -> AbstractContextManager[Counter]:
        """Count the operations that are dispatched to torch's operators."""
        from flowref.backends.torch.torch_float32 import Watching

        watching: AbstractContextManager[Counter] = Watching()
        return watching

    def cost(self, obj: Any, dialect: Dialect, facts: Facts, dtype: str, most: float) -> Cost:
        """See `Backend.cost`: counts what is dispatched to torch's operators."""
        from flowref.backends.torch.cost_model import cost_of

        return cost_of(obj, dialect, facts, _dtype(dtype), most)

    def correspondence(self, obj: Any, other: Any) -> dict[str, str]:
        """See `Backend.correspondence`."""
        from flowref.backends.torch.weight_exchange import correspondence

        return correspondence(obj, other)

    def lent(self, obj: Any, other: Any, names: Mapping[str, str]) -> AbstractContextManager[None]:
        """See `Backend.lent`."""
        from flowref.backends.torch.weight_exchange import lent

        return lent(obj, other, names)

    def moved(self, obj: Any, scale: float) -> Any:
        """See `Backend.moved`: in place."""
        from flowref.backends.torch.state import move

        move(obj, scale, 0)
        return obj

    def slope(self, obj: Any, calls: Any, by: str, drawn: Any, shape: Any = None) -> Any:
        """See `Backend.slope`."""
        from flowref.backends.torch.slopes import slope

        return slope(calls, by, drawn, shape)

    def traced(self, obj: Any, call: Any, x: Any, context: Any) -> Any:
        """See `Backend.traced`."""
        from flowref.backends.torch.tracing import TorchTracedCall

        return TorchTracedCall(obj, call, x, context)

    def noise(self, seed: int, magnitude: float) -> AbstractContextManager[Any]:
        """See `Backend.noise`: operators are classified by name."""
        from flowref.backends.torch.noise import RandomRounding

        rounding: AbstractContextManager[Any] = RandomRounding(magnitude, seed)
        return rounding

    def subject(self, made_of: Blueprint, condition: Condition) -> Subject:
        """See `Backend.subject`."""
        from flowref.backends.torch.present import present

        return present(made_of, condition)


def _dtype(name: str) -> Any:
    import torch

    return {"float64": torch.float64, "float32": torch.float32}[name]


BACKEND: Backend = Torch()
