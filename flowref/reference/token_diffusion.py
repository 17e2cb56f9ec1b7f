"""Token diffusion: a continuous-time Markov chain on a few tokens, its reversal in steps, and the
exact likelihood and the training bound, both by enumeration.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from flowref.reference.bijection import check_event

# The rate of an impossible jump, whose logarithm is learned.
LEAST = 1e-12


class TokenDiffusion(nn.Module):
    r"""Tokens that jump independently with rates $Q$: after a time t token i has become j with
    probability $(e^{tQ})_{ij}$. Samples are drawn by jumping back from time T in n steps of
    length h = T/n, with learned rates $R_k$ of whole sequences; at time T sequences have the
    probabilities $\pi$.

    With $M_k = e^{h R_k}$ from step k to step k - 1: $p(x) = (\pi M_n \cdots M_1)_x$.
    ``rates``: $Q$ `(K, K)`, no negative number off the diagonal, and rows that sum to zero.
    Shapes: x `(N, length)`, integers below K; log-probability `(N,)`. There are $S = K^{length}$
    sequences, which are enumerated; `logits`: $\log \pi$ up to a constant, `(S,)`; `log_rates`: logarithms
    of $R_k$ off the diagonal, `(n, S, S)`.  Units: nats.
    Raises: `ValueError` for other rates, and for sequences of another length.
    Source: Campbell et al. 2022, A continuous time framework for discrete denoising models (arXiv:2205.14987);
    the bound: Austin et al. 2021, D3PM (arXiv:2107.03006), equation 1.
    """

    rates: Tensor

    def __init__(self, rates: Tensor, length: int, steps: int, time: float = 1.0) -> None:
        super().__init__()
        off = rates - torch.diag(rates.diagonal())
        eps = torch.finfo(rates.dtype).eps * len(rates) * rates.abs().max()
        if rates.dim() != 2 or bool((off < 0).any()) or bool((rates.sum(1).abs() > eps).any()):
            raise ValueError(
                "got rates that are negative off the diagonal, or whose rows do not sum to zero; expected "
                "the rates of a Markov chain, with minus the total rate of leaving a token on the diagonal"
            )
        self.tokens, self.length, self.steps, self.time = len(rates), length, steps, time
        states = self.tokens**length
        self.register_buffer("rates", rates)
        self.logits = nn.Parameter(rates.new_zeros(states))
        self.log_rates = nn.Parameter(rates.new_zeros(steps, states, states))

    def noising(self, time: float) -> Tensor:
        r"""The transition probabilities of sequences after a time, $(e^{tQ})^{\otimes length}$,
        `(S, S)`.
        """
        one: Tensor = torch.linalg.matrix_exp(time * self.rates)
        whole: Tensor = one.new_ones(1, 1)
        for _ in range(self.length):
            whole = torch.kron(whole, one)
        return whole

    def reversal(self) -> Tensor:
        r"""$M_1, \dots, M_n$, `(n, S, S)`."""
        off = self.log_rates.exp() * (1 - torch.eye(len(self.logits)).to(self.rates))
        rates = off - torch.diag_embed(off.sum(2))
        steps: Tensor = torch.linalg.matrix_exp(self.time / self.steps * rates)
        return steps

    @torch.no_grad()
    def reverse_of(self, data: Tensor) -> None:
        r"""Sets the reversal for data with probabilities `(S,)`, all positive: $\pi = p_T$ and
        $R_k(i, j) = Q(j, i)\,p_t(j) / p_t(i)$ in the middle of a step, exact in the limit of
        short steps.
        """
        h, jumps = self.time / self.steps, self._jumps()
        self.logits.copy_((data @ self.noising(self.time)).log())
        for k in range(self.steps):
            at = data @ self.noising((k + 0.5) * h)
            self.log_rates[k] = (jumps.mT * at / at[:, None]).clamp(min=LEAST).log()

    def _jumps(self) -> Tensor:
        """The rates `(S, S)` of sequences; one token jumps at a time."""
        total = torch.zeros(len(self.logits), len(self.logits)).to(self.rates)
        for index in range(self.length):
            before = torch.eye(self.tokens**index).to(self.rates)
            after = torch.eye(self.tokens ** (self.length - 1 - index)).to(self.rates)
            total += torch.kron(torch.kron(before, self.rates), after)
        return total

    def log_prob(self, x: Tensor) -> Tensor:
        r"""The exact log-probability of each row, `(N,)`; $-\infty$ if it is no sequence of
        tokens.
        """
        at = self.logits.softmax(0)
        for step in reversed(self.reversal()):
            at = at @ step
        some = ((x == x.round()) & (x >= 0) & (x < self.tokens)).all(1, keepdim=True)
        found = at.log()[self.state(x.where(some, 0.0))]
        return found.where(some[:, 0], -torch.inf)

    def lower_bound(self, x: Tensor) -> Tensor:
        r"""$\sum_k E_q \log \frac{p(x_{k-1} \mid x_k)}{q(x_k \mid x_{k-1})} + E_q \log \pi(x_n) \le
        \log p(x)$, `(N,)`, where q noises x; the expectations are sums over all pairs of
        sequences.
        """
        forward, found = self.noising(self.time / self.steps), 0.0
        at = torch.eye(len(self.logits)).to(forward)[self.state(x)]
        for step in self.reversal():
            found = found + at @ (forward * (step.mT.log() - forward.log()).nan_to_num(0.0)).sum(1)
            at = at @ forward
        return found + at @ self.logits.log_softmax(0)

    @torch.no_grad()
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """Draws n sequences `(n, length)`, in the dtype of the rates."""
        if n == 0:
            return self.rates.new_zeros(0, self.length)
        at = torch.multinomial(self.logits.softmax(0), n, replacement=True, generator=generator)
        for step in reversed(self.reversal()):
            at = torch.multinomial(step[at], 1, generator=generator)[:, 0]
        digits = [at // self.tokens**power % self.tokens for power in reversed(range(self.length))]
        return torch.stack(digits, 1).to(self.rates)

    def state(self, x: Tensor) -> Tensor:
        """The index `(N,)` of each sequence, its tokens read as digits; raises `ValueError` for
        other numbers.
        """
        check_event(x, (self.length,), "sequences of tokens")
        digits = x.long()
        if bool(((digits != x) | (digits < 0) | (digits >= self.tokens)).any()):
            raise ValueError(f"got tokens that are no whole numbers from 0 to {self.tokens - 1}")
        powers = [self.tokens**power for power in reversed(range(self.length))]
        return (digits * torch.tensor(powers, device=x.device)).sum(1)
