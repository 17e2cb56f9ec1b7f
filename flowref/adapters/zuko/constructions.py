"""Constructions of all transforms, lazy transforms and flows of Zuko."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from flowref.adapters.common.object_components import Constructions


def transforms() -> Constructions:
    """Name -> builder of a transform that is not lazy."""
    return {**_fixed(), **_univariate(), **_multivariate()}


def _fixed() -> Constructions:
    from zuko import transforms as zt

    return {
        "IdentityTransform": lambda features=4: zt.IdentityTransform(),
        "CosTransform": lambda features=4: zt.CosTransform(),
        "SinTransform": lambda features=4: zt.SinTransform(),
        "SoftclipTransform": lambda features=4, bound=2.0: zt.SoftclipTransform(bound),
        "CircularShiftTransform": lambda features=4, bound=math.pi: zt.CircularShiftTransform(
            bound
        ),
        "MonotonicTransform": lambda features=4: zt.MonotonicTransform(cubic),
        "UnconstrainedMonotonicTransform": lambda features=4: zt.UnconstrainedMonotonicTransform(
            parabola
        ),
    }


def cubic(x: Any) -> Any:
    """$x + x^3$."""
    return x + x**3


def parabola(x: Any) -> Any:
    """$1 + x^2$."""
    return 1 + x.square()


def _univariate() -> Constructions:
    from torch import randn
    from zuko import transforms as zt

    def spline(features: int = 4, bins: int = 8, bound: float = 2.0) -> Any:
        return zt.MonotonicRQSTransform(
            randn(features, bins), randn(features, bins), randn(features, bins - 1), bound=bound
        )

    def gaussianization(features: int = 4, components: int = 6) -> Any:
        return zt.GaussianizationTransform(
            randn(features, components), 0.3 * randn(features, components)
        )

    def affine(features: int = 4) -> Any:
        return zt.MonotonicAffineTransform(randn(features), randn(features))

    return {
        # Singular at zero; not built wide.
        "SignedPowerTransform": (lambda: zt.SignedPowerTransform(0.3 * randn(4)), (4,)),
        "AdditiveTransform": lambda features=4: zt.AdditiveTransform(randn(features)),
        "MonotonicAffineTransform": affine,
        "MonotonicRQSTransform": spline,
        "BernsteinTransform": lambda features=4, degree=10: zt.BernsteinTransform(
            randn(features, degree)
        ),
        "BoundedBernsteinTransform": lambda features=4, degree=10: zt.BoundedBernsteinTransform(
            randn(features, degree)
        ),
        "GaussianizationTransform": gaussianization,
        "SOSPolynomialTransform": lambda features=4: zt.SOSPolynomialTransform(
            randn(features, 2, 4)
        ),
        "DependentTransform": lambda features=4: zt.DependentTransform(affine(features), 1),
    }


def _multivariate() -> Constructions:
    import torch
    from torch import randn
    from zuko import transforms as zt

    def triangles(features: int = 4) -> Any:
        return zt.LULinearTransform(randn(features, features) + 2 * torch.eye(features))

    def composed(features: int = 4) -> Any:
        first = zt.MonotonicAffineTransform(randn(features), randn(features))
        return zt.ComposedTransform(first, zt.RotationTransform(randn(features, features)))

    return {
        "PermutationTransform": lambda features=4: zt.PermutationTransform(
            torch.randperm(features)
        ),
        "RotationTransform": lambda features=4: zt.RotationTransform(randn(features, features)),
        "LULinearTransform": triangles,
        "ComposedTransform": composed,
    }


def lazy_transforms() -> Constructions:
    """Name -> builder of a lazy transform."""
    from zuko import flows as zf

    def of(kind: Any) -> Callable[..., Any]:
        def build(features: int = 4, context: int = 0, hidden: int = 16) -> Any:
            return kind(features, context, hidden_features=(hidden,))

        return build

    names = (
        "MaskedAutoregressiveTransform",
        "GeneralCouplingTransform",
        "ElementWiseTransform",
        "FFJTransform",
    )
    return {name: of(getattr(zf, name)) for name in names}


def flows() -> Constructions:
    """Name -> builder of a flow or a mixture."""
    from zuko import flows as zf

    def of(
        kind: Any, features: int = 4, transforms: int = 2, context: int = 0, **fixed: Any
    ) -> Callable[..., Any]:
        default = (features, transforms, context)

        def build(
            features: int = default[0],
            transforms: int = default[1],
            context: int = default[2],
            hidden: int = 16,
        ) -> Any:
            return kind(
                features, context, transforms=transforms, hidden_features=(hidden,), **fixed
            )

        return build

    def gaussianization(
        features: int = 4, transforms: int = 2, context: int = 0, components: int = 8
    ) -> Any:
        return zf.GF(features, context, transforms=transforms, components=components)

    def continuous(
        features: int = 4, context: int = 0, hidden: int = 16, exact: bool = True
    ) -> Any:
        return zf.CNF(features, context, hidden_features=(hidden,), exact=exact)

    return {
        **{
            name: of(getattr(zf, name))
            for name in ("MAF", "NICE", "RealNVP", "NSF", "NCSF", "SOSPF", "BPF")
        },
        "NAF": of(zf.NAF, transforms=1, network={"hidden_features": (16, 16)}),
        "UNAF": of(zf.UNAF, transforms=1, network={"hidden_features": (16, 16)}),
        "GF": gaussianization,
        "CNF": continuous,
        "GMM": lambda features=2, context=0, components=3: zf.GMM(
            features, context, components=components
        ),
        "MAF[features=2]": of(zf.MAF, features=2),
        "NSF[features=1]": of(zf.NSF, features=1),
        "NSF[features=2]": of(zf.NSF, features=2),
        "MAF[context=2]": of(zf.MAF, context=2),
        "NSF[context=2]": of(zf.NSF, context=2),
    }


def promised(name: str) -> dict[str, bool]:
    """Promises implied by a flow's name: alternating couplings transform every entry."""
    return {"transforms-all": True} if name in ("NICE", "RealNVP") else {}
