import torch
from torch import nn

cell = nn.GRUCell(8, 8)
optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
hidden = torch.zeros(1, 8)
for x in torch.randn(20, 1, 8):
    hidden = cell(x, hidden)
    loss = hidden.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
