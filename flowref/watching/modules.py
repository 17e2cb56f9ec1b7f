"""The watch of a torch module in a user's training loop."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from flowref.loading.ownership import framework
from flowref.model import FlowrefError, TargetError, Verdict, one_line
from flowref.watching import cases
from flowref.watching.calls import Call, CallListener, all_finite, plain_copy, record
from flowref.watching.operators import Trace, first_not_finite
from flowref.watching.pace import Pace
from flowref.watching.screens import (
    LOST,
    Screens,
    Suspicion,
    event_option,
    normalizers,
    still_at_zero,
)

# The number of non-finite steps that are traced; steps that follow one are not, until a step is
# finite again.
TRACED = 3
# The number of consecutive checks without a gradient, or with constant statistics, that are
# reported.
SILENT = 2


class Watch:
    """The watch of a torch module in training: a context manager, whose ``findings`` are the
    sentences reported so far.

    ``step`` counts the steps of optimizers that hold a parameter of the model; ``good`` is the last
    one whose checked gradients were finite.
    """

    def __init__(
        self, model: Any, every: int, rows: int, report: Callable[[str], Any], folder: Path
    ) -> None:
        self.model, self.rows, self.folder = model, rows, folder
        self.findings: list[str] = []
        self.step = self.good = 0
        self.seconds = 0.0
        self._report, self._pace = report, Pace(every)
        self._said: set[str] = set()
        self._traced, self._broken = 0, False
        self._last: Call | None = None
        self._spoiled = False
        self._endings: list[Callable[[], None]] = []
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._layout = _layout(self.model)
        self._parameters = [
            (name, one) for name, one in self.model.named_parameters() if one.requires_grad
        ]
        self._ids = {id(one) for _, one in self._parameters}
        self._held: dict[int, bool] = {}
        self._turn = 0
        self._screens: Screens | None = None
        self._prepared = False
        self._next_judged: dict[str, int] = {}
        self._without: dict[str, int] = {}
        self._start: dict[str, torch.Tensor] = {}
        self._unmoved: dict[str, int] = {}
        self._checks = 0

    def __enter__(self) -> Watch:
        """Start the watch; raises `TargetError` if it runs already."""
        if self._endings:
            raise TargetError("this watch runs already; make another with flowref.watch(model)")
        listener = CallListener(self._returned, self._raised)
        pre = register_optimizer_step_pre_hook(self._before_step)
        post = register_optimizer_step_post_hook(self._after_step)
        self._endings = [record(self.model, listener), pre.remove, post.remove]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the watch; exceptions of the training pass through."""
        self._guarded(self._not_followed)
        for end in self._endings:
            end()
        self._endings, self._last, self._screens = [], None, None

    def _say(self, sentence: str, key: str = "") -> None:
        if (key or sentence) in self._said:
            return
        self._said.add(key or sentence)
        self.findings.append(sentence)
        self._report(f"flowref.watch: {sentence}")

    def _guarded(self, work: Callable[..., Any], *args: Any) -> Any:
        """Runs a part of the watch with its own random state; its failure is reported and does not
        end the training.
        """
        devices = sorted(
            {one.device.index for _, one in self._parameters if one.device.type == "cuda"}
        )
        try:
            with torch.random.fork_rng(devices):
                return work(*args)
        except Exception as raised:
            self._say(
                f"step {self.step}: a check was given up, and training goes on ({one_line(raised, 200)})",
                f"given up {type(raised).__name__}",
            )
        return None

    # Hooks of the training.

    def _returned(self, call: Call) -> None:
        if self._spoiled:
            self._guarded(self._not_followed)
        for index, output in enumerate(call.outputs):
            self._spoiled |= not all_finite(output)
            if output.requires_grad:
                output.register_hook(_store_gradient(call.gradients, index))
        # Keeping the outputs would keep the graph alive.
        call.outputs, self._last = [], call

    def _raised(self, call: Call) -> None:
        """Distributions refuse nan: its cause is reported before training ends."""
        self._guarded(self._trace, call, "the call raised", True)

    def _not_followed(self) -> None:
        """A non-finite output without a backward pass: the user's loop skips such batches."""
        call, spoiled, self._spoiled = self._last, self._spoiled, False
        if spoiled and call is not None and not call.gradients:
            self._trace(call, "no step was taken with this batch")

    def _holds(self, optimizer: Any) -> bool:
        key = id(optimizer)
        if key not in self._held:
            self._held[key] = any(
                id(one) in self._ids for group in optimizer.param_groups for one in group["params"]
            )
        return self._held[key]

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        # Gradient scalers skip non-finite steps themselves.
        if not self._holds(optimizer) or getattr(optimizer, "found_inf", None) is not None:
            return
        whole = self._spoiled or self.step + 1 >= self._pace.due_at
        count = len(self._parameters)
        looked = range(count) if whole else {0, self._turn % max(1, count)}
        self._turn += 1
        for index in looked:
            name, parameter = self._parameters[index]
            gradient = parameter.grad
            if gradient is not None and not gradient.is_sparse and not all_finite(gradient):
                self._guarded(self._trace, self._last, f"the gradient of {name} is not finite")
                self._spoiled = False
                return
        self._spoiled, self._broken, self.good = False, False, self.step + 1

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        if self._holds(optimizer):
            self.step += 1
            if self.step >= self._pace.due_at:
                self._timed()

    # Reports on steps that are not finite.

    def _trace(self, call: Call | None, consequence: str, only_if_found: bool = False) -> None:
        if self._traced >= TRACED or self._broken or call is None:
            return
        copy = self._copy()
        clause = first_not_finite(copy, call)
        if not clause and only_if_found:
            return
        self._traced, self._broken = self._traced + 1, True
        step = self.step + 1
        case = cases.save(self.folder, step, copy, call)
        clause = clause or "the call that was recorded last is finite when it is repeated"
        self._say(
            f"step {step}: {clause}; {consequence}; the last good step is {self.good}; {case.command}"
        )

    def _copy(self) -> Any:
        return plain_copy(self.model, framework(self.model).duplicate)

    def _timed(self) -> None:
        if self._broken:  # laws need finite weights
            self._pace.paid(self.step)
            return
        began = time.perf_counter()
        fresh = not self._prepared
        self._guarded(self._check)
        spent = time.perf_counter() - began
        if fresh:
            self._pace.paid(self.step)
            return
        self.seconds += spent
        if said := self._pace.finish(self.step, spent):
            self._say(f"step {self.step}: {said}", "pace")

    def _check(self) -> None:
        layout = _layout(self.model)
        if layout != self._layout:
            self._say(
                f"step {self.step}: the model has changed while it was watched ({_difference(self._layout, layout)}), "
                "and is watched as it is now"
            )
            self._begin_anew()
        self._check_learning()
        if self._last is None:
            return
        if not self._prepared:
            self._prepared = True
            self._prepare(self._last)
        if self._screens is None:
            return
        screens = self._screens
        screens.refresh(self.model)
        rows = screens.rows(self._last.tensors, self.rows)
        if rows is None or not all_finite(rows[0]):
            return
        self._checks += 1
        self._measure(screens, rows, self._checks % 2 == 1, self._checks % 2 == 0)

    def _measure(
        self,
        screens: Screens,
        rows: tuple[torch.Tensor, torch.Tensor | None],
        round_trip: bool,
        log_det: bool,
    ) -> None:
        """Reports exponentials near overflow in the round trip, and has a law judge what the
        screens suspect.
        """
        suspicions = []
        if round_trip:
            trace = Trace(screens.twin, near=True)
            with trace:
                suspicions += screens.round_trip(*rows)
            for operator in trace.near.values():
                kind = str(rows[0].dtype).removeprefix("torch.")
                self._say(
                    f"step {self.step}: {operator.place} is given {operator.largest:.3g}, near where {kind} overflows",
                    f"near {operator.layer} {operator.line}",
                )
        if log_det:
            suspicions += screens.log_det(*rows)
        for suspicion in suspicions:
            self._judge(suspicion, rows)

    def _prepare(self, call: Call) -> None:
        """Recognizes the model, once, and judges classes that keep running statistics."""
        for name, module in normalizers(self.model):
            self._judge_statistics(name, module)
        x = next((one for one in call.tensors if one.ndim), None)
        if x is None:
            return
        try:
            screens = Screens(self._copy(), x, None)
        except FlowrefError as error:
            screens = None
            why = one_line(error, 160)
        if screens is None or not screens.maps:
            reason = why if screens is None else "it has no map of the data"
            self._say(
                f"step {self.step}: no map is recognized ({reason}), so numbers, gradients and statistics are watched alone"
            )
            return
        self._screens = screens
        screens.refresh(self.model)
        if (rows := screens.rows(call.tensors, self.rows)) is not None and all_finite(rows[0]):
            self._measure(screens, rows, round_trip=True, log_det=True)

    def _judge(self, suspicion: Suspicion, rows: tuple[torch.Tensor, torch.Tensor | None]) -> None:
        """A law that holds is checked again only after twice as many steps."""
        law = suspicion.laws[0]
        if law in self._said or self.step < self._next_judged.get(law, 0):
            return
        self._next_judged[law] = 2 * self.step
        case = cases.save(self.folder, self.step, self._copy(), self._last)
        verdict = (
            None
            if case.refused
            else cases.judge(case, suspicion.laws, rows, event=event_option(rows[0]))
        )
        if verdict is not None:
            assert self._screens is not None
            line = (
                verdict.part and _class_source_line(self.model, verdict.part)
            ) or self._screens.place
            self._say(
                f"step {self.step}: {_violation_sentence(verdict, line)}; {case.command}", law
            )
            return
        if suspicion.words and suspicion.error > LOST:
            self._say(
                f"step {self.step}: {suspicion.words.format(suspicion.error, rows[0].dtype)}, and {law} holds: "
                f"no digits are left; {case.folder} has the model",
                f"{law} rounding",
            )
        else:
            case.drop()

    def _judge_statistics(self, name: str, module: Any) -> None:
        copy = framework(module).duplicate(module)
        case = cases.save(self.folder, self.step, copy, None)
        try:
            laws = "batch-norm/statistics[buffers]", "batch-norm/statistics"
            verdict = None if case.refused else cases.judge(case, laws, None)
        except FlowrefError:  # not a normalizer
            verdict = None
        if verdict is None:
            case.drop()
            return
        line = _class_source_line(self.model, name)
        self._say(f"step {self.step}: {name}: {_violation_sentence(verdict, line)}; {case.command}")

    def _check_learning(self) -> None:
        """Reports parameters without a gradient, and running means that stay at zero, at every
        check so far.
        """
        for name, parameter in self._parameters:
            gradient = parameter.grad
            silent = gradient is None or (not gradient.is_sparse and not gradient.detach().any())
            if not silent:
                self._without.pop(name, None)
                self._start.pop(name, None)
                continue
            before = self._start.setdefault(name, parameter.detach().clone())
            count = self._without.get(name, 0) + 1 if torch.equal(before, parameter) else 0
            self._without[name] = count
            if count == SILENT + 1:
                source = _class_source_line(self.model, name.rpartition(".")[0])
                self._say(
                    f"step {self.step}: no gradient reaches {name} ({source}), and "
                    "it has not moved at the last three checks",
                    f"gradient {name}",
                )
        for name in still_at_zero(self.model):
            self._unmoved[name] = self._unmoved.get(name, 0) + 1
            if self._unmoved[name] == SILENT + 1:
                self._say(
                    f"step {self.step}: the running mean of {name or 'the model'} is 0 still at the third check, in train mode"
                )


