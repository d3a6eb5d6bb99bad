"""Two recordings compared: which entries of one belong to which of the other."""

import torch
from torch import nn

import backprobe as bp
from diff_cases import X, f, recorded

# which entries belong together


def test_a_rename_is_about_all_names_that_begin_so():
    class Old(nn.Module):
        def __init__(self):
            super().__init__()
            self.h = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])

        def forward(self, x):
            for layer in self.h:
                x = layer(x)
            return x.sum()

    class New(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x.sum()

    old, new = Old(), New()
    new.layers.load_state_dict(old.h.state_dict())
    a, b = bp.probe(old)(X), bp.probe(new)(X)
    report = bp.diff(a, b, rename={"h.*": "layers.*"})
    assert report.ok and report.only_a == report.only_b == ()
    matched = {row.a.name: (row.b.name, row.match.how) for row in report.rows}
    assert matched["h.1.weight"] == ("layers.1.weight", "by the rename 'h.*': 'layers.*'")
    new.layers[1].bias.data += 1
    found = bp.diff(a, bp.probe(new)(X), rename={"h.*": "layers.*"}).first
    assert (found.name, found.other) == ("h.1.bias", "layers.1.bias")
    assert found.headline.startswith("the parameter 'h.1.bias' ('layers.1.bias' in the second) differs: ")
    assert found.matched == "by the rename 'h.*': 'layers.*'" and f"matched {found.matched}" in found.facts


def test_other_names_are_matched_by_shape_and_place_and_the_report_says_so():
    def g(a, b):
        prod = a * b
        sine = torch.sin(prod)
        total = sine + prod
        out = total.sum()
        return out

    report = bp.diff(recorded(f), recorded(g))
    assert report.ok
    assert {row.a.name: row.b.name for row in report.rows} == {
        "x": "a", "w": "b", "u": "prod", "v": "sine", "y": "total", "loss": "out"
    }  # fmt: skip
    how = {row.a.name: row.match.how for row in report.rows}
    assert how["u"] == "by shape and place" and how["loss"] == "by name"  # return
    assert "matched by shape and place: 'x' with 'a', 'w' with 'b', 'u' with 'prod', 'v' with 'sine' and 1 more" in (
        report.notes
    )


def test_what_could_belong_to_several_has_no_partner():
    def right(x):
        p = torch.sin(x)
        return p.sum()

    def other(x):
        q, r = torch.sin(x), torch.sin(x)
        return (q + r).sum() / 2

    report = bp.diff(bp.probe(right)(X), bp.probe(other)(X))
    assert report.only_a == ("p",) and report.only_b == ("q", "r") and report.ok is None and not report.findings
    assert "only in the first, and not compared: 'p'" in report.notes


def test_one_value_with_two_names_is_compared_with_both():
    def right(x):
        u = x * 2
        v = u
        return v.sum()

    def other(x):
        u = x * 2
        v = u.clone()
        return v.sum()

    def wrong(x):
        u = x * 2
        v = u * 1.5
        return v.sum()

    a = bp.probe(right)(X)
    assert not bp.diff(a, bp.probe(other)(X)).findings and not bp.diff(bp.probe(other)(X), a).findings
    for pair in ((right, wrong), (wrong, right)):
        report = bp.diff(*(bp.probe(one)(X) for one in pair))
        assert report.first.name in ("u", "v") and "v" in {report.first.name, report.first.other}


def test_layouts_turn_weights():
    torch.manual_seed(0)

    def right(x, kernel):
        return (x @ kernel).square().sum()

    def other(x, kernel):
        return (x @ kernel.T).square().sum()

    x, kernel = torch.randn(4, 3), torch.randn(3, 2)
    a, b = bp.probe(right)(x, kernel), bp.probe(other)(x, kernel.T.contiguous())
    assert bp.diff(a, b).first.kind == "shape"
    assert bp.diff(a, b, layout={"kernel": "T"}).ok and bp.diff(a, b, layout={"k*": (1, 0)}).ok
    image, filters = torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3)

    def conv(image, filters):
        return torch.conv2d(image, filters).sum()

    def last(image, filters):
        return torch.conv2d(image, filters.permute(3, 2, 0, 1)).sum()

    a, b = bp.probe(conv)(image, filters), bp.probe(last)(image, filters.permute(2, 3, 1, 0).contiguous())
    assert bp.diff(a, b, layout={"filters": (3, 2, 0, 1)}).ok
    assert bp.diff(a, b, layout={"filters": "T"}).first.name == "filters"
