"""Adapters of packages of scientists on torch: what they state of objects, the bugs that are known in these, and
their correct neighbours.
"""

from __future__ import annotations

import fnmatch
import importlib
import importlib.util
import warnings
from typing import Any

import pytest
import torch

import flowref
from flowref import checking, registry
from flowref.model import Component, Facts, Law, Status

PACKAGES = (
    "sbi", "gpytorch", "botorch", "nessai", "timm", "torch_geometric", "torchcfm", "flow_matching", "diffusers",
)  # fmt: skip
INSTALLED = [name for name in PACKAGES if importlib.util.find_spec(name)]
if not INSTALLED:
    pytest.skip("they are checked where they are installed", allow_module_level=True)
# timm imports torchvision and calls none of its operators. That of the package index is linked against CUDA: beside a CPU
# build of torch its import fails for want of these, unless they are declared; a library keeps what it declares.
OPERATORS = torch.library.Library("torchvision", "FRAGMENT")
if "timm" in INSTALLED:
    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        for name in ("nms", "qnms"):
            OPERATORS.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
SAMPLES = "density/change-of-variables[samples]"
# A construction, a law, and what it says: of each bug beside something alike that has none.
KNOWN = [
    ("sbi:maf", SAMPLES, Status.VIOLATED),
    ("sbi:zuko_maf", SAMPLES, Status.HOLDS),
    ("sbi:maf", "shape/one-number-per-point[log-prob]", Status.HOLDS),
    ("sbi:made", "sampling/follows-density[balance]", Status.VIOLATED),
    ("sbi:maf", "sampling/follows-density[balance]", Status.HOLDS),
    ("sbi:mdn", "sampling/follows-density[balance]", Status.VIOLATED),
    ("gpytorch:HorseshoePrior", "density/mass", Status.VIOLATED),
    ("gpytorch:HalfCauchyPrior", "density/mass", Status.HOLDS),
    ("gpytorch:LogNormalPrior", "dtype/follows[device]", Status.VIOLATED),
    ("gpytorch:NormalPrior", "dtype/follows[device]", Status.HOLDS),
    ("botorch:InputStandardize", "state/degenerate-batch", Status.VIOLATED),
    ("botorch:Standardize", "state/degenerate-batch", Status.HOLDS),
    ("botorch:InputStandardize", "effects/graphs", Status.HOLDS),
    ("botorch:InputStandardize", "effects/graphs[one-call]", Status.ADVICE),
    ("botorch:Warp", "map/inverse", Status.HOLDS),
    ("botorch:Log", "map/log-det", Status.NOT_APPLICABLE),
    ("botorch:Standardize", "map/log-det", Status.HOLDS),
    ("nessai:RealNVP", "same/saved[restore]", Status.VIOLATED),
    ("nessai:RealNVP", "map/log-det", Status.HOLDS),
    ("timm:BatchNormAct2d", "batch-norm/train-map[reference]", Status.HOLDS),
    ("timm:GroupNormAct", "sample-norm/formula", Status.HOLDS),
    ("timm:RmsNorm2d", "sample-norm/formula", Status.HOLDS),
    ("timm:LayerNormFp32", "sample-norm/formula", Status.HOLDS),
    ("timm:LayerNormFp32", "dtype/follows", Status.HOLDS),
    ("torch_geometric:HeteroBatchNorm", "batch-norm/gradient", Status.VIOLATED),
    ("torch_geometric:BatchNorm", "batch-norm/gradient", Status.HOLDS),
    ("torch_geometric:InstanceNorm[tracked]", "effects/graphs", Status.VIOLATED),
    ("torch_geometric:InstanceNorm", "sample-norm/formula", Status.HOLDS),
    ("torch_geometric:GraphNorm", "same/rows", Status.HOLDS),
    ("torchcfm:TargetConditionalFlowMatcher", "map/log-det", Status.HOLDS),
    ("torchcfm:SchrodingerBridgeConditionalFlowMatcher", "map/log-det", Status.VIOLATED),
    ("flow_matching:VPScheduler", "map/inverse", Status.HOLDS),
    ("flow_matching:AffineProbPath[VP, noise]", "map/inverse", Status.HOLDS),
    ("flow_matching:ScheduleTransformedModel[VP to Cosine]", "map/log-det", Status.HOLDS),
    ("flow_matching:ODESolver", "gradient/input[value]", Status.VIOLATED),
    ("flow_matching:ODESolver", "density/mass", Status.HOLDS),
    ("diffusers:DDIM", "map/inverse", Status.HOLDS),
    ("diffusers:DDIM", "dtype/follows", Status.HOLDS),
    ("diffusers:DDIM[linspace]", "map/inverse", Status.VIOLATED),
    ("diffusers:DDIMInverse", "map/inverse", Status.HOLDS),
]
# Constructions that are looked at in another way than their objects, or that calls alone show to be norms.
OTHERWISE = (
    "timm:*", "torch_geometric:*BatchNorm*", "flow_matching:AffineProbPath[[]*, *", "flow_matching:ScheduleTransformedModel*",
)  # fmt: skip


