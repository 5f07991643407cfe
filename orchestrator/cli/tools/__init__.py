"""Commands that try one part alone: context replay, policy, sandbox, simulation."""
