"""The best split of every node in a batch: hinge and axis-aligned candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from . import _axis, _hinge
from ._blocks import BlockBatch
from ._hinge import HingeProblem
from ._solve import quadratic, ridge, slope_penalty

MAX, MIN, AXIS = 1, 2, 3

# Starts are compared on at most this many rows of a node, after so many rounds; the
# best of them then runs to its end.
_SCREEN_ROWS = 2048
_SCREEN_ROUNDS = 1
# Axis-aligned cuts are first looked for on this many rows, which lie close enough.
_SCAN_ROWS = 8192
_REACH = 8
_POLISH_ROUNDS = 4
_TIE = 1e-11


@dataclass(frozen=True)
class SearchOptions:
    """What the split search needs to know of the estimator's parameters."""

    axis: bool
    penalty: float
    alpha: float
    min_weight: float
    step: str | float
    max_iter: int
    tol: float
    n_starts: int
    n_bins: int
    max_axis_features: int
    subsample: int | None
    kernel: str = "numba"
    rng: np.random.RandomState | None = None

    @property
    def alpha_share(self):
        """Share of the penalty that pulls slopes to zero, not to the parent's."""
        return self.alpha / self.penalty if self.penalty > 0 else 0.0


@dataclass
class Splits:
    """One split per node; `gain` is -inf where there is none."""

    gain: torch.Tensor  # (N,)
    plane: torch.Tensor  # (N, p) in standardised columns, left where plane @ x > 0
    kind: torch.Tensor  # (N,)
    feature: torch.Tensor  # (N,) of axis cuts
    code: torch.Tensor  # (N,) rows with a code up to this one go left
    n_iter: torch.Tensor  # (N,)
    left: torch.Tensor  # (N, p, p + k) left [X'WX, X'WR], R the node's residuals
    left_squares: torch.Tensor  # (N, k) left weighted sums of squares of R


@dataclass(frozen=True)
class _Kernel:
    """The three parts of the search that exist twice."""

    batch: type
    axis_cuts: Callable
    sharpen: Callable
    newton: Callable


def _kernel(name):
    if name == "torch":
        return _Kernel(BlockBatch, _axis.axis_cuts, _axis.sharpen, _hinge.newton)
    # Imported on first use: numba takes half a second to import.
    from . import _axis_numba, _newton_numba, _rows_numba

    return _Kernel(
        _rows_numba.RowBatch,
        _axis_numba.axis_cuts,
        _axis_numba.sharpen,
        _newton_numba.newton,
    )


def _sample(rows, sizes, cap, rng):
    """At most `cap` rows of each node, one from each of equal parts of its rows.

    The first of each part, or a random one if there is an `rng`.
    """
    starts = np.cumsum(sizes) - sizes
    kept = np.minimum(sizes, cap)
    picks = []
    for start, n, k in zip(starts, sizes, kept, strict=True):
        place = np.arange(k) + (0.0 if rng is None or n == k else rng.random_sample(k))
        picks.append(start + (place * (n / k)).astype(np.int64))
    index = torch.as_tensor(np.concatenate(picks), device=rows.device)
    return rows[index], kept


def _directions(batch):
    """Direction (N, k) of the outputs along which the residuals are largest."""
    cross = batch.residual_cross()
    if batch.k == 1:
        return torch.ones_like(cross[..., 0])
    return torch.linalg.eigh(cross).eigenvectors[..., -1].contiguous()


def _problem(table, rows, sizes, theta, options, direction=None):
    """Build the hinge problem of the nodes on these rows."""
    batch = _kernel(options.kernel).batch(table, rows, sizes, theta)
    if direction is None:
        direction = _directions(batch)
    total, squares = batch.project(direction)
    own = (theta @ direction[..., None])[..., 0]
    prior = -options.alpha_share * own
    problem = HingeProblem(
        batch, total, squares, options.penalty, prior, options.min_weight, direction
    )
    return problem, direction


