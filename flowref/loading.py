"""From a target to a subject: find the builder, settle how the object speaks and what is known of it, present it."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from flowref.model import (
    OBJECT,
    USER,
    Adapter,
    Condition,
    Dialect,
    Facts,
    FlowrefError,
    Shape,
    SpecError,
    Subject,
    Support,
    Target,
    TargetError,
    Unsupported,
    nearest,
)

# Live objects handed to the Python API, by target; they never leave the process.
LIVE: dict[Target, Any] = {}
# In which random state an object is built anew to load saved state into it (see `present`).
SAME_SEED, OTHER_SEED = 3, 4


@dataclass(frozen=True)
class Plan:
    """All that loading needs, found once per target and process."""

    build: Callable[[], Any]
    dialect: Dialect
    facts: Facts
    resolve: Callable[[Any], Dialect | None]
    dtype: str


def load(target: Target, condition: Condition) -> Subject:
    """The subject of a target in a condition; judged in float32 where the component cannot run in float64."""
    from flowref.backends.torch.present import present

    found = plan(target)
    if found.dtype != condition.dtype and condition.dtype == "float64":
        condition = replace(condition, dtype=found.dtype)
    rebuild_seed = OTHER_SEED if target.adapter == USER else SAME_SEED
    subject: Subject = present(
        str(target), found.build, found.dialect, found.facts, condition, found.resolve, rebuild_seed
    )
    return subject


def forget() -> None:
    """Drop what was found about targets (their files may have changed)."""
    plan.cache_clear()


@functools.lru_cache(maxsize=64)
def plan(target: Target) -> Plan:
    """How to build a target and speak to it. Raises `TargetError` or `SpecError` in one sentence."""
    from flowref import registry

    overrides = dict(target.options)
    if target.adapter not in (USER, OBJECT):
        component = registry.find_component(target)
        options = registry.builder_options(target)
        try:
            facts = component.facts(**options) if callable(component.facts) else component.facts
        except TypeError as error:
            raise SpecError(f"{target}: {error}; check the options after ?") from error
        construct = functools.partial(component.build, **options)
        adapter = registry.adapters()[target.adapter]
        overridden = override(facts, overrides, str(target))
        return settled(target, construct, component.dialect, overridden, adapter.recognises)
    build = live_builder(target) if target.adapter == OBJECT else factory(target)
    obj = attempt(target, build, "float32")
    adapter, dialect = speaker(obj, str(target))
    shape = event_option(overrides)
    facts = override(adapter.describe(obj, shape), overrides, str(target))
    if shape is not None:
        facts = replace(facts, event_shape=shape)
    if adapter.name == USER:
        dialect, facts = settle_user(target, build, dialect, facts, shape)
    return settled(target, build, dialect, facts, resolver(adapter))


def resolver(adapter: Adapter) -> Callable[[Any], Dialect | None]:
    """How parts of a composite are recognised."""
    return adapter.recognises


def speaker(obj: Any, name: str) -> tuple[Adapter, Dialect]:
    """The adapter and dialect of a live object: that of the library its class comes from, else the user protocol."""
    from flowref import registry

    packages = {base.__module__.partition(".")[0] for base in type(obj).__mro__}
    known = [adapter for adapter in registry.adapters().values() if adapter.package]
    # A class that derives from a library's base and from torch's belongs to the library: torch is asked last.
    for adapter in sorted(known, key=lambda candidate: candidate.package == "torch"):
        if adapter.package in packages:
            dialect = adapter.recognises(obj)
            if dialect is not None:
                return adapter, dialect
    user = registry.adapters()[USER]
    dialect = user.recognises(obj)
    if dialect is None:
        raise TargetError(
            f"{name} gives a {type(obj).__name__}, which is no bijection (forward and inverse), no density (log_prob and "
            "sample) and no transform, flow or distribution of a supported library"
        )
    return user, dialect


def settle_user(
    target: Target, build: Callable[[], Any], dialect: Dialect, facts: Facts, shape: Shape | None
) -> tuple[Dialect, Facts]:
    """Complete what attributes could not tell by calling a copy: event shape, what calls return, the latent shape."""
    import numpy as np
    import torch

    from flowref.adapters import user
    from flowref.backends.torch.guard import sandbox
    from flowref.backends.torch.state import cast, set_mode
    from flowref.model import draw

    with sandbox(0, torch.float64):
        obj = cast(build(), torch.float64)
        set_mode(obj, False)
        if not facts.event_shape:
            facts = replace(facts, event_shape=user.infer_shape(obj, dialect))
        rng = np.random.default_rng(0)
        x = torch.from_numpy(draw(facts.domain, (3, *facts.event_shape), rng))
        context = None
        if facts.context_shape is not None:
            context = torch.from_numpy(rng.standard_normal((3, *facts.context_shape)))
        try:
            dialect, latent = user.settle(obj, dialect, x, context)
        except Exception as error:
            x32, context32 = x.float(), None if context is None else context.float()
            try:
                with sandbox(0, torch.float32):
                    again = cast(build(), torch.float32)
                    set_mode(again, False)
                    dialect, latent = user.settle(again, dialect, x32, context32)
            except Exception:
                raise misfit(target, facts.event_shape, error) from error
    if latent is not None:
        facts = replace(facts, latent_shape=tuple(latent.shape[1:]))
        if latent[0].numel() != x[0].numel():
            raise TargetError(
                f"{target}: forward maps an event of shape {tuple(x.shape[1:])} to {tuple(latent.shape[1:])}; a bijection "
                "keeps the number of entries. If the event shape is another, give it as ?event=3 or ?event=2,4,4"
            )
    return dialect, facts


def misfit(target: Target, shape: Shape, error: Exception) -> TargetError:
    """What to say when a target cannot be called on events of the shape given."""
    said = " ".join(str(error).split())[:200]
    return TargetError(
        f"{target} cannot be called on a batch of events of shape {shape}: {type(error).__name__}: {said}. "
        "Give the shape of one event as ?event=3 or ?event=2,4,4 (or --event 3)"
    )


def settled(
    target: Target,
    build: Callable[[], Any],
    dialect: Dialect,
    facts: Facts,
    resolve: Callable[[Any], Dialect | None],
) -> Plan:
    """A plan, after one call in float64 (else float32) has shown that the target can be called at all."""
    from flowref.backends.torch.present import present

    failures = []
    wanted = target.option("dtype")
    for dtype in (wanted,) if wanted else ("float64", "float32"):
        if dtype not in ("float64", "float32"):
            raise SpecError(f"{target}: dtype was given as {dtype!r}; expected float64 or float32")
        try:
            subject = present(str(target), build, dialect, facts, Condition(dtype=dtype), resolve)
            probe(subject)
        except FlowrefError:
            raise
        except Exception as error:
            failures.append(error)
            continue
        return Plan(build, dialect, facts, resolve, dtype)
    raise misfit(target, facts.event_shape, failures[0]) from failures[0]


def probe(subject: Subject) -> None:
    """One ordinary call, to see that there is something to audit."""
    import numpy as np

    from flowref.model import draw

    rng = np.random.default_rng(1)
    x = draw(subject.domain, (3, *subject.event_shape), rng)
    context = None if subject.context_shape is None else rng.standard_normal((3, *subject.context_shape))
    if subject.forward is not None:
        subject.forward(x, context)
    elif subject.log_prob is not None:
        subject.log_prob(x, context)
    else:
        raise Unsupported("it has neither forward nor log_prob")


def event_option(options: dict[str, str]) -> Shape | None:
    """The event shape given as ?event=3 or ?event=2,4,4."""
    return shape_of(options["event"], "event") if "event" in options else None


def shape_of(text: str, name: str) -> Shape:
    """A shape as typed."""
    try:
        shape = tuple(int(size) for size in text.strip("()[] ").split(",") if size.strip())
    except ValueError:
        shape = ()
    if not shape or min(shape) < 1:
        raise SpecError(f"{name} was given as {text!r}; expected one or more positive sizes, such as 3 or 2,4,4")
    return shape


def override(facts: Facts, options: dict[str, str], name: str) -> Facts:
    """Facts with what the user said in the spec."""
    from flowref import registry

    if "event" in options:
        facts = replace(facts, event_shape=shape_of(options["event"], "event"))
    if "latent" in options:
        facts = replace(facts, latent_shape=shape_of(options["latent"], "latent"))
    if "context" in options and options["context"] != "0":
        facts = replace(facts, context_shape=shape_of(options["context"], "context"))
    if "domain" in options or "support" in options:
        facts = replace(facts, domain=Support.parse(options.get("domain", options.get("support"))), declared=True)
    if "codomain" in options:
        facts = replace(facts, codomain=Support.parse(options["codomain"]))
    promises = dict(facts.promises)
    for item in filter(None, options.get("promises", "").split(",")):
        key, equals, value = item.partition("=")
        promises[key] = registry.literal(value) if equals else True
    if "ladj" in options:
        if options["ladj"] != "inverse":
            raise SpecError(f"{name}: ladj was given as {options['ladj']!r}; the only declaration is ladj=inverse")
        promises["ladj"] = "inverse"
    if options.get("perturb", str(promises.get("perturb", ""))) in ("0", "0.0"):
        promises["fixed"] = True
    return replace(facts, promises=promises)


def live_builder(target: Target) -> Callable[[], Any]:
    """Copies of a live object's snapshot."""
    from flowref.backends.torch.state import duplicate

    if target not in LIVE:
        raise TargetError(f"{target} was an object in another process; audit it again from Python")
    return functools.partial(duplicate, LIVE[target])


