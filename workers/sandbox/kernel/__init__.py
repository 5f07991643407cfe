"""
What the kernel is asked for, by system calls of its own: Landlock, filters of system calls, mounts, control groups.

`calls` is the door. All but the control groups run in the launcher too, a Python without site-packages, and so use the
standard library alone.
"""
