import pathlib

import torch
import transformers

import drawahead as da

words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]
pathlib.Path("vocab.txt").write_text("\n".join(words))
tokenizer = transformers.BertTokenizer("vocab.txt")
torch.manual_seed(0)
size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
model = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=len(words), **size))
lm = da.adapters.MaskedLM(model, tokenizer)
assert len(lm.text(da.sample(lm.chain("a [MASK] c [MASK]"), 3, seed=0).samples)) == 3
