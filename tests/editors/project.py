import torch
from torch import nn

model = nn.Linear(4, 1)
name = "😀"; loss = model(torch.randn(8, 4)).pow(2).mean()
loss.item().backward()
