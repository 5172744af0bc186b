"""Findings about nodes that only ranks of ours could be asked on, SLURM's: from what one rank of each told. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ddpkit.diagnosis.symptoms import PROBLEMS, RANKS, find_symptom
from ddpkit.launchers.plan import Plan
from ddpkit.preflight import node_checks
from ddpkit.preflight.check import Check
from ddpkit.preflight.node import Node
from ddpkit.preflight.rank_program import Event, Heard
from ddpkit.transports.reachability import OPEN_PORTS


def of_nodes(heard: Heard, plan: Plan) -> list[Check]:
    """The findings about nodes, from the facts that one rank of each told, and from what they tried."""
    told = {event["look"]["host"]: event for event in heard.of("facts")}
    tried = {event["host"]: event for event in heard.of("did") if event["stage"] == "mesh" and "host" in event}
    per_node = max(1, plan.world_size // max(1, len(told)))
    nodes = [
        Node(
            label=host,
            target=host,
            slots=per_node,
            facts=event["look"],
            inventory=event["facts"],
            clock_offset=tuple(tried.get(host, {}).get("behind", (0.0, 0.0))),
        )
        for host, event in told.items()
    ]
    found = node_checks.check_nodes(nodes) if nodes else []
    found += _alike(nodes)
    found += _mesh(tried, nodes)
    return found


def _alike(nodes: Sequence[Node]) -> Iterator[Check]:
    torch = [str(node.facts["torch"]["version"] if node.facts["torch"] else None) for node in nodes]
    for name, whole in (("python", [node.facts["python"] for node in nodes]), ("torch", torch)):
        # What is behind the second point of Python's version changes nothing between ranks.
        values = [each.rpartition(".")[0] if name == "python" else each for each in whole]
        usual = max(values, key=values.count, default="")
        for node, value, shown in zip(nodes, values, whole, strict=True):
            if value == usual:
                yield Check(id=name, status="pass", host=node.label, evidence=shown)
            else:
                evidence = f"has {name} {shown}, the others {usual}"
                symptom = find_symptom(RANKS, evidence)
                yield Check(
                    id=name,
                    status="fail",
                    host=node.label,
                    evidence=evidence,
                    cause=symptom.cause,
                    fix=f"the same environment on {node.label}: -o setup='source venv/bin/activate' on a shared folder",
                    doc=symptom.entry,
                )


def _mesh(tried: Mapping[str, Event], nodes: Sequence[Node]) -> Iterator[Check]:
    addresses = {
        node.label: [address for _, address in node.facts["addresses"] if ":" not in address] for node in nodes
    }
    for host in tried:
        cut = {
            other: event["said"][host]
            for other, event in tried.items()
            if host in event["said"] and all(event["said"][host].values())
        }
        if not cut:
            yield Check(id="mesh", status="pass", host=host)
            continue
        said = next(iter(cut.values()))
        why = "; ".join(f"{address}: {word}" for address, word in said.items())
        symptom = find_symptom(PROBLEMS["mesh"], why)
        known = [addresses[other][0] for other in cut if addresses.get(other)]
        opens = f"ssh {host} sudo iptables -I INPUT -p tcp -s {','.join(known)} -j ACCEPT" if known else OPEN_PORTS
        yield Check(
            id="mesh",
            status="fail",
            host=host,
            evidence=f"{', '.join(cut)} cannot reach its high ports ({why})",
            cause=symptom.cause,
            fix=opens,
            doc=symptom.entry,
        )
