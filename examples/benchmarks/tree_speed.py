"""The speed promises of the hinge regression tree, each as a ratio beside its bar.

    python examples/benchmarks/tree_speed.py
    python examples/benchmarks/tree_speed.py --only P3 P4 --repeats 1
    python examples/benchmarks/tree_speed.py --only large

One process, one thread per library, CPU time, the median of three fits of the same
arrays (`make_friedman1`). Only ratios carry over to another machine. A peer that is
not installed is left out and said so: `pip install cubist fast-model-trees
linear-tree`. Memory is measured in processes of its own. The line `large` fits a
million rows and takes minutes; it is run on request only.
"""

import argparse
import gc
import json
import os
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from _common import (
    Pilot,
    cpu_seconds,
    format_table,
    one_thread,
    progress,
    write_atomically,
)
from sklearn.datasets import make_friedman1
from sklearn.linear_model import LinearRegression
from sklearn.metrics import root_mean_squared_error
from sklearn.tree import DecisionTreeRegressor

QUICK_DIVISOR = 50
MEBIBYTE = 2**20


def hrt(**parameters):
    """Our tree; imported late, so that a broken peer or tree is only one line."""
    from sklearn_ext.tree import HRTRegressor

    return HRTRegressor(device="cpu", random_state=0, **parameters)


def hinge(depth):
    """The paper's method: hinge splits, fixed depth, nothing taken back."""
    return hrt(
        splitter="hinge",
        growth="depth",
        max_depth=depth,
        max_leaf_nodes=None,
        leaf_shrinkage=0.0,
        pruning=None,
    )


def cubist():
    """Cubist, one committee."""
    from cubist import Cubist

    return Cubist()


def pilot():
    """PILOT; imported here so that its absence is found when the model is made."""
    import pilot as _  # noqa: F401

    return Pilot()


def linear_tree():
    """linear-tree with the settings of the bar."""
    from lineartree import LinearTreeRegressor

    return LinearTreeRegressor(LinearRegression(), max_depth=5, min_samples_leaf=20)


MAKERS = {
    "default": hrt,
    "subsample": partial(hrt, subsample=5000),
    "hinge3": partial(hinge, 3),
    "hinge6": partial(hinge, 6),
    "cart": partial(DecisionTreeRegressor, min_samples_leaf=5, random_state=0),
    "cart64": partial(DecisionTreeRegressor, max_leaf_nodes=64, random_state=0),
    "cubist": cubist,
    "pilot": pilot,
    "linear_tree": linear_tree,
}


