"""How much the tests try: a little on every run, much with RECOLLECT_TEST_PROFILE=long (`make test-long`).

Property tests say with `examples` how their number of examples compares to that of others; the profile says
how many that is. Tests with the mark `long` run in the long profile only.
"""

import os

from hypothesis import settings

PROFILE_VARIABLE = "RECOLLECT_TEST_PROFILE"
PROFILES = {"short": 30, "long": 500}
"""How many examples a property test has in each profile, unless it asks for a share or a multiple of them."""

PROFILE = os.environ.get(PROFILE_VARIABLE) or "short"
IS_LONG = PROFILE == "long"

for name, count in PROFILES.items():
    # How long an example takes says more about the machine than about the code.
    settings.register_profile(name, max_examples=count, deadline=None)
settings.load_profile(PROFILE)


def examples(times: float) -> settings:
    """Return settings with a share or a multiple of the profile's examples: `@examples(3)`."""
    return settings(max_examples=count_examples(times))


def count_examples(times: float) -> int:
    """Return a share or a multiple of the profile's number of examples."""
    return max(1, round(PROFILES[PROFILE] * times))
