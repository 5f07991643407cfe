"""
The review of a composed diff by a model of another family than its author's.
"""
