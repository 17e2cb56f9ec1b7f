"""Cases: laws in further circumstances."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from flowref import checking, loading, registry
from flowref.auditing.front import audit
from flowref.checking import Settings
from flowref.laws.common.cases import ordinary_batch
from flowref.model import Condition, Law, SpecError, Status, Verdict, base_of
from flowref.model.inverse_subject import inverted, swap_directions
from flowref.reporting.causes import explained

CASES = [law for law in registry.laws() if law.is_case]
MOODS = "flowref_zoo.specimens.moods:"
# Each law that catches a defect, with the defect and the healthy twin.
DEFECTS = [
    (law, spec, twin)
    for twin, defects in registry.specimens().items()
    if twin.startswith(MOODS)
    for spec, laws in defects.items()
    for law in laws
]
QUICK = Settings("quick")


@pytest.mark.parametrize("law", CASES, ids=lambda law: law.id)
def test_a_case_is_its_law_elsewhere(law: Law) -> None:
    """It measures what its law measures, says where, draws its own numbers and is found by its name."""
    base = registry.find_law(base_of(law.id))
    said = swap_directions(base.statement) if law.direction == "inverse" else base.statement
    assert law.measure is base.measure and law.statement.endswith(said)
    assert (law.version, law.force, law.promise) == (base.version, base.force, base.promise)
    assert registry.find_law(law.key) is law and registry.select_laws((law.id,)) == (law,)
    changed = (
        "mode",
        "history",
        "rows",
        "direction",
        "grad",
        "contextual",
        "one_context",
        "resized",
    )
    assert any(getattr(law, name) != getattr(base, name) for name in changed)


@pytest.mark.parametrize(
    ("law", "spec", "twin"), DEFECTS, ids=lambda text: text.removeprefix(MOODS)
)
def test_a_case_sees_what_is_wrong_there(law: str, spec: str, twin: str) -> None:
    """A defect of train mode, of many points or of results that are kept, and not its healthy twin."""
    settings = Settings() if law.endswith("trained]") else QUICK
    assert checking.pair_verdict(spec, law, settings, written=False).status is Status.VIOLATED
    assert checking.pair_verdict(twin, law, settings, written=False).status is Status.HOLDS


def test_brackets_select_cases() -> None:
    """A law by itself is not its cases; a case that is not there is refused with the nearest."""
    (law,) = registry.select_laws(("map/log-det",))
    assert not law.is_case
    assert {one.base for one in registry.select_laws(("*[train]",))} >= {law.id}
    assert f"{law.id}[train]" in {one.id for one in registry.select_laws(("map/*",))}
    with pytest.raises(SpecError, match=r"did you mean map/log-det\[train\]"):
        registry.select_laws(("map/log-det[trian]",))
    with pytest.raises(
        SpecError, match="no law matches"
    ):  # no class of letters, which former ids would match
        registry.select_laws(("*[trian]",))


class Moody(nn.Module):
    """It does something else in train mode: itself, in a call of a part, in its graph alone, or nowhere."""

    event_shape = (2,)

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where, self.drop = where, nn.Dropout(0.5 if where == "part" else 0.0)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """A multiple of the input."""
        scale = 2 * self.scale if self.where == "itself" and self.training else self.scale
        if self.where == "graph" and self.training:
            scale = scale.detach()
        return self.drop(x) * scale, 2 * scale.log().expand(len(x))


@pytest.mark.parametrize(
    ("where", "matters"), [("itself", True), ("part", True), ("graph", True), ("nowhere", False)]
)
def test_it_is_seen_whether_a_mode_matters(where: str, matters: bool) -> None:
    """By values, and by the graph of operations; a dropout of nothing is none."""
    target = loading.snapshot(Moody(where), "")
    subject = loading.load(target, Condition(mode="train"))
    assert subject.mode_matters is not None and subject.mode_matters() is matters


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (nn.Dropout(0.5), "draws random numbers"),
        (nn.BatchNorm1d(2), "depend on each other"),
        (nn.Identity(), "the same in both modes"),
    ],
    ids=["dropout", "batch norm", "neither"],
)
def test_rows_of_their_own_are_judged_in_train_mode(part: nn.Module, reason: str) -> None:
    """What is random, or one of a batch, is no function of a point there."""

    class Flow(nn.Module):
        event_shape = (2,)

        def __init__(self) -> None:
            super().__init__()
            self.part = part

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            shift = (
                0.1 * self.part(x.detach()).mean() if isinstance(part, nn.Dropout) else self.part(x)
            )
            return x + 0 * shift if isinstance(part, nn.Identity) else shift + x, x.new_zeros(
                len(x)
            )

    report = audit([Flow()], laws="map/log-det[train]")
    (verdict,) = report.verdicts
    assert verdict.status is Status.NOT_APPLICABLE and reason in verdict.reason


def test_a_case_fails_since_its_law_does() -> None:
    """What fails in eval mode as well is said once."""
    both = [Verdict("t", law, Status.VIOLATED) for law in ("map/log-det", "map/log-det[train]")]
    assert explained(both)["map/log-det[train]"].law == "map/log-det"
    assert not explained(both[1:])


def test_what_is_not_trained_is_not_judged_after_training() -> None:
    """No parameters, no error."""
    verdict = checking.pair_verdict(
        "torch:ExpTransform", "map/one-to-one[orientation, trained]", Settings()
    )
    assert verdict.status is Status.NOT_APPLICABLE, verdict


@pytest.mark.parametrize(
    "law", [law for law in CASES if law.history == "trained"], ids=lambda law: law.id
)
def test_the_quick_profile_trains_nothing(law: Law) -> None:
    """What comes of training is said to be measured in other profiles."""
    verdict = checking.pair_verdict(f"{MOODS}started", law, QUICK)
    assert verdict.status is Status.NOT_APPLICABLE


def test_a_violation_of_many_points_is_made_small() -> None:
    """The smallest batch that halving finds shows a block of 256."""
    verdict = checking.pair_verdict(f"{MOODS}mild?defect=first-block-for-all", "same/rows[many]")
    assert verdict.counterexample is not None and len(verdict.counterexample.x) == 257


@pytest.mark.parametrize(
    "spec",
    [
        "nflows:AffineCouplingTransform",
        "torch:ExpTransform",
        "nflows:MaskedAffineAutoregressiveTransform",
    ],
)
def test_what_is_turned_around_twice_is_what_it_was(spec: str) -> None:
    """The inverse of a map is a map whose inverse is the map: values, log-dets and Jacobians."""
    subject = loading.load(registry.parse_target(spec))
    assert subject.forward is not None and subject.jacobian is not None
    once, x = inverted(subject), ordinary_batch(subject).x
    twice = inverted(once)
    z = subject.forward(x, None)
    assert once.inverse is not None and twice.forward is not None and once.forward is not None
    assert np.array_equal(once.inverse(x, None).value, z.value)
    assert np.array_equal(twice.forward(x, None).value, z.value)
    assert once.jacobian is not None
    there, back = subject.jacobian("forward", x, None), once.jacobian("forward", z.value, None)
    assert np.allclose(there @ back, np.eye(there.shape[-1]), atol=1e-8)


def test_what_has_no_inverse_has_no_other_direction() -> None:
    """It is said as of every law that needs one."""
    verdict = checking.pair_verdict(
        "flowref_zoo.specimens.residual:planar", "gradient/input[log-det, inverse]"
    )
    assert verdict.status is Status.NOT_APPLICABLE and "no inverse" in verdict.reason
