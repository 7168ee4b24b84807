"""The maths: for each operation a plain torch reference, the truth, beside the paths tests hold to it."""