def attempt(target: Target, build: Callable[[], Any], dtype: str) -> Any:
    """Build a user's object; any failure becomes one sentence."""
    import torch

    from flowref.backends.torch.guard import sandbox

    try:
        with sandbox(0, getattr(torch, dtype)):
            return build()
    except FlowrefError:
        raise
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())[:300]
        raise TargetError(
            f"{target}: calling the factory raised {type(error).__name__}: {said}. A factory is called with the options "
            "after ? as keywords and must return the object to audit"
        ) from error


def factory(target: Target) -> Callable[[], Any]:
    """The builder of a user's target: a factory or class is called, an instance is copied."""
    from flowref import registry
    from flowref.backends.torch.state import duplicate

    place, _, name = target.component.rpartition(":")
    module = import_place(place)
    value: Any = module
    for attribute in name.split("."):
        if not hasattr(value, attribute):
            public = [key for key in vars(value) if not key.startswith("_")]
            raise TargetError(f"{place} has no {attribute!r}{nearest(attribute, public)}")
        value = getattr(value, attribute)
    options = registry.builder_options(target)
    instance = not isinstance(value, type) and (hasattr(value, "forward") or hasattr(value, "log_prob"))
    if instance:
        return functools.partial(duplicate, value)
    if not callable(value):
        raise TargetError(f"{target}: {name} is a {type(value).__name__}; expected a factory, a class or a flow object")
    return functools.partial(value, **options)


