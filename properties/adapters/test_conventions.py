"""User code is recognized by names, signatures and calls, and what is ambiguous is asked."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch

from flowref import checking, loading, registry
from flowref.adapters.user.conventions.names import sign_of
from flowref.backends.torch.captures import shared
from flowref.loading.recipe import Recipe, recipe_of
from flowref.model import Ambiguous, SpecError, Status, TargetError

STRANGE = Path(__file__).with_name("strange.py")
ZOO = "flowref_zoo.specimens"
# Specimen -> what the line of its target says.
SAID = {
    "spoken:without_log_det_back": "inverse without log-det",
    "spoken:backward": "inverse: backward()",
    "spoken:reverse": "inverse: reverse()",
    "spoken:flagged": "inverse: reverse=True",
    "spoken:worded": "inverse: mode='inverse'",
    "spoken:signed": "inverse: direction=-1",
    "spoken:lettered": "forward: f(), inverse: g()",
    "spoken:named": "forward: x_to_z(), inverse: z_to_x()",
    "spoken:unfinished": "no inverse",
    "spoken_first:initialized": "initialized by its first batch",
    "spoken_first:refusing": "initialized by its first batch",
    "spoken_functions:pair_of_functions": "a pair of functions: forward, inverse",
    "spoken_functions:turned_function": "inverse: inverse=True",
    "spoken_functions:variadic": "2 tensors in, 2 out; log-det last",
    "spoken_functions:fielded": "forward returns Result(z, log_det)",
    "spoken_functions:beside": "log-det: forward_log_det_jacobian()",
    "spoken_functions:encoding": "forward: encode(), inverse: decode()",
    "spoken_functions:turned": "inverse: inv",
    "spoken_functions:numeric": "calls on arrays of numpy",
    "spoken_functions:estimator": "transform() and inverse_transform() of arrays",
    "spoken_running:adding": "running log-det, added (logdet)",
    "spoken_running:subtracting": "running log-det, subtracted (logpx)",
    "spoken_running:accumulating": "running log-det in a triple, added",
    "spoken_running:paired": "running log-det in a pair, added",
    "spoken_running:untouched": "inverse without log-det",
    "spoken_beside:telling": "log-det: log_abs_det(x)",
    "spoken_beside:leaving": "log-det: logdet, which each call leaves",
    "spoken_beside:receding": "log-det of backward: log_jac_det(z)",
    "spoken_beside:homing": "inverse: unwarp(), which goes back",
    "spoken_beside:given_one": "samples (n, 1, ...), squeezed",
    "spoken_beside:handing": "log-det: logdet, which each call leaves",
    "spoken_beside:wrapped": "a tuple of one tensor in, and out",
    "spoken_beside:backwards": "forward: reverse=False",
    "spoken_beside:asking": "context: y of shape (3,)",
    "averaging_layers:told": "context: label=",
    "spoken_packed:packed": "columns as declared",
    "spoken_beside:masking": "x_mask: ones for each position",
    "spoken_beside:labeled": "labels: labels 0 to 3, to which contexts are rounded",
    "spoken_beside:block": "inverse: reverse()",
    "spoken_forms:column": "log-det (B,1), squeezed",
    "spoken_forms:scaling": "one log-det for all rows",
    "spoken_forms:per_entry": "log-det per entry, summed",
    "spoken_log_dets:rowless": "log-det per entry, one for all rows",
    "spoken_log_dets:kept_axes": "log-det squeezed",
    "spoken_log_dets:of_batch": "one log-det for a batch, called row by row, as declared",
    "spoken_log_dets:synced": "sync() is called after its parameters were moved",
    "spoken_log_dets:narrow": "log-det in single precision, and judged in that",
    "spoken_log_dets:methods": "forward: to_noise()",
    "spoken_log_dets:columns": "the batch axis is the last",
    "spoken_log_dets:series": "log-det: a series of 6 terms (n_terms), judged with 16",
    "spoken_log_dets:untold_series": "log-det: a series of 6 terms, held to 0.01",
    "spoken_forms:additive": "no log-det was found: nothing about volume was checked",
    "spoken_forms:leveled": "latent: 2 parts, 4 entries",
    "spoken_forms:stepwise": "latent: the last of 2 states",
    "spoken_forms:listed": "log-det: sum of a list of 2",
    "spoken_forms:joint": "log_prob = log_prior + ladj, as declared",
    "spoken_forms:column_density": "log_prob (B,1), squeezed",
}


def recipe(name: str) -> Recipe:
    """The recipe of something strange."""
    return recipe_of(registry.parse_target(f"{STRANGE}:{name}"))


def said(name: str) -> tuple[str, ...]:
    """What the line of something strange says."""
    return recipe_of(registry.parse_target(f"{STRANGE}:{name}")).recognized.conventions


@pytest.mark.parametrize(("name", "words"), SAID.items())
def test_the_line_names_the_convention(name: str, words: str) -> None:
    """Each spelling of the table is recognized without an option, and said."""
    target = registry.parse_target(f"{ZOO}.{name}")
    assert words in recipe_of(target).recognized.conventions


@pytest.mark.parametrize("name", SAID)
def test_a_dialect_can_be_sent_to_another_process(name: str) -> None:
    """What speaks to an object is made of functions that pickle."""
    dialect = recipe_of(registry.parse_target(f"{ZOO}.{name}")).dialect
    again = pickle.loads(pickle.dumps((dialect.forward, dialect.inverse, dialect.log_prob)))
    assert len(again) == 3


def test_two_ways_back_that_disagree_are_refused_with_both() -> None:
    """The sentence names both readings, and the option that decides."""
    with pytest.raises(Ambiguous, match=r"\?inverse=backward or \?inverse=reverse"):
        recipe("TwoWaysBack")


def test_a_dictionary_of_unknown_names_is_refused_with_them() -> None:
    """The sentence names what the code reads, and what it would have to be called."""
    with pytest.raises(TargetError, match="reads 'points', 'sum' of it; expected the point"):
        recipe("OtherStates")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("TwoWaysBack?inverse=backward", "inverse: backward()"),
        ("TwoWaysBack?inverse=none", ""),
        ("OneWayTwice", "inverse: backward(), as reverse()"),
        ("Undone?inverse=undo", "inverse: undo()"),
        ("OneWord", "inverse: mode='inverse'"),
        ("ManyWords?inverse=mode:inverse", "inverse: mode='inverse'"),
        ("Triple?returns=z,log_prior,ladj", "log_prob = log_prior + ladj, as declared"),
        ("WithPrior", "log_prob = log_prior + ladj, as its base has it"),
        ("WithPriorLast", "log_prob = log_prior + ladj, as its base has it"),
        ("Likely", "forward: encode()"),
        ("States", "running log-det in a dictionary, added"),
        ("Accumulator?running=add", "running log-det, added (objective)"),
        ("AccumulatorInPlace?running=add", "inverse: reverse()"),
        ("Attributed", "inverse: undo()"),
        ("made", "inverse: undo()"),
        ("named", "inverse: undo()"),
        ("turned?event=2", "inverse: inverse=True"),
    ],
)
def test_an_option_an_attribute_or_the_factory_decides(name: str, words: str) -> None:
    """Each way of choosing is followed, and told."""
    assert words in said(name) or not words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("BesideItself", "log-det: 'log_jac'"),
        ("BesideItself?name=logabsdet_total", "log-det: 'logabsdet_total'"),
        ("BesideItself?name=energy", "with the value: energy, penalty, no log-det"),
    ],
)
def test_a_mapping_beside_the_value_is_read_by_its_keys(name: str, words: str) -> None:
    """The entry that names a determinant is the log-det; without one there is none, and that is told."""
    assert words in said(name)


@pytest.mark.parametrize("name", ["TripleBothWays?returns=z,log_prior,ladj", "QuadrupleBothWays"])
def test_the_way_back_returns_what_forward_is_said_to(name: str) -> None:
    """Where it returns as many things: its log-det is at the same place."""
    for law in ("map/log-det[inverse]", "map/inverse"):
        target = registry.parse_target(f"{STRANGE}:{name}")
        assert checking.pair_verdict(target, law, checking.Settings("quick")).status is Status.HOLDS


def test_one_log_det_for_a_batch_is_told_with_the_option_that_means_it() -> None:
    """Where weights that are zero hid it at first; of points that are mixed nothing of the kind is said."""
    for name, hinted in (("SummedOverBatch", True), ("SummedOverBatch?mixed=True", False)):
        target = registry.parse_target(f"{STRANGE}:{name}")
        verdict = checking.pair_verdict(target, "same/rows", checking.Settings("quick"))
        assert verdict.status is Status.VIOLATED
        assert ("?ladj_form=batch" in verdict.reason) == hinted, verdict.reason
    meant = registry.parse_target(f"{STRANGE}:SummedOverBatch?ladj_form=batch")
    for law in ("same/rows", "map/log-det"):
        assert checking.pair_verdict(meant, law, checking.Settings("quick")).status is Status.HOLDS


@pytest.mark.parametrize("second", [False, True])
def test_a_sampler_tells_points_from_contexts(second: bool) -> None:
    """What is drawn under a context is a point, whichever of the two log_prob takes first, and of whatever
    sizes both are taken.
    """
    words = said(f"Regression?second={str(second).lower()}")
    assert f"context: {'y' if second else 'x'} of shape (3,)" in words
    assert ("log_prob takes its context first" in words) != second
    target = registry.parse_target(f"{STRANGE}:Regression?second={str(second).lower()}")
    for law in ("density/mass", "sampling/follows-density"):
        assert checking.pair_verdict(target, law, checking.Settings("quick")).status is Status.HOLDS


def test_one_number_that_is_stretched_is_no_event() -> None:
    """Where points of one number are taken because they are stretched to two, these are the event."""
    loaded = loading.load(registry.parse_target(f"{STRANGE}:UnsampledRegression"))
    assert (loaded.event_shape, loaded.context_shape) == ((2,), (4,))


def test_an_image_that_rounding_takes_to_an_end_accuses_nobody() -> None:
    """There the way back has no log-det, and half of the point has the same image."""
    target = registry.parse_target(f"{STRANGE}:Kumaraswamy")
    assert checking.pair_verdict(target, "map/finite").status is not Status.VIOLATED


def test_a_context_in_a_triple_is_found() -> None:
    """Its size is that which is taken, and a log-det that counts it is accused."""
    assert "context: context of shape (2,)" in said("TripleOfContext")
    for name, status in (("", Status.HOLDS), ("?far=True", Status.VIOLATED)):
        target = registry.parse_target(f"{STRANGE}:TripleOfContext{name}")
        verdict = checking.pair_verdict(target, "map/log-det", checking.Settings("quick"))
        assert verdict.status is status, verdict.reason


def test_what_the_way_back_initializes_has_one_log_det_for_all_rows() -> None:
    """The first call of its inverse changes the log-det, and no other call does."""
    assert "one log-det for all rows" in said("StandardizedBack")
    assert "one log-det for all rows" not in said("StandardizedBack?mean=True")
    for name, status in (("", Status.HOLDS), ("?mean=True", Status.VIOLATED)):
        target = registry.parse_target(f"{STRANGE}:StandardizedBack{name}")
        verdict = checking.pair_verdict(
            target, "shape/one-number-per-point[log-det]", checking.Settings("quick")
        )
        assert verdict.status is status, verdict.reason


def test_two_entries_that_name_a_log_det_are_refused() -> None:
    """Neither is taken, and both are named."""
    with pytest.raises(Ambiguous, match="log_jac, log_det"):
        recipe("BesideItself?again=log_det")


def test_the_size_of_an_image_as_a_vector_is_told_by_arrays() -> None:
    """Several hundred features are found where an array has as many entries and no fewer fit."""
    assert recipe("Vector784").recognized.event_shape == (784,)


@pytest.mark.parametrize("name", ["InverseAndReverse", "StaticReverse"])
def test_what_is_plain_is_not_asked(name: str) -> None:
    """A method called inverse stands alone, and a static helper is no way back."""
    assert not [word for word in said(name) if "reverse" in word]


@pytest.mark.parametrize("name", ["ManyWords", "Triple", "WithAnotherPrior"])
def test_two_readings_are_refused(name: str) -> None:
    """Where words or shapes leave two readings, neither is taken."""
    with pytest.raises(Ambiguous, match=r"\?(inverse|returns)="):
        recipe(name)


def test_a_likely_way_back_is_a_hint() -> None:
    """A method of a likely name that goes elsewhere is not taken, but named with the option that takes it."""
    hints = recipe_of(registry.parse_target(f"{STRANGE}:UndoneElsewhere")).recognized.hints
    assert any("say ?inverse=undo" in hint for hint in hints)
    assert "inverse: undo(), which goes back" in said("Undone")


def test_a_choice_that_says_nothing_is_refused() -> None:
    """A sign that is none is named with those that are."""
    with pytest.raises(SpecError, match="add or subtract"):
        recipe("Accumulator?running=sideways")


@pytest.mark.parametrize("name", ["Accumulator", "AccumulatorInPlace"])
def test_a_running_log_det_of_another_name_is_no_context(name: str) -> None:
    """What the log-det is added to is told by two calls, and the option that decides is named; in place,
    too.
    """
    with pytest.raises(TargetError, match=r"adds its log-det to objective.*\?running=add"):
        recipe(name)


def test_a_running_log_det_that_is_forgotten_is_an_error() -> None:
    """A log-det that comes back only where one is fed is that one with its own, of which one number
    for all points has lost the first.
    """
    assert "running log-det, added (logdet)" in said("Forgetful")
    verdict = checking.pair_verdict(registry.parse_target(f"{STRANGE}:Forgetful"), "map/log-det")
    assert verdict.status is Status.VIOLATED


@pytest.mark.parametrize(("name", "method"), [("OtherWords", "NAME"), ("FewWords", "log_q")])
def test_a_density_of_other_words_is_told_how_to_be_one(name: str, method: str) -> None:
    """The refusal names the option that makes a density of it, with its method where that is likely."""
    with pytest.raises(TargetError, match=rf"say \?log_prob={method}"):
        recipe(name)


@pytest.mark.parametrize(
    ("law", "status"),
    [("density/mass", Status.HOLDS), ("sampling/follows-density[ratios]", Status.HOLDS)],
)
def test_a_density_of_other_words_is_judged_by_them(law: str, status: Status) -> None:
    """With the two methods named it is a density with a sampler, held to the laws of both."""
    target = registry.parse_target(f"{STRANGE}:OtherWords?event=2&log_prob=evidence&sample=dream")
    assert checking.pair_verdict(target, law).status is status


@pytest.mark.parametrize("law", ["map/log-det", "map/inverse"])
def test_entries_of_strange_names_are_named_in_order(law: str) -> None:
    """The line says what may be the log-det, ?returns= makes it one, and it is judged then."""
    (line,) = [one for one in said("StrangeKeys") if "'volume'" in one]
    assert "say ?returns=z,ladj" in line
    for wrong, status in (("", Status.HOLDS), ("&wrong=True", Status.VIOLATED)):
        target = registry.parse_target(f"{STRANGE}:StrangeKeys?returns=z,ladj{wrong}")
        expected = status if law == "map/log-det" else Status.HOLDS
        assert checking.pair_verdict(target, law).status is expected


def test_entries_that_are_not_there_are_refused() -> None:
    """Each key needs its name."""
    with pytest.raises(SpecError, match="for each of the keys that forward returns, moved, volume"):
        recipe("StrangeKeys?returns=z")


@pytest.mark.parametrize("said", ["log_prob=evidenec", "log_prob=evidence&sample=draem"])
def test_a_method_that_is_none_is_refused(said: str) -> None:
    """What is named and is no method is told, not passed over."""
    with pytest.raises(SpecError, match=r"was given as 'evidenec'.*evidence|one of its methods"):
        recipe(f"OtherWords?event=2&{said}")


@pytest.mark.parametrize(("name", "told"), [("Unconditioned", True), ("Indifferent", False)])
def test_a_context_that_was_not_given_is_told(name: str, told: bool) -> None:
    """Its shape stands in the hint, where one shape alone fits."""
    hints = recipe_of(registry.parse_target(f"{STRANGE}:{name}")).recognized.hints
    assert any("say ?context=5 to judge it" in hint for hint in hints) is told


def test_what_goes_back_by_default_is_turned_around() -> None:
    """The map is the call with the flag off, and its log-det is that of this call."""
    assert {"forward: reverse=False", "inverse: reverse=True"} <= {*said("BackwardsByDefault")}
    target = registry.parse_target(f"{STRANGE}:BackwardsByDefault")
    for law in ("map/log-det", "map/inverse"):
        assert checking.pair_verdict(target, law).status is Status.HOLDS


@pytest.mark.parametrize(("name", "status"), [("", Status.HOLDS), ("?bug=1.001", Status.VIOLATED)])
def test_a_way_back_that_may_start_from_noise_is_told_to_reconstruct(
    name: str, status: Status
) -> None:
    """What forward returned are latents, and no noise of which they are made."""
    target = registry.parse_target(f"{STRANGE}:Reconstructing{name}")
    assert "inverse: reverse(reconstruct=True)" in said(f"Reconstructing{name}")
    assert checking.pair_verdict(target, "map/inverse[latents]").status is status


@pytest.mark.parametrize(
    ("name", "words", "status"),
    [
        (
            "Drawing",
            "no sampler: sample(n, means) asks for more than how many",
            Status.NOT_APPLICABLE,
        ),
        ("DrawingAnyway", "", Status.HOLDS),
        ("DrawingNever", "", Status.VIOLATED),
    ],
)
def test_a_sampler_that_asks_for_more_is_none(name: str, words: str, status: Status) -> None:
    """What nobody gives it is no fault of it; what raises of a number alone is one."""
    assert [one for one in said(name) if "sampler" in one] == list(filter(None, [words]))
    target = registry.parse_target(f"{STRANGE}:{name}")
    verdict = checking.pair_verdict(target, "map/calls-work", checking.Settings("quick"))
    assert verdict.status is (Status.HOLDS if words else status)
    verdict = checking.pair_verdict(
        target, "sampling/follows-density[ratios]", checking.Settings("quick")
    )
    assert (verdict.status is Status.HOLDS) == (status is Status.HOLDS)


@pytest.mark.parametrize(("option", "status"), [("", Status.HOLDS), ("?bug=1.3", Status.VIOLATED)])
def test_the_last_of_the_states_of_a_sampler_is_the_sample(option: str, status: Status) -> None:
    """As the last of those of a map is the latent; the first are points of the base."""
    assert "sample: the last of 3 states" in said(f"Listing{option}")
    target = registry.parse_target(f"{STRANGE}:Listing{option}")
    assert checking.pair_verdict(target, "sampling/follows-density[ratios]").status is status


def test_a_layer_that_returns_what_it_draws_beside_points_is_refused() -> None:
    """Its log-det is that of both, and no contribution; of what draws nothing the line says so."""
    with pytest.raises(
        TargetError, match=r"it is random, and forward returns 3 things, and the second"
    ):
        recipe("Momentum")
    hints = recipe("Momentum?still=True").recognized.hints
    assert any("as large as a point, is not looked at" in one for one in hints)
    assert not any("not looked at" in one for one in recipe("QuadrupleBothWays").recognized.hints)


@pytest.mark.parametrize(
    "options",
    ["returns=z,ladj,ladj&ladj_form=batch", "returns=z,ladj,ladj&batch=False"],
)
@pytest.mark.parametrize(("bug", "status"), [("", Status.HOLDS), ("&bug=1.01", Status.VIOLATED)])
def test_log_dets_in_several_lists_add_up(options: str, bug: str, status: Status) -> None:
    """Those of entries and those of points, or of a batch; which lists are log-dets is asked."""
    target = registry.parse_target(f"{STRANGE}:Listed?{options}{bug}")
    assert checking.pair_verdict(target, "map/log-det").status is status
    with pytest.raises(Ambiguous, match=r"say \?returns=z,ladj,ladj if all of them count"):
        recipe("Listed")


@pytest.mark.parametrize(("bug", "status"), [("", Status.HOLDS), ("&bug=1.01", Status.VIOLATED)])
def test_an_event_may_be_said_to_be_a_number(bug: str, status: Status) -> None:
    """By the shape of one number, which is no shape of a context."""
    target = registry.parse_target(f"{STRANGE}:Numbers?event=(){bug}")
    assert checking.pair_verdict(target, "map/log-det").status is status
    with pytest.raises(SpecError, match=r"context was given as '\(\)'"):
        recipe("Numbers?event=()&context=()")


@pytest.mark.parametrize(("option", "status"), [("", Status.HOLDS), ("?bug=1.01", Status.VIOLATED)])
def test_a_method_may_hand_out_what_a_call_left(option: str, status: Status) -> None:
    """The attribute that holds it is no second log-det."""
    assert "log-det: logdet, which each call leaves" in said(f"Leaving{option}")
    target = registry.parse_target(f"{STRANGE}:Leaving{option}")
    assert checking.pair_verdict(target, "map/log-det").status is status


@pytest.mark.parametrize("option", ["", "?sample=get_samples"])
def test_a_sampler_may_have_a_name_of_its_own(option: str) -> None:
    """The line says which method it is."""
    recognized = recipe(f"DrawingOtherwise{option}")
    assert recognized.dialect.sample is not None
    assert "sample: get_samples()" in recognized.recognized.conventions


def test_what_refuses_points_is_asked_for_its_domain() -> None:
    """A refusal that speaks of a range names the option that declares it."""
    with pytest.raises(TargetError, match=r"must be in \(0, 1\).*\?domain=unit"):
        recipe("OfShares")
    assert recipe("OfShares?domain=unit").facts.event_shape == (3,)


def test_masks_that_give_several_results_are_not_guessed() -> None:
    """Where shapes of masks give several log-dets, the object is to be bound by a factory."""
    with pytest.raises(Ambiguous, match=r"mask.*several results: name a factory"):
        recipe("Counting")


def test_a_log_det_of_an_argument_of_another_name_is_not_that_of_the_map() -> None:
    """A method of `z` may speak of the value, and not of the input `x`; what goes back does so by any name."""
    assert "inverse: back(), which goes back" in said("OfTheValue")


@pytest.mark.parametrize(
    ("name", "raised"), [("Refusing", "ValueError"), ("OfTheCache", "KeyError")]
)
def test_a_way_back_that_only_raises_is_absent(name: str, raised: str) -> None:
    """Whatever it raises, it is no broken ability."""
    recognized = recipe(name).recognized
    assert "no inverse" in recognized.conventions
    assert any(raised in hint for hint in recognized.hints)
    verdict = checking.pair_verdict(registry.parse_target(f"{STRANGE}:{name}"), "map/calls-work")
    assert verdict.status is Status.HOLDS


@pytest.mark.parametrize("name", ["Unsummed", "BatchMean"])
def test_a_form_that_calls_disagree_on_is_no_convention(name: str) -> None:
    """A log-det in two forms, or one that depends on the batch, is accused by the law of its form."""
    verdict = checking.pair_verdict(
        registry.parse_target(f"{STRANGE}:{name}"), "shape/one-number-per-point[log-det]"
    )
    assert verdict.status is Status.VIOLATED


def test_what_runs_in_float32_only_needs_no_shape() -> None:
    """Where no shape works in float64, shapes are tried in float32."""
    assert recipe("SingleOnly").dtype == "float32"


def test_a_broken_way_back_leaves_the_map_to_be_judged() -> None:
    """Where the inverse raises at every shape, the shape is the first that the map takes."""
    assert recipe("BrokenBack").facts.event_shape == (3,)


@pytest.mark.parametrize(("name", "parts"), [("Ends", 0), ("whole", 2), ("Chained", 2)])
def test_parts_stand_only_where_they_are_the_whole(name: str, parts: int) -> None:
    """A list of maps is taken for the parts of an object where it does nothing else."""
    assert len(loading.load(registry.parse_target(f"{STRANGE}:{name}")).parts) == parts


@pytest.mark.parametrize("law", ["composition/parts", "map/log-det"])
def test_parts_with_running_log_dets_are_fed_like_the_whole(law: str) -> None:
    """Layers that take columns are given columns."""
    verdict = checking.pair_verdict(registry.parse_target(f"{STRANGE}:Chained"), law)
    assert verdict.status is Status.HOLDS


@pytest.mark.parametrize(
    ("name", "law"),
    [
        ("closures:enclosed", "same/saved[resume]"),
        ("closures:enclosed", "gradient/parameters[log-det]"),
        ("spoken_first:refusing", "map/log-det"),
        ("spoken:unfinished", "map/log-det"),
    ],
)
def test_what_is_spoken_otherwise_is_not_accused(name: str, law: str) -> None:
    """Copies that would share, a first call that is refused, and an ability that is absent."""
    verdict = checking.pair_verdict(registry.parse_target(f"{ZOO}.{name}"), law)
    assert verdict.status is Status.HOLDS


def test_a_copy_that_follows_the_original_is_found() -> None:
    """A lambda that holds the object's net is shared by its copy; a method is not."""
    for name, shares in (("closures:enclosed", True), ("coupling:affine_coupling", False)):
        recipe = recipe_of(registry.parse_target(f"{ZOO}.{name}"))
        obj = recipe.build().double()
        before = [parameter.clone() for parameter in obj.parameters()]
        found = shared(obj, recipe.dialect, recipe.facts, torch.float64, 0)
        same = [torch.equal(a, b) for a, b in zip(before, obj.parameters(), strict=True)]
        assert (found, all(same)) == (shares, True)


