"""Compiled twin of `_hinge.newton`: one hinge after the other, each to its own end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numba import njit

from ._rows_numba import FLAGS, TILE, add_line, add_products, mirror
from ._solve_numba import solve_side, subtract

_N_STEPS = 10
_FEW = 5  # add changed rows one by one when fewer than a fifth change


def newton(problem, state, *, step, max_iter, tol):
    """See `_hinge.newton`."""
    state = replace(state, **{k: v.clone() for k, v in vars(state).items()})
    args = _arguments(problem, state)
    fixed = step != "backtracking"
    _newton(*args, 1.0 if not fixed else float(step), fixed, max_iter, float(tol))
    return state


def evaluate(problem, theta, sign, active):
    """See `HingeProblem.evaluate`."""
    batch = problem.batch
    p = batch.p
    value = torch.full(sign.shape, torch.inf, dtype=theta.dtype)
    gram = torch.zeros(*sign.shape, p, p + 1, dtype=theta.dtype)
    _evaluate_all(
        batch.x, batch.target, batch.w, batch.bounds, problem.total.numpy(),
        problem.prior.contiguous().numpy(), float(problem.penalty),
        float(problem.min_weight), theta.contiguous().numpy(), sign.numpy(),
        active.numpy(), value.numpy(), gram.numpy(),
    )  # fmt: skip
    return value, gram


def _arguments(problem, state):
    batch = problem.batch
    for name, tensor in vars(state).items():
        setattr(state, name, tensor.contiguous())
    return (
        batch.x, batch.target, batch.w, batch.bounds, problem.total.numpy(),
        problem.squares.numpy(), problem.prior.contiguous().numpy(),
        float(problem.penalty), float(problem.min_weight), state.theta.numpy(),
        state.sign.numpy(), state.value.numpy(), state.gram.numpy(),
        state.n_iter.numpy(),
    )  # fmt: skip


@njit(**FLAGS)
def _penalties(theta, prior, penalty):
    total = 0.0
    for j in range(theta.shape[1] - 1):
        total += (theta[0, j] - prior[j]) ** 2 + (theta[1, j] - prior[j]) ** 2
    return penalty * total


@njit(**FLAGS)
def _short(left, whole, min_weight):
    return min(left, whole - left) < min_weight * (1 - 1e-9)


@njit(**FLAGS)
def _evaluate(x, target, w, first, last, theta, sign, side, new_side, gram, work):
    """Sum of squares of one hinge; its left side and the products of that.

    `gram` comes in as the products of the rows where `side` is 1 and goes out as
    those where `new_side` is: only rows that change side cost more than a line.
    """
    scaled = work[3]
    extra = target.reshape(1, len(target))
    total = 0.0
    for start in range(first, last, TILE):
        stop = min(start + TILE, last)
        n = stop - start
        one, two, change = work[0, :n], work[1, :n], work[2, :n]
        old, new = side[start - first :][:n], new_side[start - first :][:n]
        weight, t = w[start:stop], target[start:stop]
        add_line(x, start, stop, theta[0], one)
        add_line(x, start, stop, theta[1], two)
        moved = 0.0
        for r in range(n):
            left = 1.0 if (one[r] - two[r]) * sign > 0 else 0.0
            error = left * one[r] + (1.0 - left) * two[r] - t[r]
            total += weight[r] * error * error
            change[r] = left - old[r]
            moved += abs(change[r])
            new[r] = left
        for r in range(n):
            change[r] *= weight[r]
        if moved * _FEW > n:
            add_products(x, extra, change, start, stop, scaled, gram)
        elif moved > 0:
            _add_rows(x, target, change, start, n, scaled, gram)
    mirror(gram)
    return total


@njit(**FLAGS)
def _add_rows(x, target, weight, start, n, row, gram):
    """Add the products of the rows whose weight is not zero, one by one."""
    p = x.shape[0]
    for r in range(n):
        if weight[r] != 0.0:
            for a in range(p):
                row[a] = x[a, start + r]
            for a in range(p):
                u = weight[r] * row[a]
                line = gram[a]
                for b in range(a, p):
                    line[b] += u * row[b]
                line[p] += u * target[start + r]


@njit(**FLAGS)
def _objective(
    x,
    target,
    w,
    first,
    last,
    total,
    prior,
    penalty,
    min_weight,
    theta,
    sign,
    side,
    new_side,
    gram,
    work,
):
    value = _evaluate(
        x, target, w, first, last, theta, sign, side, new_side, gram, work
    )
    p = x.shape[0]
    if _short(gram[p - 1, p - 1], total[p - 1, p - 1], min_weight):
        return np.inf
    return value + _penalties(theta, prior, penalty)


@njit(**FLAGS)
def _sides(x, first, last, theta, sign, side, work):
    """Mark the rows on the left of a hinge with 1."""
    for start in range(first, last, TILE):
        stop = min(start + TILE, last)
        one, two = work[0, : stop - start], work[1, : stop - start]
        add_line(x, start, stop, theta[0], one)
        add_line(x, start, stop, theta[1], two)
        for r in range(stop - start):
            side[start - first + r] = 1.0 if (one[r] - two[r]) * sign > 0 else 0.0


@njit(**FLAGS)
def _evaluate_all(
    x,
    target,
    w,
    bounds,
    total,
    prior,
    penalty,
    min_weight,
    theta,
    sign,
    active,
    value,
    gram,
):
    work = np.empty((4, max(TILE, x.shape[0])))  # a tile of rows, or one row
    longest = _longest(bounds)
    none, side = np.zeros(longest), np.empty(longest)
    for i in range(len(bounds) - 1):
        for h in range(sign.shape[1]):
            if active[i, h]:
                gram[i, h] = 0.0
                value[i, h] = _objective(
                    x,
                    target,
                    w,
                    bounds[i],
                    bounds[i + 1],
                    total[i],
                    prior[i],
                    penalty,
                    min_weight,
                    theta[i, h],
                    sign[i, h],
                    none,
                    side,
                    gram[i, h],
                    work,
                )


@njit(**FLAGS)
def _longest(bounds):
    longest = 0
    for i in range(len(bounds) - 1):
        longest = max(longest, bounds[i + 1] - bounds[i])
    return longest


@njit(**FLAGS)
def _line_search(
    x,
    target,
    w,
    first,
    last,
    total,
    prior,
    penalty,
    min_weight,
    theta,
    delta,
    sign,
    value,
    slope,
    work,
):
    """Largest step of the ladder that passes the Armijo rule, 0 where none does."""
    sums = np.zeros(_N_STEPS)
    lefts = np.zeros(_N_STEPS)
    p = x.shape[0]
    for start in range(first, last, TILE):
        stop = min(start + TILE, last)
        n = stop - start
        one, two, d_one, d_two = work[0, :n], work[1, :n], work[2, :n], work[3, :n]
        weight, t = w[start:stop], target[start:stop]
        add_line(x, start, stop, theta[0], one)
        add_line(x, start, stop, theta[1], two)
        add_line(x, start, stop, delta[0], d_one)
        add_line(x, start, stop, delta[1], d_two)
        mu = 1.0
        for m in range(_N_STEPS):
            mu *= 0.5
            squares = lefts_weight = 0.0
            for r in range(n):
                a = one[r] + mu * d_one[r]
                b = two[r] + mu * d_two[r]
                left = 1.0 if (a - b) * sign > 0 else 0.0
                error = left * a + (1.0 - left) * b - t[r]
                squares += weight[r] * error * error
                lefts_weight += weight[r] * left
            sums[m] += squares
            lefts[m] += lefts_weight
    mu = 1.0
    trial = np.empty((2, p))
    for m in range(_N_STEPS):
        mu *= 0.5
        for s in range(2):
            for j in range(p):
                trial[s, j] = theta[s, j] + mu * delta[s, j]
        reached = sums[m] + _penalties(trial, prior, penalty)
        if (
            reached <= value - 2e-4 * mu * slope
            and reached < value
            and not _short(lefts[m], total[p - 1, p - 1], min_weight)
        ):
            return mu
    return 0.0


@njit(**FLAGS)
def _direction(total, gram, prior, penalty, theta, delta, sides, lower, vectors):
    """Newton direction into `delta`; returns its slope."""
    p = theta.shape[1]
    sides[0] = gram
    subtract(total, gram, sides[1])
    slope = 0.0
    for s in range(2):
        solve_side(sides[s], penalty, prior, lower, vectors[0], vectors[1], delta[s])
        for j in range(p):
            delta[s, j] -= theta[s, j]
        for a in range(p):
            line = 0.0
            for b in range(p):
                line += sides[s, a, b] * delta[s, b]
            slope += delta[s, a] * line
            if a < p - 1:
                slope += penalty * delta[s, a] ** 2
    return slope


@njit(**FLAGS)
def _newton(
    x,
    target,
    w,
    bounds,
    total,
    squares,
    prior,
    penalty,
    min_weight,
    theta,
    sign,
    value,
    gram,
    n_iter,
    step,
    fixed,
    max_iter,
    tol,
):
    p = x.shape[0]
    work = np.empty((4, max(TILE, x.shape[0])))  # a tile of rows, or one row
    lower, vectors = np.empty((p, p)), np.empty((2, p))
    sides, new_gram = np.empty((2, p, p + 1)), np.empty((p, p + 1))
    delta, trial, current = np.empty((2, p)), np.empty((2, p)), np.empty((2, p))
    current_gram = np.empty((p, p + 1))
    longest = _longest(bounds)
    side, new_side = np.empty(longest), np.empty(longest)
    for i in range(len(bounds) - 1):
        first, last = bounds[i], bounds[i + 1]
        for h in range(sign.shape[1]):
            if not np.isfinite(value[i, h]):
                continue
            current[:] = theta[i, h]
            current_gram[:] = gram[i, h]
            _sides(x, first, last, current, sign[i, h], side, work)
            for _ in range(max_iter):
                slope = _direction(
                    total[i],
                    current_gram,
                    prior[i],
                    penalty,
                    current,
                    delta,
                    sides,
                    lower,
                    vectors,
                )
                if not slope > 1e-14 * squares[i]:
                    break
                before = value[i, h]
                mu = step
                trial[:] = current + mu * delta
                new_gram[:] = current_gram
                reached = _objective(
                    x,
                    target,
                    w,
                    first,
                    last,
                    total[i],
                    prior[i],
                    penalty,
                    min_weight,
                    trial,
                    sign[i, h],
                    side,
                    new_side,
                    new_gram,
                    work,
                )
                if not fixed and not (
                    reached <= before - 2e-4 * slope and reached < before
                ):
                    mu = _line_search(
                        x,
                        target,
                        w,
                        first,
                        last,
                        total[i],
                        prior[i],
                        penalty,
                        min_weight,
                        current,
                        delta,
                        sign[i, h],
                        before,
                        slope,
                        work,
                    )
                    if mu == 0.0:
                        break
                    trial[:] = current + mu * delta
                    new_gram[:] = current_gram
                    reached = _objective(
                        x,
                        target,
                        w,
                        first,
                        last,
                        total[i],
                        prior[i],
                        penalty,
                        min_weight,
                        trial,
                        sign[i, h],
                        side,
                        new_side,
                        new_gram,
                        work,
                    )
                    if not reached < before:
                        break
                if not np.isfinite(reached):
                    break
                side, new_side = new_side, side
                current[:] = trial
                current_gram[:] = new_gram
                n_iter[i, h] += 1
                if reached < before:
                    value[i, h] = reached
                    theta[i, h] = trial
                    gram[i, h] = new_gram
                if fixed:
                    if np.abs(step * delta).max() <= 1e-6:
                        break
                elif before - reached <= tol * before:
                    break
