"""From a target to a recipe for subjects, stage by stage: target -> `Source` -> `Instance` -> `Recognition`
-> `Declared` -> `Probed` -> `Recipe`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from flowref import backends, registry
from flowref.adapters.common.normalizers import behind
from flowref.adapters.user.adapter import part_of
from flowref.adapters.user.conventions.labels import classes_of
from flowref.adapters.user.one_context import at_one_context, draws_at_each, stated_of
from flowref.adapters.user.parts import has_column_log_dets
from flowref.backends import Backend, Blueprint, Wish
from flowref.loading.call_probes import Probed, probe
from flowref.loading.contradictions import contradiction, refuse_contradicted
from flowref.loading.declared_options import OVERRIDE, Declared, declare
from flowref.loading.draft import domain_points
from flowref.loading.estimators import fitted_to
from flowref.loading.event_sizes import keeps_size, other_sizes
from flowref.loading.inner import event_of_part
from flowref.loading.instance import Instance, OtherPrecision, Refusal, instance_of
from flowref.loading.kinds import target_kind
from flowref.loading.live_objects import alias_live_target
from flowref.loading.options import event_option
from flowref.loading.place import definition_location
from flowref.loading.recognition import Recognition, recognize
from flowref.loading.source import Source, fits_itself, source_of
from flowref.loading.user_code import imported_from
from flowref.model import (
    OBJECT,
    USER,
    Adapter,
    Condition,
    Dialect,
    Facts,
    Recognized,
    Shape,
    SpecError,
    Subject,
    Target,
    TargetError,
    UnknownShape,
    Unsupported,
)
from flowref.model.inverse_subject import inverted

DTYPES = ("float64", "float32")
# Random states for rebuilding an object that saved state is loaded into (see `Blueprint`).
SAME_SEED, OTHER_SEED = 3, 4
# The remark on code that requests a GPU.
ON_THE_HOST = "on the CPU, though it requests a GPU"
# The option that names a mutation.
MUTATION = "mutant"


@dataclass(frozen=True)
class Recipe:
    """All that is needed to make subjects of a target, computed once per target and process.

    ``adapter``: whose rules apply; ``recognized``: what the target was taken for, and why.
    """

    source: Source
    backend: Backend
    adapter: Adapter
    probed: Probed
    recognized: Recognized

    @property
    def build(self) -> Callable[[], Any]:
        """Returns a new object at each call."""
        return self.source.build

    @property
    def resolve(self) -> Callable[[Any], Dialect | None]:
        """The calling convention of a part of a composite, or None."""
        if self.adapter.name == USER:
            return functools.partial(
                part_of, column=has_column_log_dets(self.dialect), classes=classes_of(self.dialect)
            )
        return self.adapter.recognizes

    @property
    def dialect(self) -> Dialect:
        """The calling convention."""
        return self.probed.dialect

    @property
    def facts(self) -> Facts:
        """The known facts of the object."""
        return self.probed.facts

    @property
    def dtype(self) -> str:
        """The dtype of the tests."""
        return self.probed.dtype

    @property
    def operations(self) -> int:
        """The operations of a round trip."""
        return self.probed.operations

    @property
    def contextual(self) -> Recipe:
        """The recipe with an optional context passed. Raises `Unsupported` if there is none."""
        if not self.facts.optional_context:
            raise Unsupported("it takes no optional context", blocked=False)
        try:
            return self._with(context=self.facts.optional_context)
        except (TargetError, SpecError) as error:  # the option was inferred, not given
            raise Unsupported(f"with a context it cannot be loaded: {error}") from None

    def _with(self, **options: str) -> Recipe:
        target = self.source.target
        return recipe_of(alias_live_target(target, target.with_options(**options)))

    @functools.cached_property
    def at_one_context(self) -> Recipe:
        """The recipe of a conditional density at one fixed context. Raises `Unsupported` if it takes none."""
        shape, event = self.facts.context_shape, self.facts.event_shape
        if shape is None:
            raise Unsupported("it takes no context", blocked=False)
        promises = {name: value for name, value in self.facts.promises.items() if name != "labels"}
        facts = replace(self.facts, context_shape=None, optional_context="", promises=promises)
        each, stated = False, None
        if self.backend.name == "torch" and self.dialect.log_prob is not None:
            with self.backend.sandbox(0, self.dtype):
                obj = self.build()
                each = draws_at_each(self.dialect.sample, obj, shape, event)
                stated = None if self.dialect.forward else stated_of(obj, shape, event)
        dialect = replace(at_one_context(self.dialect, shape, each), stated=stated)
        return replace(self, probed=replace(self.probed, dialect=dialect, facts=facts))

    @functools.cached_property
    def resized(self) -> Recipe:
        """The recipe at another event size. Raises `Unsupported` if the size is fixed or stated."""
        event, target = self.facts.event_shape, self.source.target
        sizes = list(other_sizes(event)) if target.adapter in (USER, OBJECT) else []
        with self.backend.sandbox(0, self.dtype):
            if not sizes or keeps_size(self.build(), event):
                raise Unsupported("its events have one size", blocked=False)
        for size in sizes:
            try:
                return self._with(event=",".join(map(str, size)), **{OVERRIDE: "true"})
            except (TargetError, SpecError):
                continue
        raise Unsupported("it rejects events of another size", blocked=False)

    def given(self, condition: Condition) -> Recipe:
        """The recipe with contexts as a condition demands."""
        recipe = self.resized if condition.resized else self
        recipe = recipe.contextual if condition.contextual else recipe
        return recipe.at_one_context if condition.one_context else recipe

    def subject(self, condition: Condition) -> Subject:
        """The subject in a condition; in float32 if the target cannot run in float64."""
        if condition.contextual or condition.one_context or condition.resized:
            plain = replace(condition, contextual=False, one_context=False, resized=False)
            return self.given(condition).subject(plain)
        if condition.dtype == "float64":
            condition = replace(condition, dtype=self.dtype)
        target = self.source.target
        facts = replace(self.facts, at_data=True) if condition.data else self.facts
        seed = OTHER_SEED if target.adapter == USER else SAME_SEED
        made_of = Blueprint(str(target), self.build, self.dialect, facts, self.resolve, seed)
        subject = self.backend.subject(made_of, condition)
        subject = replace(subject, operations=self.operations)
        return inverted(subject) if condition.direction == "inverse" else subject


def recipe_of(target: Target) -> Recipe:
    """The recipe of a target, without its mutation. Raises `TargetError` or `SpecError` in one sentence."""
    return _recipe_of(target.without(MUTATION), around(target))


def around(target: Target) -> tuple[str, str]:
    """The context of a target's name: the folder of relative paths, and the data for fitting. Empty for
    libraries.
    """
    folder = os.getcwd() if target.adapter == USER else ""
    return folder, fitted_to() if target.adapter in (USER, OBJECT) else ""


def forget_recipes() -> None:
    """Drop all recipes (files may have changed)."""
    _recipe_of.cache_clear()
    _recipe_like.cache_clear()


@functools.lru_cache(maxsize=64)
def _recipe_of(target: Target, around: tuple[str, str]) -> Recipe:
    """The cached recipe; built again with CUDA mapped to the CPU if code requests a GPU. ``around`` is part
    of the key.
    """
    backends.take_device_wish()  # discard the requests of earlier targets
    try:
        recipe, wish = _recipe_or_contradiction(target), backends.take_device_wish()
    except (TargetError, SpecError):
        if (wish := backends.take_device_wish()) is not Wish.REFUSED:
            raise
    if wish is Wish.REFUSED:
        imported_from.cache_clear()
        recipe, wish = _recipe_or_contradiction(target), backends.take_device_wish()
    if wish is Wish.NONE:
        return recipe
    said = (*recipe.recognized.conventions, ON_THE_HOST)
    return replace(recipe, recognized=replace(recipe.recognized, conventions=said))


def _recipe_or_contradiction(target: Target) -> Recipe:
    """The recipe; if building fails, the error names declarations that calls contradict."""
    try:
        return _build_recipe(target)
    except (TargetError, SpecError) as error:
        if said := contradiction(target, error, _build_recipe):
            raise TargetError(said) from error
        raise


def _build_recipe(target: Target, undeclared: frozenset[str] = frozenset()) -> Recipe:
    """Build the object once in float64, and again in float32 if a call fails. A part is first tried with
    the events that the whole passes to it. ``undeclared``: declared names to ignore.
    """
    source, given = source_of(target), event_option(dict(target.options))
    source = replace(source, undeclared=undeclared)
    refusals: list[Refusal | UnknownShape | OtherPrecision] = []
    within = _part_event_shape(target) if source.of_part and not given else None
    for event, dtype in product(dict.fromkeys((given or within, given)), dtypes(target)):
        try:
            instance, said = _before_activations(instance_of(source, dtype))
            recognition = recognize(instance, event)
            declared = declare(instance, recognition)
            if within is not None and event is within:
                # A layer on the last axes may get further axes from the whole.
                guessed = tuple(within[axis:] for axis in range(1, len(within)))
                declared = replace(declared, facts=replace(declared.facts, guessed=guessed))
            probed = probe(instance, recognition, declared)
            refuse_contradicted(instance, probed)
        except (Refusal, UnknownShape, OtherPrecision) as refusal:
            refusals.append(refusal)
            continue
        path, line = definition_location(source)
        recognized = replace(
            recognized_as(target, recognition, declared, probed), framework=instance.backend.name
        )
        if not source.instance and source.statement is None and fits_itself(instance.obj):
            said = (*said, "fitted to a drawn sample by its fit")
        if instance.source.fitted:
            said = (*said, instance.source.fitted)
        said = (*recognized.conventions, *said)
        hints = (
            *recognized.hints,
            *behind.remark_on_inner_norms(instance.obj, probed.dialect, probed.facts),
        )
        recognized = replace(recognized, conventions=said, hints=hints, path=path, line=line)
        return Recipe(instance.source, instance.backend, recognition.adapter, probed, recognized)
    first = next((one for one in refusals if not isinstance(one, OtherPrecision)), refusals[0])
    if not isinstance(first, Refusal):
        raise first
    raise TargetError(first.sentence(target)) from first.error


def _before_activations(instance: Instance) -> tuple[Instance, tuple[str, ...]]:
    """An instance of a norm without the activations after it, with a remark; any other unchanged."""
    source, backend = instance.source, instance.backend
    if source.statement is not None or backend.name != "torch":
        return instance, ()
    with backend.sandbox(0, instance.dtype):
        names = behind.behind(instance.obj, instance.copy, source.target.option("kind"))
    if not names:
        return instance, ()
    said = behind.words(instance.obj, names)
    source = replace(source, build=functools.partial(behind.without, source.build, names))
    return instance_of(source, instance.dtype), (said,)


def _part_event_shape(target: Target) -> Shape | None:
    """The event shape that the whole passes to a part; None if the part is not called."""
    part = target.option(registry.PART)
    assert part is not None
    try:
        whole = recipe_of(target.without(registry.PART))
    except (TargetError, SpecError):
        return None
    with whole.backend.sandbox(0, whole.dtype):
        points, contexts = domain_points(whole.facts)
        x = whole.backend.tensor(points, whole.dtype)
        context = None if contexts is None else whole.backend.tensor(contexts, whole.dtype)
        ask = whole.dialect.forward or whole.dialect.log_prob
        assert ask is not None
        return event_of_part(whole.build(), part, lambda obj: ask(obj, x, context), len(points))


def recipe_like(target: Target, like: Target) -> Recipe:
    """The recipe of the same construction as ``like`` with other options, reusing its measured calls and
    cost: calls with hundreds of features may take seconds.
    """
    if like.adapter == USER:  # conventions of user code are found by calls only
        return recipe_of(target)
    return _recipe_like(target, like)


@functools.lru_cache(maxsize=16)
def _recipe_like(target: Target, like: Target) -> Recipe:
    known = recipe_of(like)
    source, event = source_of(target), event_option(dict(target.options))
    try:
        instance = instance_of(source, known.dtype)
        recognition = recognize(instance, event)
        declared = declare(instance, recognition)
    except Refusal as refusal:
        raise TargetError(refusal.sentence(target)) from refusal.error
    facts = replace(declared.facts, built_here=known.facts.built_here)
    probed = replace(known.probed, dialect=recognition.dialect, facts=facts)
    recognized = replace(
        recognized_as(target, recognition, declared, probed), framework=instance.backend.name
    )
    return Recipe(source, instance.backend, recognition.adapter, probed, recognized)


def recognized_as(
    target: Target, recognition: Recognition, declared: Declared, probed: Probed
) -> Recognized:
    """What a target was recognized as: the results of all stages."""
    given = declared.weights
    weights = () if given is None else (f"with {given.words}",)
    return Recognized(
        kind=target_kind(probed.dialect, probed.facts),
        event_shape=probed.facts.event_shape,
        event_source="" if probed.dialect.is_process else event_source(target, declared),
        conventions=(*weights, *recognition.conventions, *probed.conventions),
        hints=(*recognition.hints, *probed.hints),
        why=(*recognition.why, *probed.why),
        conflicts=(*recognition.conflicts, *declared.conflicts),
    )


def event_source(target: Target, declared: Declared) -> str:
    """The source of the event shape; empty if the target states it itself."""
    if "event" in dict(target.options):
        return "as given" if target.adapter in (USER, OBJECT) else ""
    stated = declared.facts.event_shape and not declared.facts.guessed
    return "" if stated else "inferred; ?event= sets another"


def dtypes(target: Target) -> tuple[str, ...]:
    """The dtypes to try. Raises `SpecError` if the option names none."""
    wanted = target.option("dtype")
    if wanted is not None and wanted not in DTYPES:
        raise SpecError(f"{target}: dtype was given as {wanted!r}; expected float64 or float32")
    return DTYPES if wanted is None else (wanted,)
