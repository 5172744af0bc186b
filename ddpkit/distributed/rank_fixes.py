"""What helps against a problem that a rank of `ddpkit test` or `bench` reports. A rank sends a name and facts.

The launcher makes the words: those of a rank would be a command that a user types. Standard library, Python 3.8.
"""

from __future__ import annotations

# By name; `{facts}` are those of `ProblemEvent`, each one word of a shell.
FIXES = {
    "nvidia": "nvidia-smi; sudo dmesg | grep -i -e nvrm -e xid",
    "amd": "rocm-smi; sudo dmesg | grep -i -e amdgpu -e kfd",
    "torch-for-nvidia": "install a build of torch for NVIDIA; to test the CPU: export CUDA_VISIBLE_DEVICES=",
    "torch-for-amd": "install a build of torch for AMD; to test the CPU: export CUDA_VISIBLE_DEVICES=",
    "join": "read its first error; check the number of processes, and that each node reaches rank 0's address and port",
    "same-number": "start the same number of ranks on every node, unless this is intended",
    "torch-with-cuda": "install a build of torch with CUDA",
    "same-torch": "install the same torch",
    "same-nccl": "use the same environment on every node; check LD_LIBRARY_PATH and LD_PRELOAD",
    "fewer-ranks": "start at most {gpus} ranks on this node, or make more GPUs visible (CUDA_VISIBLE_DEVICES)",
    "gpu-visible": "compare nvidia-smi and CUDA_VISIBLE_DEVICES of both; check torch.version.cuda on that node",
    "gpu-each": "start one rank per GPU with torchrun, srun or ddpkit, and check CUDA_VISIBLE_DEVICES",
    "nccl": "set NCCL_DEBUG=INFO for details; on nodes with several networks: export NCCL_SOCKET_IFNAME=<interface>",
    "nccl-details": "set NCCL_DEBUG=INFO for details",
    "gloo": "open all ports between the nodes; to select a network: export GLOO_SOCKET_IFNAME=<interface>",
    "path": "ssh {host} ping -c 2 -M do -s 1472 {peer} shows it; fix the path, lower the MTU, or exclude one node",
    "last-lines": "read its last lines; if it was killed, read dmesg on that node",
    "gpu-heat": "check the node for heat, throttling and other users: nvidia-smi -q -d PERFORMANCE",
    "cpu-load": "check the node: top, lscpu",
    "one-launcher": "use one launcher, and a port that no other job uses",
    "rank-0": "check rank 0",
    "free-port": "export MASTER_PORT=<free port>",
    "address": "check that this is an address of rank 0's host",
    "reach-rank-0": "check that rank 0 runs, and that this node reaches it: nc -vz {address} {port}",
    "import-torch": "test the Python of the ranks there: python -c 'import torch'",
    "whole-torch": "install torch again with the Python of the ranks: python -m pip install --force-reinstall torch",
    "variables": "correct these variables on that node: env | grep -E 'RANK|WORLD_SIZE|MASTER_|SLURM_'",
    "hardware": "check GPU, memory and network card of its node: nvidia-smi -q, dmesg",
}
