"""Hosts and GPUs of replicas, and the addresses that others get."""

from __future__ import annotations

import pytest

from ddpkit.errors import UsageError
from ddpkit.launchers.plan import ALL_CPUS
from ddpkit.roles.order import Name
from ddpkit.roles.place import addresses, place, variables
from ddpkit.roles.spec import Role

INFER = Role(name="infer", command=("serve",), nnodes=2, replicas=2)
TRAIN = Role(name="train", command=("train.py",), nnodes=2, ends_run=True)


def with_(role: Role, **changes: object) -> Role:
    from dataclasses import replace

    return replace(role, **changes)  # type: ignore[arg-type]


def test_nodes_are_given_out_in_the_order_of_the_roles() -> None:
    found = place((INFER, TRAIN), ("n1", "n2", "n3", "n4"), {}, {})
    assert {str(name): each.hosts for name, each in found.items()} == {
        "infer.0": ("n1",),
        "infer.1": ("n2",),
        "train.0": ("n3", "n4"),
    }


def test_one_machine_has_all_of_them() -> None:
    found = place((INFER, TRAIN), ("laptop",), {}, {})
    assert {str(name): each.hosts for name, each in found.items()} == {
        "infer.0": ("laptop",),
        "infer.1": ("laptop",),
        "train.0": ("laptop", "laptop"),
    }


def test_roles_side_by_side_part_the_gpus() -> None:
    roles = (with_(INFER, beside="train", gpus=2), with_(TRAIN, gpus=6))
    found = place(roles, ("n1", "n2"), {"n1": 8, "n2": 8}, {})
    assert found[Name("infer", 1)].hosts == ("n2",)
    assert found[Name("infer", 1)].gpus == range(2)
    assert (found[Name("train", 0)].hosts, found[Name("train", 0)].gpus) == (("n1", "n2"), range(2, 8))


def test_roles_side_by_side_part_the_cpus() -> None:
    """In the order of the file. Who does not say how many has the rest; on nodes of its own a role has all."""
    data = with_(INFER, name="data", beside="train")
    roles = (with_(INFER, beside="train", cpus=4), with_(TRAIN, cpus=6), data)
    found = place(roles, ("n1", "n2"), {}, {"n1": 12, "n2": 12})
    assert {str(name): each.cpus for name, each in found.items()} == {
        **dict.fromkeys(("infer.0", "infer.1"), range(4)),
        "train.0": range(4, 10),
        **dict.fromkeys(("data.0", "data.1"), range(10, ALL_CPUS)),
    }
    apart = place((INFER, with_(TRAIN, cpus=6)), ("n1", "n2", "n3", "n4"), {}, {})
    assert [each.cpus for each in apart.values()] == [None, None, range(6)]


EVAL = Role(name="eval", command=("eval.py",), ends_run=True)
HOSTS = ("a1", "a2", "a3", "b1", "b2")


@pytest.mark.parametrize(
    ("kinds", "groups", "wanted"),
    [
        # As many roles as groups: each has its group.
        ([[INFER, TRAIN]], (3, 2), {"infer": "a1 a2", "train": "b1 b2"}),
        ([[EVAL, TRAIN]], (3, 2), {"eval": "a1", "train": "b1 b2"}),
        # In their order, never in two groups.
        ([[INFER, EVAL, TRAIN]], (3, 2), {"infer": "a1 a2", "eval": "a3", "train": "b1 b2"}),
        ([[INFER, TRAIN, EVAL]], (2, 3), {"infer": "a1 a2", "train": "a3 b1", "eval": "b2"}),
        # Roles of one kind are in one group.
        ([[INFER, EVAL], [TRAIN]], (3, 2), {"infer": "a1 a2", "eval": "a3", "train": "b1 b2"}),
        ([[EVAL], [TRAIN]], (3, 2), {"eval": "a1", "train": "b1 b2"}),
        # One role alone has all of them.
        ([[with_(TRAIN, nnodes=5)]], (3, 2), {"train": "a1 a2 a3 b1 b2"}),
    ],
)
def test_a_role_is_in_one_group_of_a_heterogeneous_allocation(
    kinds: list[list[Role]], groups: tuple[int, ...], wanted: dict[str, str]
) -> None:
    roles = [role for kind in kinds for role in kind]
    data = with_(EVAL, name="data", beside=roles[-1].name, nnodes=roles[-1].nnodes)
    found = place([*roles, data], HOSTS, {}, {}, [*kinds[:-1], [*kinds[-1], data]], groups)
    hosts = {role.name: " ".join(h for n, p in found.items() if n.role == role.name for h in p.hosts) for role in roles}
    assert hosts == wanted
    assert found[Name("data", 0)].hosts == tuple(wanted[roles[-1].name].split())


def test_a_role_that_fits_in_no_group() -> None:
    with pytest.raises(UsageError) as refused:
        place((INFER, TRAIN), HOSTS, {}, {}, [[INFER, TRAIN]], (4, 1))
    assert refused.value.message == (
        "roles.train needs 2 nodes of one group; the allocation has 4 and 1, given out in the order of the roles"
    )
    assert refused.value.hint == "salloc --nodes=2 : --nodes=2"


@pytest.mark.parametrize(
    ("roles", "hosts", "gpus", "what", "fix"),
    [
        ((INFER, TRAIN), ("n1", "n2", "n3"), {}, "need 4 nodes, and 3 are given: n1, n2, n3", "name 1 more node"),
        ((INFER, TRAIN), ("n1", "n2", "n3", "n4", "n5"), {}, "need 4 nodes, and 5 are given", "-N 4"),
        (
            (with_(INFER, beside="train", gpus=4), with_(TRAIN, gpus=6)),
            ("n1", "n2"),
            {"n1": 8, "n2": 8},
            "n1 has 8 GPUs; promised are 4 of infer + 6 of train",
            "smaller",
        ),
        (
            (with_(INFER, beside="train"), with_(TRAIN, gpus=6)),
            ("n1", "n2"),
            {"n1": 8, "n2": 8},
            "infer, train share the 8 GPUs of n1, and roles.infer says not how many",
            "gpus = N in [roles.infer]",
        ),
        (
            (with_(INFER, beside="train", cpus=8), with_(TRAIN, cpus=6)),
            ("n1", "n2"),
            {},
            "n1 has 12 CPUs; promised are 8 of infer + 6 of train",
            "smaller",
        ),
        (
            (with_(INFER, beside="train"), with_(TRAIN, cpus=12)),
            ("n1", "n2"),
            {},
            "n1 has 12 CPUs; promised are 12 of train, and infer would have none",
            "smaller",
        ),
    ],
)
def test_refused(roles: tuple[Role, ...], hosts: tuple[str, ...], gpus: dict[str, int], what: str, fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        place(roles, hosts, gpus, {"n1": 12})
    assert what in caught.value.message
    assert fix in (caught.value.hint or "")


def test_addresses() -> None:
    found = place((INFER, TRAIN), ("n1", "fd00::2", "n3", "n4"), {}, {})
    infer = addresses(INFER, [found[Name("infer", n)] for n in range(2)], [8000, 8001])
    assert infer["urls"] == "http://n1:8000,http://[fd00::2]:8001"
    assert (infer["hosts"], infer["port"], infer["url"]) == ("n1,fd00::2", "8000", "http://n1:8000")
    train = addresses(TRAIN, [found[Name("train", 0)]], [None])
    assert train == {"hosts": "n3,n4", "host": "n3"}
    assert variables({"infer": infer, "train": train})["DDPKIT_ROLE_INFER_ADDRESSES"] == "n1:8000,[fd00::2]:8001"
