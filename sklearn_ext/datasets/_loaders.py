"""Loaders for the tables in `data/`, in the manner of `sklearn.datasets`."""

import csv
import gzip
from importlib import resources
from typing import Any

import numpy as np
from sklearn.utils import Bunch

__all__ = ["load_airfoil", "load_concrete", "load_german_credit"]

# The levels of each categorical column, in the order of their codes: from low to
# high where the levels have an order, else as in the documentation of the data.
_GERMAN_CREDIT_LEVELS = {
    "checking_status": ["none", "<0", "0-200", ">=200"],
    "credit_history": [
        "no credits",
        "all paid here",
        "existing paid",
        "past delay",
        "critical",
    ],
    "purpose": [
        "car new",
        "car used",
        "furniture",
        "radio/tv",
        "appliances",
        "repairs",
        "education",
        "retraining",
        "business",
        "other",
    ],
    "savings": ["unknown", "<100", "100-500", "500-1000", ">=1000"],
    "employment_since": ["unemployed", "<1y", "1-4y", "4-7y", ">=7y"],
    "personal_status_sex": [
        "male div/sep",
        "female div/sep/mar",
        "male single",
        "male mar/wid",
    ],
    "other_debtors": ["none", "co-applicant", "guarantor"],
    "property": ["none", "car/other", "life insurance", "real estate"],
    "other_installment_plans": ["none", "bank", "stores"],
    "housing": ["free", "rent", "own"],
    "job": ["unskilled non-res", "unskilled res", "skilled", "management"],
    "telephone": ["no", "yes"],
    "foreign_worker": ["no", "yes"],
}


