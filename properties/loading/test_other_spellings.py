"""Spellings of a map that signatures and calls tell apart, and what follows from a spelling alone
accuses nobody.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Transform, constraints

from flowref import check, loading
from flowref.checking import Settings
from flowref.loading import recipe_of
from flowref.model import Status, TargetError
from flowref.registry import parse_target


class Scaled(nn.Module):
    """x -> x exp(s), of four features."""

    def __init__(self) -> None:
        super().__init__()
        self.s = nn.Parameter(torch.linspace(-0.5, 0.5, 4) + 0.25)

    def onward(self, x: Any, sign: float = 1.0) -> Any:
        """Value and log-det, forward or back."""
        return x * (sign * self.s).exp(), sign * self.s.sum().expand(len(x))


class AskedFor(Scaled):
    """The log-det comes only where it is asked for."""

    def forward(self, x: Any, return_logdet: bool = False, reverse: bool = False) -> Any:
        """Both ways."""
        value, ladj = self.onward(x, -1.0 if reverse else 1.0)
        return (value, ladj) if return_logdet else value


class Doubled(AskedFor):
    """The log-det that is asked for is twice what it is."""

    def forward(self, x: Any, return_logdet: bool = False, reverse: bool = False) -> Any:
        """Both ways."""
        value, ladj = self.onward(x, -1.0 if reverse else 1.0)
        return (value, 2 * ladj) if return_logdet else value


class LogDetLast(Scaled):
    """A context, and after it a running log-det."""

    def forward(self, x: Any, x_cond: Any, ldj: Any, reverse: bool = False) -> Any:
        """Both ways."""
        shift = x_cond.tanh() @ torch.ones(3, 4, dtype=x.dtype)
        value, ladj = self.onward(x - shift if reverse else x, -1.0 if reverse else 1.0)
        return value if reverse else value + shift * self.s.exp(), ldj + ladj


class CondScaled(Scaled):
    """The same with a way back that fits."""

    def forward(self, x: Any, x_cond: Any, ldj: Any, reverse: bool = False) -> Any:
        """Both ways."""
        shift = x_cond.tanh() @ torch.ones(3, 4, dtype=x.dtype)
        if reverse:
            value, ladj = self.onward(x, -1.0)
            return value - shift, ldj + ladj
        value, ladj = self.onward(x + shift)
        return value, ldj + ladj


class Netted(nn.Module):
    """Holds a net of three numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3, 3)


class InHalves(Netted):
    """An additive coupling of two halves, which come and go apart."""

    def forward(self, x1: Any, x2: Any) -> Any:
        """Data to latents."""
        return x1, x2 + self.net(x1).tanh()

    def backward(self, y1: Any, y2: Any) -> Any:
        """Latents to data."""
        return y1, y2 - self.net(y1).tanh()


class HalvesWithLogDet(InHalves):
    """An affine one, with its log-det."""

    def forward(self, x_left: Any, x_right: Any) -> Any:
        """Data to latents."""
        s = self.net(x_left).tanh()
        return x_left, x_right * s.exp(), s.sum(-1)

    def backward(self, y_left: Any, y_right: Any) -> Any:
        """Latents to data."""
        return y_left, y_right * (-self.net(y_left).tanh()).exp()


class TupleOfHalves(Netted):
    """The halves come as a tuple, with a running log-det beside them."""

    def forward(self, x: Any, ldj: Any = None, reverse: bool = False) -> Any:
        """Both ways."""
        one, two = x
        s = self.net(one).tanh()
        ladj = s.sum(-1)
        if reverse:
            return (one, two * (-s).exp()), ldj - ladj
        return (one, two * s.exp()), ldj + ladj