def module(name: str) -> Any:
    """A module of a package; skips where it is not installed. Packages that are imported call what torch deprecates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


def built(component: Component) -> object:
    """What a construction builds, from one seed."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        made: object = component.build()
    return made


@pytest.mark.parametrize("library", INSTALLED)
def test_a_construction_is_recognized_as_what_it_is(library: str) -> None:
    """Whether named in a spec or handed over as an object, the same object is called the same way, and its facts
    are those of its adapter.
    """
    adapter = registry.adapters()[library]
    for name, component in registry.components(library).items():
        made = built(component)
        assert not isinstance(component.facts, Facts)
        stated = component.facts()
        if any(fnmatch.fnmatch(f"{library}:{name}", one) for one in OTHERWISE):
            continue
        assert adapter.recognizes(made) == component.dialect
        assert adapter.describe(made, stated.event_shape).event_shape == stated.event_shape


@pytest.mark.parametrize(
    ("spec", "law", "status"), [row for row in KNOWN if row[0].partition(":")[0] in INSTALLED]
)
def test_what_is_known_is_found(spec: str, law: str, status: Status) -> None:
    """The law of a known bug is violated by what has it, and holds of what is alike and has none."""
    found: Law = registry.find_law(law)
    verdict = checking.pair_verdict(
        registry.parse_target(spec), found, checking.Settings("quick"), written=False
    )
    assert verdict.status is status


@pytest.mark.parametrize(("factor", "status"), [(1.0, Status.HOLDS), (1.001, Status.VIOLATED)])
def test_a_velocity_is_the_derivative_of_its_path(factor: float, status: Status) -> None:
    """Of a matcher that a user derives, too."""
    base: Any = module("torchcfm").ConditionalFlowMatcher

    def velocity(self: Any, x0: Any, x1: Any, t: Any, xt: Any) -> Any:
        return factor * base.compute_conditional_flow(self, x0, x1, t, xt)

    own = type("Own", (base,), {"compute_conditional_flow": velocity})(0.2)
    assert flowref.check(own, "map/log-det").status is status


@pytest.mark.parametrize(
    ("factor", "law", "status"),
    [
        (1.0, "map/log-det", Status.HOLDS),
        (1.0, "map/inverse", Status.HOLDS),
        (1.001, "map/log-det", Status.VIOLATED),
    ],
)
def test_a_scheduler_states_its_derivatives(factor: float, law: str, status: Status) -> None:
    """Of one that a user derives, too."""
    of: Any = module("flow_matching.path.scheduler")

    def at_time(self: Any, t: Any) -> Any:
        at = of.CosineScheduler.__call__(self, t)
        return of.SchedulerOutput(at.alpha_t, at.sigma_t, at.d_alpha_t, factor * at.d_sigma_t)

    own = type("Own", (of.CosineScheduler,), {"__call__": at_time})()
    assert flowref.check(own, law).status is status


@pytest.mark.skipif("sbi" not in INSTALLED, reason="sbi is not installed")
@pytest.mark.parametrize("name", ["zuko_nsf[bounded]", "mdn[bounded]"])
def test_a_bounded_prior_is_the_support(name: str) -> None:
    """Each parameter lies between the ends of its own prior."""
    component = registry.components("sbi")[name]
    assert not isinstance(component.facts, Facts)
    intervals = component.facts().domain.coordinates
    assert [(one.low, one.high) for one in intervals] == [(-1, 1), (0, 4), (2, 3)]


@pytest.mark.skipif("botorch" not in INSTALLED, reason="BoTorch is not installed")
@pytest.mark.parametrize(
    ("power", "back", "law", "status"),
    [
        (2, 2, "map/log-det", Status.HOLDS),
        (2, 2, "map/log-det[inverse]", Status.HOLDS),
        (1, 2, "map/log-det", Status.VIOLATED),
        (2, 1, "map/log-det[inverse]", Status.VIOLATED),
        (1, 1, "map/log-det", Status.VIOLATED),
    ],
)
def test_variances_of_outcomes_are_scaled_by_the_squared_slope(
    power: int, back: int, law: str, status: Status
) -> None:
    """In both directions, also if a wrong variance comes back."""
    base: Any = module("botorch.models.transforms.outcome").OutcomeTransform

    def forward(self: Any, Y: Any, Yvar: Any = None, X: Any = None) -> Any:
        return self.slope * Y, None if Yvar is None else Yvar * self.slope**power

    def untransform(self: Any, Y: Any, Yvar: Any = None, X: Any = None) -> Any:
        return Y / self.slope, None if Yvar is None else Yvar / self.slope**back

    own = type("Own", (base,), {"forward": forward, "untransform": untransform})()
    own.register_buffer("slope", torch.tensor([2.0, 0.7]))
    assert flowref.check(own.eval(), law).status is status


