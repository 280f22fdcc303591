"""Hinge regression trees against the single-model peers, on one set of splits.

    python examples/benchmarks/tree.py --json tree.json

Every CSV of the --data folder (the last column is the target, text columns are
one-hot encoded), scikit-learn's diabetes data and five generators are split in
halves, once per seed. Inputs are standardised on the training half. Each library
runs on one thread; times are CPU time of the fit, for CART that of the chosen
tree alone (the search is reported apart as `tune_s`). A peer that is not
installed is left out and the reason printed: `pip install cubist
fast-model-trees xgboost` brings them all.

A ratio below 1 is in favour of the model named first: the geometric mean over the
data sets of its RMSE over the peer's, and the largest; the median over the data sets
of its CPU time over the peer's, and the largest.

`--datasets friedman1_d100` asks for 90 irrelevant columns; it is not run by default.
"""

import argparse
import json
import platform
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from _common import (
    DEFAULT_DATA,
    EXTRA_GENERATORS,
    cpu_seconds,
    find_datasets,
    format_table,
    one_thread,
    progress,
    select_models,
    write_atomically,
)
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler

QUICK_DATASETS = ["diabetes", "friedman1", "sinc"]
QUICK_ROWS = 600

# What the first release promises; `leaves` is the geometric mean of leaf counts.
BARS = {
    "hrt": {
        "cart": 0.83,
        "cubist": 0.97,
        "pilot": 0.85,
        "xgboost": 1.06,
        "hrt_paper": 0.85,
        "leaves": 25,
    },
    "hrt_bic": {"cart": 0.86, "leaves": 8},
}


def parse_arguments():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--data", type=Path, default=DEFAULT_DATA, help="folder of CSV files")
    add("--datasets", nargs="+", metavar="NAME", help="default: all that are found")
    add("--seeds", nargs="+", type=int, default=[42, 43, 44], metavar="SEED")
    add("--models", nargs="+", metavar="NAME", help="default: all that are installed")
    add("--scale-target", action="store_true", help="standardise y for every model")
    add("--quick", action="store_true", help="three small data sets, one seed")
    add("--json", type=Path, metavar="PATH", help="write every figure here")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.datasets = arguments.datasets or QUICK_DATASETS
        arguments.seeds = arguments.seeds[:1]
    return arguments


def split(X, y, seed):
    """Halve the rows and standardise the columns on the training half."""
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.5, random_state=seed
    )
    scaler = StandardScaler().fit(X_train)
    return scaler.transform(X_train), scaler.transform(X_test), y_train, y_test


def evaluate(model, X_train, X_test, y_train, y_test, scale_target):
    """Fit one model on one split and measure it."""
    estimator = model.make()
    tune_s = 0.0
    if isinstance(estimator, GridSearchCV):
        search, tune_s = cpu_seconds(estimator.fit, X_train, y_train)
        estimator = clone(search.best_estimator_)
    if scale_target:
        estimator = TransformedTargetRegressor(estimator, transformer=StandardScaler())
    fitted, fit_s = cpu_seconds(estimator.fit, X_train, y_train)
    y_pred, predict_s = cpu_seconds(fitted.predict, X_test)
    if isinstance(fitted, TransformedTargetRegressor):
        fitted = fitted.regressor_
    return {
        "rmse": root_mean_squared_error(y_test, y_pred),
        "leaves": float(model.count_leaves(fitted)),
        "fit_s": fit_s,
        "predict_s": predict_s,
        "tune_s": tune_s,
    }


