"""The Newton search of a node, against plain numpy and finite differences."""

import numpy as np
import pytest
import torch
from hrt_samples import (
    KERNELS,
    friedman,
    hinge_at,
    node_problem,
    part,
    pwl,
    rows_of,
)

from sklearn_ext.tree import HRTRegressor, _hinge, _newton_numba
from sklearn_ext.tree._prune import Products

STEPS = [0.5**j for j in range(11)]
each_kernel = pytest.mark.parametrize("kernel", KERNELS)


def newton(kernel, problem, state, **options):
    module = _hinge if kernel == "torch" else _newton_numba
    return module.newton(problem, state, **{"tol": 0.0, "max_iter": 1, **options})


class Node:
    """One node and its objective V, written down as the specification does.

    The two models of the hinge are those in the data's own terms; the library's
    are what is added to the node's own model.
    """

    def __init__(self, seed, alpha, shrinkage=0.0, n=300, d=3, noise=0.3):
        rng = np.random.default_rng(seed)
        self.rng, self.alpha, self.shrinkage = rng, alpha, shrinkage
        self.truth = rng.normal(size=(2, d + 1))
        self.sign = rng.choice([-1, 1])
        X = rng.normal(size=(n, d))
        self.theta = self.truth + 0.3 * rng.normal(size=self.truth.shape)
        Z = np.column_stack([X, np.ones(n)])
        clear = np.abs(Z @ (self.theta[0] - self.theta[1])) > 1e-3
        self.Z, n = Z[clear], clear.sum()
        self.w = rng.uniform(0.2, 3.0, n)
        self.y = self.hinge(self.truth) + noise * rng.normal(size=n)
        self.own = rng.normal(size=d + 1) if shrinkage else np.zeros(d + 1)
        self.slopes = np.append(np.ones(d), 0.0)

    def hinge(self, theta):
        return (np.max if self.sign > 0 else np.min)(self.Z @ theta.T, axis=1)

    def value(self, theta):
        error = self.y - self.hinge(theta)
        size = (self.slopes * theta**2).sum()
        distance = (self.slopes * (theta - self.own) ** 2).sum()
        return 0.5 * (self.w @ error**2 + self.alpha * size + self.shrinkage * distance)

    def sides(self, theta):
        left = (self.Z @ (theta[0] - theta[1])) * self.sign > 0
        return left, ~left

    def gradient(self, theta):
        out = []
        for side, t in zip(self.sides(theta), theta, strict=True):
            Z, w, y = self.Z[side], self.w[side], self.y[side]
            pull = self.alpha * t + self.shrinkage * (t - self.own)
            out.append(-Z.T @ (w * (y - Z @ t)) + self.slopes * pull)
        return np.array(out)

    def hessians(self, theta):
        load = np.diag((self.alpha + self.shrinkage) * self.slopes)
        return np.array(
            [
                (self.Z[side] * self.w[side, None]).T @ self.Z[side] + load
                for side in self.sides(theta)
            ]
        )

    def least_squares(self, theta):
        """Penalised least squares on each side, by QR of the stacked rows."""
        d = len(self.own) - 1
        out = []
        for side in self.sides(theta):
            root = np.sqrt(self.w[side])
            eye = np.eye(d, d + 1)
            rows = [self.Z[side] * root[:, None], np.sqrt(self.alpha) * eye]
            goal = [self.y[side] * root, np.zeros(d)]
            rows.append(np.sqrt(self.shrinkage) * eye)
            goal.append(np.sqrt(self.shrinkage) * self.own[:d])
            out.append(np.linalg.lstsq(np.vstack(rows), np.concatenate(goal))[0])
        return np.array(out)

    def problem(self, kernel, least=1):
        return node_problem(
            self.Z[:, :-1],
            self.y,
            self.w,
            kernel,
            alpha=self.alpha,
            shrinkage=self.shrinkage,
            own=self.own,
            least=least,
        )

    def start(self, problem, theta):
        return hinge_at(problem, [theta - self.own], [self.sign])

    def models(self, state):
        """The hinge of a state, in the data's own terms."""
        return state.theta[0, 0].numpy() + self.own


def finite_differences(function, theta, h=1e-4):
    out = np.empty_like(theta)
    for index in np.ndindex(theta.shape):
        step = np.zeros_like(theta)
        step[index] = h
        out[index] = (function(theta + step) - function(theta - step)) / (2 * h)
    return out