@pytest.mark.skipif("botorch" not in INSTALLED, reason="BoTorch is not installed")
@pytest.mark.parametrize(("back", "status"), [(0.5, Status.HOLDS), (2.0, Status.VIOLATED)])
def test_a_transform_from_the_base_class_has_an_inverse(back: float, status: Status) -> None:
    """Its untransform, whether it is one or not."""
    base: Any = module("botorch.models.transforms.input").InputTransform
    methods = {
        "transform": lambda _, X: X.sign() * X.square(),
        "untransform": lambda _, X: X.sign() * X.abs() ** back,
        "transform_on_train": True,
        "transform_on_eval": True,
        "transform_on_fantasize": True,
    }
    own = type("Own", (base, torch.nn.Module), methods)()
    assert flowref.check(own, "map/inverse").status is status


@pytest.mark.skipif("sbi" not in INSTALLED, reason="sbi is not installed")
@pytest.mark.parametrize(
    ("defect", "law", "status"),
    [
        ("", "sampling/follows-density", Status.HOLDS),
        ("", "density/loss[batch-mean]", Status.HOLDS),
        ("conditions first", "sampling/follows-density", Status.VIOLATED),
        ("half of the loss", "density/loss[batch-mean]", Status.VIOLATED),
    ],
)
def test_an_estimator_that_a_user_derives_is_checked(defect: str, law: str, status: Status) -> None:
    """Draws belong to their conditions, and the loss is minus the log-density."""
    base: Any = module("sbi.neural_nets.estimators.base").ConditionalDensityEstimator

    def log_prob(self: Any, input: Any, condition: Any) -> Any:
        return torch.distributions.Normal(self.net(condition), 0.8).log_prob(input).sum(-1)

    def loss(self: Any, input: Any, condition: Any) -> Any:
        value = -self.log_prob(input.unsqueeze(0), condition)[0]
        return value / 2 if defect == "half of the loss" else value

    def sample(self: Any, sample_shape: Any, condition: Any) -> Any:
        means = self.net(condition)
        several = means.expand(*sample_shape, *means.shape)
        if defect == "conditions first":
            several = several.transpose(0, -2).reshape(several.shape)
        return several + 0.8 * torch.randn_like(several)

    methods = {"log_prob": log_prob, "loss": loss, "sample": sample}
    torch.manual_seed(0)
    own = type("Own", (base,), methods)(torch.nn.Linear(3, 2), torch.Size([2]), torch.Size([3]))
    assert flowref.check(own, law).status is status


@pytest.mark.skipif("torch_geometric" not in INSTALLED, reason="it is not installed")
@pytest.mark.parametrize("every", [False, True])
def test_graphs_of_a_derived_norm_are_rows(every: bool) -> None:
    """Nodes of other graphs do not count."""
    base: Any = module("torch_geometric.nn.norm").GraphNorm

    def forward(self: Any, x: Any, batch: Any = None, batch_size: Any = None) -> Any:
        batch = torch.zeros(len(x), dtype=torch.long) if batch is None else batch
        sums = x.new_zeros(int(batch.max()) + 1, x.shape[1]).index_add(0, batch, x)
        count = len(x) if every else torch.bincount(batch).to(x.dtype)[:, None]
        return self.weight * (x - self.mean_scale * (sums / count)[batch]) + self.bias

    own = type("Own", (base,), {"forward": forward})(4)
    expected = Status.VIOLATED if every else Status.HOLDS
    assert flowref.check(own, "same/rows").status is expected


@pytest.mark.skipif("timm" not in INSTALLED, reason="timm is not installed")
@pytest.mark.parametrize(
    ("own", "status"), [(False, Status.HOLDS), (True, Status.VIOLATED)], ids=["timm's", "its own"]
)
@pytest.mark.parametrize("within", [False, True], ids=["derived", "part"])
def test_single_precision_of_a_package_is_meant(within: bool, own: bool, status: Status) -> None:
    """In a class that derives from its class, and in one that contains its object; a cast of the user's is a bug."""
    base: Any = module("timm.layers").EvoNorm2dB0

    def forward(self: Any, x: Any) -> Any:
        y = x + self.norm(x) if within else base.forward(self, x)
        return y.float().to(x.dtype) if own else y

    members = {"forward": forward, "__flow__": {"version": 1, "event": (4, 2, 3)}}
    model: Any = type("Own", (torch.nn.Module if within else base,), members)(
        *() if within else (4,)
    )
    if within:
        model.norm = base(4)
    assert flowref.check(model, "dtype/follows").status is status
