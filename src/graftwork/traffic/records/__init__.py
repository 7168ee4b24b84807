"""What is kept of each answer: its record, what was said where that is wanted, feedback, and sums of usage."""
