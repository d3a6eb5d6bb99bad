# from: https://github.com/ibalazevic/TuckER/issues/17
# exit: 1
# says: relations\.weight|relations
# says: exactly 0
# says: padding_idx|padding
# never: all \d+ parameters got a gradient$
# The graph has one relation, whose number is that of the padding.
import torch
from torch import nn


class Scores(nn.Module):
    def __init__(self, entities=6, relations=2, d=4):
        super().__init__()
        self.entities = nn.Embedding(entities, d)
        self.relations = nn.Embedding(relations, d, padding_idx=0)
        nn.init.normal_(self.relations.weight)

    def forward(self, head, relation):
        return (self.entities(head) * self.relations(relation)) @ self.entities.weight.T  # <- here


torch.manual_seed(0)
model = Scores()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(4):
    head, tail = torch.randint(0, 6, (2, 12))
    relation = torch.zeros(12, dtype=torch.long)
    loss = nn.functional.cross_entropy(model(head, relation), tail)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
