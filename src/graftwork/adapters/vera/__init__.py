"""VeRA: vectors that scale one pair of random matrices, shared by all layers. https://arxiv.org/abs/2310.11454"""