def load_concrete(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load the concrete compressive strength data (regression).

    =================   ==================================
    Samples                                           1030
    Features                             8, real, positive
    Target              real, 2.33 to 82.6 (megapascal)
    Missing values                                    none
    =================   ==================================

    Strength of concrete samples from the amounts in the mixture, in kilograms per
    cubic metre, and the age of the sample in days.

    Parameters
    ----------
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        If True, ``data`` is a pandas DataFrame and ``target`` a Series.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes ``data`` of shape (1030, 8), ``target`` of shape
        (1030,), ``frame`` (data and target in one DataFrame, None unless
        ``as_frame=True``), ``feature_names``, ``target_names``, ``DESCR``,
        ``filename`` and ``data_module``.
    (data, target) : tuple if ``return_X_y`` is True
        The two alone.

    See Also
    --------
    load_airfoil : Another regression data set.

    Notes
    -----
    Source: UCI Machine Learning Repository, data set 165; creator I-Cheng Yeh.
    Licence: Creative Commons Attribution 4.0 International (CC BY 4.0). Changes:
    columns renamed, file format. 25 rows are exact repetitions, as in the source.

    References
    ----------
    .. [1] I.-C. Yeh, "Concrete Compressive Strength", UCI Machine Learning
       Repository, 2007. https://doi.org/10.24432/C5PK67
    .. [2] I.-C. Yeh, "Modeling of strength of high-performance concrete using
       artificial neural networks", Cement and Concrete Research 28(12), 1998.

    Examples
    --------
    >>> from sklearn_ext.datasets import load_concrete
    >>> concrete = load_concrete()
    >>> concrete.data.shape
    (1030, 8)
    >>> concrete.feature_names[:3]
    ['cement', 'slag', 'fly_ash']
    """
    return _load("concrete", "compressive_strength", return_X_y, as_frame)


def load_airfoil(*, return_X_y: bool = False, as_frame: bool = False) -> Any:
    """Load NASA's airfoil self-noise data (regression).

    =================   ==================================
    Samples                                           1503
    Features                                       5, real
    Target              real, 103.4 to 141.0 (decibel)
    Missing values                                    none
    =================   ==================================

    Sound pressure level of NACA 0012 airfoils in an anechoic wind tunnel, from the
    frequency (hertz), the angle of attack (degrees), the chord length (metres), the
    free-stream velocity (metres per second) and the displacement thickness on the
    suction side (metres).

    Parameters
    ----------
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        If True, ``data`` is a pandas DataFrame and ``target`` a Series.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes ``data`` of shape (1503, 5), ``target`` of shape
        (1503,), ``frame`` (data and target in one DataFrame, None unless
        ``as_frame=True``), ``feature_names``, ``target_names``, ``DESCR``,
        ``filename`` and ``data_module``.
    (data, target) : tuple if ``return_X_y`` is True
        The two alone.

    See Also
    --------
    load_concrete : Another regression data set.

    Notes
    -----
    Source: UCI Machine Learning Repository, data set 291; creators Thomas F.
    Brooks, D. Stuart Pope and Michael A. Marcolini (NASA). Licence: Creative
    Commons Attribution 4.0 International (CC BY 4.0). Changes: header added, file
    format.

    References
    ----------
    .. [1] T. Brooks, D. Pope and M. Marcolini, "Airfoil Self-Noise", UCI Machine
       Learning Repository, 1989. https://doi.org/10.24432/C5VW2C
    .. [2] T. F. Brooks, D. S. Pope and M. A. Marcolini, "Airfoil self-noise and
       prediction", NASA Reference Publication 1218, 1989.

    Examples
    --------
    >>> from sklearn_ext.datasets import load_airfoil
    >>> X, y = load_airfoil(return_X_y=True)
    >>> X.shape, y.shape
    ((1503, 5), (1503,))
    """
    return _load("airfoil", "sound_pressure", return_X_y, as_frame)


def load_german_credit(*, return_X_y: bool = False, as_frame: bool = True) -> Any:
    """Load the Statlog German credit data (classification).

    =================   ==================================
    Samples                                           1000
    Features                    7 integer, 13 categorical
    Classes              0 = bad (300), 1 = good (700)
    Missing values                                    none
    =================   ==================================

    Credit applicants of a German bank in the 1970s, described by their accounts,
    their history, their employment and the loan, and called a good or a bad risk.

    Parameters
    ----------
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=True
        If True, ``data`` is a pandas DataFrame with columns of dtype category, and
        ``target`` a Series. If False, both are arrays: a category is the index of
        its level in ``categories``, as a float.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        With the attributes ``data`` of shape (1000, 20), ``target`` of shape
        (1000,), ``frame`` (data and target in one DataFrame, None if
        ``as_frame=False``), ``categories`` (from the name of a categorical column
        to the list of its levels), ``feature_names``, ``target_names``, ``DESCR``,
        ``filename`` and ``data_module``.
    (data, target) : tuple if ``return_X_y`` is True
        The two alone.

    See Also
    --------
    sklearn.datasets.fetch_openml : The same conventions for categorical columns.

    Notes
    -----
    Source: UCI Machine Learning Repository, data set 144; creator Hans Hofmann.
    Licence: Creative Commons Attribution 4.0 International (CC BY 4.0). Changes:
    the codes A11 to A202 are spelled out, columns named, the target 1/2 written
    as good/bad; no row or column dropped.

    The coding of several columns in the source is known to be wrong [2]_, that of
    ``personal_status_sex`` among them: use the data to try methods out, not to
    learn about credit.

    References
    ----------
    .. [1] H. Hofmann, "Statlog (German Credit Data)", UCI Machine Learning
       Repository, 1994. https://doi.org/10.24432/C5NC77
    .. [2] U. Groemping, "South German Credit Data: Correcting a Widely Used Data
       Set", Reports in Mathematics, Physics and Chemistry 4/2019, Beuth University
       of Applied Sciences Berlin, 2019.

    Examples
    --------
    >>> from sklearn_ext.datasets import load_german_credit
    >>> credit = load_german_credit()
    >>> credit.data[["age", "housing"]].head(2)
       age housing
    0   67     own
    1   22     own
    >>> [int(count) for count in credit.target.value_counts()]
    [700, 300]
    >>> load_german_credit(as_frame=False).data.shape
    (1000, 20)
    """
    return _load(
        "german_credit",
        "risk",
        return_X_y,
        as_frame,
        categories=_GERMAN_CREDIT_LEVELS,
        classes=["bad", "good"],
    )


def _load(name, target_name, return_X_y, as_frame, *, categories=None, classes=None):
    """Read a table whose last column is the target and dress it as a Bunch."""
    feature_names, columns, target = _read_csv(f"{name}.csv.gz")
    categories = {key: list(levels) for key, levels in (categories or {}).items()}
    data = np.column_stack(
        [
            _encode(column, categories.get(feature))
            for feature, column in zip(feature_names, columns, strict=True)
        ]
    )
    target = _encode(target, classes)
    if classes is not None:
        target = target.astype(np.int64)
    frame = None
    if as_frame:
        frame, data, target = _to_frame(
            data, target, feature_names, target_name, categories
        )
    if return_X_y:
        return data, target
    extra = {"categories": categories} if categories else {}
    return Bunch(
        data=data,
        target=target,
        frame=frame,
        feature_names=feature_names,
        target_names=np.array(classes) if classes else [target_name],
        DESCR=_data_folder().joinpath(f"{name}.rst").read_text(encoding="utf-8"),
        filename=f"{name}.csv.gz",
        data_module="sklearn_ext.datasets.data",
        **extra,
    )


def _data_folder():
    return resources.files("sklearn_ext.datasets").joinpath("data")


def _read_csv(filename):
    """Return the feature names, the columns as strings, and the target."""
    packed = _data_folder().joinpath(filename).read_bytes()
    rows = csv.reader(gzip.decompress(packed).decode("utf-8").splitlines())
    header = next(rows)
    *columns, target = zip(*rows, strict=True)
    return header[:-1], columns, target


def _encode(column, levels):
    """Turn strings into floats: numbers as they are, categories by their index."""
    if levels is None:
        return np.array(column, dtype=np.float64)
    code = {level: index for index, level in enumerate(levels)}
    return np.array([code[value] for value in column], dtype=np.float64)


def _to_frame(data, target, feature_names, target_name, categories):
    """Return data and target in one DataFrame, and apart."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "as_frame=True needs pandas, which is not installed: "
            "run 'pip install pandas' or pass as_frame=False"
        ) from error

    frame = pd.DataFrame(data, columns=feature_names)
    for name, levels in categories.items():
        frame[name] = pd.Categorical.from_codes(
            frame[name].astype(np.int64), categories=levels
        )
    if categories:
        # Where categories are kept apart, every other column of ours is a count.
        numbers = frame.columns.difference(list(categories))
        frame[numbers] = frame[numbers].astype(np.int64)
    frame[target_name] = target
    return frame, frame[feature_names], frame[target_name]
