"""rules: what a version may do: its stage, who approved it, whether it is deprecated, and the policy over them."""
