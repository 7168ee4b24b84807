"""confidence: intervals that hold at every look at once, so that looking often raises no more false alarms.

Each is a confidence sequence: with probability 1 - alpha the truth lies in the interval after every further
observation, for ever. What a gate says may so be acted upon whenever it is said.
"""
