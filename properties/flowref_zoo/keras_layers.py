"""Layers as users of Keras write them: healthy ones of each kind, and some with a defect."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
from keras import ops

FEATURES = 4


def built(layer: Any, *shape: int | None) -> Any:
    layer.build((None, *(shape or (FEATURES,))))
    return layer


def batch_norm() -> Any:
    return built(keras.layers.BatchNormalization())


def batch_norm_of_images() -> Any:
    return built(keras.layers.BatchNormalization(momentum=0.9), 3, 3, FEATURES)


def batch_norm_of_first_axis() -> Any:
    return built(keras.layers.BatchNormalization(axis=1), FEATURES, 5)


def batch_norm_bare() -> Any:
    return built(keras.layers.BatchNormalization(center=False, scale=False, epsilon=1e-5))


def layer_norm() -> Any:
    return built(keras.layers.LayerNormalization())


def group_norm() -> Any:
    return built(keras.layers.GroupNormalization(groups=2), 5, FEATURES)


class OwnBatchNorm(keras.Layer):  # type: ignore[misc]  # keras publishes no types
    """A batch norm by hand, with the conventions of Keras."""

    def __init__(self, momentum: float = 0.9, epsilon: float = 1e-3, defect: str = "") -> None:
        super().__init__()
        self.momentum, self.epsilon, self.defect = momentum, epsilon, defect

    def build(self, shape: Any) -> None:
        size = (shape[-1],)
        self.gamma = self.add_weight(shape=size, initializer="ones", name="gamma")
        self.beta = self.add_weight(shape=size, initializer="zeros", name="beta")
        frozen: dict[str, Any] = {"shape": size, "trainable": False}
        self.moving_mean = self.add_weight(initializer="zeros", name="moving_mean", **frozen)
        self.moving_variance = self.add_weight(initializer="ones", name="moving_variance", **frozen)

    def call(self, x: Any, training: bool = False) -> Any:
        if training:
            mean = ops.mean(x, axis=0)
            rows = ops.shape(x)[0] - (self.defect == "n-1")
            variance = ops.sum(ops.square(x - mean), axis=0) / max(rows, 1)
            if self.defect != "statistics":
                kept = 1 - self.momentum if self.defect == "momentum" else self.momentum
                for own, new in ((self.moving_mean, mean), (self.moving_variance, variance)):
                    own.assign(kept * own + (1 - kept) * ops.stop_gradient(new))
        else:
            mean, variance = self.moving_mean, self.moving_variance
        outside = self.epsilon if self.defect == "eps" else 0.0
        scale = ops.sqrt(variance + self.epsilon - outside) + outside
        beta = ops.stop_gradient(self.beta) if self.defect == "bias" else self.beta
        return self.gamma * (x - mean) / scale + beta


def own_batch_norm(defect: str = "", momentum: float = 0.9) -> Any:
    return built(OwnBatchNorm(momentum, defect=defect))


class Coupling(keras.Layer):  # type: ignore[misc]  # keras publishes no types
    """An affine coupling; ``context`` numbers beside the half that stays, if there are any."""

    def __init__(self, defect: str = "", context: int = 0, turned: bool = False) -> None:
        super().__init__()
        self.defect, self.turned = defect, turned
        self.hidden = keras.layers.Dense(8, activation="tanh")
        self.out = keras.layers.Dense(
            FEATURES, kernel_initializer=keras.initializers.RandomNormal(stddev=0.2)
        )
        self.hidden.build((None, FEATURES // 2 + context))
        self.out.build((None, 8))
        self.built = True

    def net(self, a: Any, context: Any = None) -> Any:
        given = a if context is None else ops.concatenate([a, context], axis=-1)
        s, t = ops.split(self.out(self.hidden(given)), 2, axis=-1)
        return ops.tanh(s), t

    def apart(self, x: Any) -> Any:
        a, b = ops.split(x, 2, axis=-1)
        return (b, a) if self.turned else (a, b)

    def joined(self, a: Any, b: Any) -> Any:
        return ops.concatenate([b, a] if self.turned else [a, b], axis=-1)

    def call(self, x: Any) -> Any:
        a, b = self.apart(x)
        s, t = self.net(a)
        half = 0.5 if self.defect == "log-det" else 1.0
        return self.joined(a, b * ops.exp(s) + t), half * ops.sum(s, axis=-1)

    def inverse(self, z: Any) -> Any:
        a, b = self.apart(z)
        s, t = self.net(a)
        b = (b + t if self.defect == "inverse" else b - t) * ops.exp(-s)
        return self.joined(a, b), -ops.sum(s, axis=-1)


def coupling(defect: str = "") -> Any:
    return Coupling(defect)


class GivenCoupling(Coupling):
    """The same, given a context."""

    def call(self, x: Any, context: Any = None) -> Any:
        a, b = self.apart(x)
        s, t = self.net(a, context)
        return self.joined(a, b * ops.exp(s) + t), ops.sum(s, axis=-1)

    def inverse(self, z: Any, context: Any = None) -> Any:
        a, b = self.apart(z)
        s, t = self.net(a, context)
        return self.joined(a, (b - t) * ops.exp(-s)), -ops.sum(s, axis=-1)


def given_coupling() -> Any:
    return GivenCoupling(context=2)


class Scale(keras.Layer):  # type: ignore[misc]  # keras publishes no types
    """A factor and a shift for each feature."""

    def build(self, shape: Any) -> None:
        small = keras.initializers.RandomNormal(stddev=0.3)
        self.log_scale = self.add_weight(shape=(shape[-1],), initializer=small, name="log_scale")
        self.shift = self.add_weight(shape=(shape[-1],), initializer=small)

    def call(self, x: Any) -> Any:
        ladj = ops.sum(self.log_scale) * ops.ones_like(x[..., 0])
        return x * ops.exp(self.log_scale) + self.shift, ladj

    def inverse(self, z: Any) -> Any:
        ladj = -ops.sum(self.log_scale) * ops.ones_like(z[..., 0])
        return (z - self.shift) * ops.exp(-self.log_scale), ladj


def scale() -> Any:
    return built(Scale())


class Started(Scale):
    """Scale, which its first batch in train mode initializes (ActNorm)."""

    def build(self, shape: Any) -> None:
        super().build(shape)
        self.started = self.add_weight(
            shape=(), initializer="zeros", trainable=False, name="started"
        )

    def call(self, x: Any, training: bool = False) -> Any:
        if training and not float(ops.convert_to_numpy(self.started)):
            deviation = ops.std(x, axis=0) + 1e-6
            self.log_scale.assign(-ops.log(deviation))
            self.shift.assign(-ops.mean(x, axis=0) / deviation)
            self.started.assign(1.0)
        return super().call(x)


def act_norm() -> Any:
    return built(Started())


class Rotation(keras.Layer):  # type: ignore[misc]  # keras publishes no types
    """An orthogonal matrix, of a lower triangle of ones beside its upper one."""

    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(0)
        self.matrix = np.linalg.qr(rng.standard_normal((FEATURES, FEATURES)))[0]
        self.built = True

    def call(self, x: Any) -> Any:
        return ops.matmul(x, ops.convert_to_tensor(self.matrix, dtype=x.dtype)), ops.zeros_like(
            x[..., 0]
        )

    def inverse(self, z: Any) -> Any:
        matrix = ops.convert_to_tensor(self.matrix.T, dtype=z.dtype)
        return ops.matmul(z, matrix), ops.zeros_like(z[..., 0])


def rotation() -> Any:
    return Rotation()


class Softplus(keras.Layer):  # type: ignore[misc]  # keras publishes no types
    """Each entry by itself onto the positive numbers."""

    def call(self, x: Any) -> Any:
        return ops.softplus(x), ops.sum(ops.log_sigmoid(x), axis=-1)

    def inverse(self, z: Any) -> Any:
        x = z + ops.log(-ops.expm1(-z))
        return x, -ops.sum(ops.log_sigmoid(x), axis=-1)

    codomain = "positive"


def softplus() -> Any:
    return built(Softplus())


class Flow(keras.Model):  # type: ignore[misc]  # keras publishes no types
    """A density of layers, with samples."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = [built(Scale()), Coupling(), Coupling(turned=True)]
        self.built = True

    def call(self, x: Any) -> Any:
        total = 0.0
        for step in self.steps:
            x, ladj = step(x)
            total = total + ladj
        return x, total

    def inverse(self, z: Any) -> Any:
        total = 0.0
        for step in reversed(self.steps):
            z, ladj = step.inverse(z)
            total = total + ladj
        return z, total

    def log_prob(self, x: Any) -> Any:
        z, ladj = self(x)
        return ops.sum(-0.5 * z * z - 0.5 * math.log(2 * math.pi), axis=-1) + ladj

    def sample(self, n: int) -> Any:
        return self.inverse(keras.random.normal((n, FEATURES)))[0]


def flow() -> Any:
    return Flow()


class Block(keras.Layer):  # type: ignore[misc]  # keras publishes no types
    """A coupling behind a batch norm, whose mode Keras hands on."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.coupling = own_batch_norm(), Coupling()
        self.built = True

    def call(self, x: Any, training: bool = False) -> Any:
        return self.coupling(self.norm(x, training=training))[0]


def block() -> Any:
    return Block()


HEALTHY = (
    batch_norm_of_first_axis, batch_norm_bare, batch_norm, batch_norm_of_images, layer_norm, group_norm,
    own_batch_norm, coupling, given_coupling, scale, act_norm, rotation, softplus, flow, block,
)  # fmt: skip
