"""What tests of several folders share: tiny bases, adapters trained by nobody, and the oracle."""
