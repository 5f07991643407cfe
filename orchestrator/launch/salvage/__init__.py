"""Work of attempts that did not land: composed on the target's tip whole, or as much of it as the gate lets in."""