def test_an_accumulator_in_single_precision_is_a_convention() -> None:
    """Zeros of the default dtype are told on the line, and advised against by one law alone."""
    assert "log-det added up in the default dtype" in said("Accumulating")
    target = registry.parse_target(f"{STRANGE}:Accumulating")
    statuses = [
        checking.pair_verdict(target, law).status
        for law in ("dtype/follows", "dtype/follows[log-det]", "map/log-det")
    ]
    assert statuses == [Status.HOLDS, Status.ADVICE, Status.HOLDS]


def test_a_log_density_that_is_added_up_in_single_precision_is_a_convention() -> None:
    """One law advises against it, and no other speaks."""
    target = registry.parse_target(f"{STRANGE}:OneWay")
    statuses = [
        checking.pair_verdict(target, law).status
        for law in ("dtype/follows", "dtype/follows[log-det]")
    ]
    assert statuses == [Status.HOLDS, Status.ADVICE]


@pytest.mark.parametrize(("name", "maps"), [("OneWay", True), ("Beside", False)])
def test_a_density_that_is_called_for_its_map_is_a_map(name: str, maps: bool) -> None:
    """Its log-density tells, by the latents and log-dets that it is made of."""
    dialect = recipe_of(registry.parse_target(f"{STRANGE}:{name}")).dialect
    assert (dialect.forward is not None, dialect.log_prob is not None) == (maps, True)