class TupleAlone(Netted):
    """The halves come and go as a tuple, and nothing else."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x[0] + self.net(x[1]).tanh(), x[1]

    def inverse(self, z: Any) -> Any:
        """Latents to data, of the wrong half."""
        return z[0] - self.net(z[0]).tanh(), z[1]


class NormalizesBack(nn.Module):
    """The way back normalizes a batch; in train mode forward wants to have seen it."""

    mean: Any
    var: Any

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("var", torch.ones(3))

    def _numbers(self) -> tuple[Any, Any]:
        return self.seen if self.training else (self.mean, self.var)

    def forward(self, z: Any) -> Any:
        """Latents to data."""
        mean, var = self._numbers()
        deviation = (var + 1e-5).sqrt()
        return z * deviation + mean, deviation.log().sum().expand(len(z))

    def inverse(self, x: Any) -> Any:
        """Data to latents."""
        if self.training:
            self.seen = x.mean(0), x.var(0, unbiased=False)
            with torch.no_grad():
                self.mean.lerp_(self.seen[0], 0.1)
                self.var.lerp_(self.seen[1], 0.1)
        mean, var = self._numbers()
        deviation = (var + 1e-5).sqrt()
        return (x - mean) / deviation, -deviation.log().sum().expand(len(x))


class L1BatchNorm(nn.Module):
    """Called a batch norm, and divides by the mean absolute deviation, times a constant."""

    mean: Any
    spread: Any

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("spread", torch.ones(3))

    def forward(self, x: Any) -> Any:
        """Normalize."""
        if self.training:
            mean = x.mean(0)
            spread = (x - mean).abs().mean(0) * math.sqrt(math.pi / 2)
            with torch.no_grad():
                self.mean.lerp_(mean, 0.1)
                self.spread.lerp_(spread, 0.1)
        else:
            mean, spread = self.mean, self.spread
        return self.weight * (x - mean) / (spread + 1e-5)


class BoundedBelow(nn.Module):
    """A learned bound below, which is zero as built."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.bound = nn.Parameter(torch.zeros(3))

    def forward(self, x: Any) -> Any:
        """Values above the bound."""
        return torch.maximum(x, self.bound)


class NormedSizes(nn.Module):
    """A coupling whose scales have a size each, by weight normalization: of a vector of one number
    neither length nor direction depends on it but by its sign.
    """

    event_shape = (4,)

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 4))
        self.size = nn.Parameter(torch.ones(2, 1))
        self.direction = nn.Parameter(torch.ones(2, 1))

    def scales(self, a: Any) -> Any:
        """Scales and shifts."""
        s, t = self.net(a).chunk(2, 1)
        normed = self.size * self.direction / self.direction.norm(dim=1, keepdim=True)
        return normed.squeeze(1) * torch.tanh(s), t

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        a, b = x.chunk(2, 1)
        s, t = self.scales(a)
        return torch.cat([a, b * s.exp() + t], 1), s.sum(1)

    def inverse(self, z: Any) -> Any:
        """Latents to data."""
        a, b = z.chunk(2, 1)
        s, t = self.scales(a)
        return torch.cat([a, (b - t) * (-s).exp()], 1), -s.sum(1)


class NormedZeros(NormedSizes):
    """The same with two factors that are zero, of which neither gets a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = (nn.Parameter(torch.zeros(2)) for _ in range(2))

    def scales(self, a: Any) -> Any:
        """Scales and shifts, with one more factor."""
        s, t = super().scales(a)
        return s + self.one * self.other, t


class ZeroTimesZero(nn.Module):
    """A gate of zero before a shift of zero."""

    event_shape = (3,)

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(3))
        self.shift = nn.Parameter(torch.zeros(3))

    def forward(self, x: Any) -> Any:
        """A shift."""
        return x + self.gate * self.shift, torch.zeros(len(x), dtype=x.dtype)


class Overwriting(Scaled):
    """Writes to the batch that it was given."""

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        x[:, [0, 1]] = x[:, [0, 1]] * self.s[:2].exp()
        return x, self.s[:2].sum().expand(len(x))


class OtherNames(Scaled):
    """A map beside forward, with a running log-det that starts at zero, and a way back."""

    def flow(self, x: Any, logdet: Any = 0) -> Any:
        """Data to latents."""
        value, ladj = self.onward(x)
        return value, logdet + ladj

    def reverse(self, z: Any) -> Any:
        """Latents to data."""
        return self.onward(z, -1.0)[0]


class Unsaid(Transform):
    """A transform that does not say that it is bijective, and defines its inverse and log-det."""

    domain = constraints.real
    codomain = constraints.real

    def _call(self, x: Any) -> Any:
        return x + x**3

    def _inverse(self, y: Any) -> Any:
        x = torch.zeros_like(y)
        for _ in range(200):
            x = x - (x + x**3 - y) / (1 + 3 * x**2)
        return x

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Per entry."""
        return (1 + 3 * x**2).log()


