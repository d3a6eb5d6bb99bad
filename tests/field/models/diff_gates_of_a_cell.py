# from: https://stackoverflow.com/questions/48361376/converting-state-parameters-of-pytorch-lstm-to-keras-lstm
# ask: diff PROGRAM:reference PROGRAM:port x='randn(3,5)' h='randn(3,4)' c='randn(3,4)' --cotangent 'randn(3,4)'
# exit: 1
# says: ^values differ first at 'g'|^values differ first at 'o'
# says: what it is computed from agrees: .*'gates'
# never: ^values differ first at 'gates'
import torch

torch.manual_seed(0)
into, back = torch.nn.Linear(5, 16), torch.nn.Linear(4, 16)


def reference(x, h, c):
    gates = into(x) + back(h)
    i, f, g, o = gates.chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    return h


def port(x, h, c):
    gates = into(x) + back(h)
    i, f, o, g = gates.chunk(4, -1)  # <- here
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    return h
