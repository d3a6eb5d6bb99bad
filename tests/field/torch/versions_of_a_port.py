# from: own
# ask: python
import torch

import backprobe as bp


def reference(x, w):
    out = torch.zeros_like(x)
    for e in range(2):
        out = out.index_add(0, torch.tensor([e]), x[e : e + 1] * w)
    loss = out.square().sum()
    return loss


def port(x, w):
    out = x * w
    loss = out.square().sum()
    return loss


given = torch.ones(2, 3), torch.full((3,), 2.0)
report = bp.diff(bp.probe(reference)(*given), bp.probe(port)(*given))
assert not report.findings, report
assert report.heading.startswith("no difference"), report
assert ("out#0", "out") not in {(row.a.name, row.b.name) for row in report.rows}