class Folded(Transform):
    """One that says nothing either, and has no log-det: it folds."""

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class ClampedLog(nn.Module):
    """The logarithm of durations, which may be zero, in sequences; log-det and mask over two axes."""

    def forward(self, x: Any, x_mask: Any, reverse: bool = False) -> Any:
        """Both ways."""
        if reverse:
            return x.exp() * x_mask
        y = x.clamp_min(1e-5).log() * x_mask
        return y, (-y).sum((1, 2))


class AxisLost(nn.Module):
    """A scale for each channel of sequences, whose log-det is added up over the channels alone."""

    def __init__(self) -> None:
        super().__init__()
        self.s = nn.Conv1d(4, 4, 1)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        s = self.s(torch.ones_like(x)).tanh()
        return x * s.exp(), s.sum(1)


class ClampedLogit(nn.Module):
    """The logit of numbers between 0 and 1."""

    event_shape = (3,)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        u = x.clamp(1e-6, 1 - 1e-6)
        return u.logit(), -(u * (1 - u)).log().sum(-1)


class Rectified(nn.Module):
    """A leaky unit without its leak."""

    event_shape = (3,)

    def forward(self, x: Any) -> Any:
        """Data to latents."""
        return x.clamp_min(0.0), torch.zeros(len(x), dtype=x.dtype)


class AddedToLogDensity(Scaled):
    """A running log-det under the name of a log-density, added both ways."""

    def forward(self, x: Any, logpx: Any = None, reverse: bool = False) -> Any:
        """Both ways."""
        value, ladj = self.onward(x, -1.0 if reverse else 1.0)
        return value if logpx is None else (value, logpx + ladj)


class AddedOneWay(Scaled):
    """A running log-density, whose sign is wrong on the way back."""

    def forward(self, x: Any, logpx: Any = None, reverse: bool = False) -> Any:
        """Both ways."""
        value, ladj = self.onward(x, -1.0 if reverse else 1.0)
        return value if logpx is None else (value, logpx + (ladj if reverse else -ladj))