def _moments(problem):
    """Means (N, d), scatter (N, d, d) and weight (N,) of the columns of each node."""
    gram = problem.total[..., :-1]
    weight = gram[:, -1, -1]
    mean = gram[:, :-1, -1] / weight[:, None]
    outer = mean[:, :, None] * mean[:, None, :]
    return mean, gram[:, :-1, :-1] - weight[:, None, None] * outer, weight


def _promise(sums, scatter, weight):
    """Correlation of the residual with |x - mean| and with 1[x > mean], (N, d) each."""
    kink, jump, distance, above = sums.unbind(1)
    n = weight[:, None]
    spread = scatter.diagonal(dim1=1, dim2=2) - distance.square() / n
    kink = kink.abs() / spread.clamp_min(1e-9 * n).sqrt()
    spread = above * (n - above) / n
    jump = torch.where(spread > 0, jump.abs() / spread.clamp_min(1e-9).sqrt(), 0.0)
    return kink, jump


def _hessian_direction(hessian, scatter):
    """Leading principal Hessian direction (N, d) in the columns' own units."""
    d = scatter.shape[1]
    diagonal = scatter.diagonal(dim1=1, dim2=2)
    load = 1e-6 * diagonal.mean(-1) + 1e-12
    eye = torch.eye(d, dtype=scatter.dtype, device=scatter.device)
    factor, info = torch.linalg.cholesky_ex(scatter + load[:, None, None] * eye)
    factor = torch.where((info > 0)[:, None, None], eye, factor)
    half = torch.linalg.solve_triangular(factor, hessian, upper=False)
    white = torch.linalg.solve_triangular(factor, half.mT, upper=False)
    values, vectors = torch.linalg.eigh(0.5 * (white + white.mT))
    top = values.abs().argmax(-1)
    leading = vectors.gather(2, top[:, None, None].expand(-1, d, 1))
    return torch.linalg.solve_triangular(factor.mT, leading, upper=True)[..., 0]


def _start_planes(mean, kink, direction):
    """Cut (N, 2, p) the column of the strongest kink, and along `direction`."""
    column = kink.argmax(1, keepdim=True)
    by_kink = torch.zeros_like(mean).scatter_(1, column, 1.0)
    slopes = torch.stack([by_kink, direction], dim=1)
    intercept = -(slopes @ mean[..., None])
    return torch.cat([slopes, intercept], dim=2)


def find_splits(table, rows, sizes, theta, products, options):
    """Find the best split of each node.

    Parameters
    ----------
    table : Table
    rows : Tensor of int64
        Row numbers, node after node.
    sizes : ndarray (N,)
    theta : Tensor (N, p, k)
        The nodes' linear models in standardised columns.
    products : Tensor (N, p, p + k)
        Products [X'WX, X'WR] of all rows of a node, R being its residuals.
    options : SearchOptions

    Returns
    -------
    Splits
    """
    full, direction = _problem(table, rows, sizes, theta, options)

    def capped(cap, whole):
        if cap is None or sizes.max() <= cap:
            return whole
        some, kept = _sample(rows, sizes, cap, options.rng)
        return _problem(table, some, kept, theta, options, direction)[0]

    problem = capped(options.subsample, full)
    scan = problem
    if options.subsample is None or options.subsample > _SCAN_ROWS:
        scan = capped(_SCAN_ROWS, problem)
    mean, scatter, weight = _moments(scan)
    sums, hessian = scan.batch.scores(mean)
    kink, jump = _promise(sums, scatter, weight)
    feature = code = torch.zeros(len(sizes), 0, dtype=torch.int64, device=theta.device)
    if options.axis:
        order = torch.maximum(kink, jump).argsort(dim=1, descending=True, stable=True)
        columns = order[:, : options.max_axis_features].contiguous()
        cuts = _axis_cuts(scan, full, columns, options)
        feature, code = cuts.feature, cuts.code
    planes = _start_planes(mean, kink, _hessian_direction(hessian, scatter))
    starts = (planes, feature, code)
    state = _search_hinge(capped, problem, full, direction, starts, options)
    best = (feature[:, :1], code[:, :1])
    return _choose(full, theta, products, state, best, options)


