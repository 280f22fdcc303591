import re

import numpy as np
import pytest
from hinge_tree_samples import TreeClassifier, TreeRegressor, random_tree, sample_data

from sklearn_ext.tree import export_dot

STRING = r'"(?:[^"\\\n]|\\.)*"'
VALUE = rf"(?:{STRING}|[A-Za-z_]\w*)"
ATTRIBUTES = rf"\[\w+={VALUE}(?:, \w+={VALUE})*\]"


def statements(dot):
    """Return nodes {id: label} and edges [(from, to, label)]; refuse bad syntax."""
    lines = dot.splitlines()
    assert lines[0] == "digraph HingeTree {"
    assert lines[-1] == "}"
    nodes, edges = {}, []
    for line in lines[1:-1]:
        match = re.fullmatch(rf"(\w+)(?: -> (\w+))? ({ATTRIBUTES});", line)
        assert match, line
        label = re.search(rf"label=({STRING})", match[3])
        if match[2]:
            edges.append((int(match[1]), int(match[2]), label[1]))
        elif match[1].isdigit():
            nodes[int(match[1])] = label[1]
        else:
            assert match[1] in ("graph", "node")
    return nodes, edges


@pytest.mark.parametrize("n_leaves", [1, 2, 9])
def test_every_node_and_edge_once(n_leaves):
    tree = random_tree(*sample_data(), n_leaves=n_leaves)
    nodes, edges = statements(export_dot(TreeRegressor(tree).fit()))
    assert sorted(nodes) == list(range(tree.node_count))
    expected = {
        (int(node), int(child))
        for node in np.flatnonzero(tree.children_left >= 0)
        for child in (tree.children_left[node], tree.children_right[node])
    }
    assert {edge[:2] for edge in edges} == expected
    assert len(edges) == len(expected)


def test_yes_leads_where_the_condition_holds():
    tree = random_tree(*sample_data(), n_leaves=9, axis_share=0.5)
    nodes, edges = statements(export_dot(TreeRegressor(tree).fit()))
    target = {(start, label): end for start, end, label in edges}
    for node in np.flatnonzero(tree.children_left >= 0):
        greater = " > " in nodes[node]
        # A hinge asks for its left side. An axis split asks for its smaller values,
        # which are on the left if the coefficient is negative.
        left = greater or (tree.split_coef[node].sum() < 0)
        yes = tree.children_left[node] if left else tree.children_right[node]
        assert target[node, '"yes"'] == yes


def test_odd_names_are_escaped():
    names = ['say "hi"', "back\\slash", "new\nline", "plain"]
    tree = random_tree(*sample_data(), n_leaves=6)
    model = TreeRegressor(tree, names=names).fit()
    nodes, _ = statements(export_dot(model, max_terms=None))
    text = "".join(nodes.values())
    assert r"say \"hi\"" in text
    assert r"back\\slash" in text
    assert "new line" in text


def test_classes_are_named():
    tree = random_tree(*sample_data(n_outputs=3))
    dot = export_dot(TreeClassifier(tree).fit())
    statements(dot)
    assert "class a: " in dot
    assert "softmax" in dot