class Widening(nn.Module):
    """Two numbers in and three out."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        """Augment and map."""
        return self.net(torch.cat([x, torch.zeros(len(x), 1, dtype=x.dtype)], 1))


class NodesNormed(nn.Module):
    """Standardizes each feature over the members of each set; ``every`` counts the members of all, and
    ``mean`` those of an average set.
    """

    def __init__(self, every: bool = False, mean: bool = False) -> None:
        super().__init__()
        self.every, self.mean, self.weight = every, mean, nn.Parameter(torch.ones(5))

    def forward(self, x: Any, batch: Any = None) -> Any:
        """Rows, and the sets that they belong to."""
        batch = torch.zeros(len(x), dtype=torch.long) if batch is None else batch
        sets = int(batch.max()) + 1
        empty = torch.zeros(sets, x.shape[1], dtype=x.dtype)
        count = torch.bincount(batch, minlength=sets).to(x.dtype)[:, None]
        size = count.mean() if self.mean else count
        centred = x - (empty.index_add(0, batch, x) / size)[batch]
        squares = empty.index_add(0, batch, centred * centred)
        variance = squares / (len(x) if self.every else count)
        return self.weight * centred / (variance + 1e-5).sqrt()[batch]


def nodes_of_all_sets() -> nn.Module:
    """The number of members is that of all sets."""
    return NodesNormed(every=True)


def nodes_of_an_average_set() -> nn.Module:
    """The number of members is that of an average set."""
    return NodesNormed(mean=True)


class Pooled(nn.Module):
    """Scales half of each member's features by what both their own and the mean of the others say."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 2)

    def _scales(self, kept: Any) -> Any:
        mean = kept.mean(-2, keepdim=True).expand_as(kept)
        return torch.tanh(self.net(torch.cat([kept, mean], -1)))

    def forward(self, x: Any) -> Any:
        """Log-scales are summed over members and features."""
        kept, moved = x.chunk(2, -1)
        scales = self._scales(kept)
        return torch.cat([kept, moved * scales.exp()], -1), scales.sum((-1, -2))

    def inverse(self, z: Any) -> Any:
        """Back."""
        kept, moved = z.chunk(2, -1)
        scales = self._scales(kept)
        return torch.cat([kept, moved * (-scales).exp()], -1), -scales.sum((-1, -2))


class Extremes:
    """Gumbel's distribution in arrays, with the functions of a frozen one of scipy."""

    def __init__(self, defect: str = "") -> None:
        self.loc, self.scale, self.defect = 0.5, 1.6, defect

    def _standard(self, x: Any) -> Any:
        return (np.asarray(x) - self.loc) / self.scale

    def logpdf(self, x: Any) -> Any:
        """The log-density."""
        z = self._standard(x)
        return -z - np.exp(-z) - np.log(self.scale)

    def cdf(self, x: Any) -> Any:
        """The probability of less."""
        return np.exp(-np.exp(-self._standard(x)))

    def sf(self, x: Any) -> Any:
        """The probability of more."""
        sign = 1.0 if self.defect == "sf" else -1.0
        return -np.expm1(-np.exp(sign * self._standard(x)))

    def isf(self, q: Any) -> Any:
        """The quantile of the upper tail."""
        q = np.asarray(q)
        return self.loc - self.scale * np.log(-np.log(q if self.defect == "isf" else 1 - q))

    def median(self) -> Any:
        """The middle."""
        return self.loc - self.scale * np.log(2 if self.defect == "median" else np.log(2))

    def rvs(self, size: Any = 1) -> Any:
        """Draws."""
        return np.random.gumbel(self.loc, self.scale, size=size)


def spec(name: str, options: str = "") -> str:
    """A target of this file."""
    return f"{__file__}:{name}{options}"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("AskedFor", ("log-det: return_logdet=True", "inverse: reverse=True")),
        ("CondScaled", ("context: x_cond of shape (3,)", "running log-det, added (ldj)")),
        ("InHalves", ("2 tensors in, 2 out, no log-det", "inverse: backward()")),
        ("HalvesWithLogDet", ("2 tensors in, 2 out; log-det last", "inverse without log-det")),
        ("TupleOfHalves", ("a tuple of two halves in, and out", "inverse: reverse=True")),
        ("TupleAlone", ("a tuple of two halves in, and out",)),
    ],
)
def test_each_spelling_is_told_by_signature_and_calls(name: str, said: tuple[str, ...]) -> None:
    """The line names the switch, the place of the running log-det, and the parts of a point."""
    found = recipe_of(parse_target(spec(name))).recognized
    assert set(said) <= set(found.conventions)
    assert found.kind == "bijection with inverse"


