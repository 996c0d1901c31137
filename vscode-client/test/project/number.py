import torch
from torch import nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
name = "😀"; loss = model(torch.randn(8, 4)).pow(2).mean()
total = loss.item()
loss.item().backward()
optimizer.step()
