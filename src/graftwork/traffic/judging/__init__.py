"""The judge of rollouts: what is known of their arms, shown to the gates of a template."""
