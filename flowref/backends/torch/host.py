"""Code that asks for a GPU, judged on the processor.

Research code says ``.cuda()`` and ``device="cuda"`` where it means "where I train". All that is measured
here is measured on the processor, and random rounding exists nowhere else. So a first request for a
GPU, which no sandbox grants, is noted, and from then on what the code asks a GPU for is given it on the
processor: tensors are made there, and stay there.

What none of this reaches is told as the code tells it: devices by number alone before anything else was
asked for, the legacy types ``torch.cuda.FloatTensor``, streams and events.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import torch
from torch.overrides import TorchFunctionMode

from flowref.backends.protocol import Wish

# Types of devices that are not the processor; "meta" is none, and holds no numbers.
ELSEWHERE = frozenset({"cuda", "mps", "xpu", "hip", "hpu", "xla"})
# What is asked of a device as such, and what it answers on the processor.
ANSWERS: dict[str, Callable[[], Any]] = {
    "synchronize": lambda: None,
    "set_device": lambda: None,
    "current_device": lambda: 0,
    "get_device_name": lambda: "cpu",
    "device": contextlib.nullcontext,
}


@dataclass
class Requests:
    """``wish``: what was asked of another device since this was last looked at; ``granting``: whether it is
    given on the processor.
    """

    wish: Wish = Wish.NONE
    granting: bool = False


REQUESTS = Requests()


def elsewhere() -> Wish:
    """See `Backend.elsewhere`."""
    wish, REQUESTS.wish = REQUESTS.wish, Wish.NONE
    REQUESTS.granting |= wish is Wish.REFUSED
    return wish


@contextlib.contextmanager
def host() -> Iterator[None]:
    """Run foreign code on the processor: what asks for a GPU raises and is noted, or is redirected."""
    if not REQUESTS.granting:
        with _standing_in(torch.cuda, {"_lazy_init": _refuse}):
            yield
        return
    load, types = torch.load, torch.set_default_tensor_type
    functions: dict[str, Any] = {
        "Generator": Generator,
        "load": lambda *args, **kwargs: load(*args, **{**kwargs, "map_location": "cpu"}),
        "set_default_device": lambda device: None,
        "set_default_tensor_type": lambda kind: types(_plain(kind)),
    }
    answers = {name: partial(_answered, answer) for name, answer in ANSWERS.items()}
    with _standing_in(torch.cuda, answers), _standing_in(torch, functions), Redirected():
        yield


class _Generators(type):
    """Of the class below: what it makes are torch's own."""

    def __call__(cls, device: Any = "cpu") -> Any:
        return torch._C.Generator(_here(device))

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch._C.Generator)


class Generator(metaclass=_Generators):
    """`torch.Generator` on the processor."""


class Redirected(TorchFunctionMode):
    """Tensors that are asked for elsewhere are made on the processor, and those that are to move there
    stay.
    """

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda or func is torch.Tensor.pin_memory:
            REQUESTS.wish = Wish.GRANTED
            return args[0]
        if func is torch.Tensor.to:
            args = (args[0], *map(_here, args[1:]))
        elif func is torch.Tensor.type:
            args = (args[0], *map(_plain, args[1:]))
        if kwargs.get("device") is not None:
            kwargs["device"] = _here(kwargs["device"])
        if kwargs.get("pin_memory"):
            del kwargs["pin_memory"]
        return func(*args, **kwargs)


def _answered(answer: Callable[[], Any], *_: Any) -> Any:
    REQUESTS.wish = Wish.GRANTED
    return answer()


def _refuse() -> NoReturn:
    REQUESTS.wish = Wish.REFUSED
    raise AssertionError("it asks for a GPU, and is judged on the processor")


def _here(value: Any) -> Any:
    """The processor for a device elsewhere, by name, by number or as such; other values as they are."""
    number = isinstance(value, int) and not isinstance(value, bool)
    kind = value.type if isinstance(value, torch.device) else value
    if number or (isinstance(kind, str) and kind.partition(":")[0] in ELSEWHERE):
        REQUESTS.wish = Wish.GRANTED
        return torch.device("cpu")
    return value


def _plain(kind: Any) -> Any:
    """The type of tensors on the processor for one elsewhere, by name."""
    return kind.replace("torch.cuda.", "torch.") if isinstance(kind, str) else kind


@contextlib.contextmanager
def _standing_in(module: Any, functions: Mapping[str, Any]) -> Iterator[None]:
    """Some functions of a module in place of its own."""
    before = {name: getattr(module, name) for name in functions}
    try:
        for name, function in functions.items():
            setattr(module, name, function)
        yield
    finally:
        for name, function in before.items():
            setattr(module, name, function)