def _axis_cuts(scan, full, columns, options):
    """Find cuts on the rows of `scan`; put the best in its place among all rows."""
    kernel = _kernel(options.kernel)
    cuts = kernel.axis_cuts(scan, columns, options.n_bins, max(options.n_starts, 1))
    if scan is not full:
        # The rows of a sample lie some `gap` codes apart; the best cut of all rows is
        # a few of them away at most.
        gap = -(-len(full.batch.table.x) // _SCAN_ROWS)
        best = kernel.sharpen(full, cuts, _REACH * gap)
        cuts.code = torch.cat([best.code, cuts.code[:, 1:]], dim=1)
    return cuts


def _search_hinge(capped, problem, full, direction, starts, options):
    """Compare all starts on a sample of the rows; finish the best on all of them."""
    screen = capped(_SCREEN_ROWS, problem)
    left = screen.batch.left_products(*starts)[0]
    p = screen.batch.p
    scalar = left[..., p:] @ direction[:, None, :, None]
    state = _hinge.start(screen, torch.cat([left[..., :p], scalar], dim=-1))
    newton = _kernel(options.kernel).newton
    run = {"step": options.step, "tol": options.tol}
    state = newton(screen, state, max_iter=_SCREEN_ROUNDS, **run)
    state = newton(screen, state.best(1), max_iter=options.max_iter, **run)
    stages = [problem] if problem is not screen else []
    stages += [full] if full is not problem else []
    for stage in stages:
        rounds = options.max_iter if stage is problem else _POLISH_ROUNDS
        every = torch.ones_like(state.value) > 0
        state.value, state.gram = stage.evaluate(state.theta, state.sign, every)
        state = newton(stage, state, max_iter=rounds, **run)
    return state


def _choose(problem, theta, products, state, cuts, options):
    """Take the hinge or the axis cut, by refit cost over all outputs."""
    hinge = state.theta[:, :, 0] - state.theta[:, :, 1]
    planes = hinge * state.sign[..., None]
    feature, code = cuts
    left, squares = problem.batch.left_products(planes, feature, code)
    p = left.shape[2]
    total = products[:, None]
    sides = torch.stack([left, total - left, total.expand_as(left)], dim=2)
    g, b = sides[..., :p], sides[..., p:]
    prior = -options.alpha_share * theta[:, None, None]
    fit = ridge(g, b, problem.penalty, prior)
    cost = quadratic(g, b, fit) + slope_penalty(fit, problem.penalty, prior)
    cost = cost.sum(-1)
    short = problem.short(left[..., p - 1, p - 1])
    split = torch.where(short, torch.inf, cost[:, :, :2].sum(-1))
    # Of a hinge and a cut that separate the same rows it is the hinge, not rounding's
    # choice.
    split[:, 1:] += _TIE * problem.squares[:, None]
    best, pick = split.min(1)
    kind = torch.where(state.sign[:, 0] > 0, MAX, MIN)
    column, cut_code = torch.zeros_like(kind), torch.full_like(kind, -1)
    if feature.shape[1]:
        is_axis = pick == 1
        kind = torch.where(is_axis, AXIS, kind)
        column = torch.where(is_axis, feature[:, 0], column)
        cut_code = torch.where(is_axis, code[:, 0], cut_code)
    node = torch.arange(len(pick), device=pick.device)
    return Splits(
        gain=torch.where(best.isfinite(), cost[:, 0, 2] - best, -torch.inf),
        plane=planes[:, 0],
        kind=kind,
        feature=column,
        code=cut_code,
        n_iter=state.n_iter[:, 0],
        left=left[node, pick],
        left_squares=squares[node, pick],
    )
