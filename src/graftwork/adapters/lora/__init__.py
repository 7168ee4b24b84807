"""LoRA: `y = W x + scale · B (A x)`. Hu et al. 2021, https://arxiv.org/abs/2106.09685"""
