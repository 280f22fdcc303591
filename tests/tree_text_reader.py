"""Read what `export_text` printed, without the code that printed it."""

import re

import numpy as np


def evaluate(expression, row):
    """Evaluate ``a + b*name - c*name`` for a row given as {name: value}."""
    total = 0.0
    for sign, number, name in re.findall(
        r"(^-|[+-] |^)(\d[\d.]*(?:e[+-]?\d+)?)(?:\*(.+?))?(?= [+-] |$)", expression
    ):
        value = float(number) * (row[name] if name else 1.0)
        total += -value if sign.startswith("-") else value
    return total


def holds(condition, row):
    left, relation, right = re.fullmatch(r"(.+) (<=|>=|<|>) (\S+)", condition).groups()
    value = row[left] if left in row else evaluate(left, row)
    level = float(right)
    return {
        "<=": value <= level,
        ">=": value >= level,
        "<": value < level,
        ">": value > level,
    }[relation]


def parse(text):
    """Return a list of (conditions, leaf, formulas) from the printed text."""
    leaves, way = [], []
    for line in text.splitlines():
        match = re.fullmatch(r"((?:\|   )*)\|(---|   ) (.*)", line)
        if match is None:
            continue
        level, dashes, content = len(match[1]) // 4, match[2] == "---", match[3]
        if not dashes:
            leaves[-1][2].append(content)
        elif content.startswith("leaf "):
            number = int(re.match(r"leaf (\d+):", content)[1])
            leaves.append(([*way[:level]], number, []))
        else:
            way[level:] = [content]
    return leaves


def read_back(text, Z, names):
    """Return leaf and formula values of each row, from the text alone."""
    leaves = parse(text)
    numbers, values = [], []
    for z in Z:
        row = dict(zip(names, z.tolist(), strict=True))
        [found] = [leaf for leaf in leaves if all(holds(c, row) for c in leaf[0])]
        numbers.append(found[1])
        formulas = [re.split(r" = |: ", line, maxsplit=1)[1] for line in found[2]]
        values.append([evaluate(formula, row) for formula in formulas])
    return np.array(numbers), np.array(values)
