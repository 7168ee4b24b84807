"""IA3: learned vectors that scale what goes into or comes out of a linear layer."""
