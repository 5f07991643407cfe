"""
The merge train, pure: which cars to test on what, what may land, who is to blame. No clock, no git, no queue.

A **line** is one target's: entries that wait, the **cars** they are coupled into, and the **trials** of these. `plan`
reads a snapshot of it and says what is to be done; whoever does it folds the outcome into the line and asks again,
until nothing is left to do. The run loop, the gate and the simulator do so alike.

A trial tests one car on top of those assumed to land before it. **Facts** are what trials have settled, and come first:
a green spec lands as it was tested, one entry that is red on the tip alone is returned, a red car is taken apart. All
else is **work** for the slots, by the odds of what will land:

- A red with unsettled cars ahead blames nobody. One of all its cars is bad, so no path with all of them comes true; who
  comes behind goes around the likeliest culprit, and a path that is hardly likely is not funded at all.
- What is risky is tried alone first, off the critical path. Such a trial is kept when the tip moves: it can land
  nothing any more, and still tells whether its entry is good. So is the decisive trial of one that was passed by.
- Entries may have **scopes**: what checks look at of what they change. A car is tried behind those alone with which it
  shares one, and behind whom it needs. When others land, a trial goes on *behind* the tip: its red is a red still, its
  green is tried anew on the tip, where nothing of it has to be run, and only that lands.
- Cars are no longer than backlog and slots ask for. A longer one spares runs, and its red costs all in it a round.

Why not a window that grows with landings and halves with rejects: rejects come by themselves, not by congestion, and
the window ends at a fraction of what the slots could do. Why not judge each car's red by itself: behind eight cars of
which one is bad, each still looks good, and all slots go to what cannot come true.
"""