@pytest.mark.parametrize(
    ("name", "law", "status"),
    [
        ("AskedFor", "map/log-det", Status.HOLDS),
        ("AskedFor", "map/log-det[inverse]", Status.HOLDS),
        ("Doubled", "map/log-det", Status.VIOLATED),
        ("CondScaled", "map/inverse[latents]", Status.HOLDS),
        ("LogDetLast", "map/inverse[latents]", Status.VIOLATED),
        ("HalvesWithLogDet", "map/log-det", Status.HOLDS),
        ("TupleOfHalves", "map/log-det", Status.HOLDS),
        ("TupleOfHalves", "map/log-det[inverse]", Status.HOLDS),
        ("TupleAlone", "map/inverse[latents]", Status.VIOLATED),
        ("BoundedBelow", "gradient/reaches-parameters[start]", Status.HOLDS),
        ("ZeroTimesZero", "gradient/reaches-parameters[start]", Status.VIOLATED),
        ("NormedSizes", "gradient/reaches-parameters[start]", Status.HOLDS),
        ("NormedZeros", "gradient/reaches-parameters[start]", Status.VIOLATED),
        ("Overwriting", "map/log-det", Status.HOLDS),
        ("Overwriting", "effects/process[input]", Status.VIOLATED),
        ("NodesNormed", "same/rows", Status.HOLDS),
        ("NodesNormed", "map/equivariant", Status.HOLDS),
        ("nodes_of_all_sets", "same/rows", Status.VIOLATED),
        ("nodes_of_an_average_set", "same/rows", Status.VIOLATED),
        ("Pooled", "map/log-det", Status.HOLDS),
        ("Extremes", "density/distribution-function", Status.HOLDS),
        ("Extremes?defect=sf", "density/distribution-function", Status.VIOLATED),
        ("Extremes?defect=isf", "density/distribution-function", Status.VIOLATED),
        ("Extremes?defect=median", "density/distribution-function", Status.VIOLATED),
    ],
)
def test_what_is_right_holds_and_what_is_wrong_is_told(name: str, law: str, status: Status) -> None:
    """However it is spelled; a map is trained to another base where its values are the mean of one,
    and called on a copy where it writes to its input.
    """
    verdict = check(spec(name), law, Settings("quick"))
    assert verdict.status is status, verdict.reason


def test_a_map_and_its_way_back_under_other_names_are_proposed_together() -> None:
    """The sentence names both options, which then are taken."""
    with pytest.raises(TargetError, match=r"\?forward=flow&inverse=reverse"):
        recipe_of(parse_target(spec("OtherNames")))
    chosen = spec("OtherNames", "?forward=flow&inverse=reverse")
    found = recipe_of(parse_target(chosen)).recognized
    assert "running log-det, added (logdet)" in found.conventions
    assert found.kind == "bijection with inverse"


@pytest.mark.parametrize("law", ["batch-norm/train-map", "batch-norm/statistics[buffers]"])
def test_a_way_back_that_normalizes_is_played(law: str) -> None:
    """Though forward, which wants its statistics, raises in train mode."""
    verdict = check(spec("NormalizesBack"), law, Settings("quick"))
    assert verdict.status is Status.HOLDS, verdict.reason


def test_another_measure_of_spread_is_no_batch_norm_by_its_name() -> None:
    """What is called a batch norm and divides by the mean absolute deviation is held to no law of
    deviations.
    """
    assert loading.load(parse_target(spec("L1BatchNorm"))).normalizer is None


def test_a_transform_that_says_nothing_is_taken_by_what_it_defines() -> None:
    """A log-det and an inverse of its own make it a bijection; without them it is none."""
    assert check(spec("Unsaid", "?event=3"), "map/log-det").status is Status.HOLDS
    with pytest.raises(Exception, match="no bijection"):
        recipe_of(parse_target(spec("Folded", "?event=3")))


