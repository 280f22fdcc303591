"""Reinforcement-learning agents with the manners of scikit-learn estimators."""

if __name__ != "sklearn_ext.agents":
    raise ImportError("import this package as 'sklearn_ext.agents', not as 'agents'")

__all__: list[str] = []
