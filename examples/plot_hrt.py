"""
What a hinge regression tree sees
=================================

CART approximates a slope by a staircase, and a kink that runs across two columns by
many small steps. A hinge regression tree (`HRTRegressor`) splits where two linear
models meet, so each leaf is a linear model and each split may be oblique.
"""

# %%
# The command line: a picture in a file, or a window.
import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeRegressor

from sklearn_ext.datasets import load_airfoil
from sklearn_ext.tree import HRTRegressor, export_text

parser = argparse.ArgumentParser(description=__doc__.strip().split("\n")[0])
parser.add_argument("--output", type=Path, help="file to save the picture in")
parser.add_argument("--quick", action="store_true", help="less data, no window")
arguments = parser.parse_args()
rng = np.random.default_rng(0)
fig, axes = plt.subplots(1, 3, figsize=(15, 4.5), layout="constrained")

# %%
# One column, two kinks
# ---------------------
# Both trees may use eight leaves. CART spends them on stairs; the hinge tree needs a
# leaf for each straight piece and gives the rest back: the default prunes itself.
x = np.sort(rng.uniform(-3, 3, 300 if arguments.quick else 600))
y = np.maximum(-x - 1, 0) + np.maximum(2 * x - 2, 0) + rng.normal(0, 0.15, len(x))
X = x[:, None]
cart = DecisionTreeRegressor(max_leaf_nodes=8).fit(X, y)
hinge = HRTRegressor(max_leaf_nodes=8, device="cpu").fit(X, y)

axes[0].plot(x, y, ".", color="0.8", zorder=0)
axes[0].plot(x, cart.predict(X), label=f"CART, {cart.get_n_leaves()} leaves")
axes[0].plot(x, hinge.predict(X), label=f"HRT, {hinge.get_n_leaves()} leaves")
axes[0].set(title="A target with two kinks", xlabel="x", ylabel="y")
axes[0].legend(loc="upper center")
print("The hinge tree of the first picture:\n")
print(export_text(hinge, feature_names=["x"]))

# %%
# Two columns, oblique cells
# --------------------------
# The target is the larger of three planes. The colours are the leaves that the hinge
# tree found, the lines where the planes really meet.
planes = np.array([[2.0, 0.5, 0.0], [-1.0, 1.5, 0.3], [-0.5, -2.0, 0.0]])
X = rng.uniform(-1, 1, size=(1000 if arguments.quick else 3000, 2))
values = X @ planes[:, :2].T + planes[:, 2]
y = values.max(axis=1) + rng.normal(0, 0.05, len(X))
hinge = HRTRegressor(device="cpu").fit(X, y)
cart = DecisionTreeRegressor(min_samples_leaf=5).fit(X, y)

side = np.linspace(-1, 1, 200)
grid = np.stack(np.meshgrid(side, side), axis=-1)
leaves = hinge.apply(grid.reshape(-1, 2))
cells = np.unique(leaves, return_inverse=True)[1].reshape(200, 200)
truth = (grid @ planes[:, :2].T + planes[:, 2]).argmax(axis=-1)
axes[1].imshow(cells, origin="lower", extent=(-1, 1, -1, 1), cmap="Pastel1")
axes[1].contour(side, side, truth, levels=[0.5, 1.5], colors="k", linewidths=1)
axes[1].set(
    title=f"Leaves of HRT: {hinge.get_n_leaves()} (CART: {cart.get_n_leaves()})",
    xlabel="$x_1$",
    ylabel="$x_2$",
)

# %%
# Real data: error against the size of the tree
# ---------------------------------------------
# Noise of airfoils in a wind tunnel: half of the rows to learn from, half to test on.
# Few leaves go a long way when each holds a linear model. What CART does better: it
# is faster, and with hundreds of leaves it closes much of the gap.
X, y = load_airfoil(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)


def curve(make, sizes):
    """Fit a tree of each size; return leaves and test errors."""
    trees = [make(size).fit(X_train, y_train) for size in sizes]
    errors = [root_mean_squared_error(y_test, tree.predict(X_test)) for tree in trees]
    return [tree.get_n_leaves() for tree in trees], errors


axes[2].plot(
    *curve(
        lambda size: DecisionTreeRegressor(max_leaf_nodes=size, random_state=0),
        [2, 4, 8, 16, 32, 64, 128, 256, 512],
    ),
    "s-",
    label="CART",
)
axes[2].plot(
    *curve(
        lambda size: HRTRegressor(max_leaf_nodes=size, pruning=None, device="cpu"),
        [2, 4, 8, 16] if arguments.quick else [2, 4, 8, 16, 32, 64],
    ),
    "o-",
    label="HRT, unpruned",
)
axes[2].plot(
    *curve(lambda size: HRTRegressor(device="cpu"), [64]),
    "k*",
    markersize=14,
    label="HRT, default",
)
axes[2].set_xscale("log", base=2)
axes[2].xaxis.set_major_formatter("{x:.0f}")
axes[2].set(title="Airfoil noise", xlabel="leaves", ylabel="RMSE on fresh rows, dB")
axes[2].legend()

# %%
# The picture
# -----------
if arguments.output:
    fig.savefig(arguments.output, dpi=120)
elif not arguments.quick:
    plt.show()