def test_a_repository_may_be_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that imports from above the folder of the command is named from the folder above it."""
    root = tmp_path / "flow-torch"
    (root / "models").mkdir(parents=True)
    (root / "models/__init__.py").touch()
    (root / "tools.py").write_text("from torch.nn import Identity as Base\n")
    code = "from ..tools import Base\n\n\nclass Flow(Base):\n    event_shape = (2,)\n"
    (root / "models/flow.py").write_text(code)
    monkeypatch.chdir(root)
    assert recipe_of(parse_target("models/flow.py:Flow")).recognized.event_shape == (2,)


@pytest.mark.parametrize(
    "work", ["print(open('none.csv').read())", "for _ in range(2):\n    1 / 0"]
)
def test_a_script_that_fails_at_its_work_is_read_for_what_it_defines(
    work: str, tmp_path: Path
) -> None:
    """Definitions before and after the statement that raises are there."""
    code = f"import torch\nSIZE = 2\n\n{work}\n\n\nclass Flow(torch.nn.Identity):\n    event_shape = (SIZE,)\n"
    path = tmp_path / "train.py"
    path.write_text(code)
    assert recipe_of(parse_target(f"{path}:Flow")).recognized.event_shape == (2,)


def test_a_definition_that_raises_is_told(tmp_path: Path) -> None:
    """What fails in a definition is the file's own error."""
    path = tmp_path / "broken.py"
    path.write_text("class Flow(Missing):\n    pass\n")
    with pytest.raises(Exception, match="name 'Missing' is not defined"):
        recipe_of(parse_target(f"{path}:Flow"))


def test_an_event_is_preferred_at_which_each_point_has_a_log_det() -> None:
    """Sums over two axes are of a sequence, though an image is taken as well."""
    assert recipe_of(parse_target(spec("ClampedLog"))).recognized.event_shape == (2, 4)


def test_an_event_with_an_axis_of_one_hides_no_lost_axis() -> None:
    """The first event that calls take stands where another one of as many axes would suit better."""
    assert check(spec("AxisLost"), "shape/one-number-per-point[log-det]").status is Status.VIOLATED


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ClampedLog", "domain: (1e-05, inf), since values outside are clamped"),
        ("ClampedLogit", "domain: (1e-06, 1), since values outside are clamped"),
    ],
)
def test_what_is_clamped_before_a_logarithm_has_a_domain(name: str, said: str) -> None:
    """It is that beyond which calls give one image, and steep at its ends."""
    assert said in recipe_of(parse_target(spec(name))).recognized.conventions
    for law in ("map/singular-jacobian", "map/log-det", "map/inverse"):
        verdict = check(spec(name), law, Settings("quick"))
        assert verdict.status in (Status.HOLDS, Status.NOT_APPLICABLE), (law, verdict.reason)


def test_a_map_that_is_flat_and_nowhere_steep_is_no_bijection() -> None:
    """A clamp that guards nothing stays a bug."""
    assert check(spec("Rectified"), "map/singular-jacobian").status is Status.VIOLATED


def test_a_log_density_that_is_added_to_both_ways_is_asked_for_its_name() -> None:
    """The sentence has both readings; either is then judged, and a bug one way is told."""
    with pytest.raises(TargetError, match=r"\?running=add.*\?running=subtract"):
        recipe_of(parse_target(spec("AddedToLogDensity")))
    laws = "map/log-det", "map/log-det[inverse]"
    for options, status in (("?running=add", Status.HOLDS), ("?running=subtract", Status.VIOLATED)):
        verdicts = [check(spec("AddedToLogDensity", options), law).status for law in laws]
        assert verdicts == [status, status]
    verdicts = [check(spec("AddedOneWay"), law).status for law in laws]
    assert verdicts == [Status.HOLDS, Status.VIOLATED]


def test_another_number_of_entries_is_told_before_any_other_error() -> None:
    """Whatever calls of other shapes raise, and with no advice on event shapes."""
    with pytest.raises(TargetError, match=r"shape \(2,\) to \(3,\)") as refused:
        recipe_of(parse_target(spec("Widening")))
    assert "cannot be told" not in str(refused.value)
