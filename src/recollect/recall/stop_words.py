"""English words that carry grammar rather than content."""

_WORDS = """
    a an the of to in on at for from with by and or but as if than then so not no nor
    is are was were be been being am do does did done doing has have had having
    will would can could should shall may might must
    i you he she it we they me him her us them my your his its our their mine yours hers ours theirs
    this that these those what which who whom whose when where why how
    there here about into over after before during some any all both each more most other such only own
    same too very just also
"""

STOP_WORDS = frozenset(_WORDS.split())
"""All of them, in lower case."""
