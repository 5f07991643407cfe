"""The other runs of a home, and of a shared Redis: their slots, paths and money, as one run or a person sees them."""
