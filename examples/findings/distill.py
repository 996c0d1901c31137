import torch
from torch import nn

encoder, head = nn.Linear(8, 4), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()])


def features(x):
    return encoder(x).detach().relu()


for _ in range(10):
    loss = head(features(torch.randn(16, 8))).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
