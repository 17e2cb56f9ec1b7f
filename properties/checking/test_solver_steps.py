"""What falls with the steps of a solver, of which nobody states how accurate it is, accuses nobody; what
does not fall is wrong.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from flowref import check
from flowref.backends.torch.found_knobs import TRIED, found, turn
from flowref.backends.torch.torch_solver_steps import refine
from flowref.checking import Settings
from flowref.checking.solver_errors import FALLS
from flowref.model import Status

QUICK = Settings("quick")


class Euler(nn.Module):
    """A field of two entries, followed in a few steps of Euler's method; or with a bug."""

    event_shape = (2,)

    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.n_steps, self.bug = 16, bug
        self.weight = nn.Parameter(torch.tensor([[0.3, -0.4], [0.5, 0.2]]))

    def follow(self, x: Any, sign: int) -> Any:
        """The state and the integral of the trace."""
        ladj = torch.zeros_like(x[:, 0])
        for _ in range(self.n_steps):
            slope = 1 - torch.tanh(x @ self.weight).square()
            ladj = ladj + sign * (slope * self.weight.diagonal()).sum(1) / self.n_steps
            x = x + sign * torch.tanh(x @ self.weight) / self.n_steps
        return x, 1.1 * ladj if self.bug == "scaled" else ladj

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.follow(x, 1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.follow(z, 1 if self.bug == "not-reversed" else -1)


class Uneven(nn.Module):
    """A field of two entries in steps of Runge and Kutta: twenty forward, and a few back under a name that
    tells nothing; ``short``: or as many but one; ``stiff``: or along another field.
    """

    event_shape = (2,)

    def __init__(self, back: int = 20, short: int = 0, stiff: float = 1.0) -> None:
        super().__init__()
        self.n_steps, self.again, self.short, self.stiff = 20, back, short, stiff
        self.weight = nn.Parameter(torch.tensor([[1.3, -1.4], [1.5, 1.2]]))

    def field(self, x: Any) -> Any:
        """The velocity, and its divergence."""
        value = torch.tanh(x @ self.weight)
        return value, ((1 - value**2) * self.weight.diagonal()).sum(1)

    def follow(self, x: Any, time: float, steps: int, taken: int) -> Any:
        """The state and the integral of the trace."""
        ladj, h = torch.zeros_like(x[:, 0]), time / steps
        for _ in range(taken):
            k1, l1 = self.field(x)
            k2, l2 = self.field(x + h / 2 * k1)
            k3, l3 = self.field(x + h / 2 * k2)
            k4, l4 = self.field(x + h * k3)
            x = x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            ladj = ladj + h / 6 * (l1 + 2 * l2 + 2 * l3 + l4)
        return x, ladj

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.follow(x, 1.0, self.n_steps, self.n_steps)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.follow(z, -self.stiff, self.again, self.again - self.short)


class Wide(Euler):
    """The same of more entries than it takes steps, as an adaptive solver does of a gentle field."""

    event_shape = (12,)

    def __init__(self, bug: str = "") -> None:
        super().__init__(bug)
        self.n_steps = 6
        numbers = torch.arange(144.0).reshape(12, 12)
        self.weight = nn.Parameter(0.1 * torch.sin(numbers) + 0.1 * torch.eye(12))


LAWS = ("map/log-det", "map/inverse")


@pytest.mark.parametrize("law", LAWS)
def test_fewer_steps_than_entries_are_not_accused(law: str) -> None:
    """A knob tells that it is a solver, where the number of its steps does not."""
    assert check(Wide(), law, QUICK).status is not Status.VIOLATED


@pytest.mark.parametrize(
    ("bug", "law"),
    [("scaled", "map/log-det"), ("not-reversed", "map/inverse")],
)
def test_a_bug_of_fewer_steps_than_entries_is_accused(bug: str, law: str) -> None:
    """As ever."""
    assert check(Wide(bug), law, QUICK).status is Status.VIOLATED


@pytest.mark.parametrize("law", LAWS)
def test_coarse_steps_are_not_accused(law: str) -> None:
    """An error of first order is that of the method."""
    assert check(Euler(), law, QUICK).status is not Status.VIOLATED


@pytest.mark.parametrize(
    ("bug", "law"),
    [("scaled", "map/log-det"), ("not-reversed", "map/inverse")],
)
def test_what_no_step_makes_smaller_is_accused(bug: str, law: str) -> None:
    """However many steps there are."""
    assert check(Euler(bug), law, QUICK).status is Status.VIOLATED


@pytest.mark.parametrize("law", ["map/inverse", "map/inverse[latents]"])
def test_ways_of_other_steps_are_not_accused_and_told_apart(law: str) -> None:
    """Both lead to the same flow as steps are halved; which of them is off is said."""
    verdict = check(Uneven(back=3), law, QUICK)
    assert verdict.status is not Status.VIOLATED
    assert "nearly all of it comes from inverse" in verdict.reason


def test_a_way_that_misses_a_step_is_accused() -> None:
    """Its error falls with the steps, but with the first power of these alone."""
    verdict = check(Uneven(short=1), "map/inverse", QUICK)
    assert verdict.status is Status.VIOLATED


class Jumping(Uneven):
    """A field whose divergence jumps: its integral is of first order by any method."""

    def field(self, x: Any) -> Any:
        """The velocity, and its divergence."""
        inner = x @ self.weight
        return inner.relu(), ((inner > 0) * self.weight.diagonal()).sum(1)


@pytest.mark.parametrize("law", LAWS)
def test_a_divergence_that_jumps_is_not_accused(law: str) -> None:
    """Its errors are of first order, and of no sign."""
    assert check(Jumping(), law, QUICK).status is not Status.VIOLATED


def test_a_way_of_other_steps_that_leads_elsewhere_is_accused() -> None:
    """However many these are."""
    verdict = check(Uneven(back=3, stiff=0.9), "map/inverse", QUICK)
    assert verdict.status is Status.VIOLATED


def test_the_solver_is_asked_before_more_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """What falls with the steps is left undecided before anything is measured under noise once more, which
    takes dozens of calls of the solver.
    """

    def noisier(judgement: Any) -> Any:
        raise AssertionError("more noise was asked for")

    monkeypatch.setattr("flowref.checking.review._more_noise", noisier)
    verdict = check(Euler(), "map/log-det", QUICK)
    assert verdict.status is Status.INCONCLUSIVE and FALLS in verdict.reason


def test_knobs_are_turned_by_their_names() -> None:
    """Numbers of steps grow; their lengths and tolerances shrink; other numbers stay."""
    module = Euler()
    inner: Any = nn.Identity()
    inner.step_size, inner.options, inner.width = 0.1, {"rtol": 1e-3, "hidden": 4}, 3
    module.add_module("inner", inner)
    assert len(refine(module, 2)) == 3
    assert module.n_steps == 32
    assert (inner.step_size, inner.options["rtol"]) == pytest.approx((0.05, 1e-3 / 16))
    assert (inner.width, inner.options["hidden"]) == (3, 4)


class Written(Euler):
    """The same with a number of steps that is written in a method, beside another number."""

    def follow(self, x: Any, sign: int) -> Any:
        """The state and the integral of the trace."""
        ladj = torch.zeros_like(x[:, 0])
        for _ in range(16):
            slope = 1 - torch.tanh(x @ self.weight).square()
            ladj = ladj + sign * (slope * self.weight.diagonal()).sum(1) / 16
            x = x + sign * torch.tanh(x @ self.weight) / 16
        return x, 1.1 * ladj if self.bug == "scaled" else 3 * ladj / 3


class Named(Euler):
    """The same with a number of steps under a letter."""

    def __init__(self, bug: str = "") -> None:
        super().__init__(bug)
        self.K, self.width = self.n_steps, 16
        del self.n_steps

    def __getattr__(self, name: str) -> Any:
        return self.K if name == "n_steps" else super().__getattr__(name)


class Hidden(Euler):
    """The same with two numbers of which one alone can be turned: nothing tells how it takes more."""

    def follow(self, x: Any, sign: int) -> Any:
        """The state and the integral of the trace."""
        ladj = torch.zeros_like(x[:, 0])
        for step in torch.full((16,), 1 / 16).to(x):
            slope = 1 - torch.tanh(x @ self.weight).square()
            ladj = ladj + sign * (slope * self.weight.diagonal()).sum(1) * step
            x = x + sign * torch.tanh(x @ self.weight) * step
        if self.bug == "turned":
            return x, -ladj
        return x, -2 * ladj - sign if self.bug == "gross" else ladj


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", [Written, Named, Hidden])
def test_steps_without_a_name_are_not_accused_either(kind: type[Euler], law: str) -> None:
    """However they are written."""
    assert check(kind(), law, QUICK).status is not Status.VIOLATED


@pytest.mark.parametrize("kind", [Written, Named])
def test_what_falls_with_no_steps_is_accused_without_a_name_as_well(kind: type[Euler]) -> None:
    """A bug is larger than what more steps change."""
    assert check(kind("scaled"), LAWS[0], QUICK).status is Status.VIOLATED


def test_gross_errors_are_no_solvers() -> None:
    """However little is known of its steps."""
    assert check(Hidden("gross"), LAWS[0], QUICK).status is Status.VIOLATED


@pytest.mark.parametrize("scale", [1.0, 0.1])
@pytest.mark.parametrize(("bug", "accused"), [("", False), ("turned", True)])
def test_a_sign_is_no_error_of_steps(bug: str, accused: bool, scale: float) -> None:
    """A log-det with its sign turned is told, however small it is; the error of as few steps is not."""
    flow = Hidden(bug)
    flow.weight.data *= scale
    assert (check(flow, LAWS[0]).status is Status.VIOLATED) is accused


@pytest.mark.parametrize(("kind", "where"), [(Written, "follow"), (Named, "")])
def test_a_number_of_steps_is_found_by_what_it_does(kind: type[Euler], where: str) -> None:
    """More of it take longer and change little; a width that nothing reads does not."""
    module, x = kind(), torch.ones(3, 2)
    knob = found(module, lambda one: one(x)[0])
    assert knob is not None
    assert (knob.method, knob.value) == (where, 16)
    assert knob.name in ("", "K")
    before = module(x)[0].detach()
    assert turn(module, knob, 4)
    assert 0 < float((module(x)[0].detach() - before).abs().max()) < 0.05


def test_small_numbers_that_are_held_do_not_come_before_steps() -> None:
    """Of floors of a division there may be more than numbers that are tried."""
    module, x = Written(), torch.ones(3, 2)
    del module.n_steps
    for name in range(TRIED):
        setattr(module, f"floor_{name}", 1e-6)
    knob = found(module, lambda one: one(x)[0])
    assert knob is not None
    assert (knob.method, knob.value) == ("follow", 16)


def halved(field: Any, x: Any, sign: int, bound: float = 1e-3) -> Any:
    """Steps of Euler, halved until one differs from two by less than an accuracy."""
    t, h, ladj = 0.0, 0.5, torch.zeros_like(x[:, 0])
    while t < 1:
        h = min(h, 1 - t)
        once, half = field(x, sign * h), field(x, sign * h / 2)
        twice = field(half[0], sign * h / 2)
        trace = half[1] + twice[1]
        off = once[0] - twice[0], once[1] - trace, once[1] ** 2 / 2
        if max(float(one.detach().abs().max()) for one in off) > bound:
            h = h / 2
            continue
        t, x, ladj = t + h, twice[0], ladj + trace
    return x, ladj


class Elsewhere(Euler):
    """The same by a plain function, whose accuracy is written there."""

    def field(self, x: Any, h: float) -> Any:
        """A step, and its trace."""
        slope = 1 - torch.tanh(x @ self.weight).square()
        return x + h * torch.tanh(x @ self.weight), h * (slope * self.weight.diagonal()).sum(1)

    def follow(self, x: Any, sign: int) -> Any:
        """The state and the integral of the trace."""
        x, ladj = halved(self.field, x, sign)
        return x, 1.1 * ladj if self.bug == "scaled" else ladj


def test_an_accuracy_in_a_plain_function_is_found_by_what_it_does() -> None:
    """The function that everybody else calls is left as it is."""
    module, x = Elsewhere(), torch.ones(3, 2)
    del module.n_steps
    knob = found(module, lambda one: one(x)[0])
    assert knob is not None
    assert (knob.plain, knob.value, knob.method) == ("halved", 1e-3, "")
    other = Elsewhere()
    before = other(x)[0].detach()
    assert turn(module, knob, 2)
    assert 0 < float((module(x)[0].detach() - before).abs().max()) < 0.05
    assert torch.equal(other(x)[0].detach(), before)
    assert halved.__defaults__ == (1e-3,)


@pytest.mark.parametrize(
    ("bug", "status"), [("", Status.INCONCLUSIVE), ("scaled", Status.VIOLATED)]
)
def test_what_falls_with_no_accuracy_is_accused(bug: str, status: Status) -> None:
    """Of steps that a plain function chooses nothing below half a nat for each entry was judged."""
    assert check(Elsewhere(bug), LAWS[0], QUICK).status is status


def test_no_number_of_steps_is_made_up() -> None:
    """Of an object without a loop, none is found."""
    module: Any = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    module.width = 16
    assert found(module, lambda one: one(torch.ones(3, 2))) is None


class Adaptive(nn.Module):
    """A field of two entries, followed by steps that the largest error in a batch chooses, and beside it its trace,
    or an estimate of that; or with a bug.
    """

    event_shape = (2,)

    def __init__(self, bug: str = "", drawn: bool = False) -> None:
        super().__init__()
        self.tol, self.bug, self.drawn = 1e-3, bug, drawn
        self.weight = nn.Parameter(torch.tensor([[0.3, -0.4], [0.5, 0.2]]))

    def field(self, state: Any, noise: Any) -> Any:
        """The rates of the point and of its log-det."""
        hidden = torch.tanh(state[:, :2] @ self.weight)
        slope = 1 - hidden.square()
        if self.bug == "coupled":
            hidden = hidden + 1e-2 * hidden.mean(0)
        if noise is None:
            trace = (slope * self.weight.diagonal()).sum(1, keepdim=True)
        else:
            trace = 9 * ((slope * noise) @ self.weight.T * noise).sum(1, keepdim=True)
        return torch.cat([hidden, trace], 1)

    def follow(self, x: Any, sign: int) -> Any:
        """The end of the path, and the integral of the trace."""
        noise = torch.randn_like(x).sign() if self.drawn else None
        state, time, step = torch.cat([x, torch.zeros_like(x[:, :1])], 1), 0.0, 0.2
        while time < 1:
            step = min(step, 1 - time)
            first = sign * self.field(state, noise)
            second = sign * self.field(state + step * first, noise)
            error = float((0.5 * step * (second - first).detach()).abs().max())
            if not error > self.tol:
                state, time = state + 0.5 * step * (first + second), time + step
            step *= min(2.0, max(0.3, 0.9 * (self.tol / max(error, 1e-12)) ** 0.5))
            if time > 1 - 1e-9:
                break
        return state[:, :2], state[:, 2]

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return self.follow(x, 1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.follow(z, -1)


class Estimated(Adaptive):
    """The same, which says that it estimates."""

    promises = ("estimator",)


class Stated(Adaptive):
    """The same with an accuracy that is stated."""

    log_det_tolerance = inverse_tolerance = 1e-2


def test_a_row_of_which_a_law_is_silent_alone_falls_among_the_others() -> None:
    """By itself it takes other steps, and does not come back near enough to be judged."""
    flow = Adaptive()
    flow.tol = 1e-2
    flow.weight.data *= 6.0
    assert check(flow, "map/log-det[antisymmetry]", QUICK).status is not Status.VIOLATED


@pytest.mark.parametrize(
    ("kind", "law"), [(Adaptive, "same/rows[large-batch]"), (Stated, "same/rows")]
)
def test_rows_may_share_their_steps(kind: type[Adaptive], law: str) -> None:
    """A step that is chosen for all rows of a batch moves each by less than the error of the solver."""
    assert check(kind(), law, QUICK).status is not Status.VIOLATED


def test_rows_that_share_more_are_accused() -> None:
    """What one row takes of the others does not fall with the steps."""
    assert check(Adaptive("coupled"), "same/rows", QUICK).status is Status.VIOLATED


def test_steps_may_follow_the_noise() -> None:
    """Where the estimate of a trace is integrated beside the values, its noise chooses the steps, and moves values
    by less than the error of the solver: what is drawn is the log-det.
    """
    assert check(Estimated(drawn=True), "same/history[repeat]", QUICK).status is not Status.VIOLATED
