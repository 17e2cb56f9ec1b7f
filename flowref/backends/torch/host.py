"""Code that requests a GPU, run on the CPU.

Research code says ``.cuda()`` and ``device="cuda"`` where it means "where I train". All
measurements are made on the CPU, and random rounding exists nowhere else. So no sandbox shows or
grants a GPU; a request for one is recorded, and later requests are granted on the CPU: tensors are
made there, and stay there. A machine with a GPU behaves like one without.

Not redirected: the legacy types ``torch.cuda.FloatTensor``, properties of a device, streams and
events.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import torch
from torch.overrides import TorchFunctionMode

from flowref.backends.process import standing_in
from flowref.backends.protocol import Wish
from flowref.model import one_line

# Device types other than the CPU, except "meta", which holds no numbers.
ELSEWHERE = frozenset({"cuda", "mps", "xpu", "hip", "hpu", "xla"})
# Queries of a device, and their answers on the CPU.
ANSWERS: dict[str, Callable[[], Any]] = {
    "synchronize": lambda: None,
    "set_device": lambda: None,
    "current_device": lambda: 0,
    "get_device_name": lambda: "cpu",
    "device": contextlib.nullcontext,
}
# Words of torch's errors about a missing device: not every request initializes it.
MISSED = re.compile(r"cuda|accelerator|\b(mps|xpu|hpu|xla)\b", re.IGNORECASE)


# The functions of torch.cuda that sandboxes replace.
SHOWN: dict[str, Any] = {
    name: getattr(torch.cuda, name)
    for name in ("is_available", "device_count", "_lazy_init", *ANSWERS)
}


@dataclass
class Requests:
    """``wish``: devices requested since the last look; ``granting``: whether requests are granted
    on the CPU; ``shown``: whether the machine's devices are visible.
    """

    wish: Wish = Wish.NONE
    granting: bool = False
    shown: bool = False


REQUESTS = Requests()


def take_device_wish() -> Wish:
    """See `Backend.elsewhere`."""
    wish, REQUESTS.wish = REQUESTS.wish, Wish.NONE
    REQUESTS.granting |= wish is Wish.REFUSED
    return wish


def lacks(device: str) -> str:
    """Returns why a device is not available here, or ""."""
    try:
        torch.empty(1, device=device)
    except Exception as error:
        return one_line(error)
    return ""


@contextlib.contextmanager
def devices_visible() -> Iterator[None]:
    """Inside a sandbox, makes the machine's devices visible."""
    with standing_in(torch.cuda, **SHOWN), standing_in(REQUESTS, shown=True):
        yield


@contextlib.contextmanager
def host() -> Iterator[None]:
    """Run foreign code on the CPU: requests for a GPU raise and are recorded, or are redirected."""
    hidden = {"is_available": lambda: False, "device_count": lambda: 0, "_lazy_init": _refuse_gpu}
    # If a session uses a GPU already, requests would not go through its initialization.
    if not REQUESTS.granting and not torch.cuda.is_initialized():
        default = partial(_default_device, torch.set_default_device, False)
        with standing_in(torch.cuda, **hidden), standing_in(torch, set_default_device=default):
            try:
                yield
            except Exception as error:
                if MISSED.search(str(_root_cause(error))):
                    REQUESTS.wish = Wish.REFUSED
                raise
        return
    functions = {
        "Generator": Generator,
        "load": partial(_load_on_cpu, torch.load),
        "set_default_device": partial(_default_device, torch.set_default_device, True),
        "set_default_tensor_type": partial(_set_default_cpu_type, torch.set_default_tensor_type),
    }
    answers = {name: partial(_granted_answer, answer) for name, answer in ANSWERS.items()}
    parsed: Any = torch._C._nn  # modules parse their target device by this
    with (
        standing_in(parsed, _parse_to=partial(_parse_to, parsed._parse_to)),
        standing_in(torch.cuda, **hidden, **answers),
        standing_in(torch, **functions),
        Redirected(),
    ):
        yield


class _Generators(type):
    """The metaclass of a stand-in whose instances are torch's own generators."""

    def __call__(cls, device: Any = "cpu") -> Any:
        return torch._C.Generator(_on_cpu(device))

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch._C.Generator)


class Generator(metaclass=_Generators):
    """`torch.Generator` on the CPU."""


class Redirected(TorchFunctionMode):
    """Tensors requested on other devices are made on the CPU, and moves to them have no effect."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if REQUESTS.shown:
            return func(*args, **kwargs)
        if func is torch.Tensor.cuda or func is torch.Tensor.pin_memory:
            REQUESTS.wish = Wish.GRANTED
            return args[0]
        if func is torch.Tensor.to:
            args = (args[0], *map(_on_cpu, args[1:]))
        elif func is torch.Tensor.type:
            args = (args[0], *map(_cpu_tensor_type, args[1:]))
        if kwargs.get("device") is not None:
            kwargs["device"] = _on_cpu(kwargs["device"])
        if kwargs.pop("pin_memory", False):
            REQUESTS.wish = Wish.GRANTED
        return func(*args, **kwargs)


def _granted_answer(answer: Callable[[], Any], *_: Any) -> Any:
    REQUESTS.wish = Wish.GRANTED
    return answer()


def _refuse_gpu() -> NoReturn:
    REQUESTS.wish = Wish.REFUSED
    raise AssertionError("it requests a GPU, and runs on the CPU here")


def _on_cpu(value: Any) -> Any:
    """Replaces a device elsewhere, given as name, number or object, by the CPU; other values are
    unchanged.
    """
    if REQUESTS.shown:
        return value
    number = isinstance(value, int) and not isinstance(value, bool)
    kind = value.type if isinstance(value, torch.device) else value
    if number or (isinstance(kind, str) and kind.partition(":")[0] in ELSEWHERE):
        REQUESTS.wish = Wish.GRANTED
        return torch.device("cpu")
    return value


def _cpu_tensor_type(kind: Any) -> Any:
    """Replaces the name of a tensor type on a GPU by that on the CPU; other values are
    unchanged.
    """
    if not isinstance(kind, str) or not kind.startswith("torch.cuda."):
        return kind
    REQUESTS.wish = Wish.GRANTED
    return kind.replace("torch.cuda.", "torch.")


def _load_on_cpu(
    load: Callable[..., Any], f: Any, map_location: Any = None, *args: Any, **kwargs: Any
) -> Any:
    anywhere = map_location is None or isinstance(map_location, dict)
    return load(f, "cpu" if anywhere else _on_cpu(map_location), *args, **kwargs)


def _parse_to(parse: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The target of `torch.nn.Module.to`: without a GPU torch does not know devices by number."""
    return parse(*map(_on_cpu, args), **{name: _on_cpu(value) for name, value in kwargs.items()})


def _default_device(set_default: Callable[[Any], None], granting: bool, device: Any) -> None:
    """Sets the default device if it is the CPU; it outlives a sandbox, so it must not be changed
    otherwise.
    """
    kind = torch.device(device).type if isinstance(device, str) else getattr(device, "type", device)
    if kind not in ELSEWHERE:
        set_default(device)
    elif granting:
        REQUESTS.wish = Wish.GRANTED
    else:
        _refuse_gpu()


def _set_default_cpu_type(set_default: Callable[[Any], None], kind: Any) -> None:
    set_default(_cpu_tensor_type(kind))


def _root_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
