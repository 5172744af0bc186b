"""From settings to a running launch: facts of nodes, the world, the plan, and the loop that carries it out."""
