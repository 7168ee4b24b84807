"""signing: who vouches for the files of a version, in the form of OpenSSF model signing; keys are local."""
