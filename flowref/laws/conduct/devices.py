"""Objects on another device."""

from __future__ import annotations

from typing import Any

from flowref.laws.common.outcomes import attempt, listed_names
from flowref.laws.common.probes import (
    POINTWISE,
    WITH_KERNELS,
    Outcomes,
    Probe,
    absent,
    agree,
    data,
    probe_of,
    probes,
    random,
)
from flowref.laws.common.requirements import calculated, has_modules
from flowref.model import ADVICE, EXACT, GIVEN, Batch, Residual, Unsupported, law
from flowref.model.abilities import Flow, Living
from flowref.model.steps import Learn, Located, Move, Step, There, Train

MEANT = "it is meant for other devices: dtype/follows[device]"
UNMENTIONED = "its code mentions no device: dtype/follows[unmentioned-device]"


@law(
    "dtype/follows[device]",
    key="hygiene/device-follow",
    version=2,
    tolerance=EXACT,
    effort=1,
    size=3,
    scales=GIVEN,
    source="a mask kept as a plain attribute stays on the host when the module moves to an accelerator, and "
    "torch.arange(n) is made there",
)
def device_follow(flow: Living, batch: Batch) -> Residual:
    """After .to(device), calls and training steps with inputs on that device run there repeatedly,
    and return there. For libraries, code that mentions devices, and objects with tensors of their
    own that stay behind.
    """
    return device_residual(flow, batch, meant=True)


@law(
    "dtype/follows[unmentioned-device]",
    force=ADVICE,
    tolerance=EXACT,
    effort=1,
    size=3,
    scales=GIVEN,
    source="torch.randn(n, d) draws on the CPU, whatever device the parameters are on",
)
def device_unmentioned(flow: Living, batch: Batch) -> Residual:
    """After .to(device), calls and training steps run and return there. For code that mentions no
    device: it is right without a GPU, and the first to fail with one.
    """
    return device_residual(flow, batch, meant=False)


def device_residual(flow: Living, batch: Batch, meant: bool) -> Residual:
    """The faults of calls and training steps on another device. Raises `Unsupported` if ``meant``
    differs from whether the object is meant for other devices.
    """
    (moved,) = flow.play([Move(flow.device)])
    intended = bool(flow.device) or moved
    if intended != meant:
        raise Unsupported(MEANT if intended else UNMENTIONED, blocked=False)
    found = Found()
    for probe in _probes(flow, batch):
        run = probe.step()
        found.look(flow, probe.name, [run], [Move(flow.device), There(run), There(run)])
    if flow.trainable and {"log_prob", flow.normalizing} & set(flow.calls):
        learn = Learn(data(flow, batch), batch.context)
        found.look(
            flow, "a training step", [Train(), learn], [Train(), Move(flow.device), There(learn)]
        )
    return found.residual(len(batch.x), f"{_place(flow)} {{}}")


@law(
    "dtype/follows[device-after-use]",
    tolerance=EXACT,
    effort=1,
    size=3,
    scales=GIVEN,
    applies=has_modules,
    source="a cache that is filled before .to(device) is no buffer, and stays on the host",
)
def device_after_use(flow: Living, batch: Batch) -> Residual:
    """State left by a call moves with the object: a call that runs on another device runs there
    also after a call on the CPU.
    """
    found = Found()
    for probe in _probes(flow, batch):
        run = probe.step()
        found.look(
            flow, probe.name, [Move(flow.device), There(run)], [run, Move(flow.device), There(run)]
        )
    return found.residual(len(batch.x), f"after a call on the CPU, {_place(flow)} {{}}")


@law(
    "same/manner[device]",
    effort=1,
    size=7,
    scales=GIVEN,
    applies=calculated,
    source="kernels of another device round differently, but compute the same",
)
def device_agrees(flow: Living, batch: Batch) -> Residual:
    """On another device, values and log-dets equal those on the CPU, and repeat."""

    def outcomes(probe: Probe) -> Outcomes:
        run = probe.step()
        life, error = attempt(flow.play, [run, Move(flow.device), There(run), There(run)])
        if error or None in (life[2].out, life[3].out):
            return
        first, second = life[2:]
        if first.tf32 and flow.dtype == "float32":
            raise Unsupported(
                "torch.backends.cuda.matmul.allow_tf32 or cudnn.allow_tf32 is on: products are of 10 bits",
                blocked=True,
                remedy="switch both off, or judge in float64",
            )
        yield life[0], first.out
        yield first.out, second.out

    probed = [one for one in probes(flow, batch, calls=POINTWISE) if not random(flow, one)]
    return agree(probed, outcomes, f"{_place(flow)} its results differ")


class Found:
    """Observations on another device. ``wrong``: faults and the names of their calls; ``unknown``:
    what cannot be judged, and why; ``judged``: number of calls that ran; ``blocked``: see
    `Unsupported`.
    """

    def __init__(self) -> None:
        self.wrong: dict[str, list[str]] = {}
        self.unknown: dict[str, list[str]] = {}
        self.judged = 0
        self.blocked = True

    def look(self, flow: Living, name: str, plain: list[Step[Any]], there: list[Step[Any]]) -> None:
        """Run a history on another device, and if it fails the history ``plain`` without it, which
        shows whether that fails too.
        """
        wrong, failed = "", ""
        try:
            wrong, failed = _device_faults(flow, there)
            if (wrong or failed) and any(_device_faults(flow, plain)):
                return
        except Unsupported as error:
            failed = str(error)
            self.blocked &= error.blocked is not False
        if wrong or failed:
            (self.wrong if wrong else self.unknown).setdefault(wrong or failed, []).append(name)
        else:
            self.judged += 1

    def residual(self, rows: int, note: str) -> Residual:
        """The residual of all observations. Raises `Unsupported` if nothing can be judged."""
        unknown = "; ".join(
            f"{reason} ({listed_names(names)})" for reason, names in self.unknown.items()
        )
        if not (self.wrong or self.judged):
            raise Unsupported(
                next(iter(self.unknown), "none of its calls is judged"), blocked=self.blocked
            )
        seen = [f"{listed_names(names)} {what}" for what, names in self.wrong.items()]
        return absent(
            seen, rows, note, method=unknown and f"not judged on another device: {unknown}"
        )


def _place(flow: Living) -> str:
    return f"on {flow.device or 'a simulated GPU'}"


def _device_faults(flow: Living, life: list[Step[Any]]) -> tuple[str, str]:
    """The fault of a history, and any other error."""
    outcomes, error = attempt(flow.play, life)
    located = [] if error else [one for one in outcomes if isinstance(one, Located)]
    wrong = next(filter(None, map(_device_step_fault, located)), "")
    return wrong, error or next((one.failed for one in located if one.failed), "")


def _device_step_fault(one: Located) -> str:
    """The fault of a step on another device."""
    if one.refused:
        return f"raised {one.refused}"
    return f"returned its {' and '.join(one.left)} on the CPU" if one.left else ""


def _probes(flow: Flow, batch: Batch) -> list[Probe]:
    """The calls that run on the CPU; samples also with one context each."""
    found = probes(flow, batch, complete=False, calls=WITH_KERNELS)
    if batch.context is not None and "sample" in flow.calls:
        inputs = (len(batch.x), batch.seed % 2**31, batch.context)
        if not attempt(flow.calls["sample"], *inputs)[1]:
            found.append(probe_of(flow, "sample", *inputs))
    return found
