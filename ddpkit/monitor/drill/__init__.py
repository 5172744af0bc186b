"""`ddpkit drill`: a script is run small, and one fault at a time is injected into it."""
