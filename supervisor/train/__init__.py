"""
The merge train, pure: which batches to test on what, what may land, which entry is at fault. No clock, no git, no
queue.

A **line** is one target's: entries that wait, the **cars** they are coupled into, and the **trials** of these. `plan`
reads a snapshot of it and returns actions. The caller folds their outcome into the line and asks again, until there are
no more. The run loop, the queue and the simulator do so alike.

A trial tests one car on top of those assumed to land before it. **Facts** are what trials have settled, and come first:
a green spec lands as it was tested, one entry that is red on the tip alone is returned, a red car is taken apart. Where
failing tests are some entries' own, only these **suspects** leave the car, and are tried alone. All else is **work**
for the slots, by the odds of what will land:

- A red with unsettled cars ahead counts against none of them. One of its cars is bad, so no path with all of them comes
  true. Later cars go around the likeliest culprit, and an unlikely path gets no slot.
- A risky entry is tried alone first, off the critical path. Such a trial is kept when the tip moves: it can land
  nothing any more, and still tells whether its entry is good. So is the decisive trial of an entry that was passed by.
- Entries may have **scopes**: what checks look at of what they change. A car is tried only behind those with which it
  shares one, and those it needs. When others land, a trial goes on *behind* the tip: its red is still a red, and its
  green is tried again on the tip, where nothing has to run, and only that lands.
- Cars are no longer than backlog and slots ask for. A longer one spares runs, and its red costs all in it a round.

Why not a window that grows with landings and halves with rejects: rejects come by themselves, not by congestion, and
the window ends at a fraction of what the slots could do. Why not judge each car's red by itself: behind eight cars of
which one is bad, each still looks good, and all slots go to what cannot come true.
"""