def test_a_map_into_more_dimensions_without_a_density_is_told_its_sizes() -> None:
    """What is not implemented is no reason; what the map does is."""
    with pytest.raises(TargetError, match=r"of shape \(2,\) to \(3,\)"):
        recipe("Embedding")


def test_an_autoencoder_is_no_flow_unless_someone_says_so() -> None:
    """Moments of latents are no value with a log-det; the refusal names the option that decides."""
    with pytest.raises(Ambiguous, match=r"\?forward=encode&inverse=decode"):
        recipe("Autoencoder")


def test_an_autoencoder_with_a_density_is_a_density() -> None:
    """Its encoder is left alone."""
    dialect = recipe("BoundedAutoencoder").dialect
    assert dialect.forward is None and dialect.log_prob is not None


@pytest.mark.parametrize(
    ("columns", "error", "said"),
    [
        ("z:0-4,ladj:5", TargetError, "5 columns; an event has 4"),
        ("z:0-3,ladj:6", TargetError, "no columns z:0-3,ladj:6"),
        ("z:0-3,ladj", SpecError, "as in z:0-1,ladj:2"),
        ("q:0-3", SpecError, "names among z, x, ladj"),
        ("ladj:4", SpecError, "the columns of the value"),
    ],
)
def test_columns_that_cannot_be_are_refused(
    columns: str, error: type[Exception], said: str
) -> None:
    """In a sentence that says what was expected."""
    spec = f"{ZOO}.spoken_packed:packed?override=true&columns={columns}"
    with pytest.raises(error, match=said):
        recipe_of(registry.parse_target(spec))


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        *((name, "add") for name in ("logdet", "log_det_J", "sldj", "log_abs_det_jacobian")),
        *((name, "subtract") for name in ("logpx", "log_prob", "log_density", "logDensity")),
        *((name, "") for name in ("objective", "density", "context", "log_scale")),
    ],
)
def test_a_running_number_is_known_by_its_name(name: str, sign: str) -> None:
    """Log-dets grow by what a layer adds, log-densities fall by it, and other names tell nothing."""
    assert sign_of(name) == sign
