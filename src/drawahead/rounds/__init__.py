"""How a call of `sample` is carried out: threads and their rounds, packed or captured."""
