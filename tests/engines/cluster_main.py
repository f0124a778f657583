"""A process that holds a Ray cluster on loopback: a head, and nodes that are added and removed by lines on stdin.

    add PLACES -> {"node": N, "pids": [...]}   remove N -> {}   (end of stdin: all of it ends)

Ray's own command line joins a second node at the machine's outward address only; its test helper does not insist.
"""

import json
import sys

from ray.cluster_utils import Cluster


def pids(node) -> list[int]:
    """Return the processes of a node, its workers aside."""
    found = []
    for infos in node.all_processes.values():
        found += [info.process.pid for info in infos]
    return found


def main() -> None:
    """Serve."""
    common = {"object_store_memory": 100_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **common})
    nodes = [cluster.head_node]
    print(
        json.dumps(
            {"address": cluster.address, "pids": pids(nodes[0]), "session": nodes[0].get_session_dir_path()}
        ),
        flush=True,
    )
    for line in sys.stdin:
        word, number = line.split()
        if word == "add":
            nodes.append(cluster.add_node(num_cpus=4, resources={"longwatch": int(number)}, **common))
            print(json.dumps({"node": len(nodes) - 1, "pids": pids(nodes[-1])}), flush=True)
        else:
            cluster.remove_node(nodes[int(number)], allow_graceful=False)
            print("{}", flush=True)
    cluster.shutdown()


main()