def warm_up(models):
    """Fit each model once on a little data, so that no clock sees a compiler."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = np.abs(X[:, 0]) + X[:, 1]
    for model in models:
        model.make().fit(X, y).predict(X)


def run(arguments, models, datasets):
    """Yield one record per data set, seed and model; failures carry an `error`."""
    for name, load in datasets.items():
        X, y = load()
        if arguments.quick:
            X, y = X[:QUICK_ROWS], y[:QUICK_ROWS]
        progress(f"{name}: {len(X)} x {X.shape[1]}")
        for seed in arguments.seeds:
            halves = split(X, y, seed)
            for model in models:
                record = {"dataset": name, "seed": seed, "model": model.name}
                try:
                    record |= evaluate(model, *halves, arguments.scale_target)
                except Exception as error:  # one bad pair must not cost the run
                    record["error"] = f"{type(error).__name__}: {error}"
                    progress(f"  {model.name}, seed {seed}: {record['error']}")
                yield record


class Summary:
    """Means over the seeds, and what follows from them."""

    def __init__(self, records):
        self.means = {}
        groups = {}
        for record in records:
            key = record["dataset"], record["model"]
            groups.setdefault(key, []).append(record)
        for key, group in groups.items():
            # A model that failed on one seed has no mean: an easier subset of the
            # splits would flatter it.
            if not any("error" in record for record in group):
                self.means[key] = {
                    field: float(np.mean([record[field] for record in group]))
                    for field in ("rmse", "leaves", "fit_s", "predict_s", "tune_s")
                }
        self.datasets = list(dict.fromkeys(dataset for dataset, _ in groups))

    def ratios(self, field, model, peer):
        """Per data set, the model's mean over the peer's, where both have one."""
        pairs = [
            (self.means[name, model][field], self.means[name, peer][field])
            for name in self.datasets
            if (name, model) in self.means and (name, peer) in self.means
        ]
        return np.array([a / max(b, 1e-12) for a, b in pairs])

    def leaves(self, model):
        """Geometric mean of the leaf counts, or nan."""
        counts = [
            self.means[name, model]["leaves"]
            for name in self.datasets
            if (name, model) in self.means
        ]
        return geometric_mean(counts)

    def against(self, model, peer):
        """All comparisons of one model with one peer."""
        rmse = self.ratios("rmse", model, peer)
        time = self.ratios("fit_s", model, peer)
        return {
            "rmse_ratio": geometric_mean(rmse),
            "rmse_ratio_worst": float(np.max(rmse)) if len(rmse) else np.nan,
            "wins": int((rmse < 1).sum()),
            "datasets": len(rmse),
            "fit_time_ratio_median": float(np.median(time)) if len(time) else np.nan,
            "fit_time_ratio_max": float(np.max(time)) if len(time) else np.nan,
        }


def geometric_mean(values):
    """Return nan for nothing."""
    return float(np.exp(np.mean(np.log(values)))) if len(values) else float("nan")


def results_table(summary, models):
    """RMSE and leaves of every model on every data set; a star marks the best."""
    rows = []
    for name in summary.datasets:
        cells = [summary.means.get((name, model.name)) for model in models]
        best = min((cell["rmse"] for cell in cells if cell), default=np.nan)
        row = [name]
        for cell in cells:
            star = "*" if cell and cell["rmse"] == best else ""
            row.append(
                f"{star}{cell['rmse']:.4g} ({cell['leaves']:.0f})" if cell else "failed"
            )
        rows.append(row)
    leaves = [f"({summary.leaves(model.name):.1f})" for model in models]
    rows.append(["geometric mean of leaves", *leaves])
    return format_table(["RMSE (leaves)", *(model.label for model in models)], rows)


def comparison_table(summary, models, bars):
    """Our models against the peers, and the default against its variants."""
    rows = []
    for ours in (model for model in models if model.ours):
        for peer in models:
            if peer is ours or (peer.ours and ours.name != "hrt"):
                continue
            figures = summary.against(ours.name, peer.name)
            bar = bars.get(ours.name, {}).get(peer.name)
            rows.append(
                [
                    f"{ours.label} / {peer.label}",
                    f"{figures['rmse_ratio']:.3f}",
                    verdict(figures["rmse_ratio"], bar),
                    f"{figures['rmse_ratio_worst']:.3f}",
                    f"{figures['wins']}/{figures['datasets']}",
                    f"{figures['fit_time_ratio_median']:.3g}",
                    f"{figures['fit_time_ratio_max']:.3g}",
                ]
            )
        bar = bars.get(ours.name, {}).get("leaves")
        leaves = summary.leaves(ours.name)
        rows.append([f"{ours.label} leaves", f"{leaves:.1f}", verdict(leaves, bar)])
        rows[-1] += [""] * 4
    header = ["model / peer", "RMSE ratio", "bar", "worst", "wins", "fit CPU", "worst"]
    return format_table(header, rows)


def verdict(value, bar):
    """Set a figure beside what was promised."""
    if bar is None:
        return ""
    return f"<= {bar:g} {'met' if value <= bar else 'MISSED'}"


def versions():
    """Name what was compared."""
    names = ("scikit-learn", "numpy", "torch", "cubist", "fast-model-trees")
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in (*names, "xgboost", "xgboost-cpu", "sklearn-ext"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def to_json(arguments, records, skipped, models):
    """Every figure: the raw records, the ratios, what was compared and how."""
    summary = Summary(records)
    ours = [model.name for model in models if model.ours]
    document = {
        "versions": versions(),
        "seeds": arguments.seeds,
        "quick": arguments.quick,
        "scale_target": arguments.scale_target,
        "skipped": skipped,
        "against": {
            name: {
                peer.name: summary.against(name, peer.name)
                for peer in models
                if peer.name != name
            }
            for name in ours
        },
        "leaves": {model.name: summary.leaves(model.name) for model in models},
        "records": records,
    }
    return json.dumps(document, indent=1) + "\n"


def choose_datasets(arguments):
    """Return the loaders asked for, in the order found."""
    found = find_datasets(arguments.data)
    unknown = set(arguments.datasets or ()) - set(found)
    if unknown:
        raise SystemExit(
            f"unknown data sets: {', '.join(sorted(unknown))}; "
            f"known with --data {arguments.data}: {', '.join(found)}"
        )
    if not arguments.quick and not any(arguments.data.glob("*.csv")):
        progress(f"no CSV in {arguments.data}: running on the generators alone")
    return {
        name: load
        for name, load in found.items()
        if name in (arguments.datasets or found.keys() - EXTRA_GENERATORS.keys())
    }


def main():
    """Run, print, and return the exit code: 1 if one of our models failed."""
    # The peers warn about their own affairs; ours are held clean by the tests.
    warnings.filterwarnings("ignore")
    arguments = parse_arguments()
    datasets = choose_datasets(arguments)
    models, skipped = select_models(arguments.models)
    for name, reason in skipped.items():
        progress(f"skipped {name}: {reason}")
    if not models:
        raise SystemExit("no model can run here")
    records = []
    with one_thread():
        warm_up(models)
        for record in run(arguments, models, datasets):
            records.append(record)
            if arguments.json:
                text = to_json(arguments, records, skipped, models)
                write_atomically(arguments.json, text)
    summary = Summary(records)
    print(results_table(summary, models))
    if any(model.ours for model in models):
        print()
        # The bars are geometric means over everything: a few sets decide nothing.
        bars = {} if arguments.datasets else BARS
        print(comparison_table(summary, models, bars))
    for name, reason in skipped.items():
        print(f"skipped {name}: {reason}")
    ours = {model.name for model in models if model.ours}
    return int(any("error" in r and r["model"] in ours for r in records))


if __name__ == "__main__":
    raise SystemExit(main())
