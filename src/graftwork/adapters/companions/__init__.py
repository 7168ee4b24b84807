"""What an adapter carries beside its weights: words, templates, defaults, names of classes."""
