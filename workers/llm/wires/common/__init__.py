"""Parts that all wires share: limits, failures, caching, token counts."""
