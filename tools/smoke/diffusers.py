import diffusers
import torch

import drawahead as da

torch.manual_seed(0)
blocks = {"down_block_types": ("DownBlock2D",), "up_block_types": ("UpBlock2D",), "block_out_channels": (8,)}
unet = diffusers.UNet2DModel(8, 1, 1, layers_per_block=1, norm_num_groups=4, **blocks)
chain = da.adapters.from_diffusers(unet, diffusers.DDPMScheduler(), num_inference_steps=5)
assert da.sample(chain, 2, seed=0).samples.shape == (2, 1, 8, 8)
