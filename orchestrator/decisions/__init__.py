"""
Decide what happens next, from the plan and the state alone. Nothing in this room reads a clock, a file or a socket.
"""
