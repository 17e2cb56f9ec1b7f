"""The laws of couplings: every library has couplings that they judge, users can say what theirs
keep.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flowref import checking, loading, registry
from flowref.checking import Settings
from flowref.model import (
    MASKS,
    Condition,
    SpecError,
    Status,
    named_mask,
)

QUICK = Settings("quick")
# Laws that speak of every coupling with a conditioner, and one coupling of each library.
EVERYWHERE = (
    "coupling/masks[partition]",
    "coupling/pattern[conditioner]",
    "same/rows[conditioner]",
    "gradient/reaches-parameters[conditioner-start]",
)
COUPLINGS = {
    "reference:AffineCoupling[checkerboard]": "affine",
    "nflows:AdditiveCouplingTransform": "additive",
    "glasflow:nflows.AffineCouplingTransform": "affine",
    "normflows:AffineCouplingBlock[img,checkerboard]": "affine",
    "normflows:CoupledRationalQuadraticSpline": "elementwise",
    "zuko:GeneralCouplingTransform": "affine",
    "torchflows:InverseAffineCoupling": "affine",
    "torchflows:multiscale.Invertible1x1ConvolutionalCoupling": "joint",
    "pyro:AffineCoupling[dim=-3]": "affine",
    "FrEIA:AffineCouplingOneSided": "affine",
}
STACKS = (
    "reference:RealNVP",
    "zuko:RealNVP",
    "glasflow:RealNVP[linear=lu]",
    "nflows:SimpleRealNVP",
    "torchflows:arch.NICE",
)

USERS = '''
import torch
from torch import nn


class Shifted(nn.Module):
    """The last of three entries is shifted by a function of the first two."""

    event_shape = (3,)

    def __init__(self, said=False):
        super().__init__()
        self.net = nn.Linear(2, 1)
        if said:
            self.kept, self.coupling = [1, 1, 0], "additive"

    def forward(self, x):
        return torch.cat([x[:, :2], x[:, 2:] + self.net(x[:, :2])], -1), x.new_zeros(len(x))

    def inverse(self, z):
        return torch.cat([z[:, :2], z[:, 2:] - self.net(z[:, :2])], -1), z.new_zeros(len(z))


class Squared(Shifted):
    """What is kept enters itself."""

    def forward(self, x):
        z, ladj = super().forward(x)
        return z + torch.tensor([1e-3, 0.0, 0.0]).to(x) * x[:, 1:2], ladj
'''


def status(target: str, law: str) -> Status:
    """What is found of one pair."""
    return checking.pair_verdict(target, law, QUICK).status


@pytest.mark.parametrize(("target", "kind"), COUPLINGS.items())
def test_the_couplings_of_every_library_are_judged(target: str, kind: str) -> None:
    """Of one coupling of each library, the kind is known, and the laws that speak of all couplings
    hold.
    """
    pytest.importorskip(
        "flowref.reference" if target.startswith("reference") else target.partition(":")[0]
    )
    found = loading.load(registry.parse_target(target), Condition()).coupling
    assert found is not None
    assert found.kind == kind
    assert {law: status(target, law) for law in EVERYWHERE} == dict.fromkeys(
        EVERYWHERE, Status.HOLDS
    )
    straight = Status.HOLDS if kind in ("affine", "additive") else Status.NOT_APPLICABLE
    assert status(target, "coupling/closed-form") is straight


@pytest.mark.parametrize("target", STACKS)
def test_stacks_are_held_to_what_they_promise(target: str) -> None:
    """Named architectures promise that every entry is transformed, and do it."""
    pytest.importorskip(
        "flowref.reference" if target.startswith("reference") else target.partition(":")[0]
    )
    assert status(target, "coupling/stack[promise]") is Status.HOLDS


@pytest.mark.parametrize("shape", [(4,), (5,), (2, 4, 4), (4, 2, 3)], ids=str)
@pytest.mark.parametrize("name", MASKS)
def test_a_named_mask_has_two_parts(name: str, shape: tuple[int, ...]) -> None:
    """The masks of both parities complement each other, and neither is empty."""
    first, second = (np.array(named_mask(name, parity, shape)) for parity in (0, 1))
    assert first.size == np.prod(shape)
    assert ((first == 1) != (second == 1)).all()
    assert 0 < first.sum() < first.size


def test_a_checkerboard_is_one() -> None:
    """Entries with i + j even are kept at parity 0, in all channels."""
    mask = np.array(named_mask("checkerboard", 0, (2, 3, 4))).reshape(2, 3, 4)
    assert (mask == (np.add.outer(np.arange(3), np.arange(4)) % 2 == 0)).all()


def test_users_say_what_they_keep(tmp_path: Path) -> None:
    """By an attribute or in the spec; without either, the laws of couplings do not apply."""
    flows = tmp_path / "flows.py"
    flows.write_text(USERS)
    law = "coupling/closed-form"
    assert status(f"{flows}:Shifted", law) is Status.NOT_APPLICABLE
    assert status(f"{flows}:Shifted?said=true", law) is Status.HOLDS
    assert status(f"{flows}:Shifted?kept=0,1", "coupling/pattern[kept-part]") is Status.HOLDS
    assert status(f"{flows}:Shifted?kept=0,1", law) is Status.NOT_APPLICABLE
    assert status(f"{flows}:Shifted?kept=0,1&kind=additive-coupling", law) is Status.HOLDS
    assert (
        status(f"{flows}:Shifted?kept=alternating", "coupling/pattern[conditioner]")
        is Status.VIOLATED
    )
    assert status(f"{flows}:Squared?said=true", "coupling/pattern[kept-part]") is Status.VIOLATED


@pytest.mark.parametrize("options", ["kept=7", "kept=stripes", "kept=0,x", "kind=affine-coupling"])
def test_what_is_no_mask_is_refused(options: str, tmp_path: Path) -> None:
    """A place beyond the event, an unknown name, and a kind without a mask are mistakes, told in
    one sentence.
    """
    flows = tmp_path / "flows.py"
    flows.write_text(USERS)
    with pytest.raises(SpecError, match="kept"):
        checking.pair_verdict(f"{flows}:Shifted?{options}", "coupling/pattern[kept-part]", QUICK)
