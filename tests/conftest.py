"""Settings of the whole suite."""

import os

from hypothesis import settings

# Continuous integration runs the same examples every time: what it refuses, it refuses for the change. Everywhere else
# each run looks at new ones.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "explore")
