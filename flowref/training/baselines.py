"""Baselines of a flow: the best normal distribution for points, independent pixels for images."""

from __future__ import annotations

import math

import numpy as np

from flowref.training.data import Dataset, Values


def normal_nll(train: Values, test: Values) -> float:
    r"""Mean negative log-density, in nats, of test points ``(n, d)`` under the normal distribution
    fitted to the training points ``(m, d)``.

    $\frac12 \left(d \log 2\pi + \log\det\Sigma + (x - m)^\top \Sigma^{-1} (x - m)\right)$ with the
    mean and biased covariance of the training points.
    """
    centered = test - train.mean(0)
    covariance = np.cov(train.T, bias=True)
    distances = (centered * np.linalg.solve(covariance, centered.T).T).sum(1)
    return float(
        0.5
        * (
            train.shape[1] * math.log(2 * math.pi)
            + np.linalg.slogdet(covariance)[1]
            + distances.mean()
        )
    )


def histogram_bits(train: Values, test: Values, levels: int) -> float:
    """Mean bits per dimension of test images ``(n, *event)`` under independent pixels, each with
    the frequencies of its levels in training.

    Counts are smoothed by one (Laplace): $p_i(k) = (n_{ik} + 1) / (n + b)$ with $b$ levels.
    """
    total = 0.0
    for pixel, seen in zip(
        train.reshape(len(train), -1).T, test.reshape(len(test), -1).T, strict=True
    ):
        counts = np.bincount(pixel.astype(np.int64), minlength=levels)
        frequencies = (counts + 1) / (len(pixel) + levels)
        total -= float(np.log2(frequencies[seen.astype(np.int64)]).mean())
    return total / math.prod(test.shape[1:])


def baselines(dataset: Dataset) -> dict[str, float]:
    """Name of the baseline -> value on test data: nats for points, bits per dimension for images.
    Lower is better.
    """
    if dataset.levels is None:
        return {"normal distribution, full covariance": normal_nll(dataset.train, dataset.test)}
    return {
        "all levels alike": math.log2(dataset.levels),
        "histogram of each pixel": histogram_bits(dataset.train, dataset.test, dataset.levels),
    }