@functools.lru_cache(maxsize=256)
def import_place(place: str) -> ModuleType:
    """Import a module by path or by dotted name; `TargetError` in one sentence if that fails."""
    try:
        if place.endswith(".py"):
            return import_file(Path(place))
        if "" not in sys.path and str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
        return importlib.import_module(place)
    except FlowrefError:
        raise
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())[:300]
        raise TargetError(f"importing {place} raised {type(error).__name__}: {said}") from error


def import_file(path: Path) -> ModuleType:
    """Import a Python file under a name of its own, with its folder importable, as when it is run."""
    if not path.is_file():
        folder = path.parent if path.parent.is_dir() else Path()
        raise TargetError(f"there is no file {path}{nearest(path.name, [p.name for p in folder.glob('*.py')])}")
    home = str(path.resolve().parent)
    if home not in sys.path:
        sys.path.insert(0, home)
    name = f"flowref_user_{abs(_stable(str(path.resolve()))):x}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _stable(text: str) -> int:
    from flowref.strategies import seed_of

    return seed_of(text) % 2**32


def snapshot(obj: Any) -> Target:
    """Register a live object: copied once, now, before anything calls it. Returns its target."""
    from flowref.backends.torch.state import duplicate, named_state

    digest = _stable(
        type(obj).__qualname__ + "".join(f"{k}{tuple(getattr(v, 'shape', ()))}{v}" for k, v in named_state(obj).items())
    )
    target = Target(OBJECT, f"{type(obj).__name__}#{digest:08x}")
    LIVE[target] = duplicate(obj)
    plan.cache_clear()
    return target
