"""
Traced checks: a test file is left out of a run where all that it looks up is as it was when it was last green.

`tracing` runs each test file of a check alone on the target's tip, and takes down what the kernel says it looks up
(`workers.sandbox.run.file_trace`): files, failed look-ups and listings, child processes included. `proofs` keeps the
digest of these in the tip's tree, and says which test files are proven on another tree.

Two rules make a proof one. The trace comes from outside of the process, so that code cannot hide a file from it by what
it says. And it is taken only of the target's own tip, so that all code in it has passed the scans, the checks and the
review. A candidate's run earns no proof, whatever its tests print, write or do while they are watched. It is measured
by the proofs that are there: what it changes is run.

Four things are not seen: the clock, random numbers, sizes and times of files that are not opened, and what lies outside
of the tree. The certificate's environment stands for the last, as in every other check. The audit is for all of them.
One in twenty proven files runs anyway, chosen by the tree. The post-merge check runs all. One that is red where it was
proven has its check run whole for two weeks.

A test file is taken to be the same alone and among others, for each one was when it was traced. One that a change makes
disturb the others in their process is seen by the post-merge check. So a new test file is run, and is no reason to run
those beside it, although they list its folder. It is one for those that have opened other test files.

Why one command for each file and not a plugin: a plugin is code among the candidate's, and in one process nothing tells
from outside which test has caused a look-up. A red run is repeated whole, so that a test which needs others before it
blames no entry.
"""
