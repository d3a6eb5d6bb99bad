# from: https://github.com/huggingface/accelerate/blob/main/examples/cv_example.py
# says: all 4 parameters got a gradient
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def training_function():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    train_dataloader = DataLoader(TensorDataset(torch.randn(24, 8), torch.randint(0, 3, (24,))), batch_size=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2 / 25)
    lr_scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer=optimizer, max_lr=3e-2, epochs=2, steps_per_epoch=3)
    model, optimizer, train_dataloader, lr_scheduler = accelerator.prepare(
        model, optimizer, train_dataloader, lr_scheduler
    )
    for epoch in range(2):
        model.train()
        for inputs, labels in train_dataloader:
            outputs = model(inputs)
            loss = torch.nn.functional.cross_entropy(outputs, labels)
            accelerator.backward(loss)
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()
    accelerator.print(loss.item().hex())


training_function()