@each_kernel
@pytest.mark.parametrize("mu", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("shrinkage", [0.0, 2.0])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_step_is_the_damped_newton_step(kernel, alpha, shrinkage, mu):
    for seed in range(5):
        node = Node(seed, alpha, shrinkage)
        theta = node.theta
        slope = finite_differences(node.value, theta)
        np.testing.assert_allclose(
            slope, node.gradient(theta), rtol=1e-6, atol=1e-6 * np.abs(slope).max()
        )
        move = np.linalg.solve(node.hessians(theta), slope[..., None])[..., 0]
        expected = (1 - mu) * theta + mu * node.least_squares(theta)
        np.testing.assert_allclose(theta - mu * move, expected, rtol=0, atol=1e-8)
        problem = node.problem(kernel)
        state = newton(kernel, problem, node.start(problem, theta), step=mu)
        assert int(state.n_iter) == 1
        np.testing.assert_allclose(node.models(state), expected, rtol=0, atol=1e-8)


@each_kernel
@pytest.mark.parametrize("shrinkage", [0.0, 2.0])
def test_the_objective_is_that_of_the_paper(kernel, shrinkage):
    node = Node(0, 1.0, shrinkage)
    problem = node.problem(kernel)
    thetas = [node.theta, node.truth, node.rng.normal(size=node.theta.shape)]
    values = [float(node.start(problem, theta).value) for theta in thetas]
    expected = [2 * node.value(theta) for theta in thetas]
    # The library leaves out what does not depend on the hinge.
    np.testing.assert_allclose(np.diff(values), np.diff(expected), rtol=1e-9)
    if not shrinkage:
        np.testing.assert_allclose(values, expected, rtol=1e-12)


def longest_step(node, theta, least):
    """The first of 1, 1/2, 1/4, ... that passes Armijo's rule; 0 if none does."""
    delta = node.least_squares(theta) - theta
    fall = sum(d @ H @ d for d, H in zip(delta, node.hessians(theta), strict=True))
    for mu in STEPS:
        trial = theta + mu * delta
        short = min(node.w[side].sum() for side in node.sides(trial)) < least
        if not short and node.value(trial) <= node.value(theta) - 1e-4 * mu * fall:
            return mu, trial
    return 0.0, theta


@each_kernel
@pytest.mark.parametrize("least", [1, 35])
def test_backtracking_takes_the_longest_step_that_lowers_enough(kernel, least):
    taken = []
    for seed in range(60):
        node = Node(seed, 1.0, n=80, noise=2.0)
        theta = 2 * node.rng.normal(size=node.theta.shape)
        if min(node.w[side].sum() for side in node.sides(theta)) < least:
            continue
        mu, expected = longest_step(node, theta, least)
        problem = node.problem(kernel, least)
        start = node.start(problem, theta)
        state = newton(kernel, problem, start, step="backtracking")
        np.testing.assert_allclose(node.models(state), expected, rtol=0, atol=1e-8)
        assert int(state.n_iter) == (mu > 0)
        taken.append(mu)
    assert len(taken) >= 30
    assert {1.0, 0.5, 0.25} <= set(taken)


def true_value(problem, state, node, hinge):
    """The objective of one hinge of a state, row by row in numpy."""
    x, target, w = rows_of(problem, node)
    theta = state.theta[node, hinge].numpy()
    envelope = np.max if state.sign[node, hinge] > 0 else np.min
    error = target - envelope(x @ theta.T, axis=1)
    pull = theta[:, :-1] - problem.prior[node, :-1].numpy()
    return w @ error**2 + problem.penalty * np.sum(pull**2)


EIGHT = (
    "friedman1",
    "friedman2",
    "friedman3",
    "sinc",
    "pwl",
    "airfoil",
    "concrete",
    "diabetes",
)


@each_kernel
@pytest.mark.parametrize("name", EIGHT)
def test_the_objective_never_rises_in_any_node(name, kernel, monkeypatch):
    module = _hinge if kernel == "torch" else _newton_numba
    original, seen = module.newton, []

    def watched(problem, state, *, max_iter, **options):
        for _ in range(max_iter):
            before = state.value.numpy().copy()
            state = original(problem, state, max_iter=1, **options)
            after = state.value.numpy()
            live = np.isfinite(before)
            assert (after[live] <= before[live] * (1 + 1e-12)).all()
            moved = live & (after < before)
            seen.append(moved.sum())
            if not moved.any():
                break
        for node, hinge in np.argwhere(np.isfinite(after)):
            truth = true_value(problem, state, node, hinge)
            squares = float(problem.squares[node])
            assert abs(after[node, hinge] - truth) <= 1e-9 * (truth + squares)
        return state

    monkeypatch.setattr(module, "newton", watched)
    X, y = part(name, 250)
    options = {"kernel": kernel, "pruning": None, "max_leaf_nodes": 12}
    assert HRTRegressor(**options).fit(X, y).n_leaves_ > 4
    assert sum(seen) > 100


@each_kernel
@pytest.mark.parametrize("mu", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("data", [pwl, friedman], ids=["pwl", "friedman1"])
def test_a_fixed_step_never_ends_above_its_start(data, mu, kernel):
    X, y = data(n_rows=1000)
    rng = np.random.default_rng(0)
    X, y = (X - X.mean(0)) / X.std(0), (y - y.mean()) / y.std()
    Z, w = np.column_stack([X, np.ones(len(X))]), rng.uniform(0.5, 2, len(X))
    problem = node_problem(X, y, w, kernel, alpha=1.0, least=10)
    thetas, signs = [], []
    for _ in range(6):  # cut anywhere, fit either side
        direction = Z @ rng.normal(size=Z.shape[1])
        left = direction > np.quantile(direction, rng.uniform(0.3, 0.7))
        fits = [np.linalg.lstsq(Z[s], y[s])[0] for s in (left, ~left)]
        thetas += [fits, fits]
        signs += [1, -1]
    start = hinge_at(problem, thetas, signs)
    first = start.value.numpy().copy()
    live = np.isfinite(first)
    assert live.sum() >= 6
    options = {"step": mu, "max_iter": 200}
    state = newton(kernel, problem, start, **options)
    value = state.value.numpy()
    assert (value <= first).all()
    assert (value[live] < 0.999 * first[live]).any()
    assert state.n_iter.max() > 20
    for hinge in np.flatnonzero(live[0]):
        truth = true_value(problem, state, 0, hinge)
        np.testing.assert_allclose(value[0, hinge], truth, rtol=1e-9)
    if kernel == "torch":  # the only one that tells of every round
        trace = []
        state = newton(kernel, problem, start, trace=trace, **options)
        trace = np.array([t[0].numpy() for t in trace])[:, live[0]]
        if mu == 1.0:
            assert (np.diff(trace, axis=0) > 0).any()
        np.testing.assert_array_equal(state.value.numpy()[live], trace.min(axis=0))


@each_kernel
def test_every_start_that_leaves_a_side_short_is_dropped(kernel):
    node = Node(0, 1.0)
    lighter = min(node.w[side].sum() for side in node.sides(node.theta))
    problem = node.problem(kernel, least=0.9 * lighter)
    far = node.theta.copy()
    far[0, -1] += 100.0  # all rows on one side
    state = hinge_at(problem, [node.theta, far], [1, 1])
    assert np.isinf(float(state.value[0, 1]))
    after = newton(kernel, problem, state, step="backtracking", max_iter=20)
    assert np.isinf(float(after.value[0, 1]))
    assert np.isfinite(float(after.value[0, 0]))
    assert after.n_iter[0, 1] == 0


def random_products(seed, k=2):
    """A root with two children and a grandchild pair, as rows and as products."""
    rng = np.random.default_rng(seed)
    Z = np.column_stack([rng.normal(size=(60, 2)), np.ones(60)])
    Y, w = rng.normal(size=(60, k)), rng.uniform(0.5, 2, 60)
    every = np.arange(60)
    rows = [every, every[:25], every[25:], every[:10], every[10:25]]
    both = np.hstack([Z, Y])
    gram = np.stack([(Z[r] * w[r, None]).T @ both[r] for r in rows])
    squares = np.stack([w[r] @ Y[r] ** 2 for r in rows])
    left, right = np.array([1, 3, -1, -1, -1]), np.array([2, 4, -1, -1, -1])
    products = Products(left, right, torch.tensor(gram), torch.tensor(squares))
    return products, Z, Y, w, rows, [-1, 0, 0, 1, 1]


@pytest.mark.parametrize("shrinkage", [0.0, 3.0])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_leaf_models_minimise_the_shrunken_sum_of_squares(alpha, shrinkage):
    products, Z, Y, w, rows, parent = random_products(0)
    theta = products.fit(alpha, shrinkage).numpy()
    sse = products.sse(products.fit(alpha, shrinkage)).numpy()
    for i, r in enumerate(rows):
        pull = 0.0 if i == 0 else shrinkage
        above = theta[parent[i]] if i else np.zeros_like(theta[0])
        eye = np.eye(2, 3)
        stacked = np.vstack(
            [Z[r] * np.sqrt(w[r, None]), np.sqrt(alpha) * eye, np.sqrt(pull) * eye]
        )
        goal = np.vstack(
            [
                Y[r] * np.sqrt(w[r, None]),
                np.zeros((2, Y.shape[1])),
                np.sqrt(pull) * above[:2],
            ]
        )
        expected = np.linalg.lstsq(stacked, goal)[0]
        np.testing.assert_allclose(theta[i], expected, rtol=0, atol=1e-9)
        error = w[r] @ (Y[r] - Z[r] @ expected) ** 2
        np.testing.assert_allclose(sse[i], error, rtol=1e-9)
