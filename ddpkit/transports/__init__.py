"""Connections to supervisors: on this machine, in a container, over SSH, pdsh or srun, in a batch job."""
