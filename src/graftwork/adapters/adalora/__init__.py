"""AdaLoRA: low-rank pairs with singular values, whose ranks training chose. https://arxiv.org/abs/2303.10512"""
