"""Scans that compare the tests before and after a change: `pairing` finds each test again, `comparing` what it lost."""
