"""Passes over the rows of many tree nodes, as batched tensor calls (CPU or GPU).

`BlockBatch` and its compiled twin `RowBatch` (`_rows_numba.py`) offer the same
methods; the search is written against them and does not know which one it has.
"""

from __future__ import annotations

import torch

_BLOCK_SIZES = (2048, 1024, 512, 256, 128, 64, 32)
_MAX_PADDING = 1.2
# Rows a pass works on at a time: on a CPU the temporaries of one chunk should stay
# in the cache, on a GPU a chunk should fill the device.
_CHUNK_ROWS = {"cpu": 4096, "cuda": 1 << 19}


def block_size(sizes):
    """Largest block length that pads the nodes' rows by at most a fifth."""
    total = max(int(sizes.sum()), 1)
    for length in _BLOCK_SIZES:
        padded = int((-(-sizes // length) * length).sum())
        if padded <= _MAX_PADDING * total:
            return length
    return _BLOCK_SIZES[-1]


def pair_slots(p):
    """Where the product of columns i and j lies in a packed row: (p, p + 1) slots.

    Column p is the target; the packed row holds all pairs i <= j but the last.
    """
    pairs = torch.triu_indices(p + 1, p + 1)[:, :-1]
    slot = torch.zeros(p + 1, p + 1, dtype=torch.int64)
    slot[pairs[0], pairs[1]] = torch.arange(pairs.shape[1])
    return torch.maximum(slot, slot.T)[:p]


class BlockBatch:
    """The rows of a batch of nodes, in equal blocks that belong to one node each.

    Parameters
    ----------
    table : Table
        The training table (columns, targets, weights, codes) on the device.
    rows : Tensor of int64
        Row numbers, the rows of one node after those of another.
    sizes : ndarray of int64, shape (n_nodes,)
        Rows per node.
    theta : Tensor (n_nodes, p, k)
        The nodes' linear models; the batch works on their residuals.
    """

    def __init__(self, table, rows, sizes, theta):
        device = table.x.device
        self.table = table
        self.n_nodes, self.p, self.k = theta.shape
        length = block_size(sizes)
        per_node = torch.as_tensor(-(-sizes // length), device=device)
        sizes = torch.as_tensor(sizes, device=device)
        self.node = torch.repeat_interleave(
            torch.arange(self.n_nodes, device=device), per_node
        )
        first_block = per_node.cumsum(0) - per_node
        first_row = sizes.cumsum(0) - sizes
        block = torch.arange(len(self.node), device=device)
        within = (block - first_block[self.node]) * length
        offset = within[:, None] + torch.arange(length, device=device)
        real = offset < sizes[self.node, None]
        # Padding repeats the first row with weight zero.
        offset = torch.where(real, first_row[self.node, None] + offset, 0)
        self.index = rows[offset]
        self.w = torch.where(real, table.w[self.index], 0.0)
        self.x = table.x[self.index].transpose(1, 2).contiguous()
        y = table.y[self.index].transpose(1, 2)
        self.residual = y - theta[self.node].transpose(1, 2) @ self.x

    def _new(self, *shape):
        return self.x.new_zeros(self.n_nodes, *shape)

    def _chunks(self, width, active=None):
        """Yield groups of blocks; `width`: doubles per row in hundreds."""
        step = _CHUNK_ROWS.get(self.x.device.type, 4096) / max(width, 1)
        step = max(1, int(step) // self.w.shape[1])
        blocks = torch.arange(len(self.node), device=self.node.device)
        if active is not None and not bool(active.all()):
            blocks = blocks[active.any(1)[self.node]]
        if active is None or len(blocks) == len(self.node):
            for start in range(0, len(self.node), step):
                yield slice(start, start + step)
        else:
            yield from blocks.split(step)

    def _add(self, out, chunk, values):
        out.index_add_(0, self.node[chunk], values)

    def residual_cross(self):
        """Products of the residuals of every pair of outputs, (N, k, k)."""
        out = self._new(self.k, self.k)
        weighted = self.residual * self.w[:, None]
        return out.index_add_(0, self.node, weighted @ self.residual.transpose(1, 2))

    def project(self, direction):
        """Set the scalar target; return its products (N, p, p + 1) and squares (N,)."""
        self.target = (direction[self.node, None, :] @ self.residual)[:, 0]
        self.columns = torch.cat([self.x, self.target[:, None]], dim=1)
        total, squares = self._new(self.p, self.p + 1), self._new()
        for chunk in self._chunks(0.2):
            weighted = self.x[chunk] * self.w[chunk, None]
            self._add(total, chunk, weighted @ self.columns[chunk].transpose(1, 2))
            square = self.target[chunk].square() * self.w[chunk]
            self._add(squares, chunk, square.sum(-1))
        return total, squares

    def scores(self, mean):
        """Sum |x - m| and 1[x > m] (N, 4, d); and the r-weighted scatter.

        The four rows: r |x - m|, r 1[x > m], |x - m|, 1[x > m], all weighted; the
        scatter (N, d, d) is of (x - m)(x - m)' r.
        """
        d = self.p - 1
        sums, hessian = self._new(4, d), self._new(d, d)
        for chunk in self._chunks(0.4):
            w = self.w[chunk, None]
            pull = w * self.target[chunk, None]
            centred = self.x[chunk, :-1] - mean[self.node[chunk], :, None]
            above = (centred > 0).to(centred.dtype)
            distance = centred.abs()
            pairs = ((distance, pull), (above, pull), (distance, w), (above, w))
            part = torch.stack([(a * b).sum(-1) for a, b in pairs], dim=1)
            self._add(sums, chunk, part)
            self._add(hessian, chunk, (centred * pull) @ centred.transpose(1, 2))
        return sums, hessian

    def evaluate(self, theta, sign, active):
        """Sum of squares (N, P) of hinges and products of their left side.

        theta (N, P, 2, p), sign (N, P); what comes back where `active` (N, P) is
        false has no meaning.
        """
        n_problems = theta.shape[1]
        flat = theta.transpose(1, 2).flatten(1, 2)
        value = self._new(n_problems)
        gram = self._new(n_problems, self.p, self.p + 1)
        for chunk in self._chunks(0.3 * n_problems, active):
            node, w = self.node[chunk], self.w[chunk, None]
            lines = flat[node] @ self.x[chunk]
            one, two = lines[:, :n_problems], lines[:, n_problems:]
            left = (one - two) * sign[node, :, None] > 0
            error = torch.where(left, one, two).sub_(self.target[chunk, None])
            self._add(value, chunk, (error.square_() @ w.transpose(1, 2))[..., 0])
            part = self._products(left * w, chunk, self.columns)
            self._add(gram, chunk, part)
        return value, gram

    def _products(self, weight, chunk, columns):
        """Products of x and `columns` under masks (b, M, length): (b, M, p, c)."""
        weighted = weight[:, :, None] * self.x[chunk][:, None]
        return weighted @ columns[chunk][:, None].transpose(-1, -2)

    def line(self, theta, delta, sign, steps, active):
        """Sum of squares and left weight (N, P, J) at theta + steps * delta."""
        n_problems = theta.shape[1]
        both = torch.stack([theta, delta], 1).transpose(2, 3).flatten(1, 3)
        value = self._new(n_problems, len(steps))
        weight = self._new(n_problems, len(steps))
        for chunk in self._chunks(0.6 * n_problems, active):
            node, w = self.node[chunk], self.w[chunk, None]
            lines = (both[node] @ self.x[chunk]).unflatten(1, (4, n_problems))
            one, two, d_one, d_two = lines.unbind(1)
            e, target = sign[node, :, None], self.target[chunk, None]
            values, weights = [], []
            for mu in steps:
                a, b = one + mu * d_one, two + mu * d_two
                left = (a - b) * e > 0
                error = torch.where(left, a, b).sub_(target)
                values.append((error.square_() * w).sum(-1))
                weights.append((left * w).sum(-1))
            self._add(value, chunk, torch.stack(values, -1))
            self._add(weight, chunk, torch.stack(weights, -1))
        return value, weight

    def left_products(self, planes, feature, code):
        """Products of the left sides of given splits, with all outputs.

        Splits are planes (N, H, p), left where positive, then cuts (N, f), left
        where the code is at most `code`. Returns [X'WX, X'WR] (N, H + f, p, p + k)
        and the squares of R (N, H + f, k).
        """
        n_splits = planes.shape[1] + feature.shape[1]
        out = self._new(n_splits, self.p, self.p + self.k)
        squares = self._new(n_splits, self.k)
        both = torch.cat([self.x, self.residual], dim=1)
        for chunk in self._chunks(0.2 * n_splits):
            x, w, residual = self.x[chunk], self.w[chunk, None], self.residual[chunk]
            masks = [planes[self.node[chunk]] @ x > 0]
            if feature.shape[1]:
                codes = self._codes(chunk, feature)
                masks.append(codes <= code[self.node[chunk], :, None])
            weight = torch.cat(masks, dim=1) * w
            self._add(out, chunk, self._products(weight, chunk, both))
            self._add(squares, chunk, weight @ residual.square().transpose(1, 2))
        return out, squares

    def _codes(self, chunk, feature):
        """Codes (b, f, length) of each node's own candidate columns."""
        codes = self.table.codes[self.index[chunk]]
        index = feature[self.node[chunk], None, :].expand(-1, codes.shape[1], -1)
        return codes.gather(2, index).transpose(1, 2)

    def code_range(self, feature):
        """Least and greatest code (N, f) among the rows of each node."""
        shape = (self.n_nodes, feature.shape[1])
        low = torch.full(shape, 2**31 - 1, device=feature.device)
        high = torch.full(shape, -1, device=feature.device)
        for chunk in self._chunks(1):
            codes = self._codes(chunk, feature).long()
            real = self.w[chunk, None] > 0
            node = self.node[chunk, None].expand(-1, shape[1])
            least = torch.where(real, codes, 2**31 - 1).amin(-1)
            low.scatter_reduce_(0, node, least, "amin")
            most = torch.where(real, codes, -1).amax(-1)
            high.scatter_reduce_(0, node, most, "amax")
        return low, high

    def _slices(self, chunk, feature, low, shift, n_slices):
        """Which of n_slices parts, 2**shift codes wide from `low`, a code lies in.

        Codes below lie in the first, codes above get the number n_slices.
        """
        node = self.node[chunk]
        offset = self._codes(chunk, feature).long() - low[node, :, None]
        return (offset >> shift[node, :, None]).clamp_(0, n_slices)

    def histogram(self, feature, low, shift, n_slices):
        """Weight (N, f, n_slices) of the parts of each column's code range."""
        n_features = feature.shape[1]
        hist = self._new(n_features * (n_slices + 1))
        column = torch.arange(n_features, device=feature.device)[:, None]
        for chunk in self._chunks(1):
            cell = self._slices(chunk, feature, low, shift, n_slices)
            node = self.node[chunk, None, None]
            cell = cell + (node * n_features + column) * (n_slices + 1)
            w = self.w[chunk, None].expand(-1, n_features, -1)
            hist.view(-1).scatter_add_(0, cell.flatten(), w.flatten())
        return hist.unflatten(1, (n_features, n_slices + 1))[..., :-1]

    def bin_products(self, feature, low, shift, mapping, n_bins):
        """Packed products (N, f, n_bins, q) of the rows in each bin.

        `mapping` (N, f, n_slices + 1) gives the bin of each part of the code range.
        """
        n_features, q = feature.shape[1], (self.p + 1) * (self.p + 2) // 2 - 1
        n_slices = mapping.shape[2] - 1
        out = self._new(n_features * n_bins, q)
        label = torch.arange(n_bins, dtype=torch.uint8, device=out.device)[:, None]
        for chunk in self._chunks((n_features * n_bins + q) / 100):
            cell = self._slices(chunk, feature, low, shift, n_slices)
            bins = mapping[self.node[chunk]].gather(2, cell).to(torch.uint8)
            hot = (bins[:, :, None] == label) * self.w[chunk][:, None, None]
            packed = self._packed(chunk, q).transpose(1, 2)
            self._add(out, chunk, hot.flatten(1, 2) @ packed)
        return out.unflatten(1, (n_features, n_bins))

    def _packed(self, chunk, q):
        """Products of all pairs of columns, (b, q, length)."""
        columns = self.columns[chunk]
        out = columns.new_empty(columns.shape[0], q, columns.shape[2])
        start = 0
        for j in range(self.p):
            stop = start + self.p + 1 - j
            torch.mul(columns[:, j : j + 1], columns[:, j:], out=out[:, start:stop])
            start = stop
        return out
