"""Damped Newton search for the hinge that fits a node best, many nodes at once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from ._solve import ridge, slope_penalty

_ARMIJO = 2e-4  # 1e-4 of the objective with its factor one half
_STEPS = [0.5**j for j in range(1, 11)]


@dataclass
class HingeState:
    """Hinges max(l1, l2) (sign +1) or min (sign -1), `P` of them per node.

    Everything is relative to the node's own linear model: `theta` holds what each
    side adds to it and the target is its residual.
    """

    theta: torch.Tensor  # (N, P, 2, p)
    sign: torch.Tensor  # (N, P)
    value: torch.Tensor  # (N, P) penalised sum of squares, inf where a side is short
    gram: torch.Tensor  # (N, P, p, p + 1) products of the left side: [X'WX, X'Wr]
    n_iter: torch.Tensor  # (N, P)

    def pick(self, problem):
        """Keep the problems `problem` (N, K) of each node."""

        def take(t):
            index = problem.reshape(*problem.shape, *[1] * (t.dim() - 2))
            return t.gather(1, index.expand(*problem.shape, *t.shape[2:]))

        return HingeState(*(take(t) for t in vars(self).values()))

    def best(self, n):
        """Keep the n problems of each node with the least value."""
        return self.pick(self.value.argsort(dim=1, stable=True)[:, :n])

    def accept(self, where, theta, value, gram):
        """Move to (theta, value, gram) where `where` (N, P) is true."""
        wide = where[..., None, None]
        self.theta = torch.where(wide, theta, self.theta)
        self.value = torch.where(where, value, self.value)
        self.gram = torch.where(wide, gram, self.gram)
        self.n_iter = self.n_iter + where


@dataclass
class HingeProblem:
    """The objective of a batch of nodes: rows, scalar target, ridge.

    total (N, p, p + 1) and squares (N,) are the products of all rows of a node;
    `prior` (N, p) is what the ridge `penalty` pulls the slopes of either side to;
    `direction` (N, k) turns the outputs into the target.
    """

    batch: Any
    total: torch.Tensor
    squares: torch.Tensor
    penalty: float
    prior: torch.Tensor
    min_weight: float
    direction: torch.Tensor

    def sides(self, gram):
        """Stack left and right products: (N, P, 2, p, p + 1)."""
        return torch.stack([gram, self.total[:, None] - gram], dim=2)

    def refit(self, gram):
        """Least-squares fit of either side, (N, P, 2, p)."""
        both = self.sides(gram)
        prior = self.prior[:, None, None, :, None]
        return ridge(both[..., :-1], both[..., -1:], self.penalty, prior)[..., 0]

    def short(self, left_weight):
        """Whether a side holds less than the least weight; trailing axes allowed."""
        total = self.total[:, -1, -2].reshape(-1, *[1] * (left_weight.dim() - 1))
        smaller = torch.minimum(left_weight, total - left_weight)
        return smaller < self.min_weight * (1 - 1e-9)

    def slopes(self, theta):
        """Penalty of the slopes of hinges (N, P, 2, p, ...)."""
        prior = self.prior[:, None, None, :, None]
        return slope_penalty(theta[..., None], self.penalty, prior)[..., 0].sum(-1)

    def evaluate(self, theta, sign, active):
        """Objective (N, P), inf where a side is short, and the left products."""
        if not hasattr(self.batch, "line"):
            from ._newton_numba import evaluate

            return evaluate(self, theta, sign, active)
        value, gram = self.batch.evaluate(theta, sign, active)
        value = value + self.slopes(theta)
        value = torch.where(self.short(gram[..., -1, -2]), torch.inf, value)
        return torch.where(active, value, torch.inf), gram


def start(problem, gram):
    """Hinges of both signs from the partitions whose left products are `gram`."""
    usable = ~problem.short(gram[..., -1, -2])
    theta = problem.refit(gram)
    theta = torch.cat([theta, theta], dim=1)
    sign = torch.ones(theta.shape[:2], dtype=theta.dtype, device=theta.device)
    sign[:, gram.shape[1] :] = -1.0
    value, gram = problem.evaluate(theta, sign, torch.cat([usable, usable], dim=1))
    n_iter = torch.zeros(sign.shape, dtype=torch.int64, device=theta.device)
    return HingeState(theta, sign, value, gram, n_iter)


def newton(problem, state, *, step, max_iter, tol, trace=None):
    """Run damped Newton rounds until no hinge improves by the share `tol`.

    With ``step="backtracking"`` a step is accepted only if it lowers the objective
    (Armijo), so the objective never rises. With a fixed step the best hinge seen
    is what is returned. `trace`, a list, receives the objective (N, P) of every
    round.
    """
    fixed = step != "backtracking"
    state = replace(state)
    best = replace(state)
    active = state.value.isfinite()
    if trace is not None:
        trace.append(state.value)
    for _ in range(max_iter):
        if not bool(active.any()):
            break
        before = state.value
        delta, slope = _direction(problem, state)
        active = active & (slope > 1e-14 * problem.squares[:, None])
        if fixed:
            active = _fixed_step(problem, state, best, delta, active, step)
        else:
            accepted = _backtrack(problem, state, delta, slope, active)
            active = accepted & (before - state.value > tol * before)
        if trace is not None:
            trace.append(state.value)
    return best if fixed else state


def _direction(problem, state):
    """Newton direction, to the least-squares fit of the partition, and its slope."""
    delta = problem.refit(state.gram) - state.theta
    g = problem.sides(state.gram)[..., :-1]
    curvature = (delta[..., None, :] @ g @ delta[..., None])[..., 0, 0]
    curvature = curvature + problem.penalty * delta[..., :-1].square().sum(-1)
    return delta, curvature.sum(-1)


def _fixed_step(problem, state, best, delta, active, step):
    theta = state.theta + step * delta
    value, gram = problem.evaluate(theta, state.sign, active)
    active = active & value.isfinite()
    moved = (step * delta).abs().amax((-2, -1)) > 1e-6
    state.accept(active, theta, value, gram)
    best.accept(active & (value < best.value), theta, value, gram)
    best.n_iter = state.n_iter
    return active & moved


def _backtrack(problem, state, delta, slope, active):
    """Try 1, then the largest of 1/2, 1/4, ... that passes; return who moved."""
    theta = state.theta + delta
    value, gram = problem.evaluate(theta, state.sign, active)
    full = active & (value <= state.value - _ARMIJO * slope) & (value < state.value)
    pending = active & ~full
    if bool(pending.any()):
        mu = _line_search(problem, state, delta, slope, pending)
        damped = pending & (mu > 0)
        theta = torch.where(
            damped[..., None, None], state.theta + mu[..., None, None] * delta, theta
        )
        new_value, new_gram = problem.evaluate(theta, state.sign, damped)
        # The line search and this pass may differ by rounding: no rise is let in.
        damped = damped & (new_value < state.value)
        value = torch.where(damped, new_value, value)
        gram = torch.where(damped[..., None, None], new_gram, gram)
        full = full | damped
    state.accept(full, theta, value, gram)
    return full


def _line_search(problem, state, delta, slope, pending):
    """Largest step of the ladder that passes the Armijo rule, 0 where none does."""
    args = (state.theta, delta, state.sign, _STEPS, pending)
    value, weight = problem.batch.line(*args)
    steps = torch.tensor(_STEPS, dtype=value.dtype, device=value.device)
    trial = state.theta[..., None] + delta[..., None] * steps
    prior = problem.prior[:, None, None, :-1, None]
    penalty = (trial[..., :-1, :] - prior).square().sum((2, 3))
    value = value + problem.penalty * penalty
    limit = state.value[..., None] - _ARMIJO * steps * slope[..., None]
    good = (value <= limit) & (value < state.value[..., None])
    good &= ~problem.short(weight)
    first = good.to(torch.uint8).argmax(-1)
    return torch.where(good.any(-1), steps[first], 0.0)
