"""gates: from evidence of how a version does to pass, fail or inconclusive; pure, for whoever moves traffic."""
