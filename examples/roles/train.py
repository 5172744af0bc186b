"""Each rank climbs by the slope that its server tells; rank 0 gives the result to all servers."""

import json
import os
import sys
import urllib.request

urls = sys.argv[1].split(",")
rank = int(os.environ["RANK"])
url = urls[rank % len(urls)]
x = float(rank)
for _ in range(5):
    with urllib.request.urlopen(f"{url}/reward?x={x}") as answer:
        told = json.load(answer)
    x += 0.2 * told["slope"]
print(f"x = {x:.3f}, reward {told['reward']:.5f}", flush=True)
if rank == 0:
    for each in urls:
        data = json.dumps({"x": x}).encode()
        urllib.request.urlopen(urllib.request.Request(f"{each}/weights", data, method="PUT")).close()