def _store_gradient(
    gradients: dict[int, torch.Tensor], index: int
) -> Callable[[torch.Tensor], None]:
    def keep(gradient: torch.Tensor) -> None:
        gradients[index] = gradient

    return keep


def _violation_sentence(verdict: Verdict, line: str) -> str:
    where = f" in {verdict.part}" if verdict.part else ""
    size = f" by {verdict.size.nats:.3g} nats per point" if verdict.size else ""
    diagnosis = f", {verdict.diagnosis.rstrip('.')}" if verdict.diagnosis else ""
    at = f" ({line})" if line else ""
    return f"{verdict.law} is violated{where}{at}{size}{diagnosis}"


def _class_source_line(model: Any, part: str) -> str:
    """The class of a submodule as "file:line", or "" if there is no such submodule or source."""
    try:
        kind = type(model.get_submodule(part))
        return f"{Path(inspect.getfile(kind)).name}:{inspect.getsourcelines(kind)[1]}"
    except (AttributeError, OSError, TypeError):
        return ""


Layout = dict[str, tuple[Any, ...]]


def _layout(model: Any) -> Layout:
    """Kinds of modules, and shape, dtype, device and requires_grad of tensors, by name."""
    modules = {f"the module {name}": (type(one),) for name, one in model.named_modules()}
    tensors = {
        name: (tuple(one.shape), one.dtype, one.device, one.requires_grad)
        for name, one in (*model.named_parameters(), *model.named_buffers())
    }
    return {**modules, **tensors}


def _difference(before: Layout, now: Layout) -> str:
    for name in now:
        if name not in before:
            return f"{name} is new"
        if before[name] != now[name]:
            return f"{name} is another"
    gone = next(name for name in before if name not in now)
    return f"{gone} is gone"
