"""Waits for both workers, and has each of them square a number."""

import sys
import time

import ray

ray.init(address=sys.argv[1], log_to_driver=False)
while ray.cluster_resources().get("CPU", 0) < 2:
    time.sleep(0.2)


@ray.remote(num_cpus=1)
def square(number):
    time.sleep(1)  # so that both workers have one
    return number * number, ray.get_runtime_context().get_node_id()


answers = ray.get([square.remote(number) for number in (3, 4)])
print("squares", sorted(value for value, _ in answers), "from", len({node for _, node in answers}), "nodes", flush=True)
