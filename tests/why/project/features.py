def encode(model, batch):
    hidden = model(batch)
    return hidden.detach()
