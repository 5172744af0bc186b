"""Several programs that are one run: a role is a program with its own ranks, hosts, order and ending rule."""
