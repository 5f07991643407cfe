"""All honest candidates, by kind."""

from honest_features import FEATURES
from honest_fixes import FIXES
from honest_refactors import REFACTORS
from honest_surroundings import DOCS, SETTINGS
from honest_tests import TESTS

HONEST = (*FIXES, *FEATURES, *REFACTORS, *TESTS, *DOCS, *SETTINGS)
