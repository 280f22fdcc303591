"""Gymnasium environments, and their vector twins on torch tensors."""

if __name__ != "sklearn_ext.envs":
    raise ImportError("import this package as 'sklearn_ext.envs', not as 'envs'")

__all__: list[str] = []
