# from: https://snntorch.readthedocs.io/en/latest/tutorials/tutorial_5.html
# says: all 4 parameters got a gradient
import snntorch as snn
import torch
import torch.nn as nn

torch.manual_seed(0)
num_steps, beta = 10, 0.95


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(16, 20)
        self.lif1 = snn.Leaky(beta=beta)
        self.fc2 = nn.Linear(20, 4)
        self.lif2 = snn.Leaky(beta=beta)

    def forward(self, x):
        mem1 = self.lif1.init_leaky()
        mem2 = self.lif2.init_leaky()
        spk2_rec = []
        mem2_rec = []
        for step in range(num_steps):
            cur1 = self.fc1(x)
            spk1, mem1 = self.lif1(cur1, mem1)
            cur2 = self.fc2(spk1)
            spk2, mem2 = self.lif2(cur2, mem2)
            spk2_rec.append(spk2)
            mem2_rec.append(mem2)
        return torch.stack(spk2_rec, dim=0), torch.stack(mem2_rec, dim=0)


net = Net()
loss = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3, betas=(0.9, 0.999))
for i in range(5):
    data, targets = torch.rand(8, 16) * 2, torch.randint(0, 4, (8,))
    net.train()
    spk_rec, mem_rec = net(data)
    loss_val = torch.zeros((1), dtype=torch.float)
    for step in range(num_steps):
        loss_val += loss(mem_rec[step], targets)
    optimizer.zero_grad()
    loss_val.backward()
    optimizer.step()
print(loss_val.item().hex())