class Clock:
    """Fits each model on each shape once, however many bars ask for it."""

    def __init__(self, repeats, divisor):
        self.repeats = repeats
        self.divisor = divisor
        self.fits = {}
        self.models = {}
        self.data = {}
        self.warm = set()

    def arrays(self, n, d, dtype=np.float64):
        """Return X, y of the shape, made once."""
        n = max(n // self.divisor, 500)
        key = n, d, dtype
        if key not in self.data:
            X, y = make_friedman1(n, d, noise=1.0, random_state=0)
            self.data[key] = X.astype(dtype), y.astype(dtype)
        return self.data[key]

    def warm_up(self, name):
        """Fit a little data first: compilers and caches are not what is measured."""
        if name not in self.warm:
            X, y = make_friedman1(500, 10, noise=1.0, random_state=1)
            MAKERS[name]().fit(X, y).predict(X)
            self.warm.add(name)

    def fit(self, name, n, d=10, dtype=np.float64):
        """Return the median CPU seconds of a fit."""
        key = name, n, d, dtype
        if key not in self.fits:
            self.warm_up(name)
            X, y = self.arrays(n, d, dtype)
            progress(f"  {name}, {len(X)} x {d}")
            seconds = []
            for _ in range(self.repeats):
                gc.collect()
                model, elapsed = cpu_seconds(MAKERS[name]().fit, X, y)
                seconds.append(elapsed)
            self.models[key] = model
            self.fits[key] = float(np.median(seconds))
        return self.fits[key]

    def predict(self, name, n, d=10):
        """Return the median CPU seconds of predicting n fresh rows."""
        self.fit(name, n, d)
        model = self.models[name, n, d, np.float64]
        X = np.random.default_rng(1).uniform(size=(max(n // self.divisor, 500), d))
        return float(
            np.median(
                [cpu_seconds(model.predict, X)[1] for _ in range(max(self.repeats, 3))]
            )
        )

    def rmse(self, name, n, d=10):
        """Return the error on 20 000 fresh rows."""
        self.fit(name, n, d)
        X, y = make_friedman1(20_000, d, noise=1.0, random_state=2)
        return root_mean_squared_error(
            y, self.models[name, n, d, np.float64].predict(X)
        )


def shape(n, d):
    """Write 100 000 x 10."""
    return f"{n:,} x {d}".replace(",", " ")


# Each measurement yields (bar, what, at, measured, bound). A bound of None is a
# figure for the reader alone.


def p1(clock):
    """Hinge against CART, many rows."""
    ratio = clock.fit("hinge6", 100_000) / clock.fit("cart", 100_000)
    yield "P1", "hinge depth 6 / CART", "100 000 x 10", ratio, 0.6


def p2(clock):
    """Hinge against CART, some rows."""
    ratio = clock.fit("hinge6", 20_000) / clock.fit("cart", 20_000)
    yield "P2", "hinge depth 6 / CART", "20 000 x 10", ratio, 1.0


def p3(clock):
    """The default against CART."""
    ratio = clock.fit("default", 100_000) / clock.fit("cart", 100_000)
    yield "P3", "default / CART", "100 000 x 10", ratio, 2.5
    yield "P3 aim", "default / CART", "100 000 x 10", ratio, 1.0


def p4(clock):
    """The default against Cubist."""
    for n, bound in ((20_000, 1.0), (100_000, 0.5)):
        ratio = clock.fit("default", n) / clock.fit("cubist", n)
        yield "P4", "default / Cubist", shape(n, 10), ratio, bound


def p5(clock):
    """The default against PILOT."""
    ratio = clock.fit("default", 20_000) / clock.fit("pilot", 20_000)
    yield "P5", "default / PILOT", "20 000 x 10", ratio, 0.4


def p6(clock):
    """The default against linear-tree."""
    ratio = clock.fit("default", 2000) / clock.fit("linear_tree", 2000)
    yield "P6", "default / linear-tree", "2 000 x 10", ratio, 0.04


def p7(clock):
    """Prediction."""
    ours = clock.predict("default", 100_000)
    at = "100 000 x 10"
    yield "P7", "predict / CART's", at, ours / clock.predict("cart", 100_000), 2.0
    yield "P7", "predict / Cubist's", at, ours / clock.predict("cubist", 100_000), 0.05


def p8(clock):
    """Growth with the number of rows."""
    for name, bound in (("hinge6", 1.1), ("default", None)):
        ratio = clock.fit(name, 200_000) / clock.fit(name, 20_000)
        exponent = np.log(ratio) / np.log(10)
        yield "P8", f"{name}: exponent in rows", "20 000 to 200 000", exponent, bound


def p9(clock):
    """Growth with the number of columns."""
    for name, bound in (("hinge6", 1.7), ("default", None)):
        ratio = clock.fit(name, 20_000, 50) / clock.fit(name, 20_000, 10)
        exponent = np.log(ratio) / np.log(5)
        yield "P9", f"{name}: exponent in columns", "20 000 x 10 to 50", exponent, bound


def p10(clock):
    """Growth with the depth."""
    ratio = clock.fit("hinge6", 100_000) / clock.fit("hinge3", 100_000)
    yield "P10", "hinge depth 6 / depth 3", "100 000 x 10", ratio, 2.3


def p11(clock):
    """Memory beyond the data."""
    n = max(100_000 // clock.divisor, 500)
    for name, bound in (("default", 6.0), ("hinge6", None), ("cart", None)):
        memory = measure_memory(name, n, "float64")
        ratio = memory["extra"] / memory["data"]
        yield "P11", f"{name}: peak extra memory / X", shape(n, 10), ratio, bound


def p12(clock):
    """Searching splits on a sample."""
    ratio = clock.fit("subsample", 200_000) / clock.fit("default", 200_000)
    yield "P12", "subsample=5000 / full", "200 000 x 10", ratio, 0.5
    ratio = clock.rmse("subsample", 200_000) / clock.rmse("default", 200_000)
    yield "P12", "the same, RMSE", "200 000 x 10", ratio, 1.05


def large(clock):
    """A million rows of float32."""
    n = 1_000_000
    ours = clock.fit("subsample", n, dtype=np.float32)
    ratio = ours / clock.fit("cart64", n, dtype=np.float32)
    yield "large", "subsample=5000 / CART 64", "1 000 000 x 10 f4", ratio, 1.5
    memory = measure_memory("subsample", max(n // clock.divisor, 500), "float32")
    gib = memory["peak"] / 2**30
    yield "large", "peak memory, all in all, GiB", "1 000 000 x 10 f4", gib, 3.0


MEASUREMENTS = [p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12]


# -- memory -------------------------------------------------------------------


def measure_memory(name, n, dtype):
    """Fit in a process of its own; return bytes of X, extra at the peak, peak."""
    progress(f"  {name}, memory, {n} x 10")
    command = [sys.executable, __file__, "--memory-of", name, str(n), dtype]
    # Set before the libraries load: threads of theirs take memory as well.
    environment = os.environ | dict.fromkeys(
        (
            "OMP_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "MKL_NUM_THREADS",
            "NUMBA_NUM_THREADS",
        ),
        "1",
    )
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def memory_of(name, n, dtype):
    """Say how far the resident set rises above where it stood before the fit."""
    X, y = make_friedman1(500, 10, noise=1.0, random_state=1)
    MAKERS[name]().fit(X.astype(dtype), y.astype(dtype))
    X, y = make_friedman1(int(n), 10, noise=1.0, random_state=0)
    X, y = X.astype(dtype), y.astype(dtype)
    gc.collect()
    trim_heap()
    before = status("VmRSS")
    # Resets the high-water mark of this process (Linux 4.0 and later).
    Path("/proc/self/clear_refs").write_text("5")
    MAKERS[name]().fit(X, y)
    peak = status("VmHWM")
    print(json.dumps({"data": X.nbytes, "extra": peak - before, "peak": peak}))


def status(field):
    """Read one size of this process, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def trim_heap():
    """Give freed memory back, or the fit would use it without being seen to."""
    import ctypes

    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    except (OSError, AttributeError):
        progress("  no malloc_trim here: extra memory may be understated")


# -- run ----------------------------------------------------------------------


def parse_arguments():
    """Read the command line."""
    names = [f.__name__.upper() for f in MEASUREMENTS]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--only", nargs="+", metavar="BAR", help=f"of {' '.join(names)} large")
    add("--repeats", type=int, default=3, help="fits of which the median counts")
    add("--quick", action="store_true", help="a fiftieth of the rows, one repeat")
    add("--json", type=Path, metavar="PATH")
    add("--memory-of", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.chosen = MEASUREMENTS
    if arguments.only:
        known = {f.__name__.lower(): f for f in [*MEASUREMENTS, large]}
        unknown = [name for name in arguments.only if name.lower() not in known]
        if unknown:
            parser.error(f"unknown: {' '.join(unknown)}; known: {' '.join(names)}")
        arguments.chosen = [known[name.lower()] for name in arguments.only]
    return arguments


def measure(chosen, clock):
    """Run the measurements; return what was measured and what was left out."""
    results, skipped = [], {}
    for measurement in chosen:
        name = measurement.__name__
        progress(f"{name}: {measurement.__doc__}")
        try:
            for bar, what, at, value, bound in measurement(clock):
                results.append(
                    {"bar": bar, "what": what, "at": at, "value": float(value)}
                    | {"bound": bound}
                )
        except Exception as error:  # most often a peer that is not installed
            skipped[name] = f"{type(error).__name__}: {error}"
            progress(f"  left out: {skipped[name]}")
    return results, skipped


def table(results, quick):
    """Set each figure beside its bar."""
    rows = []
    for result in results:
        bound, value = result["bound"], result["value"]
        verdict = ""
        if bound is not None and not quick:
            verdict = "met" if value <= bound else "MISSED"
        bar = "" if bound is None else f"<= {bound:g}"
        row = [result["bar"], result["what"], result["at"], f"{value:.3g}", bar]
        rows.append([*row, verdict])
    header = ["bar", "what", "at", "measured", "bound", ""]
    return format_table(header, rows, left=3)


def main():
    """Measure and print."""
    warnings.filterwarnings("ignore")
    arguments = parse_arguments()
    if arguments.memory_of:
        with one_thread():
            memory_of(*arguments.memory_of)
        return
    divisor = QUICK_DIVISOR if arguments.quick else 1
    clock = Clock(1 if arguments.quick else arguments.repeats, divisor)
    with one_thread():
        results, skipped = measure(arguments.chosen, clock)
    print(table(results, arguments.quick))
    for name, reason in skipped.items():
        print(f"left out in part or whole: {name}: {reason}")
    if arguments.quick:
        print("--quick: a fiftieth of the rows; the bars do not apply")
    seconds = {
        f"{name}, {n} x {d}, {np.dtype(dtype).name}": value
        for (name, n, d, dtype), value in clock.fits.items()
    }
    print("fits, CPU seconds: " + json.dumps(seconds, indent=1))
    if arguments.json:
        document = {"results": results, "skipped": skipped, "seconds": seconds}
        write_atomically(arguments.json, json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
